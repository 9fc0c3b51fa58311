"""A tablespace's log for those who read it themselves: where it is, what is leased of it, what is published.

Below ``node``. Front ends ask a ``ServedLog``, the same for a tablespace that is alone and for one
of a cluster; ``publishing`` publishes its snapshots. What differs is a ``LogBackend``: it has the ledgers,
the leases, and the record of what is published.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from herdpy.log.lsn import LSN, START
from herdpy.log.published import Retention
from herdpy.rpc.lac_reports import LacReport
from herdpy.rpc.read_index import ReadIndexAnswerer
from herdpy.zookeeper_access import IN_THE_CLEAR, ZooKeeperAccess
from herdpy_server.cluster.layout import PublishedRecord
from herdpy_server.publishing.publisher import Published, ReportProgress
from herdpy_server.publishing.snapshot import Moment
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.publishing")

T = TypeVar("T")

MAX_LEASE_S = 86_400.0
_TRIES = 5


@dataclass(frozen=True, slots=True)
class PublishedAt:
    """A published snapshot: the place, the position, a moment that nothing in it is later than."""

    url: str
    lsn: LSN
    time_us: int


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A node with a replica, as a reader may ask it; ``grpc`` and ``state`` are empty when it is away."""

    node: str
    grpc: str = ""
    state: str = ""
    applied: LSN = START


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """Where a log is. Of files there is a ``directory``, of BookKeeper the rest.

    Attributes:
        password: of the ledgers.
        base: the last entry that was trimmed.
        snapshot_url: where snapshots are published to; empty: nowhere.
    """

    tablespace: str
    log_id: str
    base: LSN
    directory: str = ""
    zookeeper: str = ""
    ledgers_root: str = ""
    ledger_list: str = ""
    password: bytes = field(default=b"", repr=False)
    snapshot_url: str = ""
    snapshot: PublishedAt | None = None
    nodes: Sequence[NodePlace] = ()
    leader: str = ""


@dataclass(frozen=True, slots=True)
class From:
    """From where a reader wants entries: after ``after``; else from the newest snapshot that has nothing
    after ``upto`` and nothing later than ``upto_us``.
    """

    after: LSN | None = None
    upto: LSN | None = None
    upto_us: int | None = None

    def chosen(self, snapshots: Sequence[PublishedAt]) -> PublishedAt | None:
        """The snapshot to begin from, of those that are there, newest first; None: none is like that."""
        for one in snapshots:
            if self.after is not None:
                if one.lsn == self.after:
                    return one
            elif (self.upto is None or one.lsn <= self.upto) and (
                self.upto_us is None or one.time_us <= self.upto_us
            ):
                return one
        return None


@dataclass(frozen=True, slots=True)
class LogLease:
    """What is kept for a reader: entries after ``after``, and a snapshot there, if there is one."""

    id: str
    after: LSN
    remaining_s: float
    snapshot: PublishedAt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """Where and when snapshots of a tablespace are published; no ``url``: they are not.

    Of a server that is alone they are the section ``publish`` of its configuration, by its names.
    """

    url: str = ""
    interval_s: float = 3600.0
    keep: int = 2
    history_s: float = 0.0
    niceness: int = 10

    @property
    def retention(self) -> Retention:
        """What stays."""
        return Retention(self.keep, self.history_s)


class PublishingMutex(Protocol):
    """Keeps two from publishing a tablespace at once."""

    async def take(self) -> str | None:
        """None when it is held now; else the node that holds it, "" for this process."""

    async def release(self) -> None:
        """Let another take it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFacts:
    """What a backup has to have besides the store and the log; see ``BackupManifest`` and ``LogRecord``.

    Attributes:
        reached: what was answered here is up to there.
        durable: the store has that on the disk.
        zookeeper_access: how ZooKeeper is talked to.
    """

    reached: LSN = START
    durable: LSN = START
    settings: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    parent: str | None = None
    branched: str | None = None
    zookeeper_access: ZooKeeperAccess = IN_THE_CLEAR


class LacReports(NamedTuple):
    """What a leader tells one follower.

    Attributes:
        log_id: the log's.
        reports: how far it is confirmed.
        answerer: answers the follower's questions; to be closed with the reports.
    """

    log_id: str
    reports: AsyncGenerator[LacReport, None]
    answerer: ReadIndexAnswerer


class LogBackend(Protocol):
    """Where a log has its ledgers, its leases, and the record of what is published.

    Of a log in files they are on this disk and in this process (``alone``). Of one on bookies they are in
    ZooKeeper (``replica.served``), so that any node with a replica can be asked. What it raises is
    SqlError, or :meth:`answering` makes one of it.
    """

    @property
    def tablespace(self) -> str:
        """Its name."""

    @property
    def settings(self) -> PublishSettings:
        """What holds now."""

    @property
    def no_place_hint(self) -> str:
        """How a tablespace gets a place to publish to."""

    def answering(self) -> AbstractAsyncContextManager[object]:
        """What does not answer within the block becomes an SqlError."""

    async def place(self) -> LogPlace:
        """Where it is, but for what is published."""

    async def base(self) -> LSN:
        """The last entry that was trimmed."""

    def lac_reports(self) -> LacReports:
        """How far it is confirmed, as long as it is led here.

        Raises:
            SqlError: 57P03, it is not led here; 0A000, nobody follows it.
        """

    # Leases.

    async def lease(self, after: LSN, purpose: str, lease_s: float, *, entries: bool) -> LogLease:
        """Keep entries after ``after``; without ``entries`` the snapshot there alone. From now on trimming
        heeds it.

        Raises:
            SqlError: 22003, they are gone; 53400, there are too many leases.
        """

    async def renew(self, lease: str, after: LSN | None, lease_s: float) -> LogLease:
        """Keep it for longer; what is up to ``after`` is no longer needed. SqlError 42704: it is over."""

    async def release(self, lease: str) -> None:
        """Nothing is needed any more."""

    async def leased(self) -> Collection[LSN]:
        """The positions of the leases that hold now."""

    # What is published.

    async def snapshots(self) -> PublishedRecord | None:
        """What readers may begin from; None: nothing is published, as far as is known."""

    async def last_published(self) -> PublishedRecord | None:
        """The same, once it is known: what earlier processes published is looked up."""

    async def keep_published(self, record: PublishedRecord) -> None:
        """Let readers begin from that, and keep the log after its floor."""

    def publishing_lock(self) -> PublishingMutex:
        """Held by who publishes."""

    def backup_lock(self) -> PublishingMutex:
        """Held by the node that makes a backup which was due."""

    async def is_ours(self, late_s: float) -> bool:
        """Whether a snapshot that was due ``late_s`` seconds ago is to be published here."""

    def keeping(self, lsn: LSN) -> AbstractAsyncContextManager[object]:
        """The log's entries after ``lsn`` are kept within the block."""

    async def moment(self, lsn: LSN) -> Moment:
        """What the log knows of ``lsn``."""

    async def backup_facts(self) -> BackupFacts:
        """What a backup of it has to have."""

    # Its store.

    @property
    def store(self) -> Path:
        """The directory of LMDB's environment."""

    def use(self, give_up: Callable[[], object]) -> Callable[[], None]:
        """Have the store stay open until what is returned is called; see ``Uses.enter``."""

    async def checkpoint(self) -> None:
        """Bring everything into LMDB. SqlError when it cannot be written."""

    def is_closing(self) -> SqlError:
        """57P03, for who waited for something of a store that is being closed."""


Publish = Callable[[str, ReportProgress], Awaitable[Published]]


class ServedLog:
    """The log of one tablespace, for its readers. It raises SqlError; 08001: ZooKeeper does not answer.

    Args:
        publish: publishes a snapshot now, as ``SnapshotPublishing.now``.
    """

    def __init__(self, backend: LogBackend, publish: Publish) -> None:
        self._backend = backend
        self._publish = publish

    async def place(self) -> LogPlace:
        """Where it is."""
        backend = self._backend
        async with backend.answering():
            snapshots = await self._snapshots()
            snapshot = snapshots[0] if snapshots else None
            return replace(await backend.place(), snapshot_url=backend.settings.url, snapshot=snapshot)

    def lac_reports(self) -> LacReports:
        """See ``LogBackend``."""
        return self._backend.lac_reports()

    async def lease(self, wanted: From, lease_s: float, purpose: str) -> LogLease:
        """Keep it from there on. 22003: it is gone, or no snapshot is as old as that."""
        async with self._backend.answering():
            for _ in range(_TRIES):
                chosen = wanted.chosen(await self._snapshots())
                found = await self._lease(wanted, chosen, lease_s, purpose)
                if found is not None:
                    return found
        raise SqlError("57P03", "snapshots are being removed just now", hint="Try again.")

    async def _lease(
        self, wanted: From, chosen: PublishedAt | None, lease_s: float, purpose: str
    ) -> LogLease | None:
        """One try; None: what was chosen has been let go of meanwhile."""
        backend = self._backend
        if chosen is not None:
            after = chosen.lsn
        elif wanted.after is not None:
            after = wanted.after
        else:
            after = await self._whole_log(wanted)
        # At its own position a snapshot needs no entries, and there may be none any more.
        entries = chosen is None or wanted.upto != chosen.lsn
        lease = await backend.lease(after, purpose, lease_s, entries=entries)
        try:
            if chosen is not None and chosen not in await self._snapshots():
                await backend.release(lease.id)
                return None
            if entries and after < (base := await backend.base()):
                raise not_kept(f"entries after {after} were requested, and the log begins after {base}")
        except BaseException:
            await backend.release(lease.id)
            raise
        logger.info("leased", extra={"lease": lease.id, "after": str(after), "purpose": purpose})
        return replace(lease, snapshot=chosen)

    async def _whole_log(self, wanted: From) -> LSN:
        """The log's beginning, where it has that yet: then no snapshot is needed."""
        base = await self._backend.base()
        if base == START:
            return START
        what = "" if wanted == From() else " that is as old as the requested position"
        raise not_kept(f"no snapshot is published{what}, and the log begins after {base}")

    async def renew(self, lease: str, after: LSN | None, lease_s: float) -> LogLease:
        """Keep it for longer; what is up to ``after`` is no longer needed. 42704: the lease is over."""
        async with self._backend.answering():
            found = await self._backend.renew(lease, after, lease_s)
            return replace(found, snapshot=From(found.after).chosen(await self._snapshots()))

    async def release(self, lease: str) -> None:
        """Nothing is needed any more."""
        async with self._backend.answering():
            await self._backend.release(lease)

    async def publish(self, url: str, report: ReportProgress) -> PublishedAt:
        """Publish a snapshot now; to another place than the tablespace's it is a copy.

        Raises:
            SqlError: 55000, there is no place; 55006, another is being published; as
                ``publishing.publisher``.
        """
        backend = self._backend
        url = url or backend.settings.url
        if not url:
            raise no_place(backend.tablespace, backend.no_place_hint)
        async with backend.answering():
            done = await self._publish(url, report)
        return PublishedAt(done.url, done.lsn, done.time_us)

    async def _snapshots(self) -> list[PublishedAt]:
        """What readers may begin from, newest first."""
        record = await self._backend.snapshots()
        if record is None:
            return []
        return [PublishedAt(record.url, one.lsn, one.time_us) for one in record.snapshots]


def no_place(tablespace: str, hint: str) -> SqlError:
    """The error for a tablespace that publishes nothing, when nobody says where to."""
    return SqlError("55000", f"tablespace {tablespace} has no place to publish snapshots to", hint=hint)


def being_published(tablespace: str, where: str = "") -> SqlError:
    """The error for who wants to publish while another does."""
    return SqlError(
        "55006",
        f"a snapshot of tablespace {tablespace} is being published{where}",
        hint="Try again when it is done.",
    )


def not_kept(text: str) -> SqlError:
    """The error for entries, or a snapshot, that are not there any more."""
    return SqlError(
        "22003",
        text,
        hint="Read a newer state, or retain more: snapshot_history of the tablespace, publish.history_s"
        " alone.",
    )


def lease_is_over(lease: str) -> SqlError:
    """The error for a lease that nobody knows any more."""
    return SqlError(
        "42704",
        f"the lease {lease} has expired: what it retained may be gone",
        hint="Renew leases in time, and begin again with a new one.",
    )


async def with_store(
    backend: LogBackend, work: Callable[[], Coroutine[Any, Any, T]], *, checkpointed: bool = False
) -> T:
    """Let a process work on the store while it stays where it is; given up when the store has to go.

    Args:
        checkpointed: bring everything into LMDB first.

    Raises:
        SqlError: 57P03, the store has to go; as ``work``.
    """
    task: asyncio.Task[T] | None = None

    def give_up() -> None:
        if task is not None:
            task.cancel()

    leave = backend.use(give_up)
    try:
        if checkpointed:
            await backend.checkpoint()
        task = asyncio.get_running_loop().create_task(work())
        await asyncio.wait({task})
        if task.cancelled():
            raise backend.is_closing()
        return task.result()
    finally:
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task})
        leave()
