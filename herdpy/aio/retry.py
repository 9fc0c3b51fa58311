"""Running a transaction again when it had bad luck, for tasks. ``herdpy.dbapi.retry`` decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from herdpy.aio.connection import AsyncConnection
from herdpy.aio.pool import AsyncPool
from herdpy.dbapi.errors import Error
from herdpy.dbapi.retry import Attempts, begins_outside
from herdpy.dbapi.rows import R

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
