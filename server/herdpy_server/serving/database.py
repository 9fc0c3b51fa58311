"""A directory opened for a server, and the one loop that runs every session.

Top of ``serving``; the front ends (``pgwire``, ``service``) use it. Every method is for the loop's
thread. What blocks is elsewhere: opening and closing in the loop's executor, checkpoints in the
checkpointer's thread, the log's writes in its flusher's, which hands each group back to the loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from herdpy_server.serving.driver import Driver, LoopTurn, Run
from herdpy_server.serving.loop_tablespace import LoopTablespace, opened_in_thread
from herdpy_server.sessions import Session
from herdpy_server.sessions.identity import ObserverOf
from herdpy_server.sessions.limits import SessionLimits
from herdpy_server.tablespace_host import DatabaseSettings, OpenDirectory, is_closed, is_closing
from herdpy_server.workers.scheduler import WorkerSettings

logger = logging.getLogger("herdpy.serving")

T = TypeVar("T")

_CLOSE_PATIENCE_S = 60.0
_LOOK_AGAIN_S = 0.05


class ServedDatabase:
    """An open directory whose sessions all run on one loop. Open it with :meth:`open`.

    Attributes:
        path, settings, log, store, recovery, torn, rebuilt: as of ``OpenDirectory``.
        tablespace, plans: as of ``TablespaceHost``.
        driver: runs coroutines of sessions; ``run`` and ``call`` are its.
        host: the tablespace with its checkpointer; ``checkpointer`` is its.
        sessions: the sessions that somebody holds.
        uses: who reads the store besides; closing waits for them.
        observer_of: gives sessions that begin from now on their observers; None: they have none.
        limits: what sessions that begin from now on may keep.
        workers: the processes that answer what DuckDB is asked, or None.
    """

    def __init__(
        self, directory: OpenDirectory, driver: Driver, turn: LoopTurn, workers: WorkerSettings | None = None
    ) -> None:
        self._directory = directory
        self.driver = driver
        self.turn = turn
        self.observer_of: ObserverOf | None = None
        self.limits = SessionLimits()
        self.host = host = directory.host
        self.path, self.settings, self.plans = host.path, host.settings, host.plans
        self.log, self.store, self.tablespace = directory.log, host.store, host.tablespace
        self.recovery, self.torn, self.rebuilt = directory.recovery, directory.torn, directory.rebuilt
        self.checkpointer = host.checkpointer
        self._loop_tablespace = served = LoopTablespace(host, driver, self, workers)
        self.uses, self.sessions, self.workers = served.uses, served.sessions, served.sessions.workers
        directory.start(served.checkpoint_ended)
        self._closed: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        settings: DatabaseSettings | None = None,
        workers: WorkerSettings | None = None,
    ) -> ServedDatabase:
        """Open the database in directory ``path`` for the running loop, making it when there is none.

        Args:
            workers: of the processes that answer what DuckDB is asked. None: threads of this process do,
                which delays every other statement.

        Raises:
            SqlError: as of ``OpenDirectory``.
        """
        loop = asyncio.get_running_loop()
        turn, driver = LoopTurn(loop), Driver(loop)
        opening = partial(
            OpenDirectory, Path(path).absolute(), settings or DatabaseSettings(), turn, loop=loop
        )
        directory = await opened_in_thread(loop, None, opening, OpenDirectory.close)
        return cls(directory, driver, turn, workers)

    # Using it.

    @property
    def is_closed(self) -> bool:
        """Whether closing has begun."""
        return self._closed is not None

    def session(self) -> Session:
        """A new session; SqlError 57P03 once closing has begun."""
        if self._closed is not None:
            raise is_closed(self.path)
        return self.sessions.begin()

    def run(self, coroutine: Coroutine[Any, Any, T] | None, done: Callable[[Run[T]], object]) -> Run[T]:
        """A run of a session's coroutine, to be started; see :class:`Run`."""
        return Run(self.driver, coroutine, done)

    async def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a session's coroutine from an asyncio task; see :meth:`Driver.call`."""
        return await self.driver.call(coroutine)

    async def checkpoint(self) -> list[int]:
        """Bring everything into the store and delete the ledgers that are no longer needed.

        Returns:
            Ids of the ledgers deleted.

        Raises:
            SqlError: as ``OpenDirectory.checkpoint``; 57P03 when the database is closed.
        """
        if self._closed is not None:
            raise is_closed(self.path)
        return await self.driver.loop.run_in_executor(None, self._directory.checkpoint)

    @property
    def checkpoint_failure(self) -> Exception | None:
        """Why the last checkpoint failed; None when it did not. It is tried again on its cadence."""
        return self.checkpointer.failure

    # Closing it.

    async def close(self, graceful_timeout_s: float = 0.0) -> None:
        """Let running statements end, end those that do not, roll back, checkpoint, and close.

        Statements that wait for their commit are always let come to their end. A second call waits
        for the first.

        Args:
            graceful_timeout_s: how long others may go on before they are ended (57P01).

        Raises:
            LogError, OSError: the log or the store could not be closed as it should; it is closed.
        """
        if self._closed is not None:
            await asyncio.shield(self._closed)
            return
        self._closed = self.driver.loop.create_future()
        try:
            ended = self._end_statements(graceful_timeout_s)
            await self._loop_tablespace.close(is_closing(), ended, self._directory.close)
        except BaseException as error:
            self._closed.set_exception(error)
            self._closed.exception()  # this call says so; a second one may come or not
            raise
        self._closed.set_result(None)

    async def _end_statements(self, graceful_timeout_s: float) -> None:
        driver = self.driver
        if graceful_timeout_s > 0:
            await driver.idle(graceful_timeout_s)
        driver.ending = is_closing
        until = driver.loop.time() + _CLOSE_PATIENCE_S
        self.sessions.shut()
        while driver.waiting and driver.loop.time() < until:
            if not await driver.idle(_LOOK_AGAIN_S):
                self.sessions.shut()  # again: DuckDB may miss an interrupt that comes too early
        self.sessions.roll_back()
        if driver.waiting:
            logger.error("%d statements did not end when %s was closed", len(driver.waiting), self.path)
