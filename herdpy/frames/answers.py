"""Answers as Arrow that every frame can hold: exact numbers as decimals, intervals as durations.

Arrow has no decimal without a scale, so NUMERIC without one comes as PostgreSQL's text; here it gets
the scale that its values need. Months have no length in a duration: 30 days, as for the driver's
``timedelta``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from herdpy.dbapi import Cursor

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
