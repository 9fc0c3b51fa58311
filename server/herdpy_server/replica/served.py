"""A replica as the doors see it (``serving.tablespaces``): its state, its store to be read, and its log.

Between ``base`` and ``replica``; it changes nothing. What it says of the log (``serving.logs``) is out of
ZooKeeper, so that any node can be asked. Leases are those of ``cluster.readers``: every node knows them, and
so does who trims.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from herdpy.bookkeeper import BookKeeperError
from herdpy.log import LedgerInfo, LogError
from herdpy.log.bookkeeper import ZnodeLedgerList
from herdpy.log.ledger_list import LedgerListState
from herdpy.log.lsn import LSN, START
from herdpy_server.cluster.certain import GivenUpError
from herdpy_server.cluster.errors import MalformedMetadataError, PositionTrimmedError
from herdpy_server.cluster.layout import PublishedRecord
from herdpy_server.cluster.positions import now_us, read_needs
from herdpy_server.cluster.published import published_of
from herdpy_server.cluster.readers import ReaderLease, found_lease, lease_reader
from herdpy_server.publishing.process import Published
from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.state import ReplicaState
from herdpy_server.serving.logs import (
    From,
    LogLease,
    LogPlace,
    NodePlace,
    PublishedAt,
    Told,
    lease_is_over,
    no_place,
    not_kept,
)
from herdpy_server.serving.tablespaces import FOLLOWER, LEADER, LoadsHere, Standing, Use
from herdpy_server.tablespace.guard import ReadLevel
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.publishing")

Publish = Callable[[str, Told], Awaitable[Published]]

_TRIES = 5
_LEASE = re.compile(r"[0-9A-Za-z_-]{1,64}")


class ServedLogOfReplica:
    """See ``ServedLog``.

    Args:
        publish: publishes a snapshot of the replica now, as ``ReplicaPublishing.now``.
    """

    def __init__(self, replica: ReplicaBase, publish: Publish) -> None:
        self._replica = replica
        self._host = replica.host
        self._paths = replica.paths
        self._publish = publish

    async def place(self) -> LogPlace:
        """See ``ServedLog``."""
        host, info = self._host, self._replica.info
        async with _answered():
            ledgers = await self._ledgers()
            published = await self._published()
            needs = await read_needs(host.bk.znodes, self._paths)
        known = host.coordination.membership.nodes
        nodes = []
        for node in dict.fromkeys((*info.replicas, *sorted(needs.replicas))):
            door = None if node not in known else known[node].grpc
            record = needs.replicas.get(node)
            nodes.append(
                NodePlace(
                    node,
                    "" if door is None else str(door),
                    "" if record is None else record.state,
                    START if record is None else record.applied,
                )
            )
        leader = self._replica.guard.leader
        snapshots = _snapshots(published)
        return LogPlace(
            tablespace=info.name,
            log_id=ledgers.log_id,
            base=ledgers.base,
            zookeeper=host.zookeeper,
            ledgers_root=host.ledgers_root,
            ledger_list=self._paths.ledgers,
            password=self._replica.log_settings().password,
            snapshot_url=info.snapshot_url,
            snapshot=snapshots[0] if snapshots else None,
            nodes=nodes,
            leader="" if leader is None else leader.node,
        )

    async def lease(self, wanted: From, lease_s: float, purpose: str) -> LogLease:
        """See ``ServedLog``."""
        async with _answered():
            for _ in range(_TRIES):
                chosen = wanted.chosen(_snapshots(await self._published()))
                found = await self._lease(wanted, chosen, lease_s, purpose)
                if found is not None:
                    return found
        raise SqlError("57P03", "snapshots are being removed just now", hint="Try again.")

    async def _lease(
        self, wanted: From, chosen: PublishedAt | None, lease_s: float, purpose: str
    ) -> LogLease | None:
        """One try; None: what was chosen has been let go of meanwhile."""
        if chosen is not None:
            after = chosen.lsn
        elif wanted.after is not None:
            after = wanted.after
        else:
            after = await self._whole_log(wanted)
        # At its own position a snapshot needs no entries, and there may be none any more.
        entries = chosen is None or wanted.upto != chosen.lsn
        try:
            lease = await lease_reader(
                self._host.bk.znodes, self._paths, after, purpose, lease_s=lease_s, entries=entries
            )
        except PositionTrimmedError as error:
            raise not_kept(str(error)) from error
        try:
            if chosen is not None and chosen not in _snapshots(await self._published()):
                await lease.release()
                return None
            if entries and after < (base := (await self._ledgers()).base):
                raise not_kept(f"entries after {after} were requested, and the log begins after {base}")
        except BaseException:
            await lease.release()
            raise
        return _told(lease, lease_s, chosen)

    async def _whole_log(self, wanted: From) -> LSN:
        """The log's beginning, where it has that yet: then no snapshot is needed."""
        base = (await self._ledgers()).base
        if base == START:
            return START
        what = "" if wanted == From() else " that is as old as the requested position"
        raise not_kept(f"no snapshot is published{what}, and the log begins after {base}")

    async def renew(self, lease: str, after: LSN | None, lease_s: float) -> LogLease:
        """See ``ServedLog``."""
        async with _answered():
            try:
                found = await self._found(lease, lease_s)
                await found.renew(after)
            except PositionTrimmedError as error:
                raise lease_is_over(lease) from error
            return _told(found, lease_s, From(found.record.lsn).chosen(_snapshots(await self._published())))

    async def release(self, lease: str) -> None:
        """See ``ServedLog``."""
        async with _answered():
            try:
                found = await self._found(lease, 0.0)
            except PositionTrimmedError:
                return
            await found.release()

    async def _found(self, lease: str, lease_s: float) -> ReaderLease:
        if not _LEASE.fullmatch(lease):
            raise PositionTrimmedError("there is no such lease")
        return await found_lease(self._host.bk.znodes, self._paths, lease, lease_s=lease_s)

    async def publish(self, url: str, told: Told) -> PublishedAt:
        """See ``ServedLog``."""
        name = self._replica.info.name
        url = url or self._replica.info.snapshot_url
        if not url:
            raise no_place(name, f"ALTER TABLESPACE {name} SET (snapshot_url = '...') gives it one.")
        async with _answered():
            done = await self._publish(url, told)
        return PublishedAt(done.url, done.lsn, done.time_us)

    async def _published(self) -> PublishedRecord | None:
        return await published_of(self._host.bk.znodes, self._paths, self._replica.info)

    async def _ledgers(self) -> LedgerListState:
        state = await ZnodeLedgerList(self._host.bk.znodes, self._paths.ledgers).read()
        return LedgerListState(0, "") if state is None else state


def _snapshots(record: PublishedRecord | None) -> list[PublishedAt]:
    return (
        [] if record is None else [PublishedAt(record.url, one.lsn, one.time_us) for one in record.snapshots]
    )


def _told(lease: ReaderLease, lease_s: float, snapshot: PublishedAt | None) -> LogLease:
    remaining_s = max(min((lease.record.expires_us - now_us()) / 1e6, lease_s), 0.0)
    return LogLease(lease.reader, lease.record.lsn, remaining_s, snapshot)


@asynccontextmanager
async def _answered() -> AsyncIterator[None]:
    try:
        yield
    except (BookKeeperError, LogError, MalformedMetadataError, GivenUpError) as error:
        raise SqlError("08001", "ZooKeeper does not answer as it should", detail=str(error)) from error


_ROLES = {ReplicaState.LEADING: LEADER, ReplicaState.FOLLOWING: FOLLOWER}


class ServedReplica:
    """See ``Served``, and ``ServedLogOfReplica``."""

    def __init__(self, replica: ReplicaBase, publish: Publish) -> None:
        self._replica = replica
        self.log = ServedLogOfReplica(replica, publish)

    def standing(self) -> Standing:
        """See ``Served``."""
        replica = self._replica
        opened, leader = replica.opened, replica.guard.leader
        applied = replica.applied
        return Standing(
            name=replica.info.name,
            role=_ROLES.get(replica.state, replica.state.value),
            state=replica.state.value,
            applied=applied,
            durable=START if opened is None else opened.store.durable,
            log_end=max(replica.log_end, applied),
            lag_entries=replica.lag_entries,
            leader=None if leader is None else leader.node,
            epoch=replica.epoch,
            takeovers=replica.takeovers,
            seedings=replica.seedings,
            seeding=replica.seeding,
            problem=replica.problem,
            unfit=replica.unfit,
            store=None if opened is None else opened.store,
            bookies_missing=replica.bookies_missing,
            list_share=replica.list_share,
            clients_without_leader=replica.clients_without_leader,
            pending=0 if opened is None else opened.tablespace.pending,
        )

    def ledgers(self) -> Sequence[LedgerInfo]:
        """See ``Served``."""
        return self._replica.ledgers()

    async def checkpoint(self) -> list[int]:
        """See ``Served``. The leader trims the log by itself, among its tasks."""
        await self._replica.checkpoint()
        return []

    def use(self, give_up: Callable[[], object]) -> Use:
        """See ``Served``."""
        return self._replica.use(give_up)

    def loads(self) -> LoadsHere:
        """See ``Served``."""
        replica = self._replica
        leader = replica.guard.leader
        door = None if leader is None or leader.grpc is None else str(leader.grpc)
        return LoadsHere(replica.session, replica.host.driver.call, replica.load_ledgers(), door)

    async def reached(self, lsn: LSN) -> None:
        """See ``Served``."""
        await self._replica.guard.admit(ReadLevel("at_lsn", min_lsn=lsn))
