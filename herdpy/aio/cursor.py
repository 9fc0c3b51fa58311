"""Cursors of asynchronous connections: the blocking cursor's face, awaited.

Statements go to the connection's thread; rows that have come are handed out without it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Self

from herdpy.aio.calls import END
from herdpy.dbapi import arrow
from herdpy.dbapi.cursor import Cursor
from herdpy.dbapi.rows import R, RowFactory
from herdpy.dbapi.types import Column

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    import pyarrow as pa

    from herdpy.aio.connection import AsyncConnection
    from herdpy.dbapi.parameters import Parameters

FEW_ROWS = 200
"""So many rows become Python objects on the loop: that takes less time than a turn of the thread."""


class AsyncCursor(Generic[R]):
    """A cursor; made by :meth:`AsyncConnection.cursor`. For one task at a time.

    Attributes:
        connection: the connection it belongs to.
        lastrowid: always None; use INSERT ... RETURNING.
    """

    __slots__ = ("__weakref__", "_calls", "_cursor", "connection")

    lastrowid = None

    def __init__(self, connection: AsyncConnection[Any], cursor: Cursor[R]) -> None:
        self.connection = connection
        self._calls = connection._calls
        self._cursor = cursor

    # Running statements.

    async def execute(
        self, query: str | bytes, params: Parameters | None = None, *, timeout_s: float | None = None
    ) -> Self:
        """Run a statement; returns the cursor. As :meth:`herdpy.Cursor.execute`."""
        await self._calls.run(self._execute, query, params, timeout_s)
        return self

    def _execute(self, query: str | bytes, params: Parameters | None, timeout_s: float | None) -> None:
        self._cursor.execute(query, params, timeout_s=timeout_s)

    async def executemany(
        self,
        query: str | bytes,
        params_seq: Iterable[Parameters] | AsyncIterable[Parameters],
        *,
        timeout_s: float | None = None,
    ) -> Self:
        """Run a statement once for each of ``params_seq``: atomic, and one group commit."""
        if isinstance(params_seq, AsyncIterable):
            params_seq = [params async for params in params_seq]
        elif isinstance(params_seq, Iterable) and not isinstance(params_seq, Sequence):
            params_seq = list(params_seq)  # here: what it runs may be the loop's
        await self._calls.run(self._executemany, query, params_seq, timeout_s)
        return self

    def _executemany(
        self, query: str | bytes, params_seq: Iterable[Parameters], timeout_s: float | None
    ) -> None:
        self._cursor.executemany(query, params_seq, timeout_s=timeout_s)

    async def callproc(self, procname: str, params: Sequence[object] = ()) -> NoReturn:
        """There are no stored procedures: NotSupportedError."""
        self._cursor.callproc(procname, params)

    def nextset(self) -> bool | None:
        """Step to the result of the next of several statements; None when there is none."""
        return self._cursor.nextset()

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, as PEP 249 allows."""

    async def adbc_ingest(
        self, table_name: str, data: object, mode: arrow.Mode = "create", **options: Any
    ) -> int:
        """Load Arrow data into a table; how many rows. As :meth:`herdpy.Cursor.adbc_ingest`."""
        return await self._calls.run(self._ingest, table_name, data, mode, options)

    def _ingest(self, table_name: str, data: object, mode: arrow.Mode, options: dict[str, Any]) -> int:
        return self._cursor.adbc_ingest(table_name, data, mode, **options)

    # What the last statement answered.

    @property
    def description(self) -> list[Column] | None:
        """A :class:`herdpy.Column` for each column; None when the statement returns no rows."""
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        """Rows returned or changed; -1 when there was no statement, or it does neither."""
        return self._cursor.rowcount

    @property
    def rownumber(self) -> int | None:
        """0-based number of the next row; None without a result."""
        return self._cursor.rownumber

    @property
    def statusmessage(self) -> str | None:
        """PostgreSQL's command tag, such as "INSERT 0 3"."""
        return self._cursor.statusmessage

    @property
    def row_factory(self) -> RowFactory[R]:
        """What makes the rows; it counts for results whose rows nobody has fetched yet."""
        return self._cursor.row_factory

    @row_factory.setter
    def row_factory(self, factory: RowFactory[R]) -> None:
        self._cursor.row_factory = factory

    @property
    def arraysize(self) -> int:
        """How many rows ``fetchmany()`` gives when it is not told."""
        return self._cursor.arraysize

    @arraysize.setter
    def arraysize(self, size: int) -> None:
        self._cursor.arraysize = size

    @property
    def closed(self) -> bool:
        """Whether the cursor was closed."""
        return self._cursor.closed

    # Fetching.

    async def fetchone(self) -> R | None:
        """The next row, or None."""
        if self._is_at_hand():
            return self._cursor.fetchone()
        return await self._calls.run(self._cursor.fetchone)

    async def fetchmany(self, size: int | None = None) -> list[R]:
        """The next ``size`` rows (``arraysize`` when not told), or as many as there are."""
        if self._is_at_hand():
            return self._cursor.fetchmany(size)
        return await self._calls.run(self._cursor.fetchmany, size)

    async def fetchall(self) -> list[R]:
        """All rows that are left."""
        if self._is_at_hand():
            return self._cursor.fetchall()
        return await self._calls.run(self._cursor.fetchall)

    async def scroll(self, value: int, mode: Literal["relative", "absolute"] = "relative") -> None:
        """Move to another row. IndexError (and no move) when it is out of the result."""
        await self._calls.run(self._cursor.scroll, value, mode)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> R:
        if self._is_at_hand():
            row = next(self._cursor, END)
        else:
            row = await self._calls.run(next, self._cursor, END)
        if row is END:
            raise StopAsyncIteration
        return row

    async def fetch_arrow_table(self) -> pa.Table:
        """The rows that are left, as a table."""
        return await self._calls.run(self._cursor.fetch_arrow_table)

    async def fetch_record_batch(self) -> pa.RecordBatchReader:
        """The rows that are left, as a reader of record batches, which are there already."""
        table = await self._calls.run(self._cursor.fetch_arrow_table)
        return table.to_reader()

    async def fetch_df(self) -> pd.DataFrame:
        """The rows that are left, as a pandas DataFrame (pandas must be installed)."""
        return await self._calls.run(self._cursor.fetch_df)

    def _is_at_hand(self) -> bool:
        """Whether rows need neither the server nor much time, so that no thread is asked."""
        self._calls.check()
        cursor = self._cursor
        return cursor._rows is not None or cursor.rowcount <= FEW_ROWS

    # The end.

    async def close(self) -> None:
        """Drop the result. The cursor is of no further use; closing it again does nothing."""
        self._cursor.close()

    async def __aenter__(self) -> Self:
        self._calls.check()
        self._cursor.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.statusmessage or "no result"
        return f"<herdpy.aio.AsyncCursor [{state}] at {id(self):#x}>"
