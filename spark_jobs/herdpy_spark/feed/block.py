"""Changes of one table, gathered as they stand in the log and made into one Arrow batch. No I/O.

Above ``shape``, below ``changes``. Keys and rows stay the bytes that they are in the log until the block is
full; then each column is decoded at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import images_to_batch, keys_to_arrays
from herdpy.log.lsn import LSN
from herdpy_spark.feed.shape import SEQUENCE_TYPE, Array, FeedShape, Field
from herdpy_sql.catalog import Table

INSERT, UPDATE, DELETE, TRUNCATE, CREATE, DROP, ALTER = range(7)
OPS = pa.array(["insert", "update", "delete", "truncate", "create", "drop", "alter"])
NumpyArray = np.ndarray[Any, Any]


class Origin(NamedTuple):
    """The transaction that a change is from. Rows of a published state are of many: ``time_us`` is None."""

    lsn: LSN
    number: int
    request_id: bytes
    time_us: int | None


class Structs(NamedTuple):
    """Struct values of many changes: the columns of those that have one, and which have (None: all)."""

    columns: Sequence[Array]
    present: NumpyArray | None = None


class GatheredChanges(NamedTuple):
    """Many changes, by column; the arrays of ``after``, ``before`` and ``key`` are those of the shape."""

    ops: NumpyArray
    key: Structs | None
    after: Structs | None
    before: Structs | None
    origins: Sequence[Origin]
    owners: NumpyArray
    positions: NumpyArray
    schemas: dict[int, str]


def to_batch(shape: FeedShape, changes: GatheredChanges) -> pa.RecordBatch:
    """The changes as a batch of the feed."""
    count = len(changes.ops)
    owners = _indices(changes.owners)
    origins = changes.origins
    schema = shape.schema
    key_type, row_type = schema.field(1).type, schema.field(2).type
    entries = [str(origin.lsn) for origin in origins]
    names = [f"{lsn}/{origin.number}" for lsn, origin in zip(entries, origins, strict=True)]
    requests = [_text(origin.request_id) for origin in origins]
    times = pa.array([origin.time_us for origin in origins], pa.int64()).cast(pa.timestamp("us", "UTC"))
    texts: Array = pa.nulls(count, pa.string())
    if changes.schemas:
        texts = pa.array([changes.schemas.get(at) for at in range(count)], pa.string())
    positions: Array = pa.array(changes.positions, pa.int64())
    sequence = pa.StructArray.from_arrays(
        [
            pa.array([origin.lsn.ledger_id for origin in origins], pa.int64()).take(owners),
            pa.array([origin.lsn.entry_id for origin in origins], pa.int64()).take(owners),
            pa.array([origin.number for origin in origins], pa.int32()).take(owners),
            positions,
        ],
        fields=list(SEQUENCE_TYPE),
    )
    arrays: list[Array] = [
        OPS.take(_indices(changes.ops)),
        _struct(changes.key, key_type, count),
        _struct(changes.after, row_type, count),
        _struct(changes.before, row_type, count),
        pa.array(entries, pa.string()).take(owners),
        positions,
        pa.array(names, pa.string()).take(owners),
        pa.array(requests, pa.string()).take(owners),
        times.take(owners),
        texts,
        sequence,
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _indices(numbers: NumpyArray) -> Array:
    return pa.array(numbers)


def _text(request_id: bytes) -> str | None:
    """A request id as text; None where the commit had none."""
    return request_id.decode("utf-8", "backslashreplace") if request_id else None


def _struct(structs: Structs | None, kind: Any, count: int) -> Array:
    if structs is None:
        return pa.nulls(count, kind)
    columns, present = structs
    if present is None:
        return pa.StructArray.from_arrays(list(columns), fields=list(kind))
    places: Array = pa.array(np.cumsum(present) - 1, pa.int64(), mask=~present)
    spread = [column.take(places) for column in columns]
    return pa.StructArray.from_arrays(spread, fields=list(kind), mask=pa.array(~present))


def row_columns(shape: FeedShape, table: Table, columns: dict[int, Array], count: int) -> list[Array]:
    """The feed's columns of rows, from arrays by the table's positions (of the codecs' types)."""
    return _dressed(shape, table, shape.places(table).row, shape.row, columns, count)


def key_columns(shape: FeedShape, table: Table, keys: Sequence[bytes]) -> list[Array]:
    """The feed's columns of keys. They say what was compared: 1 for a NUMERIC 1.00, 0 for -0."""
    positions = table.key_positions
    precisions = [table.columns[at].type.precision for at in positions]
    arrays = keys_to_arrays(table.key_codec.fields, keys, precisions)
    columns = dict(zip(positions, arrays, strict=True))
    return _dressed(shape, table, shape.places(table).key, shape.key, columns, len(keys))


def _dressed(
    shape: FeedShape,
    table: Table,
    places: Sequence[int | None],
    fields: Sequence[Field],
    columns: dict[int, Array],
    count: int,
) -> list[Array]:
    return [
        pa.nulls(count, field.type) if at is None else shape.dress.convert(table.columns[at], columns[at])
        for at, field in zip(places, fields, strict=True)
    ]


def image_columns(shape: FeedShape, table: Table, images: Sequence[bytes]) -> list[Array]:
    """The feed's columns of rows, from their images."""
    positions = [at for at in shape.places(table).row if at is not None]
    precisions = [table.columns[at].type.precision for at in positions]
    names = [table.columns[at].name for at in positions]
    batch = images_to_batch(table.fields, names, positions, images, precisions)
    return row_columns(shape, table, dict(zip(positions, batch.columns, strict=True)), len(images))


class Block:
    """Changes that are being gathered. One definition holds for all of them; ``table`` may be None."""

    def __init__(self, shape: FeedShape, table: Table | None) -> None:
        self._shape, self._table = shape, table
        self._ops = bytearray()
        self._keys: list[bytes | None] = []
        self._afters: list[bytes | None] = []
        self._befores: list[bytes | None] = []
        self._owners: list[int] = []
        self._positions: list[int] = []
        self._origins: list[Origin] = []
        self._next: Origin | None = None
        self._schemas: dict[int, str] = {}
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._ops)

    def begin(self, origin: Origin) -> None:
        """What is added from here on is of this transaction."""
        self._next = origin

    def row(
        self, op: int, position: int, key: bytes | None, after: bytes | None, before: bytes | None = None
    ) -> None:
        """Add a change of a row, as its key and images stand in the log."""
        if self._next is not None:
            self._origins.append(self._next)
            self._next = None
        self._ops.append(op)
        self._keys.append(key)
        self._afters.append(after)
        self._befores.append(before)
        self._owners.append(len(self._origins) - 1)
        self._positions.append(position)
        self.nbytes += len(after or b"") + len(before or b"")

    def event(self, op: int, position: int, schema: str | None) -> None:
        """Add a change of the whole table, and its definition where that is what changed."""
        if schema is not None:
            self._schemas[len(self._ops)] = schema
        self.row(op, position, None, None)

    def batch(self) -> pa.RecordBatch:
        """All of them.

        Raises:
            SchemaChangedError: the shape has no place for a column of the rows.
            ValueError: an image or a key is damaged.
        """
        return to_batch(
            self._shape,
            GatheredChanges(
                ops=np.frombuffer(bytes(self._ops), np.uint8),
                key=self._structs(self._keys, key_columns),
                after=self._structs(self._afters, image_columns),
                before=self._structs(self._befores, image_columns),
                origins=self._origins,
                owners=np.array(self._owners, np.int32),
                positions=np.array(self._positions, np.int64),
                schemas=self._schemas,
            ),
        )

    def _structs(self, values: list[bytes | None], decode: Any) -> Structs | None:
        there = [value for value in values if value is not None]
        if not there:
            return None
        assert self._table is not None
        columns = decode(self._shape, self._table, there)
        if len(there) == len(values):
            return Structs(columns)
        return Structs(columns, np.array([value is not None for value in values]))
