"""What a statement answered: its description and its rows, as Python objects or Arrow.

A result is kept as the link gave it. Its rows become Python objects at the first fetch of rows,
Arrow at the first fetch of Arrow, neither when nobody asks. ``cursor`` puts the results here; ``rows``
says what a row is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Self

from herdpy.dbapi import arrow
from herdpy.dbapi.errors import InterfaceError, ProgrammingError, translated
from herdpy.dbapi.rows import R, RowFactory, tuple_row
from herdpy.dbapi.types import Column

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    import pyarrow as pa

    from herdpy.dbapi.connection import Connection
    from herdpy.dbapi.link import Result


class Answer(Generic[R]):
    """The half of a cursor that reads: the result of its last statement, and how far it was fetched.

    Attributes:
        connection: the connection it belongs to.
        arraysize: how many rows ``fetchmany()`` gives when it is not told.
        row_factory: what makes the rows; it counts for results whose rows nobody has fetched yet.
    """

    __slots__ = (
        "__weakref__",
        "_closed",
        "_next",
        "_result",
        "_results",
        "_rows",
        "arraysize",
        "connection",
        "row_factory",
    )

    def __init__(self, connection: Connection[Any], row_factory: RowFactory[R]) -> None:
        self.connection = connection
        self.row_factory: RowFactory[R] = row_factory
        self.arraysize = 1
        self._closed = False
        self._result: Result | None = None
        self._results: list[Result] | None = None  # of several statements: those still to come
        self._rows: list[R] | None = None
        self._next = 0

    # What the last statement answered.

    @property
    def description(self) -> list[Column] | None:
        """A :class:`Column` for each column; None when the statement returns no rows."""
        result = self._result
        if result is None or result.columns is None:
            return None
        return [Column(column) for column in result.columns]

    @property
    def rowcount(self) -> int:
        """Rows returned or changed; -1 when there was no statement, or it does neither."""
        result = self._result
        if result is None:
            return -1
        if result.columns is None and result.tag and not result.tag[-1].isdigit():
            return -1  # the tag of what counts rows, and only that, ends with their number
        return result.rowcount

    @property
    def rownumber(self) -> int | None:
        """0-based number of the next row; None without a result."""
        if self._result is None or self._result.columns is None:
            return None
        return self._next

    @property
    def statusmessage(self) -> str | None:
        """PostgreSQL's command tag, such as "INSERT 0 3"."""
        return None if self._result is None else self._result.tag

    @property
    def closed(self) -> bool:
        """Whether the cursor was closed."""
        return self._closed

    # Fetching rows.

    def fetchone(self) -> R | None:
        """The next row, or None."""
        rows = self._rows
        if rows is None or self.connection._closed:
            rows = self._load()
        at = self._next
        if at >= len(rows):
            return None
        self._next = at + 1
        return rows[at]

    def fetchmany(self, size: int | None = None) -> list[R]:
        """The next ``size`` rows (``arraysize`` when not told), or as many as there are."""
        rows = self._load()
        wanted = self.arraysize if size is None else size
        if wanted < 0:
            raise ProgrammingError(f"a number of rows cannot be negative: {wanted}")
        at = self._next
        got = rows[at : at + wanted]
        self._next = at + len(got)
        return got

    def fetchall(self) -> list[R]:
        """All rows that are left."""
        rows = self._load()
        at, self._next = self._next, len(rows)
        return rows[at:] if at else rows[:]

    def scroll(self, value: int, mode: Literal["relative", "absolute"] = "relative") -> None:
        """Move to another row. IndexError (and no move) when it is out of the result."""
        rows = self._load()
        if mode not in ("relative", "absolute"):
            raise ProgrammingError(f"mode is 'relative' or 'absolute', not {mode!r}")
        to = value + (self._next if mode == "relative" else 0)
        if not 0 <= to < max(len(rows), 1):
            raise IndexError(f"row {to} is not one of {len(rows)}")
        self._next = to

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        rows = self._rows
        if rows is None or self.connection._closed:
            rows = self._load()
        at = self._next
        if at >= len(rows):
            raise StopIteration
        self._next = at + 1
        return rows[at]

    # Arrow, by ADBC's names.

    def fetch_arrow_table(self) -> pa.Table:
        """The rows that are left, as a table."""
        result = self._rows_result()
        try:
            table = result.arrow()
        except Exception as error:  # noqa: BLE001 - such as a number that Arrow cannot hold
            raise translated(error) from (None if hasattr(error, "sqlstate") else error)
        at = self._next
        self._next = table.num_rows
        return table.slice(at) if at else table

    def fetch_record_batch(self) -> pa.RecordBatchReader:
        """The rows that are left, as a reader of record batches."""
        return self.fetch_arrow_table().to_reader()

    def fetch_df(self) -> pd.DataFrame:
        """The rows that are left, as a pandas DataFrame (pandas must be installed)."""
        return arrow.to_pandas(self.fetch_arrow_table())

    def _load(self) -> list[R]:
        rows = self._rows
        if rows is None or self.connection._closed:
            result = self._rows_result()
            try:
                found: list[Any] = result.python_rows()
            except Exception as error:  # noqa: BLE001 - such as a date that Python cannot hold
                raise translated(error) from (None if hasattr(error, "sqlstate") else error)
            if self.row_factory is not tuple_row:
                make = self.row_factory(self)
                found = [make(values) for values in found]
            rows = self._rows = found
        return rows

    def _rows_result(self) -> Result:
        """The result, when there is one with rows."""
        if self._closed or self.connection._closed:
            self._refuse()
        result = self._result
        if result is None:
            raise ProgrammingError("no statement was executed whose rows could be fetched")
        if result.columns is None:
            raise ProgrammingError(f"the last statement returned no rows: {result.tag}")
        return result

    def _refuse(self) -> NoReturn:
        if self.connection._closed:
            self.connection._refuse()
        raise InterfaceError("the cursor is closed", sqlstate="24000")
