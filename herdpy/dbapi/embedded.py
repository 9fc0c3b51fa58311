"""The link to a database in this process: the session that servers use too, called directly.

``Database.run`` takes the engine's turn and drives the session's coroutine: in the caller's thread, so that
a statement costs no thread switch and no message, or beside the main thread, where a signal's exception could
break into it. A query stays in the main thread as long as it only reads (``Database.read``). This is the only
module of the driver that knows the engine, and it loads it late: a driver-only install works without.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from herdpy.dbapi import link
from herdpy.dbapi.errors import InterfaceError, OperationalError, translated
from herdpy.dbapi.link import ArrowResult, Notice, Notification, StatementResult, TransactionStatus
from herdpy.distribution import install_line, missing_package
from herdpy.imports import importing

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.dbapi.parameters import Translation
    from herdpy_server.embedded import Database

_STATUS = {
    "idle": TransactionStatus.IDLE,
    "active": TransactionStatus.INTRANS,
    "failed": TransactionStatus.INERROR,
}


def open_link(path: str, *, create: bool, autocommit: bool, settings: dict[str, Any]) -> EmbeddedLink:
    """Open the database in directory ``path``, or share the one that is open in this process.

    Raises:
        InterfaceError: the database itself is not installed, or a setting is unknown.
        OperationalError: there is none and ``create`` is false (08001); another process has it
            open (55006); the disk refuses.
    """
    try:
        with importing():
            from herdpy_server.embedded import Database
    except ModuleNotFoundError as error:
        if missing_package(error) is None and error.name != "herdpy_server":
            raise
        raise InterfaceError(
            f"opening a directory needs the database itself: {install_line()} ({error})"
        ) from error
    if not create and not (os.path.isdir(path) and {*os.listdir(path)} - {"lost+found"}):
        raise OperationalError(f"there is no database in {path}", sqlstate="08001")
    try:
        return Database.shelter.call(
            lambda: EmbeddedLink(Database.acquire(path, **settings), autocommit), undo=EmbeddedLink.close
        )
    except Exception as error:  # noqa: BLE001 - it is raised again as the driver's
        if isinstance(error, TypeError) and "keyword argument" in str(error):
            raise InterfaceError(f"an option is not known: {error}") from None
        raise translated(error) from (None if hasattr(error, "sqlstate") else error)


class EmbeddedLink:
    """One session of a database in this process.

    Attributes:
        database: it holds a reference until it is closed.
        session: the engine's.
    """

    def __init__(self, database: Database, autocommit: bool) -> None:
        self._is_open = True
        self.database = database
        self._shelter = database.shelter
        self._drawn = database.shelter.drawn
        self._read = database.read
        self.session = session = database.session()
        self._run = partial(database.run, session=session)
        self._execute = session.execute
        session.autocommit = autocommit
        session.streams_cursors = True
        self.said: list[Any] = session.notices
        self._has_notifications = threading.Event()
        session.on_notification = self._has_notifications.set

    @property
    def autocommit(self) -> bool:
        """Whether each statement is its own transaction."""
        return self.session.autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        self.session.autocommit = value

    def execute(
        self, sql: str, params: Sequence[object] = (), source: Translation | None = None
    ) -> StatementResult:
        """Run one statement. ``source`` knows where in the caller's text an error's position is."""
        try:
            if sql.lstrip()[:6].upper() == "SELECT":
                return self._read(self._execute(sql, params), self.session)
            return self._run(self._execute(sql, params))
        except Exception as error:  # noqa: BLE001 - it is raised again as the driver's
            self._raise(error, source)

    def execute_arrow(
        self, sql: str, params: Sequence[object] = (), source: Translation | None = None
    ) -> StatementResult:
        """Run one statement whose rows are wanted as Arrow alone."""
        result = self.execute(sql, params, source)
        if result.columns is None:
            return result
        try:
            return ArrowResult(result.tag, result.arrow(), result.columns)
        except Exception as error:  # noqa: BLE001 - such as a number that Arrow cannot hold
            self._raise(error, source)

    def execute_script(self, text: str) -> list[StatementResult]:
        """Run the statements of ``text``, one implicit transaction where none is open."""
        try:
            return list(self._run(self.session.execute_all(text)))
        except Exception as error:  # noqa: BLE001 - it is raised again as the driver's
            self._raise(error)

    def execute_many(self, statement: Translation, rows: Iterable[Sequence[object]]) -> StatementResult:
        """Run one statement for each row of parameters; all or none of it happens."""
        try:
            found = rows if isinstance(rows, list) else list(rows)
            return self._run(self.session.execute_many(statement.sql, found))
        except Exception as error:  # noqa: BLE001 - it is raised again as the driver's
            self._raise(error, statement)

    def ingest(
        self,
        table: str,
        data: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        mode: str,
        within: str | None = None,
    ) -> int:
        """Load Arrow batches; all or none of it happens."""
        try:
            return self._run(self.session.ingest(table, self._drawn(data), schema, mode, within))
        except Exception as error:  # noqa: BLE001 - it is raised again as the driver's
            self._raise(error)

    def commit(self) -> None:
        """Make the transaction's work last."""
        try:
            self._run(self.session.commit())
        except Exception as error:  # noqa: BLE001 - it is raised again as the driver's
            self._raise(error)

    def rollback(self) -> None:
        """Undo the transaction's work."""
        try:
            self._run(self.session.rollback())
        except Exception as error:  # noqa: BLE001 - it is raised again as the driver's
            self._raise(error)

    def close_cursor(self, name: str) -> None:
        """Give a cursor of SQL up; one that is not there is no error."""

        async def close() -> None:  # in the engine's turn
            self.session.close_portal(name)

        try:
            self._run(close())
        except Exception as error:  # noqa: BLE001 - it is raised again as the driver's
            self._raise(error)

    @contextlib.contextmanager
    def limited(self, seconds: float) -> Iterator[None]:
        """Statements within the block may take so long: then they end with 57014."""
        settings = self.session.settings
        before = settings.statement_timeout_s
        within = settings.statement_timeout_s = seconds if before is None else min(before, seconds)
        try:
            yield
        finally:
            if settings.statement_timeout_s is within:  # else the statement was one that set it
                settings.statement_timeout_s = before

    def take_notices(self) -> list[Notice]:
        """Empty ``said``; what of it the session wants to hear."""
        found = [Notice(one.severity, one.sqlstate, one.message, one.detail, one.hint) for one in self.said]
        self.said.clear()
        return found

    def take_notification(self, timeout_s: float) -> Notification | None:
        """The next notification; None when none has come within ``timeout_s``, or perhaps earlier."""
        found = self._next_notification()
        if found is None and self._has_notifications.wait(timeout_s):
            self._has_notifications.clear()
            found = self._next_notification()
        return found

    def _next_notification(self) -> Notification | None:
        async def take() -> Notification | None:  # in the engine's turn
            session = self.session
            if session.channels is None or session.transaction is not None:
                return None
            found = session.channels.take()
            return None if found is None else Notification(found.channel, found.payload, found.pid)

        try:
            return self._run(take())
        except Exception as error:  # noqa: BLE001 - it is raised again as the driver's
            self._raise(error)

    def cancel(self) -> None:
        """End the running statement, from another thread."""
        self.session.cancel()

    def status(self) -> TransactionStatus:
        """Where the session stands."""
        return _STATUS[self.session.status]

    def close(self) -> None:
        """Roll back what is open; the last one to leave closes the database. A second call does nothing."""
        try:
            self._shelter.call(self._leave)
        except Exception as error:  # noqa: BLE001 - it is raised again as the driver's
            self._raise(error)

    def _leave(self) -> None:
        is_open, self._is_open = self._is_open, False
        if is_open:
            try:
                self._run(self.session.close())
            finally:
                self.database.release()

    def __del__(self, _ends: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._is_open and not _ends():  # an interrupt came before anybody had it
            link.abandon(self)

    def _raise(self, error: Exception, source: Translation | None = None) -> NoReturn:
        new = translated(error)
        if source is not None:
            new.position = source.position(new.position)
        raise new from (error if new.sqlstate == "XX000" else None)
