"""Rows of one query as they come, for a ``with`` block. Above ``server_cursor``, which has the rows.

A stream is a cursor of the server with a transaction to live in: that of the connection; or, with autocommit
and outside BEGIN, one of its own, which can only read and ends with the block.
"""

from __future__ import annotations

import itertools
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from herdpy.dbapi.errors import ProgrammingError
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.parameters import Parameters
from herdpy.dbapi.rows import R, RowFactory
from herdpy.dbapi.server_cursor import ServerCursor
from herdpy.dbapi.types import Column

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.dbapi.connection import Connection

_numbers = itertools.count(1)


class Stream(Generic[R]):
    """What ``connection.stream(query)`` gives: a context manager, and within it an iterator of rows."""

    def __init__(
        self,
        connection: Connection[Any],
        query: str | bytes,
        params: Parameters | None,
        size: int,
        row_factory: RowFactory[R],
    ) -> None:
        if size < 1:
            raise ProgrammingError(f"size is a number of rows, at least 1, not {size}", sqlstate="22023")
        self._connection = connection
        self._query = query
        self._params = params
        self._cursor = ServerCursor(connection, f"herdpy_stream_{next(_numbers)}", row_factory)
        self._cursor.itersize = size
        self._is_entered = False
        self._own = False

    @property
    def description(self) -> list[Column] | None:
        """A :class:`Column` for each column; None outside the block."""
        return self._cursor.description

    def __enter__(self) -> Self:
        if self._is_entered:
            raise ProgrammingError("a stream can be read once: ask for another")
        connection = self._connection
        if connection.closed:
            connection._refuse()
        self._is_entered = True
        self._cursor._cancels = connection._cancels
        if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
            connection.execute("BEGIN READ ONLY")
            self._own = True
        try:
            self._cursor.execute(self._query, self._params)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._cursor.close()
        finally:
            self._end()

    def _end(self) -> None:
        if self._own and not self._connection.closed:
            self._connection.rollback()
        self._own = False

    def __iter__(self) -> Self:
        if not self._is_entered:
            raise ProgrammingError(
                "rows of a stream are read within its block",
                hint="with connection.stream(query) as rows: for row in rows: ...",
            )
        return self

    def __next__(self) -> R:
        return next(self._cursor)

    def fetchmany(self, size: int | None = None) -> list[R]:
        """The next rows, as many as are fetched at a time when ``size`` is not told."""
        return self._cursor.fetchmany(self._cursor.itersize if size is None else size)

    def fetch_record_batch(self) -> pa.RecordBatchReader:
        """The rows that are left, as a reader of record batches, which are fetched as they are read."""
        return self._cursor.fetch_record_batch()
