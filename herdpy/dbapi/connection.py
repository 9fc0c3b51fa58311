"""Connections: transactions, their ends, and the way to cursors."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar, cast, overload

from herdpy.dbapi import lifetime
from herdpy.dbapi.cursor import Cursor
from herdpy.dbapi.error_classes import ErrorClasses
from herdpy.dbapi.errors import InternalError, ProgrammingError
from herdpy.dbapi.info import ConnectionInfo
from herdpy.dbapi.link import BrokenLink, Link, TransactionStatus
from herdpy.dbapi.notices import Notice, NoticeHandler, Notices
from herdpy.dbapi.rows import R, RowFactory, tuple_row
from herdpy.dbapi.server_answer import ITER_SIZE
from herdpy.dbapi.server_cursor import ServerCursor
from herdpy.dbapi.stream import Stream

if TYPE_CHECKING:
    from herdpy.dbapi.parameters import Parameters

T = TypeVar("T")

_EXIT_PATIENCE_S = 5.0
_UNLIMITED = contextlib.nullcontext()


class Connection(ErrorClasses, Generic[R]):
    """A connection to a database; made by :func:`herdpy.connect`.

    Threads may share one: each call waits for the one before it to end, and all are in the same
    transaction. ``with connection:`` commits at its end, or rolls back when an exception leaves
    it, and closes the connection either way, as psycopg does.

    Attributes:
        row_factory: what makes the rows of new cursors (``herdpy.rows``).
    """

    def __init__(self, link: Link, name: str, row_factory: RowFactory[R] | None = None) -> None:
        self._link = link
        self._name = name
        self.row_factory: RowFactory[R] = row_factory or cast("RowFactory[R]", tuple_row)
        self._lock = threading.Lock()
        self._said = link.said
        self._notices = Notices()
        self._closed = False
        self._savepoints = 0
        self._cancels = 0  # streams end with each, whatever runs at the moment
        lifetime.opened(self)

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
            row_factory: what makes its rows; the connection's when it is not told.
            scrollable: a cursor of the server can go back.
            withhold: it lives on after its transaction was committed.
        """
        if self._closed:
            self._refuse()
        factory = row_factory or self.row_factory
        if name is not None:
            return ServerCursor(self, name, factory, scrollable=scrollable, withhold=withhold)
        return Cursor(self, factory)

    def execute(
        self,
        query: str | bytes,
        params: Parameters | None = None,
        *,
        timeout_s: float | None = None,
        arrow: bool = False,
    ) -> Cursor[R]:
        """Run a statement in a new cursor, which is returned. See ``Cursor.execute``."""
        return Cursor(self, self.row_factory).execute(query, params, timeout_s=timeout_s, arrow=arrow)

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
            row_factory: what makes the rows; the connection's when it is not told.
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
        with self._lock:
            link = self._link
            if link.status() == TransactionStatus.INERROR:
                link.rollback()
                raise InternalError(
                    "the transaction had failed: it was rolled back, not committed", sqlstate="25P02"
                )
            link.commit()
        if self._said:
            self._tell()

    def rollback(self) -> None:
        """End the transaction and undo its work. Without a transaction nothing happens."""
        with self._lock:
            self._link.rollback()

    def close(self) -> None:
        """Close the connection; what was not committed is rolled back. May be called again."""
        with self._lock:
            if self._closed:
                return
            link, self._link = self._link, BrokenLink("the connection is closed", "08003", self.autocommit)
            self._closed = True
            lifetime.closed(self)
            link.close()

    def cancel(self) -> None:
        """End the statement that another thread runs here: it gets OperationalError 57014.

        A stream ends, too: who reads it gets the error with its next rows that were not fetched yet.
        """
        self._cancels += 1
        self._link.cancel()

    def add_notice_handler(self, handler: NoticeHandler) -> None:
        """Call ``handler`` with each :class:`Notice` that the database sends from now on.

        It is called after the statement, in the thread that ran it. An error that it raises is logged.
        ``SET client_min_messages`` says which notices are sent.
        """
        self._notices.add(handler)

    def remove_notice_handler(self, handler: NoticeHandler) -> None:
        """Do not call ``handler`` any more. ValueError when it was not added."""
        self._notices.remove(handler)

    @property
    def notices(self) -> list[Notice]:
        """The newest notices, at most 50, the oldest first."""
        return list(self._notices.newest)

    def _tell(self) -> None:
        with self._lock:
            notices = self._link.take_notices()
        self._notices.tell(notices)

    def _limit(self, timeout_s: float | None) -> contextlib.AbstractContextManager[None]:
        """Within the block statements may take so long; the caller has the lock."""
        if timeout_s is None:
            return _UNLIMITED
        if not timeout_s > 0:
            raise ProgrammingError(
                f"timeout_s is a number of seconds above 0, not {timeout_s!r}", sqlstate="22023"
            )
        return self._link.limited(timeout_s)

    @property
    def autocommit(self) -> bool:
        """Whether each statement is its own transaction, but for what BEGIN and COMMIT enclose.

        Setting it inside a transaction raises ProgrammingError.
        """
        return self._link.autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        with self._lock:
            if self._closed:
                self._refuse()
            status = self._link.status()
            if status != TransactionStatus.IDLE:
                raise ProgrammingError(
                    f"autocommit cannot change within a transaction (status {status.name})",
                    sqlstate="25001",
                    hint="Commit or roll back first.",
                )
            self._link.autocommit = bool(value)

    @property
    def closed(self) -> bool:
        """Whether the connection was closed."""
        return self._closed

    @property
    def info(self) -> ConnectionInfo:
        """Status and name of the connection."""
        return ConnectionInfo(self)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Self]:
        """``with connection.transaction():`` makes the block one transaction, as psycopg does.

        Its end commits, an exception rolls back and goes on. Within a transaction the block is a
        savepoint: an exception undoes the block alone. Do not commit or roll back inside.
        """
        with self._lock:
            outermost = self._link.status() == TransactionStatus.IDLE
            self._savepoints += 1
            name = f"_herdpy_{self._savepoints}"
        cursor = self.cursor()
        cursor.execute("BEGIN" if outermost else f"SAVEPOINT {name}")
        try:
            yield self
        except BaseException:
            if not self._closed:
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

    def __enter__(self) -> Self:
        if self._closed:
            self._refuse()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._closed:
            return
        try:
            if kind is None:
                self.commit()
            else:
                self.rollback()
        finally:
            self.close()

    def __del__(self, _warn: Any = warnings.warn) -> None:
        if getattr(self, "_closed", True):
            return
        shown = repr(self)
        self._closed = True
        lifetime.abandon(self._link)
        _warn(f"{shown} was deleted without being closed", ResourceWarning)

    def __repr__(self) -> str:
        state = "closed" if self._closed else self._link.status().name
        return f"<herdpy.Connection {self._name!r} [{state}] at {id(self):#x}>"

    def _refuse(self) -> NoReturn:
        link = self._link
        assert isinstance(link, BrokenLink)
        link.refuse()

    def _close_at_exit(self) -> None:
        if not self._lock.acquire(blocking=False):  # a daemon thread is running a statement
            self._link.cancel()
            if not self._lock.acquire(timeout=_EXIT_PATIENCE_S):
                return
        self._lock.release()
        self.close()

    def _disown(self) -> Link:
        link, self._link = (
            self._link,
            BrokenLink("the connection was opened before a fork, in the parent process: open one here"),
        )
        self._lock = threading.Lock()
        self._closed = True
        return link
