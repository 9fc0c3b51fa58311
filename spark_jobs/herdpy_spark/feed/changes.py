"""The changes of one table from the log's transactions, as Arrow batches. Pure: the log is handed in.

Above ``table``. A transaction's records in their order; those of the followed table into a block, where
keys and rows stay bytes until it is full; full blocks, and Arrow batches that the log carries whole, out as
batches of the feed's shape. Order is the log's order. An update that moves a row to another key is two
changes, a delete and an insert (docs/decisions/23): whoever folds by ``key`` has the table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import arrow_type
from herdpy.codec.arrow_bytes import batch_to_keys, images_to_batch, keys_to_arrays
from herdpy.codec.arrow_conform import conform
from herdpy.log.entry import LoggedTransaction
from herdpy.log.lsn import LSN
from herdpy.log.records import (
    TYPES,
    Before,
    Delete,
    Insert,
    InsertBatch,
    LoadBatch,
    LoadOp,
    Record,
    Truncate,
    Update,
)
from herdpy_spark.feed.table import (
    DEFINING,
    SEQUENCE_TYPE,
    Array,
    FeedShape,
    Field,
    FollowedTable,
    SchemaChangedError,
    Shapes,
)
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import encode_table
from herdpy_sql.staged import kept_keys, kept_rows

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
    other_key: Structs | None
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
        _struct(changes.other_key, key_type, count),
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
    there = _dressed(shape, table, shape.places(table).row, shape.row, columns, count)
    if shape.newest is None or shape.newest.id != table.id:
        return there
    known = len(table.columns)  # columns beyond were added later
    return [
        pa.repeat(shape.absent[number][0], count) if at >= known else array
        for number, (at, array) in enumerate(zip(shape.newest.visible, there, strict=True))
    ]


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


class TableChanges(NamedTuple):
    """A batch of the feed, and the definition that holds for its rows.

    Of changes of the whole table it is the one before them; None where there was no table.
    """

    table: Table | None
    batch: pa.RecordBatch


class Block:
    """Changes that are being gathered. One definition, ``table``, holds for all of them; it may be None."""

    def __init__(self, shape: FeedShape, table: Table | None) -> None:
        self._shape, self.table = shape, table
        self._ops = bytearray()
        self._keys: list[bytes | None] = []
        self._afters: list[bytes | None] = []
        self._befores: list[bytes | None] = []
        self._other_keys: dict[int, bytes] = {}
        self._owners: list[int] = []
        self._positions: list[int] = []
        self._origins: list[Origin] = []
        self._next: Origin | None = None
        self._schemas: dict[int, str] = {}
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._ops)

    @property
    def origin(self) -> Origin | None:
        """The transaction of what is added next, if nothing of it is here yet."""
        return self._next

    def begin(self, origin: Origin) -> None:
        """What is added from here on is of this transaction."""
        self._next = origin

    def row(
        self,
        op: int,
        position: int,
        key: bytes | None,
        after: bytes | None,
        before: bytes | None = None,
        other_key: bytes | None = None,
    ) -> None:
        """Add a change of a row, as its key and images stand in the log."""
        if other_key is not None:
            self._other_keys[len(self._ops)] = other_key
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

    def event(self, op: int, position: int, schema: str | None, after: bytes | None = None) -> None:
        """Add a change of the whole table, and its definition where that is what changed.

        Args:
            after: an image of what rows that are there have in columns that were added.
        """
        if schema is not None:
            self._schemas[len(self._ops)] = schema
        self.row(op, position, None, after)

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
                other_key=self._moved(),
                origins=self._origins,
                owners=np.array(self._owners, np.int32),
                positions=np.array(self._positions, np.int64),
                schemas=self._schemas,
            ),
        )

    def _moved(self) -> Structs | None:
        keys = self._other_keys
        return self._structs([keys.get(at) for at in range(len(self))], key_columns) if keys else None

    def _structs(self, values: list[bytes | None], decode: Any) -> Structs | None:
        there = [value for value in values if value is not None]
        if not there:
            return None
        assert self.table is not None
        columns = decode(self._shape, self.table, there)
        if len(there) == len(values):
            return Structs(columns)
        return Structs(columns, np.array([value is not None for value in values]))


MAX_ROWS = 10_000
MAX_BYTES = 32 << 20

StagedRows = Callable[[LoadBatch, int], Iterator[pa.RecordBatch]]
"""The rows of part i of a load, from where they are staged."""


class FedEntry(Protocol):
    """An entry of the log."""

    @property
    def lsn(self) -> LSN:
        """Its position."""

    def transactions(self) -> list[LoggedTransaction]:
        """Those that take effect with it."""


class ChangeReader:
    """Reads one stretch of the log.

    Args:
        followed: the table's definition where the stretch begins; it goes along.
        shapes: the columns of the feed.
        staged: where the rows of loads come from.
        parts: of the loads in this stretch, only the rows of these parts, which are counted through all of
            them; the other changes go with part 0. None: everything.
    """

    def __init__(
        self,
        followed: FollowedTable,
        shapes: Shapes,
        staged: StagedRows,
        parts: tuple[int, int] | None = None,
    ) -> None:
        self._followed = followed
        self._shapes = shapes
        self._staged = staged
        self._parts = parts
        self._all = parts is None or parts[0] == 0
        self._part = 0
        self._block = self._new_block()
        self._befores: dict[bytes, bytes] = {}

    def changes(self, entries: Iterable[FedEntry]) -> Iterator[TableChanges]:
        """The changes, in order.

        Raises:
            SchemaChangedError: a row has columns for which the feed has no place.
            ValueError: the log's bytes do not fit the definition.
        """
        lsn = None
        try:
            for entry in entries:
                lsn = entry.lsn
                for number, transaction in enumerate(entry.transactions()):
                    origin = Origin(lsn, number, transaction.request_id, transaction.timestamp_us)
                    yield from self._transaction(origin, transaction.records)
            yield from self._flush()
        except SchemaChangedError as error:
            raise SchemaChangedError(
                f"{error}. Rows of it are in the log up to {lsn}. Start the query again, from its checkpoint,"
                " with a DataFrame that is made now: it has the table's present columns"
            ) from error

    def _transaction(self, origin: Origin, records: list[Record]) -> Iterator[TableChanges]:
        self._block.begin(origin)
        followed = self._followed
        table_id = followed.id
        position = 0
        self._befores.clear()
        for record in records:
            kind = TYPES[type(record)]
            if kind in DEFINING:
                yield from self._flush(origin)
                self._define(record, position)
                # Rows before and after a definition are decoded apart.
                yield from self._flush(origin)
                table_id = followed.id
            elif getattr(record, "table_id", None) == table_id:
                if isinstance(record, InsertBatch):
                    yield from self._flush(origin)
                    yield from self._inserted(record, origin, position)
                elif isinstance(record, LoadBatch):
                    yield from self._flush(origin)
                    yield from self._loaded(record, origin, position)
                elif self._all:
                    self._row(record, position)
            position += _changes_of(record) if kind in _MANY else 1
            if len(self._block) >= MAX_ROWS or self._block.nbytes >= MAX_BYTES:
                yield from self._flush(origin)

    def _new_block(self) -> Block:
        table = self._followed.table
        return Block(self._shapes.at(table), table)

    def _flush(self, origin: Origin | None = None) -> Iterator[TableChanges]:
        """What was gathered; ``origin`` is the transaction that goes on."""
        full, self._block = self._block, self._new_block()
        if origin is not None:
            self._block.begin(origin)
        if len(full):
            yield TableChanges(full.table, full.batch())

    def _row(self, record: Record, position: int) -> None:
        block = self._block
        if isinstance(record, Insert):
            block.row(INSERT, position, record.key, record.row)
        elif isinstance(record, Update) and record.old_key is not None:
            key, old_key = record.key, record.old_key
            block.row(DELETE, position, old_key, None, self._befores.pop(old_key, None), other_key=key)
            block.row(INSERT, position + 1, key, record.row, other_key=old_key)
        elif isinstance(record, Update):
            block.row(UPDATE, position, record.key, record.row, self._befores.pop(record.key, None))
        elif isinstance(record, Delete):
            block.row(DELETE, position, record.key, None, self._befores.pop(record.key, None))
        elif isinstance(record, Before):
            self._befores[record.key] = record.row
        elif isinstance(record, Truncate):
            block.event(TRUNCATE, position, None)

    def _define(self, record: Record, position: int) -> None:
        before, renamed = self._followed.table, self._followed.renamed
        if not self._followed.see(record) or not self._all:
            return
        if self._followed.renamed != renamed:
            raise ValueError(
                "a table came by another name, with rows: a state takes the place of its changes"
            )
        after = self._followed.table
        defined = after or before
        assert defined is not None
        same = before is not None and after is not None and before.id == after.id
        op = ALTER if same else CREATE if after is not None else DROP
        if before is not None and after is not None and same:
            self._altered(before, after, position)
        else:
            self._block.event(op, position, encode_table(defined).decode())

    def _altered(self, before: Table, after: Table, position: int) -> None:
        """An ``alter``: of columns that are new, ``after`` has what the rows have that were there.

        Raises:
            SchemaChangedError: the feed has no place for such a column, and its value is not NULL.
        """
        added = [one for one in after.columns[len(before.columns) :] if one.visible]
        schema = encode_table(after).decode()
        filled = any(one.missing is not None for one in added)
        if not added or (not filled and self._shapes.misfit(after) is not None):
            self._block.event(ALTER, position, schema)
            return
        origin = self._block.origin
        self._block = self._new_block()  # it has the columns of the table as it is now
        if origin is not None:
            self._block.begin(origin)
        said = json.loads(schema) | {"added": [one.name for one in added]}
        image = before.row_codec.encode([None] * len(before.columns))
        self._block.event(ALTER, position, json.dumps(said), image)

    # Rows that the log has as Arrow batches.

    def _inserted(self, record: InsertBatch, origin: Origin, position: int) -> Iterator[TableChanges]:
        if not self._all:
            return
        table = self._table()
        with pa.ipc.open_stream(record.stream) as reader:
            for batch in reader:
                for start in range(0, batch.num_rows, MAX_ROWS):
                    rows = batch.slice(start, MAX_ROWS)
                    at = position + np.arange(rows.num_rows)
                    ops = np.full(rows.num_rows, INSERT, np.uint8)
                    yield self._rows(table, ops, keys_of(table, _by_position(rows)), rows, at, origin)
                    position += rows.num_rows

    def _loaded(self, record: LoadBatch, origin: Origin, position: int) -> Iterator[TableChanges]:
        table = self._table()
        row = 0
        for number, part in enumerate(record.parts):
            wanted = self._parts is None or self._parts[0] <= self._part < self._parts[1]
            self._part += 1
            if wanted:
                at = row
                for batch in self._staged(record, number):
                    for start in range(0, batch.num_rows, MAX_ROWS):
                        rows = batch.slice(start, MAX_ROWS)
                        yield from self._load_rows(table, record, rows, at, origin, position)
                        at += rows.num_rows
                if at - row != part.rows:
                    raise ValueError(
                        f"part {number} of the load at {origin.lsn} has {at - row} rows, not {part.rows}"
                    )
            row += part.rows

    def _load_rows(
        self, table: Table, record: LoadBatch, rows: pa.RecordBatch, first: int, origin: Origin, position: int
    ) -> Iterator[TableChanges]:
        """The changes that rows of a load are, which begin with its row ``first``."""
        present = record.present_mask(first, rows.num_rows)
        if record.op == LoadOp.DELETE:
            kept_all = kept_keys(table, rows)
            keys = [key for key, there in zip(kept_all, present, strict=True) if there]
            if keys:
                at = position + first + np.flatnonzero(present)
                yield self._rows(table, np.full(len(keys), DELETE, np.uint8), keys, None, at, origin)
            return
        kept = kept_rows(table, rows, record.first_row_id + first)
        at = position + first + np.arange(rows.num_rows)
        ops = np.where(present, UPDATE, INSERT).astype(np.uint8)
        if record.op == LoadOp.IGNORE and present.any():
            chosen: Array = pa.array(~present)
            kept, at, ops = kept.filter(chosen), at[~present], ops[~present]
        if kept.num_rows:
            yield self._rows(table, ops, keys_of(table, _by_position(kept)), kept, at, origin)

    def _rows(
        self,
        table: Table,
        ops: NumpyArray,
        keys: list[bytes],
        after: pa.RecordBatch | None,
        positions: NumpyArray,
        origin: Origin,
    ) -> TableChanges:
        """Changes of rows with these keys; ``after`` has all columns of the table."""
        shape = self._shapes.at(table)
        count = len(keys)
        changes = GatheredChanges(
            ops=ops,
            key=Structs(key_columns(shape, table, keys)),
            after=self._after(table, after) if after is not None else None,
            before=None,
            other_key=None,
            origins=[origin],
            owners=np.zeros(count, np.int32),
            positions=positions,
            schemas={},
        )
        return TableChanges(table, to_batch(shape, changes))

    def _after(self, table: Table, rows: pa.RecordBatch) -> Structs:
        columns = visible_columns(table, _by_position(rows))
        return Structs(row_columns(self._shapes.at(table), table, columns, rows.num_rows))

    def _table(self) -> Table:
        assert self._followed.table is not None
        return self._followed.table


_MANY = frozenset(TYPES[one] for one in (InsertBatch, LoadBatch, Update))


def _changes_of(record: Record) -> int:
    """How many positions of its transaction a record takes: one for each change that it may be."""
    if isinstance(record, (InsertBatch, LoadBatch)):
        return record.rows
    return 2 if isinstance(record, Update) and record.old_key is not None else 1


def keys_of(table: Table, columns: Mapping[int, Array]) -> list[bytes]:
    """The keys of rows, from their columns by the table's positions."""
    return batch_to_keys(table.key_codec.fields, [columns[at] for at in table.key_positions])


def visible_columns(table: Table, columns: Mapping[int, Array]) -> dict[int, Array]:
    """The visible ones of rows' columns, as arrays of the codecs' types, to a decimal's precision."""
    found: dict[int, Array] = {}
    for at in table.visible:
        field, precision = table.fields[at], table.columns[at].type.precision
        array, kind = conform(columns[at], field, precision), arrow_type(field, precision)
        found[at] = array if array.type == kind else array.cast(kind)
    return found


def _by_position(rows: pa.RecordBatch) -> dict[int, Array]:
    """The columns of a batch that has all of its table's."""
    return dict(enumerate(rows.columns))
