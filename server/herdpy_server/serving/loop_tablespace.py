"""A tablespace whose sessions run on one loop, from its opening to its close: alone and as a replica.

Above ``driver``, below ``database`` and ``replica``. Who opens the store makes the ``TablespaceHost``. All
else is the same: the checkpointer reports to the loop, and a close ends what uses the store before it.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Event, Future
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import TypeVar

from herdpy_server.serving.driver import Driver, LoopSessions, SessionContext
from herdpy_server.tablespace_host import TablespaceHost
from herdpy_server.workers.scheduler import WorkerSettings
from herdpy_sql.errors import SqlError

T = TypeVar("T")


async def opened_in_thread(
    loop: AbstractEventLoop, threads: Executor | None, open_it: Callable[[], T], close: Callable[[T], object]
) -> T:
    """What ``open_it`` opens in a thread; who is cancelled meanwhile leaves nothing open.

    A thread opens to the end. So a cancel waits for it and for ``close``, which is called in a thread, too.
    """
    opening = loop.run_in_executor(threads, open_it)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        await asyncio.shield(loop.create_task(_close_when_open(loop, threads, opening, close)))
        raise


async def _close_when_open(
    loop: AbstractEventLoop, threads: Executor | None, opening: Future[T], close: Callable[[T], object]
) -> None:
    await asyncio.wait([opening])
    if opening.exception() is None:
        await loop.run_in_executor(threads, close, opening.result())


class Uses:
    """Who reads a store outside of sessions, and how they are made to let go. For the loop's thread."""

    def __init__(self) -> None:
        self._users: dict[object, Callable[[], object]] = {}
        self._left = Event()
        self._is_over = False

    def enter(self, give_up: Callable[[], object]) -> Callable[[], None]:
        """Use the store until what is returned is called.

        Args:
            give_up: called when the store is to be closed: let go of it soon.

        Raises:
            SqlError: 57P03, it is being closed.
        """
        if self._is_over:
            raise SqlError("57P03", "the tablespace is being closed here", hint="Try again soon.")
        user = object()
        self._users[user] = give_up

        def leave() -> None:
            self._users.pop(user, None)
            self._left.set()

        return leave

    async def end(self) -> None:
        """Let nobody in any more; return when all have left."""
        self._is_over = True
        for give_up in list(self._users.values()):
            give_up()
        while self._users:
            self._left.clear()
            await self._left.wait()


class LoopTablespace:
    """See the module. Everything but :meth:`checkpoint_ended` is for the loop's thread.

    Attributes:
        host: the tablespace with its store and checkpointer.
        sessions: the sessions that somebody holds.
        uses: who reads the store besides; closing waits for them.
        on_checkpoint: called on the loop after each checkpoint, and each failure of one.

    Args:
        context, workers: see ``LoopSessions``.
        threads: where the store is closed; None: in the loop's executor.
    """

    def __init__(
        self,
        host: TablespaceHost,
        driver: Driver,
        context: SessionContext,
        workers: WorkerSettings | None,
        threads: Executor | None = None,
    ) -> None:
        self.host = host
        self.sessions = LoopSessions(host, driver, context, workers)
        self.uses = Uses()
        self.on_checkpoint: Callable[[], object] = lambda: None
        self._loop = driver.loop
        self._threads = threads

    def checkpoint_ended(self) -> None:
        """A checkpoint was made, or failed: what ``TablespaceHost.start`` is given. From any thread."""
        self._loop.call_soon_threadsafe(self._checkpointed)

    def _checkpointed(self) -> None:
        self.on_checkpoint()
        self.host.let_writers_in()

    async def close(
        self, error: SqlError, statements_ended: Awaitable[None], close_store: Callable[[], None]
    ) -> None:
        """End the statements, then what else uses the store, then the store.

        Args:
            error: for who waits for a worker process.
            statements_ended: ends the statements and rolls transactions back.
            close_store: called in a thread.

        Raises:
            LogError, OSError: as ``close_store``.
        """
        await statements_ended
        await self.uses.end()
        await self.sessions.close_workers(error)
        await self._loop.run_in_executor(self._threads, close_store)
