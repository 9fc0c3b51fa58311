"""A pool of connections for the tasks of one event loop, and transactions that run again. The top of ``aio``.

The rules are ``herdpy.pool``'s and ``herdpy.dbapi.retry``'s; on one loop they need no lock. What has
expired is closed, and ``min_size`` are kept, by a task that a timer starts when there is something to do.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from herdpy.aio.connection import AsyncConnection
from herdpy.aio.worker import opened
from herdpy.backoff import Backoff
from herdpy.dbapi.errors import Error, InterfaceError
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.retry import Attempts, begins_outside
from herdpy.dbapi.types import R, RowFactory, tuple_row
from herdpy.pool import core
from herdpy.pool.core import Core, Held, Lent, PoolEnd, PoolRequest, PoolSettings, PoolStats, logger

_GIVEN_UP = "the task that gave the connection back to its pool was cancelled"


class AsyncPool(PoolEnd[AsyncConnection[R]]):
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
        place = core.pool_address(url, {**options, "autocommit": autocommit or None})
        factory: RowFactory[Any] = row_factory or tuple_row
        self._settings = PoolSettings(
            place, factory, min_size, max_size, timeout_s, max_idle_s, max_lifetime_s
        )
        self._core: Core[AsyncConnection[R]] = self._settings.core()
        self._lent: Lent[AsyncConnection[R]] = Lent(_Nudge(weakref.ref(self)))
        self._changed = asyncio.Event()  # there are fewer connections
        self._check, self._configure, self._reset = check, configure, reset
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
            raise core.closed_error()
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
            raise core.foreign_error()
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
        pause_s = 0.0 if await self._fill() else core.FILL_PAUSE_S
        self._look_again(self._loop.time() + pause_s)

    # Making.

    async def _make(self, deadline: float) -> Held[AsyncConnection[R]]:
        """Make one that there is leave for. While no server leads, it is tried again until the deadline."""
        backoff = Backoff(core.PAUSE_S, core.LONGEST_PAUSE_S)
        try:
            while True:
                try:
                    connection = await self._connect(deadline - self._loop.time())
                    break
                except Error as error:
                    may_pass = self._settings.may_pass(error) and not self._core.is_closed
                    if not may_pass or self._loop.time() + backoff.next_s > deadline:
                        raise
                await asyncio.sleep(backoff.pause_s())
        except BaseException:
            self._core.counts.failed += 1
            self._lose(lent=False)
            raise
        held = self._core.made(connection, self._loop.time())
        if self._core.is_closed:
            await self._end(connection)
            raise core.closed_error()
        return held

    async def _connect(self, left_s: float) -> AsyncConnection[R]:
        calls = await opened(self._settings.connect, left_s)
        connection: AsyncConnection[R] = AsyncConnection(calls)
        try:
            if self._configure is not None:
                await self._configure(connection)
            if core.is_open(connection.info.transaction_status):
                raise core.left_open_error("configure")
        except BaseException:
            calls.give_up(_GIVEN_UP)
            raise
        return connection

    async def _fill(self) -> bool:
        """Make as many as there should be at least. False when one could not be made."""
        while self._core.may_fill():
            try:
                connection = await self._connect(self._settings.timeout_s)
            except BaseException as error:
                self._core.counts.failed += 1
                self._lose(lent=False)
                if not isinstance(error, Exception):
                    raise
                logger.warning("a connection could not be made: %s", error)
                return False
            now = self._loop.time()
            if not self._core.put(self._core.made(connection, now), now):
                await self._end(connection)
        return True

    async def _decline(self, ask: PoolRequest[AsyncConnection[R]]) -> None:
        """Who asked does not want it any more."""
        now = self._loop.time()
        if ask.is_in_line:
            self._core.leave(ask, now)
        elif ask.may_make:
            self._lose(lent=False)
        elif ask.held is not None and not self._core.put(ask.held, now):
            await self._end(ask.held.connection)

    # Judging.

    async def _is_fit(self, held: Held[AsyncConnection[R]]) -> bool:
        """Whether a connection can be lent. Otherwise it is given up."""
        connection = held.connection
        fit = not connection.closed
        if fit and self._check is not None and not held.is_new:
            try:
                await self._check(connection)
                fit = await self._is_clean(connection)
            except Error as error:
                logger.info("a connection did not pass its check: %s", error)
                fit = False
            except BaseException:
                connection.terminate(_GIVEN_UP)
                await self._discard(connection)
                raise
        if not fit:
            await self._discard(connection)
        return fit

    async def _is_reset(self, connection: AsyncConnection[R], *, is_expected: bool) -> bool:
        """Whether a connection that came back can be lent again."""
        try:
            fit = not connection.closed and await self._is_clean(connection, is_counted=not is_expected)
            if fit and self._reset is not None:
                await self._reset(connection)
                fit = await self._is_clean(connection)
        except Exception as error:  # noqa: BLE001 - his who gave it back it is no longer
            logger.warning("a connection that came back is closed", exc_info=error)
            return False
        except BaseException:
            connection.terminate(_GIVEN_UP)
            await self._discard(connection)
            raise
        return fit

    async def _is_clean(self, connection: AsyncConnection[R], *, is_counted: bool = False) -> bool:
        """Roll back what is open, and undo what its user changed; False when it is of no use any more."""
        status = connection.info.transaction_status
        if core.is_open(status):
            self._core.counts.rolled_back += is_counted
            await connection.rollback()
            status = connection.info.transaction_status
        if status != TransactionStatus.IDLE:
            return False
        if connection.autocommit != self._settings.address.autocommit:
            await connection.set_autocommit(self._settings.address.autocommit)
        connection.row_factory = self._settings.row_factory
        return True

    # Giving up.

    async def _discard(self, connection: AsyncConnection[R]) -> None:
        """It is of no use: the next in line makes another."""
        self._lent.remove(connection)
        self._core.counts.broken += 1
        await self._end(connection)

    async def _end(self, connection: AsyncConnection[R]) -> None:
        """Close one that was lent."""
        try:
            await self._close(connection)
        finally:
            self._lose(lent=True)

    async def _close(self, connection: AsyncConnection[Any]) -> None:
        try:
            await connection.close()
        except Error as error:
            logger.warning("a connection could not be closed well: %s", error)

    def _settle(self) -> None:
        """Connections that were forgotten are no more."""
        if forgotten := self._lent.forgotten():
            self._core.settle(forgotten, self._loop.time())
            self._changed.set()

    def _lose(self, *, lent: bool) -> None:
        """One is no more."""
        self._core.lost(self._loop.time(), lent=lent)
        self._changed.set()

    # The end.

    async def close(self, timeout_s: float = core.CLOSE_PATIENCE_S) -> int:
        """Lend no more, and close the connections; those that are lent when they come back.

        Waits for these, no longer than ``timeout_s``. Who waits for a connection gets PoolClosed.

        Returns:
            How many were still lent, or being made, then.
        """
        timeout_s = core.seconds_of("timeout_s", timeout_s)
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
        self._warn_of(await self.close())

    def _abandon(self, idle: list[AsyncConnection[R]]) -> None:
        for connection in idle:
            connection.terminate("its pool was deleted")

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


T = TypeVar("T")


async def run_transaction(
    where: AsyncConnection[R] | AsyncPool[R],
    function: Callable[[AsyncConnection[R]], Awaitable[T]],
    *,
    attempts: int | None = None,
    timeout_s: float = 60.0,
) -> T:
    """Await ``function(connection)`` as one transaction, and again as long as that may help.

    As :func:`herdpy.run_transaction`.
    """
    tries = Attempts(attempts, timeout_s)
    while True:
        try:
            if isinstance(where, AsyncConnection):
                return await _once(where, function)
            connection = await where.getconn()
            try:
                return await _once(connection, function)
            finally:
                await where.putconn(connection)
        except Error as error:
            if isinstance(where, AsyncConnection) and where.closed:
                raise
            pause_s = tries.pause(error)
        await asyncio.sleep(pause_s)


async def _once(connection: AsyncConnection[R], function: Callable[[AsyncConnection[R]], Awaitable[T]]) -> T:
    begins_outside(connection)
    if connection.autocommit:
        async with connection.transaction():
            return await function(connection)
    try:
        answer = await function(connection)
    except BaseException:
        if not connection.closed:
            await connection.rollback()
        raise
    await connection.commit()
    return answer
