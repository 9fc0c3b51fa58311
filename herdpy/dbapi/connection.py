"""Connections, and the cursors and streams that they make: what programs see of the driver.

A connection is a :class:`SharedLink`, which its cursors share, with transactions and their ends. Below are
``cursor`` and ``server_cursor``, which do a cursor's work.
"""

from __future__ import annotations

import contextlib
import itertools
import time
import warnings
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast, overload

from herdpy.dbapi.cursor import ResultCursor
from herdpy.dbapi.errors import ErrorClasses, InternalError, ProgrammingError
from herdpy.dbapi.link import (
    Link,
    Notice,
    NoticeHandler,
    Notification,
    SharedLink,
    TransactionStatus,
    abandon,
    register_closed,
    register_open,
)
from herdpy.dbapi.server_cursor import ITER_SIZE, PortalCursor
from herdpy.dbapi.types import Column, R, RowFactory, tuple_row

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.dbapi.parameters import Parameters


class ConnectionInfo:
    """What is known about a connection, under psycopg's names."""

    __slots__ = ("_shared",)

    def __init__(self, shared: SharedLink) -> None:
        self._shared = shared

    @property
    def transaction_status(self) -> TransactionStatus:
        """IDLE, INTRANS, INERROR (only rollback helps), or UNKNOWN once closed."""
        return self._shared.link.status()

    @property
    def commit_position(self) -> str | None:
        """The position of the connection's newest commit in the log ("12:345"), as reported by a server.

        None: there was none, or the database is in a directory.
        """
        return getattr(self._shared.link, "commit_position", None)

    @property
    def dbname(self) -> str:
        """The directory of the database."""
        return self._shared.name


T = TypeVar("T")

_SLICE_S = 0.5
_numbers = itertools.count(1)  # of streams


class Cursor(ResultCursor[R]):
    """A cursor; made by :meth:`Connection.cursor`. For one thread at a time.

    Attributes:
        connection: the connection it belongs to.
        arraysize: how many rows ``fetchmany()`` gives without a number.
        row_factory: what makes the rows; it counts for results whose rows nobody has fetched yet.
        lastrowid: always None; use INSERT ... RETURNING.
    """

    __slots__ = ()

    connection: Connection[Any]


class ServerCursor(PortalCursor[R]):
    """A cursor by name; made by ``connection.cursor(name=...)``. For one thread at a time.

    Attributes:
        connection: the connection it belongs to.
        name: its name on the server, which SQL can use too.
        arraysize: how many rows ``fetchmany()`` gives without a number.
        itersize: how many rows are asked for at a time by ``fetchone()`` and iteration; what is in memory at
            once.
        row_factory: what makes the rows.
        scrollable: whether it can go back; then the server keeps what was passed.
        withhold: whether it lives on after its transaction was committed; then all rows are read at once, by
            the server, which keeps them.
        rowcount: always -1: how many rows there are is not known.
    """

    __slots__ = ()

    connection: Connection[Any]


class Stream(Generic[R]):
    """What ``connection.stream(query)`` gives: a context manager, and within it an iterator of rows."""

    def __init__(
        self,
        connection: Connection[Any],
        query: str | bytes,
        params: Parameters | None,
        size: int,
        row_factory: RowFactory[R],
    ) -> None:
        if size < 1:
            raise ProgrammingError(f"size is a number of rows, at least 1, not {size}", sqlstate="22023")
        self._connection = connection
        self._query = query
        self._params = params
        self._cursor = connection.cursor(f"herdpy_stream_{next(_numbers)}", row_factory=row_factory)
        self._cursor.itersize = size
        self._is_entered = False
        self._own = False

    @property
    def description(self) -> list[Column] | None:
        """A :class:`Column` for each column; None outside the block."""
        return self._cursor.description

    def __enter__(self) -> Self:
        if self._is_entered:
            raise ProgrammingError("a stream can be read once: open another")
        connection = self._connection
        connection.check_open()
        self._is_entered = True
        self._cursor.end_with_cancel()
        if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
            connection.execute("BEGIN READ ONLY")
            self._own = True
        try:
            self._cursor.execute(self._query, self._params)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._cursor.close()
        finally:
            self._end()

    def _end(self) -> None:
        if self._own and not self._connection.closed:
            self._connection.rollback()
        self._own = False

    def __iter__(self) -> Iterator[R]:
        """The cursor, whose rows these are."""
        if not self._is_entered:
            raise ProgrammingError(
                "rows of a stream are read within its block",
                hint="with connection.stream(query) as rows: for row in rows: ...",
            )
        return self._cursor

    def __next__(self) -> R:
        return next(self._cursor)

    @property
    def buffered(self) -> int:
        """How many rows were fetched and not given yet."""
        return self._cursor.buffered

    def fetchmany(self, size: int | None = None) -> list[R]:
        """The next rows, as many as are fetched at a time without ``size``."""
        return self._cursor.fetchmany(self._cursor.itersize if size is None else size)

    def fetch_record_batch(self) -> pa.RecordBatchReader:
        """The rows that are left, as a reader of record batches, which are fetched as they are read."""
        return self._cursor.fetch_record_batch()


class Connection(ErrorClasses, Generic[R]):
    """A connection to a database; made by :func:`herdpy.connect`.

    Threads may share one: each call waits for the one before it to end, and all are in the same
    transaction. ``with connection:`` commits at its end, or rolls back when an exception leaves
    it, and closes the connection either way, as psycopg does.

    Attributes:
        row_factory: what makes the rows of new cursors (``herdpy.rows``).
        shared_link: the session underneath, for parts of HerdPy above the driver; no program needs it.
    """

    def __init__(self, link: Link, name: str, row_factory: RowFactory[R] | None = None) -> None:
        self.shared_link = SharedLink(link, name)
        self.row_factory: RowFactory[R] = row_factory or cast("RowFactory[R]", tuple_row)
        self._savepoints = 0
        register_open(self.shared_link)

    @overload
    def cursor(self) -> Cursor[R]: ...
    @overload
    def cursor(self, *, row_factory: RowFactory[T]) -> Cursor[T]: ...
    @overload
    def cursor(self, name: str, *, scrollable: bool = ..., withhold: bool = ...) -> ServerCursor[R]: ...
    @overload
    def cursor(
        self, name: str, *, row_factory: RowFactory[T], scrollable: bool = ..., withhold: bool = ...
    ) -> ServerCursor[T]: ...
    def cursor(
        self,
        name: str | None = None,
        *,
        row_factory: RowFactory[Any] | None = None,
        scrollable: bool = False,
        withhold: bool = False,
    ) -> Cursor[Any] | ServerCursor[Any]:
        """A new cursor. InterfaceError when the connection is closed.

        Args:
            name: makes it a :class:`ServerCursor`, whose rows come as they are asked for.
            row_factory: what makes its rows; without, the connection's.
            scrollable: a cursor of the server can go back.
            withhold: it lives on after its transaction was committed.
        """
        self.check_open()
        factory = row_factory or self.row_factory
        if name is not None:
            return ServerCursor(
                self, self.shared_link, name, factory, scrollable=scrollable, withhold=withhold
            )
        return Cursor(self, self.shared_link, factory)

    def execute(
        self,
        query: str | bytes,
        params: Parameters | None = None,
        *,
        timeout_s: float | None = None,
        arrow: bool = False,
    ) -> Cursor[R]:
        """Run a statement in a new cursor, which is returned. See ``Cursor.execute``."""
        return Cursor(self, self.shared_link, self.row_factory).execute(
            query, params, timeout_s=timeout_s, arrow=arrow
        )

    def stream(
        self,
        query: str | bytes,
        params: Parameters | None = None,
        *,
        size: int = ITER_SIZE,
        row_factory: RowFactory[Any] | None = None,
    ) -> Stream[Any]:
        """The rows of a query as they come: ``with conn.stream(query) as rows: for row in rows: ...``

        Rows are fetched ``size`` at a time, and no more of them are made or held anywhere. The connection may
        be used for other statements within the block, but not for the end of the transaction. With autocommit
        and outside BEGIN the block is a transaction that can only read.

        Args:
            row_factory: what makes the rows; without, the connection's.
        """
        return Stream(self, query, params, size, row_factory or self.row_factory)

    def commit(self) -> None:
        """End the transaction and keep its work; once this returns, it is durable.

        Without a transaction nothing happens.

        Raises:
            InternalError: 25P02, a statement of the transaction had failed: it was rolled back.
                (The statement COMMIT does the same without a word, as in PostgreSQL.)
            OperationalError: what became of the work is in its ``outcome``: with "unknown" (08007)
                it may have been kept or not.
        """
        with self.shared_link.lock:
            link = self.shared_link.link
            if link.status() == TransactionStatus.INERROR:
                link.rollback()
                raise InternalError(
                    "the transaction had failed: it was rolled back, not committed", sqlstate="25P02"
                )
            link.commit()
        if self.shared_link.said:
            self.shared_link.deliver_notices()

    def rollback(self) -> None:
        """End the transaction and undo its work. Without a transaction nothing happens."""
        with self.shared_link.lock:
            self.shared_link.link.rollback()

    def close(self) -> None:
        """Close the connection; what was not committed is rolled back. May be called again."""
        try:
            self.shared_link.close()
        finally:
            register_closed(self.shared_link)

    def cancel(self) -> None:
        """End the statement that another thread runs here: it gets OperationalError 57014.

        A stream ends, too: who reads it gets the error with its next rows that were not fetched yet.
        """
        self.shared_link.cancel()

    def add_notice_handler(self, handler: NoticeHandler) -> None:
        """Call ``handler`` with each :class:`Notice` that the database sends from now on.

        It is called after the statement, in the thread that ran it. An error that it raises is logged.
        ``SET client_min_messages`` says which notices are sent.
        """
        self.shared_link.notices.add(handler)

    def remove_notice_handler(self, handler: NoticeHandler) -> None:
        """Do not call ``handler`` any more. ValueError when it was not added."""
        self.shared_link.notices.remove(handler)

    def notifies(
        self, timeout_s: float | None = None, stop_after: int | None = None
    ) -> Iterator[Notification]:
        """The notifications (LISTEN) that come, as they come; one may wait for them in a loop of its own.

        Other threads may use the connection meanwhile, and wait for half a second at most.

        Args:
            timeout_s: end after so long; 0: give those that are there. None: never.
            stop_after: end after so many notifications. None: never.

        Raises:
            OperationalError: 53400, too many waited, and were lost; or the connection was lost.
        """
        return (found for found in self.notifies_in_slices(timeout_s, stop_after) if found is not None)

    def notifies_in_slices(
        self, timeout_s: float | None, stop_after: int | None
    ) -> Iterator[Notification | None]:
        """As :meth:`notifies`, with None whenever half a second or less has passed without one."""
        shared = self.shared_link
        count = 0
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while stop_after is None or count < stop_after:
            left_s = _SLICE_S if until_s is None else max(until_s - time.monotonic(), 0.0)
            with shared.lock:
                found = shared.link.take_notification(min(left_s, _SLICE_S))
            if found is not None:
                count += 1
                yield found
            elif until_s is not None and time.monotonic() >= until_s:
                return
            else:
                yield None

    @property
    def notices(self) -> list[Notice]:
        """The newest notices, at most 50, the oldest first."""
        return list(self.shared_link.notices.newest)

    @property
    def autocommit(self) -> bool:
        """Whether each statement is its own transaction, but for what BEGIN and COMMIT enclose.

        Setting it inside a transaction raises ProgrammingError.
        """
        return self.shared_link.link.autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        with self.shared_link.lock:
            self.check_open()
            status = self.shared_link.link.status()
            if status != TransactionStatus.IDLE:
                raise ProgrammingError(
                    f"autocommit cannot change within a transaction (status {status.name})",
                    sqlstate="25001",
                    hint="Commit or roll back first.",
                )
            self.shared_link.link.autocommit = bool(value)

    @property
    def closed(self) -> bool:
        """Whether the connection was closed."""
        return self.shared_link.is_closed

    @property
    def info(self) -> ConnectionInfo:
        """Status and name of the connection."""
        return ConnectionInfo(self.shared_link)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """``with connection.transaction():`` makes the block one transaction, as psycopg does.

        Its end commits, an exception rolls back and goes on. Within a transaction the block is a
        savepoint: an exception undoes the block alone. Do not commit or roll back inside.
        """
        with self.shared_link.lock:
            outermost = self.shared_link.link.status() == TransactionStatus.IDLE
            self._savepoints += 1
            name = f"_herdpy_{self._savepoints}"
        cursor = self.cursor()
        cursor.execute("BEGIN" if outermost else f"SAVEPOINT {name}")
        try:
            yield self
        except BaseException:
            if not self.shared_link.is_closed:
                if outermost:
                    self.rollback()
                else:
                    cursor.execute(f"ROLLBACK TO SAVEPOINT {name}")
                    cursor.execute(f"RELEASE SAVEPOINT {name}")
            raise
        if outermost:
            self.commit()
        else:
            cursor.execute(f"RELEASE SAVEPOINT {name}")

    def check_open(self) -> None:
        """InterfaceError when the connection is closed."""
        if self.shared_link.is_closed:
            self.shared_link.refuse()

    def __enter__(self) -> Self:
        self.check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.shared_link.is_closed:
            return
        try:
            if kind is None:
                self.commit()
            else:
                self.rollback()
        finally:
            self.close()

    def __del__(self, _warn: Any = warnings.warn) -> None:
        shared = getattr(self, "shared_link", None)
        if shared is None or shared.is_closed:
            return
        shown = repr(self)
        shared.is_closed = True
        abandon(shared.link)
        _warn(f"{shown} was deleted without being closed", ResourceWarning)

    def __repr__(self) -> str:
        state = "closed" if self.shared_link.is_closed else self.shared_link.link.status().name
        return f"<herdpy.Connection {self.shared_link.name!r} [{state}] at {id(self):#x}>"
