"""Data frames: what :mod:`herdpy.pandas` and :mod:`herdpy.polars` have in common.

A URL, a connection, or SQLAlchemy's engine, connection or session becomes a driver's connection; what was
opened here is committed and closed here. Its Arrow tables are made such as every frame can hold: NUMERIC
without a scale gets the scale that its values need, and a month has 30 days in a duration, as for the
driver's ``timedelta``.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from herdpy.dbapi import Connection, Cursor, InterfaceError, connect

if TYPE_CHECKING:
    import pyarrow as pa


_NUMERIC = 1700
_DIGITS = 38  # of a decimal128, which is the widest that frames hold
_DAYS_OF_A_MONTH = 30
_US_OF_A_DAY = 86_400_000_000


def numbers_of(cursor: Cursor) -> list[int]:
    """Which columns of the answer are NUMERIC, 0-based."""
    return [at for at, column in enumerate(cursor.description or ()) if column.type_code == _NUMERIC]


def table_of(cursor: Cursor) -> pa.Table:
    """All rows that are left, with decimals and durations."""
    return fitted(cursor.fetch_arrow_table(), numbers_of(cursor))


def tables_of(cursor: Cursor, rows: int) -> Iterator[pa.Table]:
    """The rows that are left, so many in a table; one table without rows when there are none."""
    import pyarrow as pa

    if rows < 1:
        raise ValueError(f"a table has at least one row, not {rows}")
    numbers = numbers_of(cursor)
    reader = cursor.fetch_record_batch()
    held = pa.Table.from_batches([], reader.schema)
    nothing = True
    for batch in reader:
        held = pa.concat_tables([held, pa.Table.from_batches([batch])])
        while held.num_rows >= rows:
            yield fitted(held.slice(0, rows), numbers)
            held, nothing = held.slice(rows), False
    if held.num_rows or nothing:
        yield fitted(held, numbers)


def fitted(table: pa.Table, numbers: list[int]) -> pa.Table:
    """``table`` with decimals for the text of ``numbers``, and durations for intervals.

    A column stays text when 38 digits do not hold all of it.
    """
    import pyarrow as pa

    for at in numbers:
        column = table.column(at)
        if pa.types.is_string(column.type):
            table = table.set_column(at, table.field(at).name, _decimals(column))
    for at, field in enumerate(table.schema):
        if field.type == pa.month_day_nano_interval():
            table = table.set_column(at, field.name, _durations(table.column(at)))
    return table


def _decimals(column: pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    import pyarrow as pa
    from pyarrow import compute

    point = compute.find_substring(column, ".")
    behind = compute.subtract(compute.subtract(compute.binary_length(column), point), 1)
    longest = (
        compute.max(compute.if_else(compute.less(point, pa.scalar(0, pa.int32())), 0, behind)).as_py() or 0
    )
    if longest > _DIGITS:
        return column
    try:
        return column.cast(pa.decimal128(_DIGITS, longest))
    except pa.ArrowInvalid:  # more digits: only text says all of it
        return column


def _durations(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    import pyarrow as pa

    def microseconds(value: Any) -> int | None:
        if value is None:
            return None
        months, days, nanoseconds = value
        days += months * _DAYS_OF_A_MONTH
        return int(days * _US_OF_A_DAY + nanoseconds // 1000)

    return pa.array([microseconds(value) for value in column.to_pylist()], pa.duration("us"))


Source = Any  # a URL, a path, a Connection, or SQLAlchemy's Engine, Connection or Session


@contextlib.contextmanager
def opened(source: Source) -> Iterator[Connection]:
    """The driver's connection of ``source``, for a block: committed and closed if it was opened here.

    Raises:
        InterfaceError: it names no database of HerdPy's.
    """
    if isinstance(source, Connection):
        yield source
    elif isinstance(source, str | os.PathLike):
        with connect(source) as connection:
            yield connection
    else:
        with _of_sqlalchemy(source) as connection:
            yield _driver_connection(connection)


@contextlib.contextmanager
def executed(
    query: Any, source: Source, params: Sequence[object] | Mapping[str, object] | None
) -> Iterator[Cursor]:
    """The cursor that has run ``query``: text, or of SQLAlchemy, for whose sources it may be a construct.

    A query that is one word is a table's name, with or without its schema.
    """
    if not isinstance(query, str):
        with _of_sqlalchemy(source) as connection:
            _driver_connection(connection)
            with connection.execute(query, params) as result:
                yield result.cursor
        return
    text = query.strip()
    if text and not any(map(str.isspace, text)):
        text = "SELECT * FROM " + ".".join(quoted(part) for part in text.split("."))
    with opened(source) as own, own.cursor() as cursor:
        yield cursor.execute(text, params)


def quoted(name: str) -> str:
    """``name`` as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


@contextlib.contextmanager
def _of_sqlalchemy(source: Source) -> Iterator[Any]:
    """SQLAlchemy's connection of an engine (in a transaction of its own), a connection or a session."""
    if "sqlalchemy" not in sys.modules:  # nothing of SQLAlchemy's exists: it need not be installed
        raise _stranger(source)
    from sqlalchemy import Connection as SqlConnection
    from sqlalchemy import Engine
    from sqlalchemy.orm import Session

    if isinstance(source, Engine):
        with source.begin() as connection:
            yield connection
        return
    if isinstance(source, Session):
        source = source.connection()
    if not isinstance(source, SqlConnection):
        raise _stranger(source)
    if not source.in_transaction():
        source.begin()  # so that its commit() and rollback() are about what happens here
    yield source


def _driver_connection(connection: Any) -> Connection:
    """The driver's connection below one of SQLAlchemy's."""
    found = connection.connection.driver_connection
    if not isinstance(found, Connection):
        raise InterfaceError(
            f"SQLAlchemy's dialect is {connection.dialect.name}, with {type(found).__module__}",
            hint='An engine of HerdPy\'s begins with "herdpy": create_engine("herdpy:///dir").',
        )
    return found


def _stranger(source: object) -> InterfaceError:
    return InterfaceError(
        f"{type(source).__name__} is no database of HerdPy's",
        hint="A URL, a herdpy.Connection, or SQLAlchemy's Engine, Connection or Session.",
    )
