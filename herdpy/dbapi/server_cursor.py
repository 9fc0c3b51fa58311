"""Cursors of the server: rows come as they are asked for, and no more than that are made or held.

Beside ``cursor``, whose results are whole; below ``connection``, which has the class that programs see. A
named cursor is SQL's: DECLARE, FETCH, MOVE and CLOSE go through the connection's link like any statement, so
a directory and a server are alike, and the connection can be used for other statements between two fetches.

    execute   DECLARE name CURSOR FOR query         begins a transaction, where autocommit is off
    fetch     FETCH FORWARD itersize FROM name      into the buffer, from which rows are given
    scroll    MOVE                                  where the buffer does not have the row
    close     the cursor is dropped; its transaction's end does that too
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Self

from herdpy.dbapi import arrow, parameters
from herdpy.dbapi.errors import Error, InterfaceError, OperationalError, ProgrammingError, translated
from herdpy.dbapi.link import SharedLink
from herdpy.dbapi.parameters import Parameters, as_text, translate
from herdpy.dbapi.types import Column, R, RowFactory, RowMaker, tuple_row

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    import pyarrow as pa

    from herdpy.dbapi.link import StatementResult

ITER_SIZE = 1000
"""Rows that are fetched at a time, unless ``itersize`` says otherwise."""


class PortalCursor(Generic[R]):
    """A cursor of the server, but for the type of its connection; see :class:`ServerCursor`, its only child.

    Attributes: as of :class:`ServerCursor`.
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
        "_shared",
        "arraysize",
        "connection",
        "itersize",
        "name",
        "row_factory",
        "scrollable",
        "withhold",
    )

    rowcount = -1
    lastrowid = None

    def __init__(
        self,
        connection: Any,
        shared: SharedLink,
        name: str,
        row_factory: RowFactory[R],
        *,
        scrollable: bool = False,
        withhold: bool = False,
    ) -> None:
        if not isinstance(name, str) or not name or "\0" in name:
            raise ProgrammingError(f"a cursor's name is text, not {name!r}", sqlstate="34000")
        self.connection = connection
        self._shared = shared
        self.name = name
        self.row_factory: RowFactory[R] = row_factory
        self.scrollable = scrollable
        self.withhold = withhold
        self.arraysize = 1
        self.itersize = ITER_SIZE
        self._closed = False
        self._is_open = False  # there is a query whose rows can be fetched
        self._cancels: int | None = None  # of the link, when a stream began: one more ends it
        self._reset()

    def _reset(self) -> None:
        self._buffer: list[R] = []
        self._next = 0  # in the buffer
        self._passed = 0  # rows of the result before the buffer
        self._at_end = False
        self._columns: list[Column] | None = None
        self._make: RowMaker[R] | None = None

    def execute(
        self, query: str | bytes, params: Parameters | None = None, *, timeout_s: float | None = None
    ) -> Self:
        """Declare the cursor for a query; one that it was declared for before is given up.

        Args:
            query: a SELECT, VALUES or WITH without changes.
            params: as of ``Cursor.execute``.
            timeout_s: the longest that declaring may take; no limit of the fetches.

        Raises:
            Error: 25P01 there is no transaction (with autocommit, and without ``withhold``), 42P03 there is a
                cursor of this name, and what the query raises; some of that comes with the first fetch.
        """
        self._check()
        self._drop()
        text = as_text(query)
        scroll = "SCROLL" if self.scrollable else "NO SCROLL"
        hold = " WITH HOLD" if self.withhold else ""
        prefix = f"DECLARE {self._quoted} {scroll} CURSOR{hold} FOR "
        try:
            if params is None:
                parameters.check(text)
                self._run(prefix + text, timeout_s=timeout_s)
            else:
                statement = translate(prefix + text)
                self._run(statement.sql, statement.bind(params), statement, timeout_s=timeout_s)
        except Error as error:
            if error.position is not None:
                error.position = max(error.position - len(prefix), 1)
            raise
        self._is_open = True
        return self

    def executemany(self, query: str | bytes, params_seq: object) -> NoReturn:
        """A cursor of the server is for one query: InterfaceError."""
        raise InterfaceError("executemany is for cursors without a name", sqlstate="0A000")

    @property
    def statusmessage(self) -> str | None:
        """The command tag; None before ``execute``."""
        return "DECLARE CURSOR" if self._is_open else None

    @property
    def closed(self) -> bool:
        """Whether the cursor was closed."""
        return self._closed

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
        """The next ``size`` rows (``arraysize`` without), or as many as there are."""
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
        at, buffer = self._next, self._buffer
        if at < len(buffer) and not self._shared.is_closed:
            self._next = at + 1
            return buffer[at]
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
    def _arrow(result: StatementResult) -> pa.Table:
        try:
            return result.arrow()
        except Exception as error:  # noqa: BLE001 - such as a number that Arrow cannot hold
            raise translated(error) from (None if hasattr(error, "sqlstate") else error)

    # Fetching.

    @property
    def buffered(self) -> int:
        """How many rows were fetched and not given yet."""
        return len(self._buffer) - self._next

    def end_with_cancel(self) -> None:
        """From now on each ``cancel()`` of the connection ends it, whatever runs then."""
        self._cancels = self._shared.cancels

    def _filled(self) -> bool:
        """Whether there is a row in the buffer, which is filled again where it is used up."""
        if self._next < len(self._buffer) and not self._shared.is_closed:
            return True
        self._check_open()
        if self._at_end:
            return False
        rows = self._rows_of(self._fetch(self.itersize))
        self._passed += len(self._buffer)
        self._buffer, self._next = rows, 0
        return bool(rows)

    def _fetch(self, count: int | None) -> StatementResult:
        if self._cancels is not None and self._cancels != self._shared.cancels:
            raise OperationalError("canceling statement due to user request", sqlstate="57014")
        asked = "ALL" if count is None else count
        result = self._run(f"FETCH FORWARD {asked} FROM {self._quoted}")
        self._describe(result)
        self._at_end = count is None or result.rowcount < count
        return result

    def _rows_of(self, result: StatementResult) -> list[R]:
        try:
            values: list[Any] = result.python_rows()
        except Exception as error:  # noqa: BLE001 - such as a date that Python cannot hold
            raise translated(error) from (None if hasattr(error, "sqlstate") else error)
        if self.row_factory is tuple_row:
            return values
        make = self._make
        if make is None:
            make = self._make = self.row_factory(self)
        return [make(one) for one in values]

    def _describe(self, result: StatementResult) -> None:
        if self._columns is None:
            self._columns = [Column(column) for column in result.columns or ()]

    def _run(
        self, sql: str, params: Any = (), source: Any = None, *, timeout_s: float | None = None
    ) -> StatementResult:
        shared = self._shared
        try:
            with shared.lock, shared.limited(timeout_s):
                return shared.link.execute(sql, params, source)
        finally:
            if shared.said:
                shared.deliver_notices()

    @property
    def _quoted(self) -> str:
        return '"' + self.name.replace('"', '""') + '"'

    def _check(self) -> None:
        if self._shared.is_closed:
            self._shared.refuse()
        if self._closed:
            raise InterfaceError("the cursor is closed", sqlstate="24000")

    def _check_open(self) -> None:
        self._check()
        if not self._is_open:
            raise ProgrammingError("no query was executed whose rows could be fetched")

    # The end.

    def close(self) -> None:
        """Give the cursor up, on the server too. Closing it again does nothing."""
        if not self._closed:
            self._closed = True
            self._drop()

    def _drop(self) -> None:
        if self._is_open:
            self._is_open = False
            self._reset()
            shared = self._shared
            if not shared.is_closed:
                with shared.lock:
                    shared.link.close_cursor(self.name)

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else self.statusmessage or "no result"
        return f"<herdpy.ServerCursor {self.name!r} [{state}] at {id(self):#x}>"
