"""One way to host a tablespace, for an embedded database, a server that is alone, and a replica.

A ``TablespaceHost`` is an open store, the tablespace over it, the checkpointer, and what sessions are given,
whatever log the commits go to; ``DatabaseSettings`` say how it is run. An ``OpenDirectory`` adds what a
database has that is alone: the lock and the log of files, opened in this order (lock, log, store, recovery,
host) and closed in the other. Nobody runs statements here: ``embedded``, ``serving`` and ``replica`` do, each
with a turn of its own kind, and say by it how threads keep out of each other's way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import lmdb

from herdpy.log import CommitLog, LogError, LogFullError, LogSettings
from herdpy.log.wait import run_blocking
from herdpy_server.sessions import PlanCache, Session
from herdpy_server.store import ApplyError, Store
from herdpy_server.store.marks import FLASHBACK_BYTES
from herdpy_server.store.spilling import SpillSettings
from herdpy_server.tablespace import (
    Checkpointer,
    Directory,
    Recovery,
    Tablespace,
    open_log,
    open_store,
    sql_error,
    store_error,
)
from herdpy_sql.columnar import Limits
from herdpy_sql.errors import SqlError


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """How an embedded database is run. Keywords of ``herdpy.connect`` and ``Database.open``.

    Attributes:
        checkpoint_interval_s: how often applied changes go to LMDB.
        checkpoint_rows: changed rows in memory that start a checkpoint sooner.
        memtable_limit_bytes: writers wait for a checkpoint when more than this is in memory.
        transaction_memory_bytes: what a transaction has changed beyond that goes to files in ``spill/``;
            0: nothing does, and a transaction that takes more memory than it may is refused.
        log_retention_bytes: closed ledgers kept after a checkpoint passed them, so that a damaged
            store can be rebuilt from the log.
        max_ledger_bytes, max_ledger_age_s: when a ledger is closed and another begun.
        column_cache_bytes: memory for Arrow columns kept between queries.
        column_segment_bytes: disk for such columns, kept between starts; 0: none.
        query_memory_bytes: memory for DuckDB, which spills to disk beyond it.
        plan_cache: statement texts whose plans are kept.
        flashback_s: for how long the past can be read (``AS OF SYSTEM TIME``); 0: not at all.
        flashback_bytes: what is kept for that goes earlier when more than this was written since, or LMDB's
            file has grown by more.
    """

    checkpoint_interval_s: float = 1.0
    checkpoint_rows: int = 50_000
    memtable_limit_bytes: int = 1 << 30
    transaction_memory_bytes: int = 64 << 20
    log_retention_bytes: int = 256 << 20
    max_ledger_bytes: int = 64 << 20
    max_ledger_age_s: float = 3600.0
    column_cache_bytes: int = 512 << 20
    column_segment_bytes: int = 4 << 30
    query_memory_bytes: int = 1 << 30
    plan_cache: int = 1000
    flashback_s: float = 0.0
    flashback_bytes: int = FLASHBACK_BYTES


logger = logging.getLogger("herdpy.engine")

_RECOVERY_ROWS = 250_000


class TablespaceHost:
    """A tablespace over an open store, with its checkpointer; :meth:`start` and :meth:`stop` are its life.

    Attributes:
        path: the directory with the store's and the spill's.
        settings, store: as given.
        tablespace, checkpointer, plans: the parts.

    Args:
        log: takes the commits at first; see ``Tablespace.switch_log``.
        turn: entered by threads that are not in the turn when they change what all share.
        retention_bytes: see ``Checkpointer``.
    """

    def __init__(
        self,
        path: Path,
        settings: DatabaseSettings,
        store: Store,
        log: CommitLog,
        turn: AbstractContextManager[object],
        *,
        retention_bytes: int,
    ) -> None:
        self.path = path
        self.settings = settings
        self.store = store
        self.plans = PlanCache(settings.plan_cache)
        self.tablespace = Tablespace(log, store, turn)
        self.checkpointer = Checkpointer(
            log,
            store,
            cadence_s=settings.checkpoint_interval_s,
            flush_rows=settings.checkpoint_rows,
            retention_bytes=retention_bytes,
        )
        store.marks.keep_s, store.marks.limit_bytes = settings.flashback_s, settings.flashback_bytes
        self.tablespace.past.read = lambda after, end: self.tablespace.log.read(after, end)
        store.spilling = SpillSettings.of(Directory(path).spill, settings.transaction_memory_bytes)

    def start(self, checkpointed: Callable[[], None]) -> None:
        """From now on memory is bounded, and what is applied comes into LMDB on a cadence.

        Args:
            checkpointed: called after each checkpoint and each failure of one, in its thread; it must lead to
                :meth:`let_writers_in`.
        """
        tablespace, checkpointer = self.tablespace, self.checkpointer
        tablespace.memtable_grew = checkpointer.grew
        tablespace.memtable_limit_bytes = self.settings.memtable_limit_bytes
        tablespace.memtable_full = checkpointer.request
        checkpointer.on_progress = checkpointed
        checkpointer.start()

    def let_writers_in(self) -> None:
        """A checkpoint was made, or failed: writers that wait for memory look again. In the turn."""
        self.tablespace.checkpointed(self.checkpointer.failure)

    def session(self) -> Session:
        """A new session. In the turn."""
        limits = Limits(
            memory_bytes=self.settings.query_memory_bytes,
            temp_directory=str(Directory(self.path).spill),
        )
        return Session(self.tablespace, self.plans, limits)

    def checkpoint(self, *, trim: bool) -> list[int]:
        """Bring everything into the store, in this thread; blocks for as long as that takes.

        Args:
            trim: delete the ledgers that are no longer needed, too.

        Returns:
            Ids of the ledgers deleted.

        Raises:
            SqlError: the store or the log could not be written (53100: for lack of space); nothing
                is lost, and it will be tried again.
        """
        try:
            return self.checkpointer.checkpoint(trim=trim)
        except LogError as error:
            raise sql_error(error) from error
        except (OSError, lmdb.Error, ApplyError) as error:
            raise store_error(error) from error

    def stop(self) -> None:
        """End the cadence, and make a last checkpoint; nothing is lost when that fails."""
        self.checkpointer.stop()
        try:
            self.checkpointer.checkpoint(trim=False)
        except Exception as error:  # noqa: BLE001 - the log has everything, and is replayed from
            logger.error("the last checkpoint failed; opening again will replay the log: %s", error)


class OpenDirectory:
    """A directory with a tablespace that is alone: its lock, its log of files, and the host over them.

    Attributes:
        path, settings: as given.
        log, store, host: the parts.
        recovery: what opening found in the log.
        torn: what was cut off the log's end because a crash had torn it; mostly nothing.
        rebuilt: why the store was rebuilt from the log, or None.
    """

    def __init__(
        self,
        path: Path,
        settings: DatabaseSettings,
        turn: AbstractContextManager[object],
        *,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Open the database in directory ``path``, making it when there is none; :meth:`start` comes next.

        Args:
            turn: entered by threads that are not in the turn when they change what all share.
            loop: where everything runs, see ``FileLog``; None: in the threads that wait.

        Raises:
            SqlError: 55006 another process has it, XX001 it is damaged (the message says where and
                what to do), 0A000 it was written by a newer HerdPy, and what the disk refuses.
        """
        self.path = path
        self.settings = settings
        self._turn = turn
        directory = Directory(path)
        self.lock = directory.lock(create=True)
        try:
            self._open(directory, loop)
        except BaseException:
            self.lock.release()
            raise

    def start(
        self,
        checkpointed: Callable[[], None] | None = None,
        checkpoint: Callable[[], object] | None = None,
    ) -> None:
        """As ``TablespaceHost.start``.

        Args:
            checkpointed: left out, ``TablespaceHost.let_writers_in`` is called in the turn.
            checkpoint: what the statement CHECKPOINT calls; left out, :meth:`checkpoint`.
        """
        self.host.tablespace.checkpoint = checkpoint or self.checkpoint
        self.host.start(checkpointed or self._let_writers_in_turn)

    def _open(self, directory: Directory, loop: asyncio.AbstractEventLoop | None) -> None:
        settings = self.settings
        fresh = not directory.exists()
        if not fresh:
            directory.read_format()
        shutil.rmtree(directory.spill, ignore_errors=True)  # what a crash left there
        with contextlib.ExitStack() as undo:
            log_settings = LogSettings(
                max_ledger_bytes=settings.max_ledger_bytes, max_ledger_age_s=settings.max_ledger_age_s
            )
            self.log = open_log(
                directory, log_settings, lambda a, e: self.host.tablespace.acknowledge(a, e), loop
            )
            undo.callback(self.log.close)
            self.torn = self.log.recovered
            self.store, self.rebuilt = open_store(
                directory, self.log, settings.column_cache_bytes, settings.column_segment_bytes
            )
            undo.callback(lambda: self.store.close())
            self.store.level = directory.level_reader()
            self.host = TablespaceHost(
                self.path,
                settings,
                self.store,
                self.log,
                self._turn,
                retention_bytes=settings.log_retention_bytes,
            )
            self._recover()
            if fresh:
                directory.write_marker()
            undo.pop_all()

    def _recover(self) -> None:
        tablespace = self.host.tablespace
        try:
            rows = max(self.settings.checkpoint_rows, _RECOVERY_ROWS)
            self.recovery: Recovery = run_blocking(tablespace.recover(rows))
        except LogError as error:
            raise sql_error(error) from error
        tablespace.drop_temporary_leftovers()

    def _let_writers_in_turn(self) -> None:
        with self._turn:
            self.host.let_writers_in()

    def checkpoint(self) -> list[int]:
        """As ``TablespaceHost.checkpoint``, and delete the ledgers that are no longer needed."""
        return self.host.checkpoint(trim=True)

    def close(self, await_statements: Callable[[], None] = lambda: None) -> None:
        """Checkpoint and close all parts, whatever fails on the way; blocks.

        Args:
            await_statements: called first, while everything still works.
        """
        with contextlib.ExitStack() as last:
            last.callback(self.lock.release)
            last.callback(self.store.close)
            last.callback(self._close_log)
            last.callback(self.host.stop)
            await_statements()

    def _close_log(self) -> None:
        try:
            self.log.close()
        except LogError as error:
            raise SqlError(
                "53100" if isinstance(error, LogFullError) else "58030",
                "the log could not be closed in order: the next opening does it, and nothing is lost",
                detail=str(error),
                outcome="done",
            ) from error


def is_closing() -> SqlError:
    """The error of a statement that is ended because the database is being closed."""
    return SqlError("57P01", "the statement was ended: the database is being closed")


def is_closed(path: Path) -> SqlError:
    """The error of whoever comes after that."""
    return SqlError("57P03", f"the database {path} is closed")
