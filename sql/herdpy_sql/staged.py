"""The columns of rows that were staged for a load, as their table keeps them, generated columns too.

Beside ``catalog``, above the codecs; needs pyarrow. Who applies the log and who only reads it makes the same
rows of a load's Arrow batches by what is here: a generated value depends on its row alone. Staged are the
table's columns, in order, without the hidden key and without generated and dropped columns; of rows to
delete, the key's columns in the key's order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.codec.arrow import arrow_type
from herdpy.codec.arrow_bytes import batch_to_keys
from herdpy.codec.arrow_conform import conform
from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.values.stored_columns import kept_texts

if TYPE_CHECKING:
    from herdpy_sql.catalog import Table


Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any


def staged_positions(table: Table, *, keys_only: bool) -> tuple[int, ...]:
    """The table's columns that are staged, in the order in which they stand there."""
    if keys_only:
        return table.key_positions
    return tuple(at for at, column in enumerate(table.columns) if column.visible and column.generated is None)


def kept_array(table: Table, position: int, array: Array) -> Array:
    """A staged column as the table's column at ``position`` keeps it.

    Raises:
        ValueError: a value is not one of the column; the first such row is named, from 0, where it is known.
    """
    column = table.columns[position]
    conformed = conform(array, table.fields[position], column.type.precision)
    try:
        return kept_texts(conformed, column.type)
    except SqlError as error:
        raise ValueError(str(error)) from error


def kept_rows(table: Table, batch: pa.RecordBatch, first_row_id: int) -> pa.RecordBatch:
    """All physical columns of the rows of a staged batch.

    Args:
        first_row_id: the hidden key of the first row; without meaning where the table has a key.

    Raises:
        ValueError: the columns are not those that are staged, or as :func:`kept_array`.
    """
    positions = staged_positions(table, keys_only=False)
    _check_width(table, batch, len(positions))
    given = iter(batch.columns)
    count = batch.num_rows
    arrays: list[Array] = []
    for position, column in enumerate(table.columns):
        if column.visible and column.generated is None:
            arrays.append(kept_array(table, position, next(given)))
        elif column.numbers_rows:
            arrays.append(pa.array(range(first_row_id, first_row_id + count), pa.int64()))
        else:
            dropped: Any = pa.nulls
            arrays.append(dropped(count, arrow_type(table.fields[position], column.type.precision)))
    if any(column.generated is not None for column in table.columns):
        # Here, because planning brings the parser, which stores and tasks of Spark otherwise do without.
        from herdpy_sql.plan.rules import rules_of

        rules_of(table).fill_generated(arrays, Clock(0, 0))  # they look at no clock
    return pa.RecordBatch.from_arrays(arrays, names=[column.name for column in table.columns])


def kept_keys(table: Table, batch: pa.RecordBatch) -> list[bytes]:
    """The keys of the rows of a batch that was staged to delete them; errors as :func:`kept_rows`."""
    _check_width(table, batch, len(table.key))
    arrays = [
        kept_array(table, position, one)
        for position, one in zip(table.key_positions, batch.columns, strict=True)
    ]
    return batch_to_keys(table.key_codec.fields, arrays)


def _check_width(table: Table, batch: pa.RecordBatch, width: int) -> None:
    if batch.num_columns != width:
        raise ValueError(f"{batch.num_columns} columns are staged for {table.name}, not {width}")
