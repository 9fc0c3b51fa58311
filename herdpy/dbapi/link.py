"""What a connection stands on: a session somewhere, behind blocking calls.

A :class:`Link` runs statements and raises the driver's exceptions. ``embedded`` has the one to a
database in this process; :class:`BrokenLink` takes its place once there is none any more.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from herdpy.dbapi.errors import InterfaceError, ProgrammingError

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.dbapi.notices import Notice
    from herdpy.dbapi.parameters import Translation

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
    limited = close_cursor = execute_arrow = refuse

    def take_notices(self) -> list[Notice]:
        """None."""
        return []

    def status(self) -> TransactionStatus:
        """Nothing is known."""
        return TransactionStatus.UNKNOWN

    def close(self) -> None:
        """Nothing is left to close."""
