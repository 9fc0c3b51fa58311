"""Connections: transactions, their ends, and the way to cursors."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from herdpy.dbapi import errors, lifetime
from herdpy.dbapi.cursor import Cursor
from herdpy.dbapi.errors import InternalError, ProgrammingError
from herdpy.dbapi.link import BrokenLink, Link, TransactionStatus

if TYPE_CHECKING:
    from herdpy.dbapi.parameters import Parameters

_EXIT_PATIENCE_S = 5.0


class ConnectionInfo:
    """What is known about a connection, under psycopg's names."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def transaction_status(self) -> TransactionStatus:
        """IDLE, INTRANS, INERROR (only rollback helps), or UNKNOWN once closed."""
        return self._connection._link.status()

    @property
    def dbname(self) -> str:
        """The directory of the database."""
        return self._connection._name


class Connection:
    """A connection to a database; made by :func:`herdpy.connect`.

    Threads may share one: each call waits for the one before it to end, and all are in the same
    transaction. ``with connection:`` commits at its end, or rolls back when an exception leaves
    it, and closes the connection either way, as psycopg does.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, link: Link, name: str) -> None:
        self._link = link
        self._name = name
        self._lock = threading.Lock()
        self._closed = False
        self._savepoints = 0
        lifetime.opened(self)

    def cursor(self) -> Cursor:
        """A new cursor. InterfaceError when the connection is closed."""
        if self._closed:
            self._refuse()
        return Cursor(self)

    def execute(self, query: str | bytes, params: Parameters | None = None) -> Cursor:
        """Run a statement in a new cursor, which is returned."""
        return self.cursor().execute(query, params)

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
        """End the statement that another thread runs here: it gets OperationalError 57014."""
        self._link.cancel()

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
    def transaction(self) -> Iterator[Connection]:
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

    def __enter__(self) -> Connection:
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
