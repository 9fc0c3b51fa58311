"""Cursors by name and streams of asynchronous connections: rows come as they are asked for.

Beside ``cursor``. What is in the buffer is handed out on the loop; the thread fetches more.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self

from herdpy.aio.calls import END, Calls
from herdpy.aio.cursor import AsyncCursor
from herdpy.dbapi.rows import R
from herdpy.dbapi.server_cursor import ServerCursor
from herdpy.dbapi.stream import Stream
from herdpy.dbapi.types import Column

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.aio.connection import AsyncConnection


class AsyncRecordBatches:
    """Record batches that are fetched as they are asked for: ``async for batch in batches``.

    Attributes:
        schema: of each of them.
    """

    def __init__(self, calls: Calls, reader: pa.RecordBatchReader) -> None:
        self.schema: pa.Schema = reader.schema
        self._calls = calls
        self._reader = reader

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        batch: Any = await self._calls.run(next, self._reader, END)
        if batch is END:
            raise StopAsyncIteration
        return batch  # type: ignore[no-any-return]


class AsyncServerCursor(AsyncCursor[R]):
    """A cursor by name; made by ``connection.cursor(name=...)``. As :class:`herdpy.ServerCursor`, awaited."""

    __slots__ = ()

    _cursor: ServerCursor[R]

    def __init__(self, connection: AsyncConnection[Any], cursor: ServerCursor[R]) -> None:
        super().__init__(connection, cursor)  # type: ignore[arg-type]

    @property
    def name(self) -> str:
        """Its name on the server, which SQL can use too."""
        return self._cursor.name

    @property
    def scrollable(self) -> bool:
        """Whether it can go back."""
        return self._cursor.scrollable

    @property
    def withhold(self) -> bool:
        """Whether it lives on after its transaction was committed."""
        return self._cursor.withhold

    @property
    def itersize(self) -> int:
        """How many rows are asked for at a time by ``fetchone()`` and iteration."""
        return self._cursor.itersize

    @itersize.setter
    def itersize(self, size: int) -> None:
        self._cursor.itersize = size

    async def executemany(self, query: str | bytes, params_seq: object, **_options: Any) -> NoReturn:
        """A cursor of the server is for one query: InterfaceError."""
        self._cursor.executemany(query, params_seq)

    async def fetchmany(self, size: int | None = None) -> list[R]:
        """The next ``size`` rows (``arraysize`` when not told), or as many as there are."""
        return await self._calls.run(self._cursor.fetchmany, size)

    async def fetchall(self) -> list[R]:
        """All rows that are left, at once in memory."""
        return await self._calls.run(self._cursor.fetchall)

    async def fetch_record_batch(self) -> AsyncRecordBatches:  # type: ignore[override]
        """The rows that are left, ``itersize`` at a time, when they are asked for."""
        return AsyncRecordBatches(self._calls, await self._calls.run(self._cursor.fetch_record_batch))

    async def close(self) -> None:
        """Give the cursor up, on the server too. Closing it again does nothing."""
        if not self._cursor.closed and not self._calls.is_closed:
            await self._calls.run(self._cursor.close, stops=False)

    def _is_at_hand(self) -> bool:
        self._calls.check()
        cursor = self._cursor
        return cursor._next < len(cursor._buffer)


class AsyncStream(Generic[R]):
    """What ``connection.stream(query)`` gives: ``async with`` it, and within that ``async for`` its rows."""

    def __init__(self, calls: Calls, stream: Stream[R]) -> None:
        self._calls = calls
        self._stream = stream

    @property
    def description(self) -> list[Column] | None:
        """A :class:`herdpy.Column` for each column; None outside the block."""
        return self._stream.description

    async def __aenter__(self) -> Self:
        await self._calls.run(self._stream.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._calls.is_closed:
            await self._calls.run(self._stream.__exit__, kind, error, trace, stops=False)

    def __aiter__(self) -> Self:
        iter(self._stream)  # says so when this is not within its block
        return self

    async def __anext__(self) -> R:
        cursor = self._stream._cursor
        if cursor._next < len(cursor._buffer):
            self._calls.check()
            return next(self._stream)
        row: Any = await self._calls.run(next, self._stream, END)
        if row is END:
            raise StopAsyncIteration
        return row  # type: ignore[no-any-return]

    async def fetchmany(self, size: int | None = None) -> list[R]:
        """The next rows, as many as are fetched at a time when ``size`` is not told."""
        return await self._calls.run(self._stream.fetchmany, size)

    async def fetch_record_batch(self) -> AsyncRecordBatches:
        """The rows that are left, as record batches, which are fetched as they are asked for."""
        return AsyncRecordBatches(self._calls, await self._calls.run(self._stream.fetch_record_batch))
