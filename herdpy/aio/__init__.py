"""The driver for asyncio: ``herdpy.connect`` and what it gives, awaited.

    async with herdpy.aio.connect("herdpy://db1,db2,db3/shop") as conn:
        cursor = await conn.execute("SELECT name FROM item WHERE id = %s", (1,))
        print(await cursor.fetchone())

Layer: on top of ``herdpy.dbapi``, whose blocking connections it runs in threads, one for each
(docs/decisions/15).
"""

from __future__ import annotations

import os
from collections.abc import Generator
from types import TracebackType
from typing import Any, Generic

from herdpy import dbapi
from herdpy.aio.connection import (
    AsyncConnection,
    AsyncConnectionInfo,
    AsyncCursor,
    AsyncRecordBatches,
    AsyncServerCursor,
    AsyncStream,
)
from herdpy.aio.pool import AsyncPool, run_transaction
from herdpy.aio.worker import opened
from herdpy.dbapi.types import R, RowFactory, tuple_row


class Connecting(Generic[R]):
    """A connection that is about to be made: await it, or use it in ``async with``."""

    def __init__(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        self._arguments = arguments
        self._options = options
        self._connection: AsyncConnection[R] | None = None

    def __await__(self) -> Generator[Any, Any, AsyncConnection[R]]:
        return self._connect().__await__()

    async def _connect(self) -> AsyncConnection[R]:
        return AsyncConnection(await opened(dbapi.connect, *self._arguments, **self._options))

    async def __aenter__(self) -> AsyncConnection[R]:
        self._connection = await self._connect()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._connection is not None
        await self._connection.__aexit__(kind, error, trace)


def connect(
    url: str | os.PathLike[str] | None = None,
    autocommit: bool = False,
    *,
    row_factory: RowFactory[R] = tuple_row,  # type: ignore[assignment]
    **options: Any,
) -> Connecting[R]:
    """Connect as :func:`herdpy.connect` does, for the tasks of the running loop.

    ``await`` it, or use it in ``async with``, which commits (or rolls back) and closes at its end.
    """
    return Connecting((url, autocommit), {"row_factory": row_factory, **options})


__all__ = [
    "AsyncConnection",
    "AsyncConnectionInfo",
    "AsyncCursor",
    "AsyncPool",
    "AsyncRecordBatches",
    "AsyncServerCursor",
    "AsyncStream",
    "Connecting",
    "connect",
    "run_transaction",
]
