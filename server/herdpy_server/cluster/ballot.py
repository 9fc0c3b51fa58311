"""One attempt to lead a tablespace, and giving it back: what election does in ZooKeeper.

Below ``election``, which decides when. Two steps win: making the ephemeral znode ``leader``, and raising the
persistent ``term`` by compare-and-set from what was read before. Every ``leader`` znode has a tag of its own,
so a create or a delete in doubt is recognised, and what an interrupted attempt left behind too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from herdpy.bookkeeper.errors import ClosedClientError
from herdpy.bookkeeper.metadata.backoff import UNANSWERED, ZooKeeperBackoff
from herdpy.bookkeeper.metadata.znodes import ANY_VERSION, NoNodeError, Znode, Znodes, ZnodeVersionError
from herdpy.log.lsn import LSN
from herdpy_server.cluster.certain import GivenUpError, create_own, delete_own, set_from, token
from herdpy_server.cluster.errors import MalformedMetadataError
from herdpy_server.cluster.layout import Address, LeaderRecord, TablespacePaths, TermRecord, decode, encode
from herdpy_server.cluster.lease import Lease
from herdpy_server.cluster.renewal import Renewal
from herdpy_server.cluster.session import ZooKeeperSession
from herdpy_server.cluster.term import Term

_log = logging.getLogger("herdpy.cluster")

_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Ground:
    """What all elections of one node share.

    Attributes:
        attempts: bounds how many attempts run at a time, when a node with many tablespaces is gone.
        sql, grpc: where clients of a leader on this node are to go.
    """

    znodes: Znodes
    session: ZooKeeperSession
    renewal: Renewal
    node: str
    attempts: asyncio.Semaphore
    sql: Address | None = None
    grpc: Address | None = None


@dataclass(frozen=True, slots=True)
class Vacancy:
    """That nobody leads: when it was told, by the lease's clock, and who led before, as far as known."""

    told_s: float
    gone: LeaderRecord | None = None


class Ballot:
    """The attempts of one election. ``tags`` are of all ``leader`` znodes that it made, or may have made,
    and has not removed: with whether nobody can hold a lease of that term or of one before it."""

    def __init__(self, ground: Ground, paths: TablespacePaths) -> None:
        self.tags: dict[str, bool] = {}
        self._ground = ground
        self._paths = paths

    async def attempt(
        self, vacancy: Vacancy, position: Callable[[], LSN], lacks: Callable[[], Awaitable[str | None]]
    ) -> Term | str | None:
        """Try once: a term; why the replica may not lead after all; or None when it did not come to it.

        Raises:
            GivenUpError: the session ended meanwhile.
            NoNodeError: the tablespace is gone.
            ZooKeeperUnavailableError, SessionExpiredError: it cannot be read what is there.
        """
        ground, number = self._ground, self._ground.session.number
        found, version = await self._read_term()
        tag, epoch = token(), found.epoch + 1 if found is not None else 1
        if not await self._make_leader(epoch, tag, position(), number):
            return None
        made_s = ground.renewal.clock()
        calm = found is None or found.released
        self.tags[tag] = calm
        raised = TermRecord(
            epoch=epoch, node=ground.node, tag=tag, lease_s=self._longest_lease(found), released=False
        )
        won = await set_from(
            ground.znodes, self._paths.term, encode(raised), version, wanted=self._same(number)
        )
        lack = None if won is None else await lacks()
        if won is None or lack is not None:
            await self.give_back(tag)
            return lack
        if ground.session.number != number:
            raise GivenUpError(self._paths.leader)
        lease = Lease(ground.renewal.lease_s, number, ground.renewal.clock)
        until_s = made_s if calm or found is None else self._over_s(vacancy, found, made_s)
        return Term(epoch, tag, lease, ground.renewal, until_s)

    async def _make_leader(self, epoch: int, tag: str, position: LSN, number: int) -> bool:
        ground = self._ground
        record = LeaderRecord(
            node=ground.node, epoch=epoch, tag=tag, sql=ground.sql, grpc=ground.grpc, position=position
        )
        self.tags[tag] = False
        other = await create_own(
            ground.znodes,
            self._paths.leader,
            encode(record),
            lambda data: self._has_tag(data, tag),
            ephemeral=True,
            within=self._paths.info,
            wanted=self._same(number),
        )
        if other is None and ground.session.number != number:
            raise GivenUpError(self._paths.leader)
        if other is not None:
            del self.tags[tag]
        return other is None

    def _same(self, number: int) -> Callable[[], bool]:
        return lambda: self._ground.session.number == number

    def _longest_lease(self, found: TermRecord | None) -> float:
        """Of the new term or of one before it that has not been waited out yet."""
        own_s = self._ground.renewal.lease_s
        return own_s if found is None or found.released else max(own_s, found.lease_s)

    @staticmethod
    def _over_s(vacancy: Vacancy, found: TermRecord, made_s: float) -> float:
        """When the predecessors' leases are over.

        None was renewed after the predecessor's ``leader`` znode was gone: which it was when this node was
        told so, or at the latest when its own could be made.
        """
        seen = vacancy.gone is not None and vacancy.gone.tag == found.tag
        return (min(vacancy.told_s, made_s) if seen else made_s) + found.lease_s

    # -- giving back

    async def give_back(self, tag: str) -> None:
        """Say that no lease is left, if that is so, and remove the ``leader`` znode. Raises as ``remove``."""
        if self.tags.get(tag):
            try:
                await self.amend(tag, released=True)
            except UNANSWERED as error:
                _log.warning("lease not given back", extra={"reason": str(error)})
        await self.remove(tag)

    async def remove(self, tag: str) -> None:
        """Remove a ``leader`` znode of one's own.

        Raises:
            GivenUpError: the session ended, and the znode with it.
            ZooKeeperUnavailableError, SessionExpiredError: it may still be there; its tag is kept.
        """
        number = self._ground.session.number
        await delete_own(
            self._ground.znodes,
            self._paths.leader,
            lambda data: self._has_tag(data, tag),
            wanted=self._same(number),
            patience=ZooKeeperBackoff(_PATIENCE_S),
        )
        self.tags.pop(tag, None)

    async def amend(self, tag: str, **changes: object) -> None:
        """Change the ``term`` as long as it is the one of ``tag``. Raises UNANSWERED, ClosedClientError."""
        patience = ZooKeeperBackoff(_PATIENCE_S)
        while True:
            try:
                found, version = await self._read_term()
                if found is None or found.tag != tag:
                    return
                amended = msgspec.structs.replace(found, **changes)
                if amended == found:
                    return
                await self._ground.znodes.set(self._paths.term, encode(amended), version)
                return
            except (ZnodeVersionError, NoNodeError):
                continue
            except UNANSWERED:
                if not await patience.pause():
                    raise

    async def shorten(self, term: Term) -> None:
        """Once a predecessor with a longer lease is waited out, a successor need not wait as long as that."""
        await term.alone()
        await self.amend(term.tag, lease_s=self._ground.renewal.lease_s)

    # -- reading

    async def _read_term(self) -> tuple[TermRecord | None, int]:
        try:
            znode = await self._ground.znodes.get(self._paths.term)
        except NoNodeError:
            return None, ANY_VERSION
        return decode(TermRecord, self._paths.term, znode.data), znode.version

    async def leader(self) -> LeaderRecord | None:
        """Who leads, read now."""
        return self.read(await self._ground.znodes.exists(self._paths.leader))

    def read(self, znode: Znode | None) -> LeaderRecord | None:
        """The record in a ``leader`` znode; one without a node when it cannot be understood."""
        if znode is None:
            return None
        try:
            return decode(LeaderRecord, self._paths.leader, znode.data)
        except MalformedMetadataError as error:
            _log.error("leader znode not understood", extra={"reason": str(error)})
            return LeaderRecord(node="", epoch=0, tag="")

    def _has_tag(self, data: bytes, tag: str) -> bool:
        try:
            return decode(LeaderRecord, self._paths.leader, data).tag == tag
        except MalformedMetadataError:
            return False


UNDECIDED = (GivenUpError, ClosedClientError, *UNANSWERED)
"""What ends an attempt without saying whether anything of it is left."""
