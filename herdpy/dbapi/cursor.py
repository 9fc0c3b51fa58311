"""Cursors whose results are whole: a statement runs, what it returned is kept, rows are fetched from that.

Below ``connection``, which makes cursors and has the class that programs see. A statement passes through here
as: text -> :mod:`parameters` (placeholders, remembered) -> the connection's link -> a result, kept as the
link gave it. Its rows become Python objects at the first fetch of rows, Arrow at the first fetch of Arrow,
neither when nobody asks. ``rows`` says what a row is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Self

from herdpy.dbapi import arrow, parameters
from herdpy.dbapi.errors import InterfaceError, NotSupportedError, ProgrammingError, translated
from herdpy.dbapi.link import SharedLink, TransactionStatus
from herdpy.dbapi.parameters import Parameters, as_text, translate
from herdpy.dbapi.types import Column, R, RowFactory, tuple_row

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]
    import pyarrow as pa

    from herdpy.dbapi.link import Row, StatementResult
    from herdpy.dbapi.parameters import Translation


class ResultCursor(Generic[R]):
    """A cursor, but for the type of its connection; see :class:`Cursor`, its only child.

    Attributes: as of :class:`Cursor`.
    """

    __slots__ = (
        "__weakref__",
        "_closed",
        "_next",
        "_result",
        "_results",
        "_rows",
        "_shared",
        "arraysize",
        "connection",
        "row_factory",
    )

    lastrowid = None

    def __init__(self, connection: Any, shared: SharedLink, row_factory: RowFactory[R]) -> None:
        self.connection = connection
        self._shared = shared
        self.row_factory: RowFactory[R] = row_factory
        self.arraysize = 1
        self._closed = False
        self._result: StatementResult | None = None
        self._results: list[StatementResult] | None = None  # of several statements: those still to come
        self._rows: list[R] | None = None
        self._next = 0

    # Running statements.

    def execute(
        self,
        query: str | bytes,
        params: Parameters | None = None,
        *,
        timeout_s: float | None = None,
        arrow: bool = False,
    ) -> Self:
        """Run a statement; returns the cursor.

        Args:
            query: the text. Without ``params`` it is taken as it is, and may hold several
                statements, whose results :meth:`nextset` steps through. They are one transaction
                unless they say BEGIN or COMMIT themselves.
            params: a sequence for ``%s`` or ``$1``, a mapping for ``%(name)s``. When it is given,
                even empty, a per cent sign is written ``%%``.
            timeout_s: the longest that it may take: then it ends with OperationalError 57014. Of several
                statements in a directory each may take so long, on a server all together.
            arrow: the rows are wanted as Arrow alone (``fetch_arrow_table`` and its like): from a server they
                come as such, several times faster. One statement.

        Raises:
            Error: the class and ``sqlstate`` say what; the cursor then has no result.
        """
        shared = self._shared
        self._result = self._results = self._rows = None
        self._next = 0
        if self._closed:
            self._refuse()
        if type(query) is not str:
            query = as_text(query)
        values: Sequence[object] = ()
        statement = None
        if params is not None:
            statement = translate(query)
            values = statement.bind(params)
            query = statement.sql
        else:
            parameters.check(query)
        try:
            if arrow or timeout_s is not None or (statement is None and ";" in query):
                with shared.lock, shared.limited(timeout_s):
                    self._run(query, values, statement, arrow)
            else:
                with shared.lock:
                    self._result = shared.link.execute(query, values, statement)
        finally:
            if shared.said:
                shared.deliver_notices()
        return self

    def _run(self, sql: str, values: Sequence[object], source: Translation | None, arrow: bool) -> None:
        """What is rarer than one statement without a limit."""
        link = self._shared.link
        if arrow:
            self._result = link.execute_arrow(sql, values, source)
        elif source is not None or ";" not in sql:
            self._result = link.execute(sql, values, source)
        else:
            results = link.execute_script(sql)
            self._results = results[::-1]
            self._result = self._results.pop() if results else None

    def executemany(
        self, query: str | bytes, params_seq: Iterable[Parameters], *, timeout_s: float | None = None
    ) -> Self:
        """Run a statement once for each of ``params_seq``: atomic, and one group commit.

        ``rowcount`` becomes the sum. Rows that come back, such as those of RETURNING, are one result: in
        the order of ``params_seq``, to be fetched as any other. Without any parameters nothing is run, and
        there is none. The parameters are all taken before the first is used, so they may come from another
        cursor. ``timeout_s`` is for all of them together.
        """
        self._result = self._results = self._rows = None
        self._next = 0
        if self._closed:
            self._refuse()
        statement = translate(as_text(query))
        bind = statement.bind
        try:
            rows = [bind(params) for params in params_seq]
        except TypeError:
            if isinstance(params_seq, Iterable):
                raise
            raise ProgrammingError(
                f"executemany takes an iterable of parameters, not {type(params_seq).__name__}"
            ) from None
        shared = self._shared
        try:
            with shared.lock, shared.limited(timeout_s):
                result = shared.link.execute_many(statement, rows)
        finally:
            if shared.said:
                shared.deliver_notices()
        self._result = result if result.columns is not None else _Count(result.tag, result.rowcount)
        return self

    def callproc(self, procname: str, params: Sequence[object] = ()) -> NoReturn:
        """There are no stored procedures: NotSupportedError."""
        raise NotSupportedError("there are no stored procedures", sqlstate="0A000")

    def nextset(self) -> bool | None:
        """Step to the result of the next of several statements; None when there is none."""
        if self._closed:
            self._refuse()
        if not self._results:
            return None
        self._result = self._results.pop()
        self._rows = None
        self._next = 0
        return True

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, as PEP 249 allows."""

    def adbc_ingest(
        self,
        table_name: str,
        data: object,
        mode: arrow.Mode = "create",
        *,
        catalog_name: str | None = None,
        db_schema_name: str | None = None,
        temporary: bool = False,
    ) -> int:
        """Load Arrow data into a table: atomic, logged as the batches it came in.

        Args:
            table_name: the table; its columns are matched by name.
            data: a table, record batch, reader, pandas or other DataFrame: whatever has
                ``__arrow_c_stream__`` or ``__arrow_c_array__``. A reader is read to its end first.
            mode: "create" (the table must not exist), "append" (it must), "replace" (dropped and
                created again), "create_append" (created when missing).
            catalog_name: the database's own name, or None: tables of another cannot be reached.
            db_schema_name: the table's schema. None: rows are appended to the first table of that name along
                the search path; it is made, or replaced, in the path's first schema.
            temporary: the table is the session's own, and goes with it.

        Returns:
            How many rows were loaded.

        Raises:
            NotSupportedError: 0A000 another database's name.
            ProgrammingError: 42P07, 42P01 the table is there or not, against ``mode``; 3F000 there is no such
                schema; 42P16 a temporary table in one that is not for these.
            Error: what the table asks of its rows.
        """
        self._result = self._results = self._rows = None
        self._next = 0
        if self._closed:
            self._refuse()
        arrow.check_target(table_name, mode)
        within = arrow.schema_of(db_schema_name, temporary=temporary)
        schema, batches = arrow.batches_of(data)
        shared = self._shared
        with shared.lock:
            if catalog_name is not None:
                self._check_database(catalog_name)
            count = shared.link.ingest(table_name, batches, schema, mode, within)
        self._result = _Count(f"INSERT 0 {count}", count)
        return count

    def _check_database(self, name: str) -> None:
        """NotSupportedError when ``name`` is not the database's; that begins no transaction."""
        link = self._shared.link
        idle = link.status() == TransactionStatus.IDLE
        ((database,),) = link.execute("SELECT current_database()").python_rows()
        if name != database:
            if idle:
                link.rollback()
            raise NotSupportedError(
                f'cross-database references are not implemented: {name!r} is not "{database}"',
                sqlstate="0A000",
            )

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
    def result(self) -> StatementResult | None:
        """What the link gave, with the engine's own types in a directory; None without a result."""
        return self._result

    @property
    def has_python_rows(self) -> bool:
        """Whether the result's rows are Python objects already."""
        return self._rows is not None

    @property
    def closed(self) -> bool:
        """Whether the cursor was closed."""
        return self._closed

    # Fetching rows.

    def fetchone(self) -> R | None:
        """The next row, or None."""
        rows = self._rows
        if rows is None or self._shared.is_closed:
            rows = self._load()
        at = self._next
        if at >= len(rows):
            return None
        self._next = at + 1
        return rows[at]

    def fetchmany(self, size: int | None = None) -> list[R]:
        """The next ``size`` rows (``arraysize`` without), or as many as there are."""
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
        if rows is None or self._shared.is_closed:
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
        if rows is None or self._shared.is_closed:
            result = self._some_result()
            try:
                found: list[Any] = result.python_rows()
            except Exception as error:  # noqa: BLE001 - such as a date that Python cannot hold
                raise translated(error) from (None if hasattr(error, "sqlstate") else error)
            if not found:
                _check_rows(result)  # columns are made at their first use
            if self.row_factory is not tuple_row:
                make = self.row_factory(self)
                found = [make(values) for values in found]
            rows = self._rows = found
        return rows

    def _rows_result(self) -> StatementResult:
        """The result, when there is one with rows."""
        result = self._some_result()
        _check_rows(result)
        return result

    def _some_result(self) -> StatementResult:
        """The result, when there is one."""
        if self._closed or self._shared.is_closed:
            self._refuse()
        result = self._result
        if result is None:
            raise ProgrammingError("no statement was executed whose rows could be fetched")
        return result

    def _refuse(self) -> NoReturn:
        if self._shared.is_closed:
            self._shared.refuse()
        raise InterfaceError("the cursor is closed", sqlstate="24000")

    # The end.

    def close(self) -> None:
        """Drop the result. The cursor is of no further use; closing it again does nothing."""
        self._closed = True
        self._result = self._results = self._rows = None

    def __enter__(self) -> Self:
        if self._closed:
            self._refuse()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else self.statusmessage or "no result"
        return f"<herdpy.Cursor [{state}] at {id(self):#x}>"


def _check_rows(result: StatementResult) -> None:
    """ProgrammingError when a statement returns no rows at all."""
    if result.columns is None:
        raise ProgrammingError(f"the last statement returned no rows: {result.tag}")


class _Count:
    """The result of what changes rows and returns none."""

    columns = None

    def __init__(self, tag: str, rowcount: int) -> None:
        self.tag = tag
        self.rowcount = rowcount

    def python_rows(self) -> list[Row]:
        return []

    def arrow(self) -> NoReturn:
        raise AssertionError("no rows, no Arrow")
