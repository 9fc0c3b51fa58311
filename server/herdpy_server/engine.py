"""The parts of one open directory, put together: what the embedded database and a server share.

directory lock -> log -> store -> recovery -> tablespace -> checkpointer, opened in this order and
closed in the other. Nobody runs statements here: ``embedded`` and ``serving`` do, each with a turn
of its own kind, and say by it how threads keep out of each other's way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import lmdb

from herdpy.log import LogError, LogFullError, LogSettings
from herdpy.log.wait import run_blocking
from herdpy_server.database_settings import DatabaseSettings
from herdpy_server.sessions import PlanCache, Session
from herdpy_server.store import ApplyError
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

logger = logging.getLogger("herdpy.engine")

_RECOVERY_ROWS = 250_000


class Engine:
    """An open directory.

    Attributes:
        path, settings: as given.
        log, store, tablespace, checkpointer, plans: the parts.
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
        checkpointed: Callable[[], None] | None = None,
        checkpoint: Callable[[], object] | None = None,
    ) -> None:
        """Open the database in directory ``path``, making it when there is none.

        Args:
            turn: entered by threads that are not in the turn when they change what all share.
            loop: where everything runs, see ``FileLog.open``; None: in the threads that wait.
            checkpointed: called after each checkpoint and each failure of one, in its thread; it
                must lead to :meth:`let_writers_in`. Left out, that is called in the turn.
            checkpoint: what the statement CHECKPOINT calls; left out, :meth:`checkpoint`.

        Raises:
            SqlError: 55006 another process has it, XX001 it is damaged (the message says where and
                what to do), 0A000 it was written by a newer HerdPy, and what the disk refuses.
        """
        self.path = path
        self.settings = settings
        self.plans = PlanCache(settings.plan_cache)
        self._turn = turn
        directory = Directory(path)
        self.lock = directory.lock(create=True)
        try:
            self._start(directory, loop)
        except BaseException:
            self.lock.release()
            raise
        self.checkpointer.on_progress = checkpointed or self._let_writers_in_turn
        self.tablespace.checkpoint = checkpoint or self.checkpoint
        self.checkpointer.start()

    def _start(self, directory: Directory, loop: asyncio.AbstractEventLoop | None) -> None:
        settings = self.settings
        shutil.rmtree(directory.spill, ignore_errors=True)  # what a crash left there
        fresh = not directory.exists()
        if not fresh:
            directory.read_format()
        with contextlib.ExitStack() as undo:
            log_settings = LogSettings(
                max_ledger_bytes=settings.max_ledger_bytes, max_ledger_age_s=settings.max_ledger_age_s
            )
            self.log = open_log(directory, log_settings, lambda a, e: self.tablespace.acknowledge(a, e), loop)
            undo.callback(self.log.close)
            self.torn = self.log.recovered
            self.store, self.rebuilt = open_store(directory, self.log, settings.column_cache_bytes)
            undo.callback(lambda: self.store.close())
            self.store.spilling = SpillSettings.of(directory.spill, settings.transaction_memory_bytes)
            self.tablespace = Tablespace(self.log, self.store, self._turn)
            try:
                rows = max(settings.checkpoint_rows, _RECOVERY_ROWS)
                self.recovery: Recovery = run_blocking(self.tablespace.recover(rows))
            except LogError as error:
                raise sql_error(error) from error
            self.tablespace.drop_temporary_leftovers()
            if fresh:
                directory.write_marker()
            self.checkpointer = Checkpointer(
                self.log,
                self.store,
                cadence_s=settings.checkpoint_interval_s,
                flush_rows=settings.checkpoint_rows,
                retention_bytes=settings.log_retention_bytes,
            )
            self.tablespace.memtable_grew = self.checkpointer.grew
            self.tablespace.memtable_limit_bytes = settings.memtable_limit_bytes
            self.tablespace.memtable_full = self.checkpointer.request
            undo.pop_all()

    def _let_writers_in_turn(self) -> None:
        with self._turn:
            self.let_writers_in()

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

    def checkpoint(self) -> list[int]:
        """Bring everything into the store and delete the ledgers that are no longer needed.

        Blocks for as long as that takes. Returns ids of the ledgers deleted.

        Raises:
            SqlError: the store or the log could not be written (53100: for lack of space); nothing
                is lost, and it will be tried again.
        """
        try:
            return self.checkpointer.checkpoint(trim=True)
        except LogError as error:
            raise sql_error(error) from error
        except (OSError, lmdb.Error, ApplyError) as error:
            raise store_error(error) from error

    def close(self, await_statements: Callable[[], None] = lambda: None) -> None:
        """Checkpoint and close all parts, whatever fails on the way; blocks.

        Args:
            await_statements: called first, while everything still works.
        """
        with contextlib.ExitStack() as last:
            last.callback(self.lock.release)
            last.callback(self.store.close)
            last.callback(self._close_log)
            last.callback(self._last_checkpoint)
            last.callback(self.checkpointer.stop)
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

    def _last_checkpoint(self) -> None:
        try:
            self.checkpointer.checkpoint(trim=False)
        except Exception as error:  # noqa: BLE001 - the log has everything: the next opening replays it
            logger.error("the last checkpoint failed; opening again will replay the log: %s", error)


def is_closing() -> SqlError:
    """What a statement is told that is ended because the database is being closed."""
    return SqlError("57P01", "the statement was ended: the database is being closed")


def is_closed(path: Path) -> SqlError:
    """What is told to who comes after that."""
    return SqlError("57P03", f"the database {path} is closed")
