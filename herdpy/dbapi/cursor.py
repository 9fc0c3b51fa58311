"""Cursors: run statements.

A statement passes through here as: text -> :mod:`parameters` (placeholders, remembered) -> the
connection's link -> a result, kept as it came for :mod:`answer`, from which rows are fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from herdpy.dbapi import arrow, parameters
from herdpy.dbapi.answer import Answer
from herdpy.dbapi.errors import NotSupportedError, ProgrammingError
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.parameters import Parameters, as_text, translate
from herdpy.dbapi.rows import R

if TYPE_CHECKING:
    from herdpy.dbapi.link import Row
    from herdpy.dbapi.parameters import Translation


class Cursor(Answer[R]):
    """A cursor; made by :meth:`Connection.cursor`. For one thread at a time.

    Attributes:
        connection: the connection it belongs to.
        arraysize: how many rows ``fetchmany()`` gives when it is not told.
        lastrowid: always None; use INSERT ... RETURNING.
    """

    __slots__ = ()

    lastrowid = None

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
        connection = self.connection
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
                with connection._lock, connection._limit(timeout_s):
                    self._run(query, values, statement, arrow)
            else:
                with connection._lock:
                    self._result = connection._link.execute(query, values, statement)
        finally:
            if connection._said:
                connection._tell()
        return self

    def _run(self, sql: str, values: Sequence[object], source: Translation | None, arrow: bool) -> None:
        """What is rarer than one statement without a limit."""
        link = self.connection._link
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
        connection = self.connection
        try:
            with connection._lock, connection._limit(timeout_s):
                result = connection._link.execute_many(statement, rows)
        finally:
            if connection._said:
                connection._tell()
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
        connection = self.connection
        with connection._lock:
            if catalog_name is not None:
                self._check_database(catalog_name)
            count = connection._link.ingest(table_name, batches, schema, mode, within)
        self._result = _Count(f"INSERT 0 {count}", count)
        return count

    def _check_database(self, name: str) -> None:
        """NotSupportedError when ``name`` is not the database's; that begins no transaction."""
        link = self.connection._link
        idle = link.status() == TransactionStatus.IDLE
        ((database,),) = link.execute("SELECT current_database()").python_rows()
        if name != database:
            if idle:
                link.rollback()
            raise NotSupportedError(
                f'cross-database references are not implemented: {name!r} is not "{database}"',
                sqlstate="0A000",
            )

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
