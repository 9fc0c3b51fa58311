"""Asynchronous connections, cursors and streams: the blocking driver's face, awaited.

    task -> AsyncConnection -> Calls (one at a time) -> Worker (a thread) -> herdpy.Connection

Whatever a connection is and does is the blocking one's; here is what an event loop adds: turns, cancellation,
and that nothing waits on the loop. Statements go to the connection's thread; rows that have come are given
without it. Why it is a thread: docs/decisions/15.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Self, TypeVar, overload

from herdpy.aio.worker import END, Calls
from herdpy.dbapi import arrow
from herdpy.dbapi.connection import Connection, Cursor, ServerCursor, Stream
from herdpy.dbapi.errors import ErrorClasses
from herdpy.dbapi.link import Notice, NoticeHandler, Notification, TransactionStatus
from herdpy.dbapi.server_cursor import ITER_SIZE
from herdpy.dbapi.types import Column, R, RowFactory

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    import pyarrow as pa

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

    def __init__(self, connection: AsyncConnection[Any], calls: Calls, cursor: Cursor[R]) -> None:
        self.connection = connection
        self._calls = calls
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
        """How many rows ``fetchmany()`` gives when no number is given."""
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
        """The next ``size`` rows (``arraysize`` without), or as many as there are."""
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
        return cursor.has_python_rows or cursor.rowcount <= FEW_ROWS

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

    _cursor: ServerCursor[R]  # type: ignore[assignment]

    def __init__(self, connection: AsyncConnection[Any], calls: Calls, cursor: ServerCursor[R]) -> None:
        super().__init__(connection, calls, cursor)  # type: ignore[arg-type]

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
        """The next ``size`` rows (``arraysize`` without), or as many as there are."""
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
        return self._cursor.buffered > 0


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
        if self._stream.buffered:
            self._calls.check()
            return next(self._stream)
        row: Any = await self._calls.run(next, self._stream, END)
        if row is END:
            raise StopAsyncIteration
        return row  # type: ignore[no-any-return]

    async def fetchmany(self, size: int | None = None) -> list[R]:
        """The next rows, as many as are fetched at a time without ``size``."""
        return await self._calls.run(self._stream.fetchmany, size)

    async def fetch_record_batch(self) -> AsyncRecordBatches:
        """The rows that are left, as record batches, which are fetched as they are asked for."""
        return AsyncRecordBatches(self._calls, await self._calls.run(self._stream.fetch_record_batch))


T = TypeVar("T")


class AsyncConnectionInfo:
    """What is known about a connection, under psycopg's names."""

    __slots__ = ("_calls",)

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    @property
    def transaction_status(self) -> TransactionStatus:
        """IDLE, INTRANS, INERROR (only rollback helps), ACTIVE (a statement runs), UNKNOWN once closed."""
        if self._calls.is_closed:
            return TransactionStatus.UNKNOWN
        if self._calls.is_busy:
            return TransactionStatus.ACTIVE
        return self._calls.connection.info.transaction_status

    @property
    def dbname(self) -> str:
        """The directory of the database, or its servers and tablespace."""
        return self._calls.connection.info.dbname


class AsyncConnection(ErrorClasses, Generic[R]):
    """A connection to a database for the tasks of one event loop; made by :func:`herdpy.aio.connect`.

    Tasks may share one: each call waits for the one before it to end, and all are in the same transaction.
    ``async with connection:`` commits at its end, or rolls back when an exception leaves it, and closes the
    connection either way. When a task is cancelled, so is the statement it waits for (57014 on the server).
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    @overload
    def cursor(self) -> AsyncCursor[R]: ...
    @overload
    def cursor(self, *, row_factory: RowFactory[T]) -> AsyncCursor[T]: ...
    @overload
    def cursor(self, name: str, *, scrollable: bool = ..., withhold: bool = ...) -> AsyncServerCursor[R]: ...
    @overload
    def cursor(
        self, name: str, *, row_factory: RowFactory[T], scrollable: bool = ..., withhold: bool = ...
    ) -> AsyncServerCursor[T]: ...
    def cursor(self, name: str | None = None, **options: Any) -> AsyncCursor[Any]:
        """A new cursor; arguments as those of :meth:`herdpy.Connection.cursor`. Not to be awaited."""
        self._calls.check()
        connection = self._calls.connection
        if name is not None:
            return AsyncServerCursor(self, self._calls, connection.cursor(name, **options))
        return AsyncCursor(self, self._calls, connection.cursor(**options))

    async def execute(
        self, query: str | bytes, params: Parameters | None = None, *, timeout_s: float | None = None
    ) -> AsyncCursor[R]:
        """Run a statement in a new cursor, which is returned."""
        return await self.cursor().execute(query, params, timeout_s=timeout_s)

    def stream(
        self,
        query: str | bytes,
        params: Parameters | None = None,
        *,
        size: int = ITER_SIZE,
        row_factory: RowFactory[Any] | None = None,
    ) -> AsyncStream[Any]:
        """The rows of a query as they come: ``async with conn.stream(query) as rows: async for row in rows:``

        As :meth:`herdpy.Connection.stream`.
        """
        self._calls.check()
        stream = self._calls.connection.stream(query, params, size=size, row_factory=row_factory)
        return AsyncStream(self._calls, stream)

    async def commit(self) -> None:
        """End the transaction and keep its work; errors as those of :meth:`herdpy.Connection.commit`.

        Cancelled while it waits, the work may be kept or not.
        """
        await self._calls.run(self._calls.connection.commit, stops=False)

    async def rollback(self) -> None:
        """End the transaction and undo its work. Without a transaction nothing happens."""
        await self._calls.run(self._calls.connection.rollback, stops=False)

    async def close(self) -> None:
        """Close the connection; what was not committed is rolled back. May be called again."""
        await self._calls.close()

    def terminate(self, reason: str = "the connection was terminated") -> None:
        """Close the connection without waiting for it, from any thread: for what cannot await ``close()``.

        Its thread rolls back, closes and ends when it is done with what it runs. Whoever uses it later gets
        InterfaceError with ``reason``.
        """
        self._calls.give_up(reason)

    async def in_thread(self, function: Callable[[Connection[Any]], T]) -> T:
        """What ``function`` returns for the blocking connection, in its thread: several steps in one call."""
        return await self._calls.run(function, self._calls.connection)

    async def cancel(self) -> None:
        """End the statement that another task waits for: that one gets OperationalError 57014."""
        await self._calls.cancel()

    @property
    def row_factory(self) -> RowFactory[R]:
        """What makes the rows of new cursors (``herdpy.rows``)."""
        return self._calls.connection.row_factory

    @row_factory.setter
    def row_factory(self, factory: RowFactory[R]) -> None:
        self._calls.connection.row_factory = factory

    def add_notice_handler(self, handler: NoticeHandler) -> None:
        """Call ``handler``, on the loop, with each :class:`herdpy.Notice` from now on.

        It is called before the statement that caused it returns. An error that it raises is logged.
        """
        self._calls.notices.add(handler)

    def remove_notice_handler(self, handler: NoticeHandler) -> None:
        """Do not call ``handler`` any more. ValueError when it was not added."""
        self._calls.notices.remove(handler)

    async def notifies(
        self, timeout_s: float | None = None, stop_after: int | None = None
    ) -> AsyncIterator[Notification]:
        """The notifications (LISTEN) that come, as they come. Arguments and errors as of the blocking one.

        Other tasks may use the connection meanwhile, and wait for half a second at most.
        """
        heard = self._calls.connection.notifies_in_slices(timeout_s, stop_after)
        while (found := await self._calls.run(next, heard, END, stops=False)) is not END:
            if found is not None:
                yield found

    @property
    def notices(self) -> list[Notice]:
        """The newest notices, at most 50, the oldest first."""
        return list(self._calls.notices.newest)

    @property
    def autocommit(self) -> bool:
        """Whether each statement is its own transaction, but for what BEGIN and COMMIT enclose."""
        return self._calls.connection.autocommit

    async def set_autocommit(self, value: bool) -> None:
        """Change ``autocommit``. ProgrammingError inside a transaction."""
        await self._calls.run(setattr, self._calls.connection, "autocommit", value, stops=False)

    @property
    def closed(self) -> bool:
        """Whether the connection was closed, or given up after a statement that would not end."""
        return self._calls.is_closed

    @property
    def info(self) -> AsyncConnectionInfo:
        """Status and name of the connection."""
        return AsyncConnectionInfo(self._calls)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """``async with connection.transaction():`` makes the block one transaction.

        Its end commits, an exception (also that of a task that is cancelled) rolls back and goes on. Within a
        transaction the block is a savepoint. Do not commit or roll back inside.
        """
        block = self._calls.connection.transaction()
        await self._calls.run(block.__enter__)
        try:
            yield self
        except BaseException as error:
            if not self.closed:
                await self._calls.run(block.__exit__, type(error), error, error.__traceback__, stops=False)
            raise
        await self._calls.run(block.__exit__, None, None, None, stops=False)

    async def __aenter__(self) -> Self:
        self._calls.check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.closed:
            return
        try:
            if kind is None:
                await self.commit()
            else:
                await self.rollback()
        finally:
            await self.close()

    def __del__(self) -> None:
        if (calls := getattr(self, "_calls", None)) is not None:
            calls.forget(repr(self))

    def __repr__(self) -> str:
        state = "closed" if self.closed else self.info.transaction_status.name
        return f"<herdpy.aio.AsyncConnection {self.info.dbname!r} [{state}] at {id(self):#x}>"
