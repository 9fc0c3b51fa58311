"""What a connection stands on: a session behind blocking calls, as its cursors share it, until its end.

A :class:`Link` runs statements and raises the driver's exceptions; :class:`SharedLink` adds the lock, the
notices (delivered when the lock is free, so a handler may use the connection) and the reason for its end.
At exit what is open is closed; a connection that is collected while open warns and is closed by a thread of
its own, since collection can strike inside the engine; in a forked child connections are made useless.
"""

from __future__ import annotations

import atexit
import contextlib
import enum
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from herdpy.dbapi.errors import InterfaceError, ProgrammingError

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.dbapi.parameters import Translation

logger = logging.getLogger("herdpy.driver")

MOST_KEPT = 50
"""Of the newest notices so many are kept."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One message that is no error.

    Attributes:
        severity: "WARNING", "NOTICE", "INFO" and so on.
        sqlstate: five characters; "00000" without one.
        message: the primary message; ``detail`` and ``hint`` are further lines, or None.
    """

    severity: str
    sqlstate: str
    message: str
    detail: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        lines = [f"{self.severity}: {self.message}"]
        if self.detail:
            lines.append(f"DETAIL: {self.detail}")
        if self.hint:
            lines.append(f"HINT: {self.hint}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Notification:
    """What a session hears that listens.

    Attributes:
        channel, payload: as NOTIFY had them.
        pid: the process id of the session that sent it.
        missed: True: it is no notification. The connection listens at another server, or in another session,
            from now on, and may have missed what was committed meanwhile: look at the tables. Its other
            attributes are empty.
    """

    channel: str
    payload: str
    pid: int
    missed: bool = False


MISSED = Notification("", "", 0, missed=True)
NoticeHandler = Callable[[Notice], object]


class Notices:
    """The notices of one connection: the newest, and who gets each."""

    def __init__(self) -> None:
        self.newest: deque[Notice] = deque(maxlen=MOST_KEPT)
        self._handlers: list[NoticeHandler] = []

    def add(self, handler: NoticeHandler) -> None:
        """Give ``handler`` each from now on."""
        self._handlers.append(handler)

    def remove(self, handler: NoticeHandler) -> None:
        """Give ``handler`` no more. ValueError when it was not added."""
        self._handlers.remove(handler)

    def deliver(self, notices: Iterable[Notice]) -> None:
        """Keep them, and call the handlers. A handler's error is logged: the statement is done either way."""
        for notice in notices:
            self.newest.append(notice)
            for handler in list(self._handlers):
                try:
                    handler(notice)
                except Exception:
                    logger.exception("a notice handler failed, of: %s", notice.message)


Row = tuple[object, ...]


class TransactionStatus(enum.IntEnum):
    """Where a connection stands, numbered as libpq does."""

    IDLE = 0
    ACTIVE = 1
    INTRANS = 2
    INERROR = 3
    UNKNOWN = 4


class ResultType(Protocol):
    """A column's type, as ``herdpy_sql.types.SqlType`` has it."""

    @property
    def oid(self) -> int: ...
    @property
    def length(self) -> int | None: ...
    @property
    def precision(self) -> int | None: ...
    @property
    def scale(self) -> int | None: ...


class ResultColumn(Protocol):
    """A column's name and type."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> ResultType: ...


class StatementResult(Protocol):
    """The answer to one statement, as ``herdpy_server.sessions.Result`` has it."""

    @property
    def tag(self) -> str: ...
    @property
    def rowcount(self) -> int: ...
    @property
    def columns(self) -> Sequence[ResultColumn] | None: ...
    def python_rows(self) -> list[Row]: ...
    def arrow(self) -> pa.Table: ...


class Link(Protocol):
    """A session. Its caller takes care that one thread uses it at a time, ``cancel`` apart.

    Attributes:
        said: what the database said besides answers, until ``take_notices``: one list as long as the link
            lives.
    """

    autocommit: bool
    said: list[Any]

    def execute(
        self, sql: str, params: Sequence[object] = (), source: Translation | None = None
    ) -> StatementResult:
        """Run one statement. ``source`` knows where in the caller's text an error's position is."""

    def execute_arrow(
        self, sql: str, params: Sequence[object] = (), source: Translation | None = None
    ) -> StatementResult:
        """Run one statement whose rows are wanted as Arrow alone: an ArrowResult, if it has rows."""

    def execute_script(self, text: str) -> list[StatementResult]:
        """Run the statements of ``text``, one implicit transaction where none is open."""

    def execute_many(self, statement: Translation, rows: Iterable[Sequence[object]]) -> StatementResult:
        """Run one statement for each row of parameters; all or none of it happens.

        The rows that they return, one after another, are the answer's.
        """

    def ingest(
        self,
        table: str,
        data: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        mode: str,
        within: str | None = None,
    ) -> int:
        """Load Arrow batches; all or none of it happens. Returns how many rows.

        ``within`` is the table's schema, "pg_temp" for a temporary table; None for the search path.
        """

    def commit(self) -> None:
        """Make the transaction's work last."""

    def rollback(self) -> None:
        """Undo the transaction's work."""

    def close_cursor(self, name: str) -> None:
        """Give a cursor of SQL up; one that is not there is no error."""

    def limited(self, seconds: float) -> AbstractContextManager[None]:
        """Statements within the block may take so long: then they end with 57014."""

    def take_notices(self) -> list[Notice]:
        """Empty ``said``; what of it the session wants to hear."""

    def take_notification(self, timeout_s: float) -> Notification | None:
        """The next notification; None when none has come within ``timeout_s``, or perhaps earlier.

        Within a transaction none comes.
        """

    def cancel(self) -> None:
        """End the running statement, from another thread."""

    def status(self) -> TransactionStatus:
        """Where the session stands."""

    def close(self) -> None:
        """Roll back what is open and give the session up."""


class ArrowResult:
    """The answer to a statement whose rows were wanted as Arrow."""

    __slots__ = ("_table", "columns", "rowcount", "tag")

    def __init__(self, tag: str, table: pa.Table, columns: Sequence[ResultColumn]) -> None:
        self.tag = tag
        self.columns: Sequence[ResultColumn] | None = columns
        self.rowcount: int = table.num_rows
        self._table = table

    def python_rows(self) -> NoReturn:
        """There are none: ProgrammingError."""
        raise ProgrammingError(
            "the rows were requested as Arrow",
            hint="Fetch them with fetch_arrow_table, or execute without arrow=True.",
        )

    def arrow(self) -> pa.Table:
        """The rows."""
        return self._table


class BrokenLink:
    """No session any more: whatever is asked of it is refused with the reason."""

    def __init__(self, reason: str, sqlstate: str | None = None, autocommit: bool = False) -> None:
        self._reason = reason
        self._sqlstate = sqlstate
        self.autocommit = autocommit
        self.said: list[Any] = []

    def refuse(self, *_: object) -> NoReturn:
        """Raise InterfaceError with the reason."""
        raise InterfaceError(self._reason, sqlstate=self._sqlstate)

    execute = execute_script = execute_many = ingest = commit = rollback = cancel = refuse
    limited = close_cursor = execute_arrow = take_notification = refuse

    def take_notices(self) -> list[Notice]:
        """None."""
        return []

    def status(self) -> TransactionStatus:
        """Nothing is known."""
        return TransactionStatus.UNKNOWN

    def close(self) -> None:
        """Nothing is left to close."""


_EXIT_PATIENCE_S = 5.0
_UNLIMITED = contextlib.nullcontext()


class SharedLink:
    """A link for one thread at a time: who calls it holds ``lock``, ``cancel`` and ``status`` apart.

    Attributes:
        link: the session; a BrokenLink once the connection is closed.
        name: what the connection is shown as.
        lock: held while a statement runs.
        said: the link's: what has not been delivered yet.
        notices: the newest, and who gets each.
        is_closed: the connection was closed.
        cancels: how often ``cancel`` was called: a stream ends with each, whatever runs at the moment.
    """

    __slots__ = ("__weakref__", "cancels", "is_closed", "link", "lock", "name", "notices", "said")

    def __init__(self, link: Link, name: str) -> None:
        self.link = link
        self.name = name
        self.lock = threading.Lock()
        self.said = link.said
        self.notices = Notices()
        self.is_closed = False
        self.cancels = 0

    def deliver_notices(self) -> None:
        """Give the handlers what was said: after the statement, without the lock, as they may run some."""
        with self.lock:
            notices = self.link.take_notices()
        self.notices.deliver(notices)

    def limited(self, timeout_s: float | None) -> contextlib.AbstractContextManager[None]:
        """Within the block statements may take so long; the caller has the lock."""
        if timeout_s is None:
            return _UNLIMITED
        if not timeout_s > 0:
            raise ProgrammingError(
                f"timeout_s is a number of seconds above 0, not {timeout_s!r}", sqlstate="22023"
            )
        return self.link.limited(timeout_s)

    def cancel(self) -> None:
        """End the statement that another thread runs, and streams."""
        self.cancels += 1
        self.link.cancel()

    def refuse(self) -> NoReturn:
        """Raise InterfaceError with the reason: the connection is closed."""
        link = self.link
        assert isinstance(link, BrokenLink)
        link.refuse()

    def close(self) -> None:
        """Close the connection; again does nothing."""
        with self.lock:
            if self.is_closed:
                return
            link, self.link = self.link, BrokenLink("the connection is closed", "08003", self.link.autocommit)
            self.is_closed = True
            link.close()

    def close_at_exit(self) -> None:
        """Close the connection although a daemon thread may run a statement."""
        if not self.lock.acquire(blocking=False):
            self.link.cancel()
            if not self.lock.acquire(timeout=_EXIT_PATIENCE_S):
                return
        self.lock.release()
        self.close()

    def disown(self) -> Link:
        """Make the connection useless in a forked child; returns its link, which is the parent's."""
        link, self.link = (
            self.link,
            BrokenLink("the connection was opened before a fork, in the parent process: open one here"),
        )
        self.lock = threading.Lock()
        self.is_closed = True
        return link


_open: weakref.WeakSet[SharedLink] = weakref.WeakSet()
_closing: set[threading.Thread] = set()
_inherited: list[Link] = []


class Closable(Protocol):
    """What a collected object leaves behind: a connection, or its link."""

    def close(self) -> None: ...


def register_open(link: SharedLink) -> None:
    """The connection of ``link`` is open and wants to be closed at exit."""
    _open.add(link)


def register_closed(link: SharedLink) -> None:
    """It was closed by its owner."""
    _open.discard(link)


def abandon(link: Closable) -> None:
    """Close what a collected object had, soon and in another thread."""

    def run() -> None:
        try:
            link.close()
        finally:
            _closing.discard(thread)

    thread = threading.Thread(target=run, name="herdpy-close", daemon=True)
    _closing.add(thread)
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends: whatever is left, the log is whole
        _closing.discard(thread)


def settle(timeout_s: float | None = None) -> None:
    """Wait until the connections that were collected while open are closed."""
    for thread in list(_closing):
        thread.join(timeout_s)


def _at_exit() -> None:
    for link in list(_open):
        link.close_at_exit()
    settle(timeout_s=10)


def _in_child() -> None:
    # Kept: the end of a link must not touch what the parent uses.
    _inherited.extend(link.disown() for link in list(_open))
    _open.clear()
    _closing.clear()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_in_child)
