"""A replica as the front ends see it (``serving.node``): its state, its store to be read, and its log.

Between ``base`` and ``replica``; it changes nothing. Of the log every node knows the leases
(``cluster.readers``), and so does who trims. The znode ``publishing`` says who publishes a snapshot,
``published`` which there are; the leader keeps the log's entries after the latter's floor (``leader_tasks``).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec.structs import asdict

from herdpy.bookkeeper import BookKeeperError
from herdpy.log import LedgerInfo, LogError
from herdpy.log.bookkeeper import FollowedLog, ZnodeLedgerList
from herdpy.log.ledger_list import LedgerListState
from herdpy.log.lsn import LSN, START
from herdpy_server.cluster.certain import GivenUpError
from herdpy_server.cluster.errors import MalformedMetadataError, PositionTrimmedError
from herdpy_server.cluster.layout import PublishedRecord
from herdpy_server.cluster.positions import now_us, read_needs
from herdpy_server.cluster.readers import (
    PublishingLock,
    ReaderLease,
    found_lease,
    lease_reader,
    published_of,
    record_published,
)
from herdpy_server.publishing.snapshot import Moment, moment_of
from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.guard import ReplicaState
from herdpy_server.replica.lac_reports import ReportPace, reports_of
from herdpy_server.replica.read_index import LeaderAnswers
from herdpy_server.serving.backups import BackupMaking
from herdpy_server.serving.logs import (
    BackupFacts,
    LacReports,
    LogLease,
    LogPlace,
    NodePlace,
    PublishingMutex,
    PublishSettings,
    ServedLog,
    lease_is_over,
    not_kept,
)
from herdpy_server.serving.node import FOLLOWER, LEADER, LoadsHere, TablespaceStatus, Use
from herdpy_server.sessions import Session
from herdpy_server.tablespace import Directory
from herdpy_server.tablespace.cluster import ReadLevel
from herdpy_sql.errors import SqlError

_LEASE_S = 60.0
_LEADER_WAITS_S = 30.0
"""How long after a snapshot was due a leader lets followers do it."""
_NO_SETTINGS = frozenset({"name", "uuid", "created_us", "parent", "branched", "dropped"})
_LEASE = re.compile(r"[0-9A-Za-z_-]{1,64}")


class BookKeeperLogBackend:
    """See ``LogBackend``."""

    def __init__(self, replica: ReplicaBase) -> None:
        self._replica = replica
        self._host = replica.host
        self._znodes = replica.host.bk.znodes
        self._paths = replica.paths

    @property
    def tablespace(self) -> str:
        """See ``LogBackend``."""
        return self._replica.info.name

    @property
    def settings(self) -> PublishSettings:
        """See ``LogBackend``."""
        info = self._replica.info
        return PublishSettings(
            url=info.snapshot_url,
            interval_s=info.snapshot_interval_s,
            keep=info.snapshot_keep,
            history_s=info.snapshot_history_s,
        )

    @property
    def no_place_hint(self) -> str:
        """See ``LogBackend``."""
        return f"ALTER TABLESPACE {self.tablespace} SET (snapshot_url = '...') gives it one."

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """See ``LogBackend``: SqlError 08001."""
        try:
            yield
        except (BookKeeperError, LogError, MalformedMetadataError, GivenUpError) as error:
            raise SqlError("08001", "ZooKeeper does not answer as it should", detail=str(error)) from error

    async def place(self) -> LogPlace:
        """See ``LogBackend``."""
        host, info = self._host, self._replica.info
        ledgers = await self._ledgers()
        needs = await read_needs(self._znodes, self._paths)
        known = host.coordination.membership.nodes
        nodes = []
        for node in dict.fromkeys((*info.replicas, *sorted(needs.replicas))):
            address = None if node not in known else known[node].grpc
            record = needs.replicas.get(node)
            nodes.append(
                NodePlace(
                    node,
                    "" if address is None else str(address),
                    "" if record is None else record.state,
                    START if record is None else record.applied,
                )
            )
        leader = self._replica.guard.leader
        return LogPlace(
            tablespace=info.name,
            log_id=ledgers.log_id,
            base=ledgers.base,
            zookeeper=host.zookeeper,
            ledgers_root=host.ledgers_root,
            ledger_list=self._paths.ledgers,
            password=self._replica.log_settings().password,
            nodes=nodes,
            leader="" if leader is None else leader.node,
        )

    async def base(self) -> LSN:
        """See ``LogBackend``."""
        return (await self._ledgers()).base

    def lac_reports(self) -> LacReports:
        """See ``LogBackend``."""
        log = self._replica.log
        if log is None:
            raise SqlError("57P03", f"this node does not lead tablespace {self.tablespace}")
        state = log.state
        pace = ReportPace()
        answers = LeaderAnswers(log, state.epoch, self._replica.guard, pace.want)
        return LacReports(state.log_id, reports_of(log, state.epoch, pace), answers)

    async def _ledgers(self) -> LedgerListState:
        state = await ZnodeLedgerList(self._znodes, self._paths.ledgers).read()
        return LedgerListState(0, "") if state is None else state

    # Leases.

    async def lease(self, after: LSN, purpose: str, lease_s: float, *, entries: bool) -> LogLease:
        """See ``LogBackend``."""
        try:
            lease = await lease_reader(
                self._znodes, self._paths, after, purpose, lease_s=lease_s, entries=entries
            )
        except PositionTrimmedError as error:
            raise not_kept(str(error)) from error
        return _log_lease(lease, lease_s)

    async def renew(self, lease: str, after: LSN | None, lease_s: float) -> LogLease:
        """See ``LogBackend``."""
        try:
            found = await self._found(lease, lease_s)
            await found.renew(after)
        except PositionTrimmedError as error:
            raise lease_is_over(lease) from error
        return _log_lease(found, lease_s)

    async def release(self, lease: str) -> None:
        """See ``LogBackend``."""
        try:
            found = await self._found(lease, 0.0)
        except PositionTrimmedError:
            return
        await found.release()

    async def _found(self, lease: str, lease_s: float) -> ReaderLease:
        if not _LEASE.fullmatch(lease):
            raise PositionTrimmedError("there is no such lease")
        return await found_lease(self._znodes, self._paths, lease, lease_s=lease_s)

    async def leased(self) -> Collection[LSN]:
        """See ``LogBackend``."""
        needs = await read_needs(self._znodes, self._paths)
        now = now_us()
        return [one.lsn for one in needs.readers.values() if one.expires_us > now]

    # What is published.

    async def snapshots(self) -> PublishedRecord | None:
        """See ``LogBackend``."""
        return await published_of(self._znodes, self._paths, self._replica.info)

    async def last_published(self) -> PublishedRecord | None:
        """See ``LogBackend``: ZooKeeper knows what any node published."""
        return await self.snapshots()

    async def keep_published(self, record: PublishedRecord) -> None:
        """See ``LogBackend``."""
        await record_published(self._znodes, self._paths, record)

    def publishing_lock(self) -> PublishingMutex:
        """See ``LogBackend``."""
        return PublishingLock(self._znodes, self._paths, self._host.node)

    def backup_lock(self) -> PublishingMutex:
        """See ``LogBackend``."""
        return PublishingLock(self._znodes, self._paths, self._host.node, self._paths.backing_up)

    async def is_ours(self, late_s: float) -> bool:
        """See ``LogBackend``: whether this replica may, and no follower does it in a leader's place."""
        state = self._replica.state
        if state is not ReplicaState.LEADING or late_s >= _LEADER_WAITS_S:
            return state in {ReplicaState.LEADING, ReplicaState.FOLLOWING}
        needs = await read_needs(self._znodes, self._paths)
        following = ReplicaState.FOLLOWING.value
        return not any(one.state == following for one in needs.replicas.values())

    @asynccontextmanager
    async def keeping(self, lsn: LSN) -> AsyncIterator[None]:
        """See ``LogBackend``. PositionTrimmedError: they are gone."""
        purpose = f"publishing by {self._host.node}"
        lease = await lease_reader(self._znodes, self._paths, lsn, purpose, lease_s=_LEASE_S)
        keeping = asyncio.ensure_future(lease.keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await lease.release()

    async def moment(self, lsn: LSN) -> Moment:
        """See ``LogBackend``. By a log of its own: the replica's is closed when its role changes."""
        ledgers = ZnodeLedgerList(self._znodes, self._paths.ledgers)
        log = FollowedLog(self._host.bk, ledgers, self._replica.log_settings())
        try:
            return await moment_of(log, await log.state(), lsn, now_us())
        finally:
            await log.close()

    async def backup_facts(self) -> BackupFacts:
        """See ``LogBackend``."""
        replica = self._replica
        settings = {name: value for name, value in asdict(replica.info).items() if name not in _NO_SETTINGS}
        return BackupFacts(
            reached=max(replica.log_end, replica.applied),
            durable=START if replica.opened is None else replica.opened.store.durable,
            settings=settings,
            parent=replica.info.parent or None,
            branched=replica.info.branched or None,
            zookeeper_access=self._host.zookeeper_access,
        )

    # Its store.

    @property
    def store(self) -> Path:
        """See ``LogBackend``."""
        return Directory(self._host.path(self.tablespace)).store

    def use(self, give_up: Callable[[], object]) -> Callable[[], None]:
        """See ``LogBackend``."""
        return self._replica.use(give_up).leave

    async def checkpoint(self) -> None:
        """See ``LogBackend``."""
        await self._replica.checkpoint()

    def is_closing(self) -> SqlError:
        """See ``LogBackend``."""
        return SqlError("57P03", f"the replica of tablespace {self.tablespace} is being closed here")


def _log_lease(lease: ReaderLease, lease_s: float) -> LogLease:
    remaining_s = max(min((lease.record.expires_us - now_us()) / 1e6, lease_s), 0.0)
    return LogLease(lease.reader, lease.record.lsn, remaining_s)


_ROLES = {ReplicaState.LEADING: LEADER, ReplicaState.FOLLOWING: FOLLOWER}


class ServedReplica:
    """See ``Served``."""

    def __init__(self, replica: ReplicaBase, log: ServedLog, backups: BackupMaking) -> None:
        self._replica = replica
        self.log = log
        self.backups = backups

    def session(self) -> Session:
        """See ``Served``."""
        return self._replica.session()

    def status(self) -> TablespaceStatus:
        """See ``Served``."""
        replica = self._replica
        opened, leader = replica.opened, replica.guard.leader
        applied = replica.applied
        return TablespaceStatus(
            name=replica.info.name,
            role=_ROLES.get(replica.state, replica.state.value),
            state=replica.state.value,
            applied=applied,
            durable=START if opened is None else opened.store.durable,
            log_end=max(replica.log_end, applied),
            lag_entries=replica.lag_entries,
            hears_leader=replica.followed is not None and replica.followed.is_reported,
            read_index_questions=replica.guard.questions.sent,
            reads_in_place=replica.guard.reads_in_place,
            reads_waited=replica.guard.reads_waited,
            leader=None if leader is None else leader.node,
            epoch=replica.epoch,
            takeovers=replica.takeovers,
            log_confirmed_reads=replica.guard.log_confirmed,
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
        address = None if leader is None or leader.grpc is None else str(leader.grpc)
        return LoadsHere(replica.session, replica.host.driver.call, replica.load_ledgers(), address)

    async def reached(self, lsn: LSN) -> None:
        """See ``Served``."""
        await self._replica.guard.admit(ReadLevel("at_lsn", min_lsn=lsn))
