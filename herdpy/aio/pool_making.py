"""How a pool for tasks makes connections, judges and gives them up. Below ``pool``.

As ``herdpy.pool.sync_making``, awaited: on one loop the rules need no lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic

from herdpy.aio.calls import opened
from herdpy.aio.connection import AsyncConnection
from herdpy.dbapi.errors import Error
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.rows import R
from herdpy.pool import settings
from herdpy.pool.core import Core, Held, PoolRequest
from herdpy.pool.lent import Lent
from herdpy.pool.settings import PoolSettings, logger

_GIVEN_UP = "the task that gave the connection back to its pool was cancelled"


class AsyncMaking(Generic[R]):
    """The connections of a pool, one by one."""

    _loop: asyncio.AbstractEventLoop

    def __init__(
        self,
        wanted: PoolSettings,
        lent: Lent[AsyncConnection[R]],
        *,
        check: Callable[[AsyncConnection[R]], Awaitable[object]] | None,
        configure: Callable[[AsyncConnection[R]], Awaitable[object]] | None,
        reset: Callable[[AsyncConnection[R]], Awaitable[object]] | None,
    ) -> None:
        self._settings = wanted
        self._core: Core[AsyncConnection[R]] = wanted.core()
        self._lent = lent
        self._changed = asyncio.Event()  # there are fewer connections
        self._check, self._configure, self._reset = check, configure, reset

    # Making.

    async def _make(self, deadline: float) -> Held[AsyncConnection[R]]:
        """Make one that there is leave for. While no server leads, it is tried again until the deadline."""
        pause_s = settings.PAUSE_S
        try:
            while True:
                try:
                    connection = await self._connect(deadline - self._loop.time())
                    break
                except Error as error:
                    may_pass = self._settings.may_pass(error) and not self._core.is_closed
                    if not may_pass or self._loop.time() + pause_s > deadline:
                        raise
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, settings.LONGEST_PAUSE_S)
        except BaseException:
            self._core.counts.failed += 1
            self._lose(lent=False)
            raise
        held = self._core.made(connection, self._loop.time())
        if self._core.is_closed:
            await self._end(connection)
            raise settings.closed()
        return held

    async def _connect(self, left_s: float) -> AsyncConnection[R]:
        calls = await opened(self._settings.connect, left_s)
        connection: AsyncConnection[R] = AsyncConnection(calls)
        try:
            if self._configure is not None:
                await self._configure(connection)
            if settings.is_open(connection.info.transaction_status):
                raise settings.left_open("configure")
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
                connection._calls.give_up(_GIVEN_UP)
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
            connection._calls.give_up(_GIVEN_UP)
            await self._discard(connection)
            raise
        return fit

    async def _is_clean(self, connection: AsyncConnection[R], *, is_counted: bool = False) -> bool:
        """Roll back what is open, and undo what its user changed; False when it is of no use any more."""
        status = connection.info.transaction_status
        if settings.is_open(status):
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
