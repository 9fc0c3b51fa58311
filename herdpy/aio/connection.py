"""Asynchronous connections: the blocking connection's face, awaited.

    task -> AsyncConnection -> Calls (one at a time) -> Worker (a thread) -> herdpy.Connection

Whatever a connection is and does is the blocking one's; here is what an event loop adds: turns, cancellation,
and that nothing waits on the loop. Why it is a thread: docs/decisions/15.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from herdpy.aio.calls import Calls
from herdpy.aio.cursor import AsyncCursor
from herdpy.aio.server_cursor import AsyncServerCursor, AsyncStream
from herdpy.dbapi.error_classes import ErrorClasses
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.notices import Notice, NoticeHandler
from herdpy.dbapi.rows import R, RowFactory
from herdpy.dbapi.server_answer import ITER_SIZE

if TYPE_CHECKING:
    from herdpy.dbapi.parameters import Parameters

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
            return AsyncServerCursor(self, connection.cursor(name, **options))
        return AsyncCursor(self, connection.cursor(**options))

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

    def terminate(self) -> None:
        """Close the connection without waiting for it, from any thread: for what cannot await ``close()``.

        Its thread rolls back, closes and ends when it is done with what it runs.
        """
        self._calls.give_up("the connection was terminated")

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
