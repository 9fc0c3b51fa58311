"""One tablespace's election: who leads it, and this node's part in that.

Above ``lease``; below the tablespace's replica, which is its ``candidate``. Everything is started by
watches: the leader's znode is gone, the session is back, the candidate can lead again. Nothing polls. A
``Ballot`` is one attempt. Two steps win: making the ephemeral znode ``leader``, and raising the persistent
``term`` by compare-and-set from what was read before. Every ``leader`` znode has a tag of its own, so a
create or a delete in doubt is recognised, and what an interrupted attempt left behind too.

Election is for liveness. Two that believe to lead cannot both write, because the log is fenced, nor both
answer reads, because of the lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import msgspec

from herdpy.bookkeeper.errors import BookKeeperError, ClosedClientError
from herdpy.bookkeeper.metadata.znodes import (
    ANY_VERSION,
    UNANSWERED,
    NoNodeError,
    Watch,
    Znode,
    Znodes,
    ZnodeVersionError,
    ZooKeeperBackoff,
    ZooKeeperState,
)
from herdpy.log.lsn import LSN
from herdpy_server.cluster.certain import GivenUpError, create_own, delete_own, set_from, token
from herdpy_server.cluster.errors import MalformedMetadataError, TermLostError
from herdpy_server.cluster.layout import (
    Address,
    EndedRecord,
    Layout,
    LeaderRecord,
    TablespacePaths,
    TermRecord,
    decode,
    encode,
)
from herdpy_server.cluster.lease import Lease, Loss, Renewal, Term
from herdpy_server.cluster.session import ZooKeeperSession

_log = logging.getLogger("herdpy.cluster")

_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Ground:
    """What all elections of one node share.

    Attributes:
        instance: of this process, new with each start (``NodeRecord``).
        attempts: bounds how many attempts run at a time, when a node with many tablespaces is gone.
        sql, grpc: where clients of a leader on this node are to go.
    """

    znodes: Znodes
    session: ZooKeeperSession
    renewal: Renewal
    layout: Layout
    node: str
    instance: str
    attempts: asyncio.Semaphore
    sql: Address | None = None
    grpc: Address | None = None


@dataclass(frozen=True, slots=True)
class Vacancy:
    """That nobody leads: when this was seen, by the lease's clock, and who led before, as far as known."""

    told_s: float
    gone: LeaderRecord | None = None


class Ballot:
    """The attempts of one election. ``tags`` are of all ``leader`` znodes that it made, or may have made,
    and has not removed: with whether nobody can hold a lease of that term or of one before it."""

    def __init__(self, ground: Ground, paths: TablespacePaths) -> None:
        self.tags: dict[str, bool] = {}
        self._carrying = (0, "")  # a session, and the tag with which a term is carried over into it
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
        calm = found is None or found.released or await self._is_over(found)
        tag, epoch = token(), found.epoch + 1 if found is not None else 1
        if not await self._make_leader(epoch, tag, position(), number):
            return None
        made_s = ground.renewal.clock()
        self.tags[tag] = calm
        raised = TermRecord(
            epoch=epoch,
            node=ground.node,
            tag=tag,
            lease_s=self._longest_lease(None if calm else found),
            instance=ground.instance,
            alone=calm,
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

    async def _is_over(self, found: TermRecord) -> bool:
        """Whether the last term's process holds no lease any more, nor does anybody before it.

        Because it has ended, which is attested; or because it is this one, whose terms are all over.
        """
        if not found.alone or not found.instance:
            return False
        if found.instance == self._ground.instance:
            return True
        if not await self._has_ended(found):
            return False
        _log.info(
            "the last leader's process has ended: its lease is not waited out",
            extra={"path": self._paths.info, "node": found.node, "instance": found.instance},
        )
        return True

    async def _has_ended(self, found: TermRecord) -> bool:
        """Whether the end of that term's process is attested."""
        path = self._ground.layout.ended_of(found.node)
        znode = await self._ground.znodes.exists(path)
        return znode is not None and _attests(znode.data, path, found)

    async def resume(self, term: Term, position: LSN) -> str | None:
        """Carry a term over into another session: the tag of its new ``leader`` znode; None when another
        node is being elected, or was since.

        The ``term`` is written from the version that still names this term, so nobody else has won in
        between: whoever wins changes it. Raises as ``attempt``; then it may be tried again.
        """
        number = self._ground.session.number
        if self._carrying[0] != number or self._carrying[1] not in term.tags:
            self._carrying = number, token()  # one for a session: what an interrupted attempt made is known
        tag = self._carrying[1]
        term.tags.add(tag)
        while True:
            found, version = await self._read_term()
            if found is None or found.tag not in term.tags:
                return None
            if not await self._make_leader(term.epoch, tag, position, number):
                other = await self.leader()
                if other is not None and other.tag not in self.tags:
                    return None
                if other is not None:  # of an attempt of this node's that was cut off
                    await self.remove(other.tag)
                continue
            self.tags[tag] = term.is_alone
            if await self._name_term(found, tag, version, number):
                return tag
            # This term's own change came between (``shorten``), or another node's.

    async def _name_term(self, found: TermRecord, tag: str, version: int, number: int) -> bool:
        carried = msgspec.structs.replace(found, tag=tag)
        won = await set_from(
            self._ground.znodes, self._paths.term, encode(carried), version, wanted=self._same(number)
        )
        if self._ground.session.number != number:
            raise GivenUpError(self._paths.leader)
        return won is not None

    async def is_given_up(self, tag: str) -> bool:
        """Whether the last term is that of ``tag`` and was given back, or its process has ended."""
        found, _ = await self._read_term()
        if found is None or found.tag != tag:
            return False
        return found.released or (found.instance != "" and await self._has_ended(found))

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
        """Of the new term or of one before it that has to be waited out: ``found``, if there is one."""
        own_s = self._ground.renewal.lease_s
        return own_s if found is None else max(own_s, found.lease_s)

    @staticmethod
    def _over_s(vacancy: Vacancy, found: TermRecord, made_s: float) -> float:
        """When the predecessors' leases are over.

        None was renewed after the predecessor's ``leader`` znode was gone: which it was when this node was
        notified, or at the latest when its own could be made.
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
                _log.warning("lease not released", extra={"reason": str(error)})
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
        """Once the predecessors are waited out, a successor need wait for no lease but this term's."""
        await term.alone()
        await self.amend(term.tag, lease_s=self._ground.renewal.lease_s, alone=True)

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


def _attests(data: bytes, path: str, term: TermRecord) -> bool:
    """Whether that says that the term's process has ended; what is not understood says nothing."""
    try:
        ended = decode(EndedRecord, path, data)
    except MalformedMetadataError as error:
        _log.error("attestation not understood", extra={"reason": str(error)})
        return False
    return (ended.node, ended.instance) == (term.node, term.instance)


UNDECIDED = (GivenUpError, ClosedClientError, *UNANSWERED)
"""What ends an attempt without saying whether anything of it is left."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """This node as its replica sees it. All are called on the loop.

    Attributes:
        position: up to where the replica has applied the log.
        lacks: why the replica cannot lead now (quarantined, older than the log's base, being seeded), or
            None. Asked before each attempt and once more after winning. ``Election.reconsider`` after it
            changes.
        won: a term has begun: recover the log, then await ``term.alone()``.
        lost: the term is over and was not resigned: answer and acknowledge nothing more. Called in the turn
            of the loop in which it is heard of; ``term.loss`` says why.
        leader: who leads now, or None: called after each change, own terms included.
        heard_until_s: until when, by the lease's clock, that leader counts as heard by this node without
            ZooKeeper's help. ``Election.reconsider`` when it is heard no more.
    """

    position: Callable[[], LSN]
    lacks: Callable[[], Awaitable[str | None]]
    won: Callable[[Term], None]
    lost: Callable[[Term], None]
    leader: Callable[[LeaderRecord | None], None] = lambda _leader: None
    heard_until_s: Callable[[LeaderRecord], float] = lambda _leader: -math.inf


GRACE_S = 0.15
"""How long others leave a vacant tablespace to its preferred leader."""
RETURN_GRACE_S = 1.0
"""How long others leave it to the leader whose session has ended, while they hear from it: it writes on, and
takes its term over into another session."""
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.02, 0.5
_CLOSE_PATIENCE_S = 3.0


class _Next(enum.Enum):
    """What follows a step."""

    NEWS = "wait for news"
    SOON = "try again soon, news or not"
    NOW = "look again now"


class Election:
    """To be made and used on the loop.

    Attributes:
        term: this node's, from winning it to losing or resigning it.
        leader: who leads, as last heard.
        refusal: why this node did not try when it last could have.
    """

    def __init__(
        self,
        ground: Ground,
        paths: TablespacePaths,
        candidate: Candidate,
        *,
        preferred: str | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        self.term: Term | None = None
        self.leader: LeaderRecord | None = None
        self.refusal: str | None = None
        self._ground = ground
        self._paths = paths
        self._ballot = Ballot(ground, paths)
        self._candidate = candidate
        self._preferred = preferred
        self._grace_s = grace_s
        self._has_seen = False  # whether the watch has reported anything yet
        self._vacancy = Vacancy(0.0)
        self._yield_until_s = 0.0
        self._changed = asyncio.Event()
        self._watches: list[Watch] = []
        self._running: asyncio.Task[None] | None = None
        self._checks: set[asyncio.Task[None]] = set()
        self._closed = False

    # -- the owner's side

    def start(self) -> None:
        """Take part from now on."""
        if self._running is None:
            self._watches = [
                self._ground.znodes.watch_data(self._paths.leader, self._leader_seen),
                self._ground.session.on_change(self._session_changed),
            ]
            self._running = asyncio.get_running_loop().create_task(self._run(), name="election")

    def reconsider(self) -> None:
        """What ``lacks`` answers may have changed."""
        self._changed.set()

    def prefer(self, node: str | None) -> None:
        """Who is to lead when it can (``TablespaceInfo.leader``)."""
        if node == self._ground.node and node != self._preferred:
            self._yield_until_s = 0.0  # it was to leave it to others, and is asked back
        self._preferred = node
        self._changed.set()

    async def resign(self) -> None:
        """Give the term back, if there is one: the lease at once, then the znodes.

        When it returns a successor need not wait for anything, unless ZooKeeper could not be reached: then
        the lease has to run out. The owner has stopped acknowledging before it calls this. Others go first
        afterwards.
        """
        term = self.term
        if term is None:
            return
        self._yield_until_s = self._now() + 3 * self._grace_s
        self._end(term, Loss.RESIGNED)
        await self._give_back(term.tag)

    async def close(self) -> None:
        """Resign, and take part no more. May be repeated."""
        self._closed = True
        for watch in self._watches:
            watch.cancel()
        self._watches.clear()
        tasks = [task for task in (self._running, *self._checks) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_PATIENCE_S):
                await self.resign()
                for tag in tuple(self._ballot.tags):  # of an attempt that was cut off
                    await self._give_back(tag)

    async def _give_back(self, tag: str) -> None:
        try:
            await self._ballot.give_back(tag)
        except UNDECIDED as error:
            # The session's end removes it, or this election does when it sees it.
            _log.warning("leader znode not removed", extra={"reason": str(error)})

    # -- what is heard

    def _leader_seen(self, znode: Znode | None) -> None:
        record = self._ballot.read(znode)
        if record is None:
            self._vacancy = Vacancy(self._now(), self.leader or self._vacancy.gone)
        self._has_seen = True
        self.leader = record
        self._changed.set()
        if self.term is not None and (record is None or record.tag != self.term.tag):
            self._check(self._verify(self.term))  # what the watch reports may be older than the term
        self._candidate.leader(record)

    def _session_changed(self, state: ZooKeeperState) -> None:
        term = self.term
        if term is not None and state is ZooKeeperState.CONNECTED and not self._is_adrift(term):
            self._check(self._verify(term))  # a change may be lost with the connection
        self._changed.set()

    def _is_adrift(self, term: Term) -> bool:
        """Whether the session that the term was won in is over, and it is not carried over yet."""
        return term.lease.session != self._ground.session.number

    async def _verify(self, term: Term) -> None:
        """Whether the leader znode is still the term's: a read asked for now is newer than its making."""
        tag = term.tag
        try:
            record = await self._ballot.leader()
        except BookKeeperError:
            return  # the next connection asks again
        if self.term is not term or term.tag != tag or self._is_adrift(term):
            return
        if record is None or record.tag != tag:
            self._lose(term, Loss.REMOVED)

    def _lose(self, term: Term, loss: Loss) -> None:
        _log.warning(
            "leadership lost", extra={"path": self._paths.info, "epoch": term.epoch, "reason": loss.value}
        )
        self._end(term, loss)
        self._candidate.lost(term)

    def _end(self, term: Term, loss: Loss) -> None:
        self.term = None
        self._ballot.tags[term.tag] = term.is_alone
        term.end(loss)
        self._changed.set()

    def _check(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="election's check")
        self._checks.add(task)
        task.add_done_callback(self._checks.discard)

    def _now(self) -> float:
        return self._ground.renewal.clock()

    # -- taking part

    async def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            self._changed.clear()
            try:
                following = await self._step()
            except ClosedClientError:
                return
            except NoNodeError:
                self.refusal = "the tablespace is gone"
                if self.term is not None:
                    self._lose(self.term, Loss.REMOVED)
                following = _Next.NEWS
            except UNDECIDED as error:
                _log.info("election not decided", extra={"path": self._paths.info, "reason": str(error)})
                following = _Next.SOON
            except Exception:  # noqa: BLE001 -- reported, and the tablespace still needs a leader
                _log.exception("election failed", extra={"path": self._paths.info})
                following = _Next.SOON
            if following is _Next.SOON:
                await self._pause(pause_s)
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)
            elif following is _Next.NEWS:
                pause_s = _FIRST_PAUSE_S
                await self._changed.wait()

    async def _pause(self, most_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self._changed.wait()

    async def _step(self) -> _Next:
        """Do what is to be done now."""
        if not self._has_seen or self._ground.session.state is not ZooKeeperState.CONNECTED:
            return _Next.NEWS
        if self.term is not None:
            return await self._carry_over(self.term) if self._is_adrift(self.term) else _Next.NEWS
        if self.leader is not None:
            if self.leader.tag in self._ballot.tags:  # left by an attempt or a term that is over
                await self._ballot.give_back(self.leader.tag)
            return _Next.NEWS
        if (left_s := max(self._turn_s(), await self._return_s()) - self._now()) > 0:
            await self._pause(left_s)
            return _Next.NOW
        self.refusal = await self._candidate.lacks()
        if self.refusal is not None:
            return _Next.NEWS
        async with self._ground.attempts:
            return await self._attempt()

    def _turn_s(self) -> float:
        """When it is this node's turn: the preferred leader goes first, unless it is the one that is gone."""
        gone = self._vacancy.gone
        first = self._preferred
        if first in (None, self._ground.node) or (gone is not None and gone.node == first):
            return self._yield_until_s
        return max(self._yield_until_s, self._vacancy.told_s + self._grace_s)

    async def _return_s(self) -> float:
        """Until when the leader whose session has ended may come back: as long as it is heard."""
        gone = self._vacancy.gone
        if gone is None or gone.node == self._ground.node:
            return -math.inf
        until_s = min(self._candidate.heard_until_s(gone), self._vacancy.told_s + RETURN_GRACE_S)
        if until_s <= self._now() or await self._ballot.is_given_up(gone.tag):
            return -math.inf
        return until_s

    async def _carry_over(self, term: Term) -> _Next:
        """Go on with the term in this session, unless another node was elected, or is being elected."""
        tag = await self._ballot.resume(term, self._candidate.position())
        if self.term is not term:
            return _Next.NOW  # it has ended meanwhile; what was made is removed with the next step
        if tag is None:
            self._lose(term, Loss.SESSION)
            return _Next.NOW
        _log.info("term carried over", extra={"path": self._paths.info, "epoch": term.epoch})
        self._ballot.tags = {tag: term.is_alone}  # what other sessions made went with them
        term.carry_over(tag, self._ground.session.number)
        self._check(self._verify(term))
        return _Next.NEWS

    async def _attempt(self) -> _Next:
        won = await self._ballot.attempt(self._vacancy, self._candidate.position, self._candidate.lacks)
        if isinstance(won, str):
            self.refusal = won
            return _Next.NEWS
        if won is None:  # another was quicker; had it gone again already, nobody would tell
            return _Next.SOON if self.leader is None else _Next.NEWS
        self._begin(won)
        return _Next.NEWS

    def _begin(self, term: Term) -> None:
        _log.info("elected", extra={"path": self._paths.info, "epoch": term.epoch})
        self.term = term
        self._ground.renewal.add(term.lease)
        self._check(self._shorten(term))
        self._candidate.won(term)

    async def _shorten(self, term: Term) -> None:
        with contextlib.suppress(TermLostError, *UNDECIDED):
            await self._ballot.shorten(term)
