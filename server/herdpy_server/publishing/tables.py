"""A table's rows as Arrow batches: all live columns, the hidden key too, and ``__key``.

Above ``state``. Batches are bounded in rows and bytes, so memory is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa

from herdpy.log.published import KEY_COLUMN
from herdpy_server.publishing.state import State
from herdpy_server.store import StoreDamagedError
from herdpy_server.store.columns import decoded
from herdpy_server.store.flush import row_hash
from herdpy_sql.catalog import Table
from herdpy_sql.values.interval_columns import has_intervals, texts_of

_STEP = 512
_ROWS = 16_384
_BYTES = 8 << 20
_MASK = (1 << 64) - 1


def live(table: Table) -> tuple[int, ...]:
    """The positions of the columns that are published."""
    return tuple(at for at, column in enumerate(table.columns) if not column.dropped)


def schema(table: Table) -> pa.Schema:
    """Of a table's batches."""
    return _batch(table, [], []).schema


def batches(state: State, table: Table) -> Iterator[pa.RecordBatch]:
    """The rows of a table in key order.

    Raises:
        StoreDamagedError: they are not those that were written, which is known at their end.
    """
    expected = None if state.checksums is None else state.checksums.get(table.id, (0, 0))
    items = state.scan(table)
    count = checksum = 0
    while True:
        keys: list[bytes] = []
        images: list[bytes] = []
        size = 0
        while len(keys) < _ROWS and size < _BYTES:
            taken = list(islice(items, _STEP))
            if not taken:
                break
            for key, image in taken:
                keys.append(key)
                images.append(image)
                size += len(key) + len(image)
        if not keys:
            break
        if expected is not None:
            checksum += sum(map(row_hash, keys, images))
        count += len(keys)
        yield _batch(table, keys, images)
    if expected is not None and (count, checksum & _MASK) != expected:
        raise StoreDamagedError(
            f"table {table.name} has {count} rows with checksum {checksum & _MASK:016x}, "
            f"and {expected[0]} with {expected[1]:016x} were written"
        )


def _batch(table: Table, keys: list[bytes], images: list[bytes]) -> pa.RecordBatch:
    columns = decoded(table, live(table), images)
    for at, field in enumerate(columns.schema):
        if has_intervals(field.type):  # which Parquet has not
            texts = texts_of(columns.column(at))
            columns = columns.set_column(at, pa.field(field.name, texts.type), texts)
    return columns.append_column(
        pa.field(KEY_COLUMN, pa.binary(), nullable=False), pa.array(keys, pa.binary())
    )
