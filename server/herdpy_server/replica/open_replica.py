"""A replica that is open: its store, the tablespace over it, the checkpointer, the workers.

Below ``replica``, which decides which log its commits go to: while another leads a ``StandbyLog``, which
refuses them. It is opened when the replica is, and anew after
each seeding: its sessions end with it. Everything but ``open`` and ``close`` is for the loop.

    <directory>/store/   LMDB
    <directory>/spill/   what DuckDB does not hold in memory
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from pathlib import Path

import lmdb

from herdpy.log import LSN, Append, CommitLog, LedgerInfo, LogEntry, LoggedTransaction
from herdpy_server.replica.host import Host
from herdpy_server.serving.loop_tablespace import LoopTablespace, opened_in_thread
from herdpy_server.sessions import Session
from herdpy_server.store import Store
from herdpy_server.tablespace import Directory
from herdpy_server.tablespace.cluster import Guard
from herdpy_server.tablespace_host import TablespaceHost
from herdpy_sql.errors import SqlError


class StandbyLog(CommitLog):
    """Takes no appends.

    Args:
        refusal: makes the error for them.
        position: up to where the replica has the log.
    """

    failure = None

    def __init__(self, refusal: Callable[[], SqlError], position: Callable[[], LSN]) -> None:
        self._refusal = refusal
        self._position = position

    def append(self, transaction: LoggedTransaction) -> Append:
        """Raise SqlError 25006, which names the leader: certainly nothing was done."""
        raise self._refusal()

    def flush(self) -> None:
        """There is nothing to be flushed."""

    @property
    def lac(self) -> LSN:
        return self._position()

    @property
    def end(self) -> LSN:
        return self._position()

    def read(self, after: LSN, upto: LSN | None = None) -> AsyncIterator[tuple[LSN, LogEntry]]:
        raise NotImplementedError("a follower has a log of its own to read")

    def tail(self, after: LSN) -> AsyncIterator[tuple[LSN, LogEntry]]:
        raise NotImplementedError("a follower has a log of its own to read")

    def roll(self) -> None:
        """Its leader rolls the log."""

    def roll_if_due(self) -> bool:
        return False

    def note_lac(self) -> None:
        """Its leader tells it."""

    def trim(self, before: LSN) -> list[int]:
        """Its leader trims the log."""
        return []

    def ledgers(self) -> Sequence[LedgerInfo]:
        return ()

    def close(self) -> None:
        """There is nothing to be closed."""


logger = logging.getLogger("herdpy.replica")

_FIRST_WAIT_S = 0.02


class OpenReplica:
    """Attributes:
    path: its directory.
    hosted: its store with what stands on it; ``store``, ``tablespace`` and ``checkpointer`` are its.
    standby: the log while it does not lead.
    sessions: those that somebody holds.
    uses: who reads the store besides; closing waits for them.
    on_loop: the two with the store, as alone too: what checkpoints call on the loop, and how it is closed.
    """

    def __init__(self, host: Host, path: Path, store: Store, standby: CommitLog, guard: Guard) -> None:
        self._host = host
        self._loop = host.driver.loop
        self.path = path
        self.standby = standby
        self.hosted = hosted = TablespaceHost(
            path, host.settings, store, standby, host.turn, retention_bytes=0
        )
        self.store, self.tablespace, self.checkpointer = store, hosted.tablespace, hosted.checkpointer
        self.tablespace.guard = guard
        self.tablespace.cluster = host.cluster
        self.tablespace.checkpoint = self.checkpoint
        self.tablespace.checkpoint_threads = host.threads.checkpoints
        self.on_loop = on_loop = LoopTablespace(
            hosted, host.driver, host, host.workers, host.threads.checkpoints
        )
        self.uses, self.sessions = on_loop.uses, on_loop.sessions
        hosted.start(on_loop.checkpoint_ended)
        store.level = lambda: host.coordination.level
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
        opening = partial(_open_store, host, path)
        store = await opened_in_thread(host.driver.loop, host.threads.opening, opening, Store.close)
        return cls(host, path, store, standby(store), guard)

    def session(self) -> Session:
        """A new session."""
        return self.sessions.begin()

    def switch_log(self, log: CommitLog, *, leads: bool) -> None:
        """From now on commits go to ``log``; sessions learn whether they may write."""
        self.tablespace.switch_log(log)
        if leads:
            self.tablespace.drop_temporary_leftovers()
        for session in self.sessions:
            session.settings.set_standby(not leads)

    @property
    def is_dead(self) -> bool:
        """Whether it is to be opened again: LMDB has given it up (``MDB_PANIC``), or memory is spoilt."""
        return isinstance(self.checkpointer.failure, lmdb.PanicError) or self.store.is_spoilt

    def checkpoint(self) -> list[int]:
        """Bring everything into LMDB, in this thread. SqlError when that is not possible now."""
        return self.hosted.checkpoint(trim=False)

    async def room(self) -> None:
        """For who applies the log: return when there is memory for more."""
        while self.tablespace.is_full:
            try:
                await self.tablespace.room()
            except SqlError as error:
                logger.error("a replica waits until it can write its store: %s", error)
                await asyncio.sleep(1.0)

    async def end_sessions(self, error: SqlError) -> None:
        """End every statement and roll back every transaction; the sessions' clients get ``error``."""
        for session in self.sessions:
            self._host.end_session(session, error)
            session.shut()
        while any(session.is_running for session in self.sessions):
            await asyncio.sleep(_FIRST_WAIT_S)
        self.sessions.roll_back()

    async def close(self, error: SqlError) -> None:
        """End the sessions, write what is new, and close. Nothing is lost when the writing fails."""
        await self.on_loop.close(error, self.end_sessions(error), self._close)

    def _close(self) -> None:
        self.hosted.stop()
        self.store.close()


def _open_store(host: Host, path: Path) -> Store:
    directory = Directory(path)
    shutil.rmtree(directory.spill, ignore_errors=True)
    path.mkdir(parents=True, exist_ok=True)
    return Store.open(
        directory.store,
        column_cache_bytes=host.settings.column_cache_bytes,
        segment_bytes=host.settings.column_segment_bytes,
    )
