"""A database that is alone: a node with one tablespace, which is here and always leads.

Between ``database`` and ``node``. Its coordination is its directory: the lock of the directory is its term,
so it asks nobody whether it still leads. Its log is in files, and this process has the leases of it, which
end with it. All of it is for the loop's thread but :meth:`FileLogBackend.floor`, which the checkpointer
asks.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from herdpy._version import __version__
from herdpy.formats import NEWEST_LEVEL
from herdpy.log import LedgerInfo
from herdpy.log.lsn import LSN
from herdpy.log.published import choose, dated, load
from herdpy_server.backup.archived_files import ArchivedFiles
from herdpy_server.backup.archiver import ArchiveSettings, LogArchiver
from herdpy_server.backup.beside import small_files
from herdpy_server.backup.timeline import timeline_of
from herdpy_server.cluster.layout import PublishedRecord, SnapshotRecord
from herdpy_server.cluster.positions import now_us
from herdpy_server.publishing.snapshot import Moment, moment_of
from herdpy_server.serving.backup_schedule import BackupSchedule, BackupScheduleSettings
from herdpy_server.serving.backups import BackupMaking
from herdpy_server.serving.database import ServedDatabase
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
)
from herdpy_server.serving.node import (
    LoadsHere,
    ServedNode,
    TablespaceStatus,
    UpgradeServer,
    UpgradeState,
    Use,
)
from herdpy_server.serving.publishing import SnapshotPublishing
from herdpy_server.sessions import Session
from herdpy_server.tablespace import Directory
from herdpy_server.tablespace.cluster import Facts, LogNeed, retention_need
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.publishing")

_MAX_LEASES = 10_000


@dataclass(slots=True)
class _Lease:
    after: LSN
    expires_s: float
    entries: bool
    purpose: str


class _PublishingFlag:
    """See ``PublishingMutex``."""

    def __init__(self) -> None:
        self._is_held = False

    async def take(self) -> str | None:
        if self._is_held:
            return ""
        self._is_held = True
        return None

    async def release(self) -> None:
        self._is_held = False


class FileLogBackend:
    """See ``LogBackend``."""

    no_place_hint = "publish.url of the server's configuration names one."

    def __init__(
        self, tablespace: str, database: ServedDatabase, settings: PublishSettings, archiver: LogArchiver
    ) -> None:
        """Snapshots are published as those of ``tablespace``."""
        self.tablespace = tablespace
        self.settings = settings
        self.store: Path = Directory(database.path).store
        self._database = database
        self._log = database.log
        self._leases: dict[str, _Lease] = {}
        self._published: PublishedRecord | None = None
        self._is_known = not settings.url  # what earlier processes published
        self._publishing = _PublishingFlag()
        self._backing_up = _PublishingFlag()
        self._archiver = archiver
        database.checkpointer.floor = self.floor

    def answering(self) -> AbstractAsyncContextManager[object]:
        """See ``LogBackend``: there is nobody to answer."""
        return nullcontext()

    async def place(self) -> LogPlace:
        """See ``LogBackend``."""
        state = self._log.state
        return LogPlace(
            tablespace=self.tablespace,
            log_id=state.log_id,
            base=state.base,
            directory=str(Directory(self._database.path).log),
            nodes=(NodePlace("", "", "alone", self._database.store.applied),),
        )

    async def base(self) -> LSN:
        """See ``LogBackend``."""
        return self._log.state.base

    def lac_reports(self) -> LacReports:
        """See ``LogBackend``."""
        raise SqlError("0A000", "a server that is alone has no followers to report to")

    # Leases.

    def floor(self) -> LSN | None:
        """The log's entries after it are to be kept; None: nobody needs any. From any thread."""
        needed = [one.after for one in self._current().values() if one.entries]
        if self._published is not None:
            needed.append(self._published.floor)
        if (archived := self._archiver.floor()) is not None:
            needed.append(archived)
        return min(needed, default=None)

    def needs(self) -> list[LogNeed]:
        """What the log is kept for."""
        database, log = self._database, self._log
        needs = [
            LogNeed(database.store.floor, "checkpoint"),
            retention_need(log.ledgers(), database.host.settings.log_retention_bytes),
        ]
        if self._published is not None:
            needs.append(LogNeed(self._published.floor, "snapshot"))
        if (archived := self._archiver.floor()) is not None:
            needs.append(LogNeed(archived, "archive"))
        leases = [one for one in self._current().values() if one.entries]
        return needs + [LogNeed(one.after, f"reader: {one.purpose or 'unnamed'}") for one in leases]

    def _current(self) -> dict[str, _Lease]:
        now_s = time.monotonic()
        return {name: one for name, one in list(self._leases.items()) if one.expires_s > now_s}

    async def lease(self, after: LSN, purpose: str, lease_s: float, *, entries: bool) -> LogLease:
        """See ``LogBackend``."""
        self._leases = self._current()
        if len(self._leases) >= _MAX_LEASES:
            raise SqlError(
                "53400", f"there are {_MAX_LEASES} leases already", hint="Release what is not read."
            )
        name = secrets.token_hex(8)
        self._leases[name] = _Lease(after, time.monotonic() + lease_s, entries, purpose)
        # Whoever trims from now on sees the lease; a trimming that has not seen it is over after this.
        await asyncio.get_running_loop().run_in_executor(None, self._database.checkpointer.await_trimming)
        return LogLease(name, after, lease_s)

    async def renew(self, lease: str, after: LSN | None, lease_s: float) -> LogLease:
        """See ``LogBackend``."""
        found = self._current().get(lease)
        if found is None:
            raise lease_is_over(lease)
        if after is not None:
            found.after = max(after, found.after)
        found.expires_s = time.monotonic() + lease_s
        return LogLease(lease, found.after, lease_s)

    async def release(self, lease: str) -> None:
        """See ``LogBackend``."""
        self._leases.pop(lease, None)

    async def leased(self) -> Collection[LSN]:
        """See ``LogBackend``."""
        return [one.after for one in self._current().values()]

    # What is published.

    async def snapshots(self) -> PublishedRecord | None:
        """See ``LogBackend``."""
        return self._published

    async def last_published(self) -> PublishedRecord | None:
        """See ``LogBackend``."""
        if not self._is_known:
            find = partial(_published_at, self.settings, self.tablespace, self._log.state.log_id)
            found = await asyncio.get_running_loop().run_in_executor(None, find)
            self._published, self._is_known = self._published or found, True
        return self._published

    async def keep_published(self, record: PublishedRecord) -> None:
        """See ``LogBackend``."""
        self._published, self._is_known = record, True

    def publishing_lock(self) -> PublishingMutex:
        """See ``LogBackend``."""
        return self._publishing

    def backup_lock(self) -> PublishingMutex:
        """See ``LogBackend``."""
        return self._backing_up

    async def is_ours(self, late_s: float) -> bool:
        """See ``LogBackend``: there is nobody else."""
        del late_s
        return True

    @asynccontextmanager
    async def keeping(self, lsn: LSN) -> AsyncIterator[None]:
        """See ``LogBackend``."""
        name = f"publishing {secrets.token_hex(8)}"
        self._leases[name] = _Lease(lsn, math.inf, entries=True, purpose="publishing")
        try:
            yield
        finally:
            self._leases.pop(name, None)

    async def moment(self, lsn: LSN) -> Moment:
        """See ``LogBackend``."""
        return await moment_of(self._log, self._log.state, lsn, now_us())

    async def backup_facts(self) -> BackupFacts:
        """See ``LogBackend``."""
        reached, durable, path = self._log.lac, self._database.store.durable, self._database.path
        files = await asyncio.to_thread(small_files, path)
        parent, branched = await asyncio.to_thread(timeline_of, path)
        return BackupFacts(reached=reached, durable=durable, files=files, parent=parent, branched=branched)

    # Its store.

    def use(self, give_up: Callable[[], object]) -> Callable[[], None]:
        """See ``LogBackend``."""
        return self._database.uses.enter(give_up)

    async def checkpoint(self) -> None:
        """See ``LogBackend``."""
        checkpoint = partial(self._database.host.checkpoint, trim=False)
        await asyncio.get_running_loop().run_in_executor(None, checkpoint)

    def is_closing(self) -> SqlError:
        """See ``LogBackend``."""
        return SqlError("57P03", "the database is being closed")


def _published_at(settings: PublishSettings, tablespace: str, log_id: str) -> PublishedRecord | None:
    """What earlier processes published; None: nothing. Blocks; as ``herdpy.log.published`` raises."""
    found, damaged = dated(settings.url, tablespace, log_id)
    for error in damaged:
        logger.error("%s", error)
    kept, floor = choose(found, settings.retention, now_us=now_us())
    if floor is None:
        return None
    times = {one.ref.lsn: one.time_us for one in found}
    newest = kept[0]
    return PublishedRecord(
        lsn=newest.lsn,
        url=settings.url,
        time_us=times[newest.lsn],
        created_us=load(newest).created_us,
        floor=floor,
        snapshots=tuple(SnapshotRecord(ref.lsn, times[ref.lsn]) for ref in kept),
    )


ALONE = "default"
"""What the tablespace of a database is called that is alone and has no name."""


class ServedAlone:
    """See ``Served``.

    Attributes:
        publishing: publishes snapshots; to be started and closed by who has it.
        archiver: archives the log; to be started by :meth:`start_archive`, and closed.
        backups: makes backups.
        schedule: makes those that are due; to be started and closed by the caller.
    """

    def __init__(
        self,
        name: str,
        database: ServedDatabase,
        publish: PublishSettings,
        archive: ArchiveSettings,
        schedule: BackupScheduleSettings,
    ) -> None:
        self._name = name
        self._database = database
        self.archiver = LogArchiver(archive, name)
        database.tablespace.facts_here = self._facts
        backend = FileLogBackend(name, database, publish, self.archiver)
        database.tablespace.log_needs = backend.needs
        self.publishing = SnapshotPublishing(backend)
        self.backups = BackupMaking(backend)
        self.schedule = BackupSchedule(
            backend, schedule, self.backups.make, gap_upto=lambda: self.archiver.status().gap_upto
        )
        self.backups.made = self.schedule.look
        self.log = ServedLog(backend, self.publishing.now)

    def start_archive(self) -> None:
        """Archive the log from now on."""
        database = self._database
        log = ArchivedFiles(self._name, database.log, Directory(database.path).log)
        self.archiver.start(log, *timeline_of(database.path))

    def _facts(self) -> Facts:
        archiver = self.archiver
        return {
            "archive": [archiver.status().row(self._name, None)] if archiver.is_running else [],
            "backups": self.schedule.rows(),
        }

    def session(self) -> Session:
        """See ``Served``."""
        return self._database.session()

    def status(self) -> TablespaceStatus:
        """See ``Served``."""
        database, store = self._database, self._database.store
        return TablespaceStatus(
            name=self._name,
            state="alone",
            applied=store.applied,
            durable=store.durable,
            log_end=database.log.end,
            store=store,
            pending=database.tablespace.pending,
        )

    def ledgers(self) -> Sequence[LedgerInfo]:
        """See ``Served``."""
        return self._database.log.ledgers()

    async def checkpoint(self) -> list[int]:
        """See ``Served``."""
        return await self._database.checkpoint()

    def use(self, give_up: Callable[[], object]) -> Use:
        """See ``Served``."""
        database = self._database
        return Use(database.store, database.checkpointer, database.uses.enter(give_up))

    def loads(self) -> LoadsHere:
        """See ``Served``."""
        return LoadsHere(self._database.session, self._database.call)

    async def reached(self, lsn: LSN) -> None:
        """See ``Served``. What was committed here is applied."""
        if self._database.store.applied < lsn:
            raise SqlError("57P03", f"there is nothing at {lsn} yet")


class AlonePlacements:
    """See ``Placements``: one tablespace, here for certain.

    Args:
        name: the only one that clients may ask for; None: whichever they like.
        publish: where and when snapshots of it are published.
        archive: where and when its log is archived.
        schedule: when backups of it are made, and which stay.

    Attributes:
        served: it.
    """

    node_id = ""

    def __init__(
        self,
        database: ServedDatabase,
        name: str | None = None,
        publish: PublishSettings | None = None,
        archive: ArchiveSettings | None = None,
        schedule: BackupScheduleSettings | None = None,
    ) -> None:
        self._database = database
        self._takes_any = name is None
        self.default_tablespace = name or ALONE
        self.served = ServedAlone(
            self.default_tablespace,
            database,
            publish or PublishSettings(),
            archive or ArchiveSettings(),
            schedule or BackupScheduleSettings(),
        )

    async def upgrade_state(self) -> UpgradeState:
        """See ``Placements``."""
        directory = Directory(self._database.path)
        level = await asyncio.get_running_loop().run_in_executor(None, directory.level)
        return UpgradeState(level, NEWEST_LEVEL, [UpgradeServer("", __version__, NEWEST_LEVEL)])

    async def finish_upgrade(self) -> UpgradeState:
        """See ``Placements``."""
        directory = Directory(self._database.path)
        await asyncio.get_running_loop().run_in_executor(None, directory.raise_level)
        return await self.upgrade_state()

    @property
    def is_closed(self) -> bool:
        """See ``Placements``."""
        return self._database.is_closed

    def tablespace_of(self, database: str) -> str:
        """See ``Placements``."""
        return self.default_tablespace if self._takes_any else database

    def here(self, name: str) -> ServedAlone | None:
        """See ``Placements``."""
        return self.served if name == self.default_tablespace else None

    def all_here(self) -> Sequence[ServedAlone]:
        """See ``Placements``."""
        return [self.served]

    def elsewhere(self, name: str) -> None:
        """See ``Placements``: there is no elsewhere."""
        del name


def alone(database: ServedDatabase, name: str | None = None) -> ServedNode:
    """The node of a database that is alone; the name as for ``AlonePlacements``."""
    return ServedNode(database.path, database.driver, AlonePlacements(database, name))
