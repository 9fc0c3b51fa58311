"""A replica that is open: its store, the tablespace over it, the checkpointer, the workers.

Below ``replica``, which decides which log its commits go to. It is opened when the replica is, and anew after
each seeding: its sessions end with it. Everything but ``open`` and ``close`` is for the loop.

    <directory>/store/   LMDB
    <directory>/spill/   what DuckDB does not hold in memory
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lmdb

from herdpy.log import CommitLog
from herdpy_server.database_settings import DatabaseSettings
from herdpy_server.replica.host import Host
from herdpy_server.serving.tablespaces import Uses
from herdpy_server.sessions import PlanCache, Session
from herdpy_server.store import Store
from herdpy_server.store.spilling import SpillSettings
from herdpy_server.tablespace import Checkpointer, Directory, Tablespace, store_error
from herdpy_server.tablespace.guard import Guard
from herdpy_server.workers.pool import WorkerPool
from herdpy_sql.columnar import Limits
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.replica")

_FIRST_WAIT_S = 0.02


class OpenReplica:
    """Attributes:
    path: its directory.
    store, tablespace, checkpointer, plans, workers: the parts.
    sessions: those that somebody holds.
    uses: who reads the store besides; closing waits for them.
    on_checkpoint: called on the loop after each checkpoint, and each failure of one.
    """

    def __init__(self, host: Host, path: Path, store: Store, standby: CommitLog, guard: Guard) -> None:
        self.path = path
        self.settings: DatabaseSettings = host.settings
        self.store = store
        self.standby = standby
        self.plans = PlanCache(host.settings.plan_cache)
        self.sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        self.uses = Uses()
        self._host = host
        self._loop = host.driver.loop
        self.tablespace = tablespace = Tablespace(standby, store, host.turn)
        tablespace.guard = guard
        tablespace.cluster = host.cluster
        self.checkpointer = checkpointer = Checkpointer(
            standby,
            store,
            cadence_s=host.settings.checkpoint_interval_s,
            flush_rows=host.settings.checkpoint_rows,
            retention_bytes=0,
        )
        tablespace.memtable_grew = checkpointer.grew
        tablespace.memtable_limit_bytes = host.settings.memtable_limit_bytes
        store.spilling = SpillSettings.of(Directory(path).spill, host.settings.transaction_memory_bytes)
        tablespace.memtable_full = checkpointer.request
        tablespace.checkpoint = self.checkpoint
        tablespace.checkpoint_threads = host.threads.checkpoints
        checkpointer.on_progress = self._checkpointed
        self.on_checkpoint: Callable[[], object] = lambda: None
        self.workers: WorkerPool | None = None
        if host.workers is not None:
            self.workers = WorkerPool(
                self._loop,
                store,
                Directory(path).spill,
                host.workers,
                host.settings.query_memory_bytes,
                host.settings.column_cache_bytes,
            )
        checkpointer.start()
        store.on_roles = lambda: self._loop.call_soon_threadsafe(host.roles_changed)
        host.roles_changed()

    @classmethod
    async def open(
        cls, host: Host, path: Path, standby: Callable[[Store], CommitLog], guard: Guard
    ) -> OpenReplica:
        """Open what is in ``path``, or begin an empty store there.

        Raises:
            StoreDamagedError: it cannot be trusted.
            OSError: it cannot be read.
        """
        store = await host.driver.loop.run_in_executor(host.threads.opening, partial(_open_store, host, path))
        return cls(host, path, store, standby(store), guard)

    def session(self) -> Session:
        """A new session."""
        limits = Limits(
            memory_bytes=self.settings.query_memory_bytes, temp_directory=str(Directory(self.path).spill)
        )
        session = Session(self.tablespace, self.plans, limits)
        session.waits.runs_on(self._loop)
        session.observer = self._host.observer
        session.allowed = self._host.limits
        session.settings.max_custom = self._host.limits.custom_settings
        if self.workers is not None:
            session.queries.backend = self.workers
        self.sessions.add(session)
        return session

    def switch_log(self, log: CommitLog, *, leads: bool) -> None:
        """From now on commits go to ``log``; sessions learn whether they may write."""
        self.tablespace.switch_log(log)
        if leads:
            self.tablespace.drop_temporary_leftovers()
        for session in list(self.sessions):
            session.settings.set_standby(not leads)

    @property
    def is_dead(self) -> bool:
        """Whether it is to be opened again: LMDB has given it up (``MDB_PANIC``), or memory is spoilt."""
        return isinstance(self.checkpointer.failure, lmdb.PanicError) or self.store.is_spoilt

    def checkpoint(self) -> list[int]:
        """Bring everything into LMDB, in this thread. SqlError when that is not possible now."""
        try:
            return self.checkpointer.checkpoint(trim=False)
        except Exception as error:
            raise store_error(error) from error

    def _checkpointed(self) -> None:
        self._loop.call_soon_threadsafe(self._let_writers_in)

    def _let_writers_in(self) -> None:
        self.on_checkpoint()
        self.tablespace.checkpointed(self.checkpointer.failure)

    async def room(self) -> None:
        """For who applies the log: return when there is memory for more."""
        while self.tablespace.is_full:
            try:
                await self.tablespace.room()
            except SqlError as error:
                logger.error("a replica cannot go on before it can write its store: %s", error)
                await asyncio.sleep(1.0)

    async def end_sessions(self, error: SqlError) -> None:
        """End every statement and roll back every transaction; the sessions' clients are told ``error``."""
        for session in list(self.sessions):
            self._host.end_session(session, error)
            session.shut()
        while any(session.is_running for session in list(self.sessions)):
            await asyncio.sleep(_FIRST_WAIT_S)
        for session in list(self.sessions):
            session.roll_back_now()

    async def close(self, error: SqlError) -> None:
        """End the sessions, write what is new, and close. Nothing is lost when the writing fails."""
        await self.end_sessions(error)
        await self.uses.end()
        if self.workers is not None:
            await self.workers.close(error)
        await self._loop.run_in_executor(self._host.threads.checkpoints, self._close)

    def _close(self) -> None:
        self.checkpointer.stop()
        try:
            self.checkpointer.checkpoint(trim=False)
        except Exception as error:  # noqa: BLE001 - the log has everything, and is replayed from
            logger.error("the last checkpoint failed; the log is replayed when it is opened again: %s", error)
        self.store.close()


def _open_store(host: Host, path: Path) -> Store:
    directory = Directory(path)
    shutil.rmtree(directory.spill, ignore_errors=True)
    path.mkdir(parents=True, exist_ok=True)
    return Store.open(directory.store, column_cache_bytes=host.settings.column_cache_bytes)
