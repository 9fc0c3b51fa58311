"""A table as readers of the log see it: its columns by name, their Arrow types, its keys. Pure.

The catalog's JSON is what travels; what is derived from it is made once in a process.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from herdpy.codec.arrow import arrow_type, batch_to_keys, datums_to_array, images_to_batch
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import decode_table
from herdpy_sql.staged import kept_array

Array = Any  # pyarrow's stubs know arrays by element type


class TableShape:
    """A definition, and what follows from it.

    Attributes:
        table: the catalog's.
        live: the positions of its columns that were not dropped, the hidden key's too.
        schema: of batches of the live columns, by the names of the columns.
    """

    def __init__(self, definition: bytes) -> None:
        self.table: Table = decode_table(definition)
        columns = self.table.columns
        self.live = tuple(at for at, column in enumerate(columns) if not column.dropped)
        self.schema = pa.schema([self._field(at) for at in self.live])

    @property
    def visible(self) -> list[str]:
        """Names of the columns that ``SELECT *`` shows."""
        return [self.table.columns[at].name for at in self.table.visible]

    def projected(self, names: Sequence[str]) -> pa.Schema:
        """The schema of these columns; ValueError names one that is not there."""
        unknown = [name for name in names if name not in self.table.positions]
        if unknown or not names:
            what = f'has no column "{unknown[0]}"' if unknown else "has no column requested"
            raise ValueError(f"table {self.table.name} {what}; it has {', '.join(self.visible)}")
        return pa.schema([self._field(self.table.positions[name]) for name in names])

    def decoded(self, names: Sequence[str], images: Array) -> pa.RecordBatch:
        """These columns of rows that are given as images, in a large_binary array."""
        positions = [self.table.positions[name] for name in names]
        precisions = [self.table.columns[at].type.precision for at in positions]
        return images_to_batch(self.table.fields, names, positions, images, precisions)

    def conformed(self, positions: Sequence[int], columns: Sequence[Array], count: int) -> pa.RecordBatch:
        """All live columns of rows whose columns at these positions are given; the others are as they were
        when the rows were written: absent. ValueError when one does not fit."""
        given = dict(zip(positions, columns, strict=True))
        arrays = []
        for at in self.live:
            if at in given:
                arrays.append(kept_array(self.table, at, given[at]))
            else:
                arrays.append(self.missing(at, count))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def missing(self, position: int, count: int) -> Array:
        """So many values of a column in rows that were written before it was added."""
        column = self.table.columns[position]
        one = datums_to_array(self.table.fields[position], [column.missing], column.type.precision)
        return pa.concat_arrays([one] * count) if count else one.slice(0, 0)

    def keys(self, columns: Sequence[Array]) -> list[bytes]:
        """The encoded keys of rows, of the key's columns in the key's order."""
        return batch_to_keys(self.table.key_codec.fields, columns)

    def _field(self, position: int) -> pa.Field[Any]:
        column = self.table.columns[position]
        return pa.field(column.name, arrow_type(self.table.fields[position], column.type.precision))


@functools.lru_cache(maxsize=64)
def shape_of(definition: bytes) -> TableShape:
    """The shape of a table whose definition is this JSON."""
    return TableShape(definition)
