"""A pool of connections for the tasks of one event loop: its face. Above ``pool_making``.

The rules are ``herdpy.pool``'s. Who asks makes the connection that he may make; what has expired is closed,
and ``min_size`` are kept, by a task that a timer starts when there is something to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from herdpy.aio.connection import AsyncConnection
from herdpy.aio.pool_making import AsyncMaking
from herdpy.dbapi.errors import InterfaceError
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.rows import R, RowFactory, tuple_row
from herdpy.pool import settings
from herdpy.pool.core import Held, PoolRequest, PoolStats
from herdpy.pool.ending import Ending
from herdpy.pool.lent import Lent
from herdpy.pool.settings import PoolSettings


class AsyncPool(AsyncMaking[R], Ending[AsyncConnection[R]]):
    """Connections that are made once and lent many times; for the tasks of the loop that uses it first.

    Nothing is connected until a connection is asked for, or :meth:`open` is awaited. Arguments and errors are
    those of :class:`herdpy.Pool`; ``check``, ``configure`` and ``reset`` are awaited.
    """

    _SHOWN_AS = "herdpy.aio.AsyncPool"

    def __init__(
        self,
        url: str | os.PathLike[str] | None = None,
        min_size: int = 1,
        max_size: int = 10,
        *,
        timeout_s: float = 30.0,
        max_idle_s: float = 600.0,
        max_lifetime_s: float = 3600.0,
        check: Callable[[AsyncConnection[R]], Awaitable[object]] | None = None,
        configure: Callable[[AsyncConnection[R]], Awaitable[object]] | None = None,
        reset: Callable[[AsyncConnection[R]], Awaitable[object]] | None = None,
        autocommit: bool = False,
        row_factory: RowFactory[R] | None = None,
        **options: Any,
    ) -> None:
        place = settings.address(url, {**options, "autocommit": autocommit or None})
        factory: RowFactory[Any] = row_factory or tuple_row
        super().__init__(
            PoolSettings(place, factory, min_size, max_size, timeout_s, max_idle_s, max_lifetime_s),
            Lent(_Nudge(weakref.ref(self))),
            check=check,
            configure=configure,
            reset=reset,
        )
        self._is_bound = False
        self._timer: asyncio.TimerHandle | None = None
        self._tending: asyncio.Task[None] | None = None
        self._pid = os.getpid()

    # Lending.

    @contextlib.asynccontextmanager
    async def connection(self, timeout_s: float | None = None) -> AsyncIterator[AsyncConnection[R]]:
        """``async with pool.connection() as conn:`` lends one for a block.

        The block's end commits, an exception rolls back; the connection goes back to the pool. Raises what
        :meth:`getconn` and ``commit()`` raise.
        """
        connection = await self.getconn(timeout_s)
        try:
            yield connection
            if connection.info.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
                await connection.commit()
        finally:
            await self._give_back(connection, is_expected=True)

    async def getconn(self, timeout_s: float | None = None) -> AsyncConnection[R]:
        """A connection, which must be given to :meth:`putconn`. Who asks first is served first.

        Raises:
            PoolTimeout: 53300, none came back in time.
            PoolClosed: 08003.
            OperationalError: none could be made: 08001 no server leads by then, and its like.
        """
        self._bind()
        deadline = self._loop.time() + self._settings.patience(timeout_s)
        while True:
            held = await self._take(deadline)
            if await self._is_fit(held):
                return held.connection

    async def putconn(self, connection: AsyncConnection[R]) -> None:
        """Give a connection back. What it has not committed is rolled back."""
        self._bind()
        await self._give_back(connection, is_expected=False)

    async def _take(self, deadline: float) -> Held[AsyncConnection[R]]:
        self._settle()
        woken = asyncio.Event()
        ask: PoolRequest[AsyncConnection[R]] = self._core.ask(self._loop.time(), woken.set)
        try:
            if ask.is_in_line:
                try:
                    async with asyncio.timeout_at(deadline):
                        await woken.wait()
                except TimeoutError:
                    if self._core.leave(ask, self._loop.time()):
                        raise self._settings.too_late(len(self._core.line)) from None
        except asyncio.CancelledError:  # what he got meanwhile goes to the next one
            await self._decline(ask)
            raise
        if ask.is_refused:
            raise settings.closed()
        held = ask.held or await self._make(deadline)
        self._settle()
        self._lent.add(held)
        if self._timer is None:
            self._look_again()
        return held

    async def _give_back(self, connection: AsyncConnection[R], *, is_expected: bool) -> None:
        """Make a connection fit for the next one, or close it.

        ``is_expected``: a block has ended, with an exception where a transaction is open.
        """
        self._settle()
        if connection not in self._lent:
            raise settings.foreign()
        if not await self._is_reset(connection, is_expected=is_expected):
            await self._discard(connection)
        elif self._core.put(self._lent.remove(connection), self._loop.time()):
            self._look_again()
        else:
            await self._end(connection)

    # Looking after it.

    async def open(self, timeout_s: float | None = None) -> None:
        """Make ``min_size`` connections now (or one), and say so when one cannot be made, as getconn does."""
        self._bind()
        deadline = self._loop.time() + self._settings.patience(timeout_s)
        async with contextlib.AsyncExitStack() as lent:
            for _ in range(max(1, self._settings.min_size)):
                connection = await self.getconn(max(0.0, deadline - self._loop.time()))
                lent.push_async_callback(self.putconn, connection)

    def stats(self) -> PoolStats:
        """How many connections there are, and what was done with them."""
        if self._is_bound:
            self._settle()
        return self._core.stats()

    def _look_again(self, not_before: float = 0.0) -> None:
        """Have it looked after when the next connection expires, or is missing."""
        core = self._core
        if core.is_closed:
            return
        due = core.next_look()
        if core.size < core.min_size:
            due = min(due, max(not_before, self._loop.time()))
        if self._timer is not None:
            if self._timer.when() <= due and not self._timer.cancelled():
                return
            self._timer.cancel()
        if not math.isinf(due):
            self._timer = self._loop.call_at(due, _tend, weakref.ref(self))

    def _start_tending(self) -> None:
        self._timer = None
        if not self._core.is_closed and (self._tending is None or self._tending.done()):
            self._tending = self._loop.create_task(self._tend())

    async def _tend(self) -> None:
        """Close what has expired, make what is missing."""
        self._settle()
        for held in self._core.expired(self._loop.time()):
            await self._close(held.connection)
        pause_s = 0.0 if await self._fill() else settings.FILL_PAUSE_S
        self._look_again(self._loop.time() + pause_s)

    # The end.

    async def close(self, timeout_s: float = settings.CLOSE_PATIENCE_S) -> int:
        """Lend no more, and close the connections; those that are lent when they come back.

        Waits for these, no longer than ``timeout_s``. Who waits for a connection gets PoolClosed.

        Returns:
            How many were still lent, or being made, then.
        """
        timeout_s = settings.seconds("timeout_s", timeout_s)
        if self._is_forked:
            return 0
        idle = self._core.close()
        if not self._is_bound:
            return 0
        if self._timer is not None:
            self._timer.cancel()
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.wait((self._tending,))
        for held in idle:
            await self._close(held.connection)
        self._settle()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._core.size:
                    self._changed.clear()
                    await self._changed.wait()
        return self._core.size

    async def __aenter__(self) -> Self:
        self._bind()
        self._refuse_closed()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tell_of(await self.close())

    def _abandon(self, idle: list[AsyncConnection[R]]) -> None:
        for connection in idle:
            connection._calls.give_up("its pool was deleted")

    def _bind(self) -> None:
        """It belongs to the loop that uses it first."""
        self._refuse_fork()
        loop = asyncio.get_running_loop()
        if not self._is_bound:
            self._loop, self._is_bound = loop, True
        elif loop is not self._loop:
            raise InterfaceError(
                "the pool belongs to another event loop",
                sqlstate="55000",
                hint="Make one in the loop that uses it; a loop of asyncio.run() ends with it.",
            )


def _tend(pool: weakref.ref[AsyncPool[Any]]) -> None:
    if (there := pool()) is not None:
        there._start_tending()


class _Nudge:
    """Has a pool looked after because a connection was collected; in whatever thread that happened."""

    def __init__(self, pool: weakref.ref[AsyncPool[Any]]) -> None:
        self._pool = pool

    def __call__(self) -> None:
        pool = self._pool()
        if pool is not None and not pool._core.is_closed and not pool._loop.is_closed():
            pool._loop.call_soon_threadsafe(_tend, self._pool)
