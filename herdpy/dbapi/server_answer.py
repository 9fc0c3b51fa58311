"""Rows of a cursor of the server: a buffer of some, and the statements that fetch more.

Below ``server_cursor``, which declares the cursor and gives it up; as ``answer`` is below ``cursor``.
Neither holds more than was asked for.

    fetch     FETCH FORWARD itersize FROM name      into the buffer, from which rows are given
    scroll    MOVE                                  where the buffer does not have the row
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from herdpy.dbapi import arrow
from herdpy.dbapi.errors import InterfaceError, OperationalError, ProgrammingError, translated
from herdpy.dbapi.rows import R, RowFactory, RowMaker
from herdpy.dbapi.types import Column

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    import pyarrow as pa

    from herdpy.dbapi.connection import Connection
    from herdpy.dbapi.link import Result

ITER_SIZE = 1000
"""Rows that are fetched at a time, unless ``itersize`` says otherwise."""


class ServerAnswer(Generic[R]):
    """The half of a server's cursor that reads: what was fetched and not given yet, and how to get more.

    Attributes: as of :class:`ServerCursor`, which has them all.
    """

    __slots__ = (
        "__weakref__",
        "_at_end",
        "_buffer",
        "_cancels",
        "_closed",
        "_columns",
        "_is_open",
        "_make",
        "_next",
        "_passed",
        "arraysize",
        "connection",
        "itersize",
        "name",
        "row_factory",
    )

    scrollable: bool

    def __init__(self, connection: Connection[Any], name: str, row_factory: RowFactory[R]) -> None:
        self.connection = connection
        self.name = name
        self.row_factory: RowFactory[R] = row_factory
        self.arraysize = 1
        self.itersize = ITER_SIZE
        self._closed = False
        self._is_open = False  # there is a query whose rows can be fetched
        self._cancels: int | None = None  # of the connection, when a stream began: one more ends it
        self._reset()

    def _reset(self) -> None:
        self._buffer: list[R] = []
        self._next = 0  # in the buffer
        self._passed = 0  # rows of the result before the buffer
        self._at_end = False
        self._columns: list[Column] | None = None
        self._make: RowMaker[R] | None = None

    @property
    def description(self) -> list[Column] | None:
        """A :class:`Column` for each column; None before ``execute``."""
        if self._columns is None and self._is_open and not self._closed:
            self._describe(self._run(f"FETCH FORWARD 0 FROM {self._quoted}"))
        return self._columns

    @property
    def rownumber(self) -> int | None:
        """0-based number of the next row; None without a result."""
        return self._passed + self._next if self._is_open else None

    # Rows.

    def fetchone(self) -> R | None:
        """The next row, or None."""
        if not self._filled():
            return None
        self._next += 1
        return self._buffer[self._next - 1]

    def fetchmany(self, size: int | None = None) -> list[R]:
        """The next ``size`` rows (``arraysize`` when not told), or as many as there are."""
        wanted = self.arraysize if size is None else size
        if wanted < 0:
            raise ProgrammingError(f"a number of rows cannot be negative: {wanted}")
        self._check_open()
        got = self._buffer[self._next : self._next + wanted]
        self._next += len(got)
        if len(got) < wanted and not self._at_end:
            more = self._rows_of(self._fetch(wanted - len(got)))
            self._passed += len(more)
            got += more
        return got

    def fetchall(self) -> list[R]:
        """All rows that are left, at once in memory."""
        self._check_open()
        got = self._buffer[self._next :]
        self._next = len(self._buffer)
        if not self._at_end:
            more = self._rows_of(self._fetch(None))
            self._passed += len(more)
            got += more
        return got

    def scroll(self, value: int, mode: Literal["relative", "absolute"] = "relative") -> None:
        """Move to another row: by ``value`` rows, or to row ``value`` counted from 0.

        Raises:
            IndexError: there are not so many rows; the cursor is at its end, or its beginning.
            OperationalError: 55000, back with a cursor that is not ``scrollable``.
        """
        self._check_open()
        if mode not in ("relative", "absolute"):
            raise ProgrammingError(f"mode is 'relative' or 'absolute', not {mode!r}")
        here = self._passed + self._next
        to = value + (here if mode == "relative" else 0)
        first, last = self._passed, self._passed + len(self._buffer)
        if first <= to <= last:
            self._next = to - first
            return
        if to < 0:
            raise IndexError(f"row {to} is not one of the result's")
        if to > last and not self.scrollable:
            moved = self._run(f"MOVE FORWARD {to - last} FROM {self._quoted}").rowcount
            is_there, at = moved == to - last, last + moved
        else:
            moved = self._run(f"MOVE ABSOLUTE {to} FROM {self._quoted}").rowcount
            is_there, at = to == 0 or moved == 1, to
        self._buffer, self._next, self._passed = [], 0, at
        self._at_end = not is_there
        if not is_there:
            raise IndexError(f"row {to} is not one of the result's")

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        if not self._filled():
            raise StopIteration
        self._next += 1
        return self._buffer[self._next - 1]

    # Arrow.

    def fetch_record_batch(self) -> pa.RecordBatchReader:
        """The rows that are left, as a reader, which fetches ``itersize`` rows at a time, when it is read."""
        import pyarrow as pa

        self._check_open()
        self._no_buffer("fetch_record_batch")
        first = self._arrow(self._fetch(self.itersize))

        def batches() -> Iterator[pa.RecordBatch]:
            table = first
            while True:
                self._passed += table.num_rows
                yield from table.to_batches()
                if self._at_end:
                    return
                table = self._arrow(self._fetch(self.itersize)).cast(first.schema)

        return pa.RecordBatchReader.from_batches(first.schema, batches())

    def fetch_arrow_table(self) -> pa.Table:
        """The rows that are left, as a table, at once in memory."""
        self._check_open()
        self._no_buffer("fetch_arrow_table")
        table = self._arrow(self._fetch(None))
        self._passed += table.num_rows
        return table

    def fetch_df(self) -> pd.DataFrame:
        """The rows that are left, as a pandas DataFrame (pandas must be installed)."""
        return arrow.to_pandas(self.fetch_arrow_table())

    def _no_buffer(self, what: str) -> None:
        if self._next < len(self._buffer):
            raise ProgrammingError(
                f"{what} after single rows: {len(self._buffer) - self._next} more were fetched with them",
                hint="Set itersize to 1, or use fetchmany for the rows before.",
            )

    @staticmethod
    def _arrow(result: Result) -> pa.Table:
        try:
            return result.arrow()
        except Exception as error:  # noqa: BLE001 - such as a number that Arrow cannot hold
            raise translated(error) from (None if hasattr(error, "sqlstate") else error)

    # Fetching.

    def _filled(self) -> bool:
        """Whether there is a row in the buffer, which is filled again where it is used up."""
        if self._next < len(self._buffer) and not self.connection._closed:
            return True
        self._check_open()
        if self._at_end:
            return False
        rows = self._rows_of(self._fetch(self.itersize))
        self._passed += len(self._buffer)
        self._buffer, self._next = rows, 0
        return bool(rows)

    def _fetch(self, count: int | None) -> Result:
        if self._cancels is not None and self._cancels != self.connection._cancels:
            raise OperationalError("canceling statement due to user request", sqlstate="57014")
        asked = "ALL" if count is None else count
        result = self._run(f"FETCH FORWARD {asked} FROM {self._quoted}")
        self._describe(result)
        self._at_end = count is None or result.rowcount < count
        return result

    def _rows_of(self, result: Result) -> list[R]:
        try:
            values = result.python_rows()
        except Exception as error:  # noqa: BLE001 - such as a date that Python cannot hold
            raise translated(error) from (None if hasattr(error, "sqlstate") else error)
        make = self._make
        if make is None:
            make = self._make = self.row_factory(self)
        return [make(one) for one in values]

    def _describe(self, result: Result) -> None:
        if self._columns is None:
            self._columns = [Column(column) for column in result.columns or ()]

    def _run(
        self, sql: str, params: Any = (), source: Any = None, *, timeout_s: float | None = None
    ) -> Result:
        connection = self.connection
        try:
            with connection._lock, connection._limit(timeout_s):
                return connection._link.execute(sql, params, source)
        finally:
            if connection._said:
                connection._tell()

    @property
    def _quoted(self) -> str:
        return '"' + self.name.replace('"', '""') + '"'

    def _check(self) -> None:
        if self.connection._closed:
            self.connection._refuse()
        if self._closed:
            raise InterfaceError("the cursor is closed", sqlstate="24000")

    def _check_open(self) -> None:
        self._check()
        if not self._is_open:
            raise ProgrammingError("no query was executed whose rows could be fetched")
