"""The changes of one table, out of the log's transactions, as Arrow batches. Pure: the log is handed in.

Above ``block`` and ``followed``. Data passes through so: a transaction's records in their order; those of the
followed table into a block; full blocks, and Arrow batches that the log carries whole, out as batches of the
feed's shape. Order is the log's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import arrow_type, batch_to_keys, conform
from herdpy.log.lsn import LSN
from herdpy.log.records import (
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
from herdpy.log.transaction import Transaction
from herdpy_spark.feed.block import (
    ALTER,
    CREATE,
    DELETE,
    DROP,
    INSERT,
    TRUNCATE,
    UPDATE,
    Block,
    GatheredChanges,
    NumpyArray,
    Origin,
    Structs,
    key_columns,
    row_columns,
    to_batch,
)
from herdpy_spark.feed.followed import DEFINING, FollowedTable
from herdpy_spark.feed.shape import Array, FeedShape, SchemaChangedError
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import encode_table
from herdpy_sql.staged import kept_keys, kept_rows

MAX_ROWS = 10_000
MAX_BYTES = 32 << 20

StagedRows = Callable[[LoadBatch, int], Iterator[pa.RecordBatch]]
"""The rows of part i of a load, from where they are staged."""


class FedEntry(Protocol):
    """An entry of the log."""

    @property
    def lsn(self) -> LSN:
        """Its position."""

    def transactions(self) -> list[Transaction]:
        """Those that take effect with it."""


class ChangeReader:
    """Reads one stretch of the log.

    Args:
        followed: the table's definition where the stretch begins; it goes along.
        shape: the columns of the feed.
        staged: where the rows of loads come from.
        parts: of the loads in this stretch, only the rows of these parts, which are counted through all of
            them; the other changes go with part 0. None: everything.
    """

    def __init__(
        self,
        followed: FollowedTable,
        shape: FeedShape,
        staged: StagedRows,
        parts: tuple[int, int] | None = None,
    ) -> None:
        self._followed = followed
        self._shape = shape
        self._staged = staged
        self._parts = parts
        self._all = parts is None or parts[0] == 0
        self._part = 0
        self._block = Block(shape, followed.table)
        self._befores: dict[bytes, bytes] = {}

    def batches(self, entries: Iterable[FedEntry]) -> Iterator[pa.RecordBatch]:
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

    def _transaction(self, origin: Origin, records: list[Record]) -> Iterator[pa.RecordBatch]:
        self._block.begin(origin)
        followed = self._followed
        table_id = followed.id
        position = 0
        self._befores.clear()
        for record in records:
            kind = record.type
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
            position += record.rows if isinstance(record, (InsertBatch, LoadBatch)) else 1
            if len(self._block) >= MAX_ROWS or self._block.nbytes >= MAX_BYTES:
                yield from self._flush(origin)

    def _flush(self, origin: Origin | None = None) -> Iterator[pa.RecordBatch]:
        """What was gathered; ``origin`` is the transaction that goes on."""
        full, self._block = self._block, Block(self._shape, self._followed.table)
        if origin is not None:
            self._block.begin(origin)
        if len(full):
            yield full.batch()

    def _row(self, record: Record, position: int) -> None:
        block = self._block
        if isinstance(record, Insert):
            block.row(INSERT, position, record.key, record.row)
        elif isinstance(record, Update):
            key = record.key if record.old_key is None else record.old_key
            block.row(UPDATE, position, key, record.row, self._befores.pop(key, None))
        elif isinstance(record, Delete):
            block.row(DELETE, position, record.key, None, self._befores.pop(record.key, None))
        elif isinstance(record, Before):
            self._befores[record.key] = record.row
        elif isinstance(record, Truncate):
            block.event(TRUNCATE, position, None)

    def _define(self, record: Record, position: int) -> None:
        before = self._followed.table
        if not self._followed.see(record) or not self._all:
            return
        after = self._followed.table
        told = after or before
        assert told is not None
        same = before is not None and after is not None and before.id == after.id
        op = ALTER if same else CREATE if after is not None else DROP
        self._block.event(op, position, encode_table(told).decode())

    # Rows that the log has as Arrow batches.

    def _inserted(self, record: InsertBatch, origin: Origin, position: int) -> Iterator[pa.RecordBatch]:
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

    def _loaded(self, record: LoadBatch, origin: Origin, position: int) -> Iterator[pa.RecordBatch]:
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
    ) -> Iterator[pa.RecordBatch]:
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
    ) -> pa.RecordBatch:
        """Changes of rows with these keys; ``after`` has all columns of the table."""
        shape = self._shape
        count = len(keys)
        changes = GatheredChanges(
            ops=ops,
            key=Structs(key_columns(shape, table, keys)),
            after=self._after(table, after) if after is not None else None,
            before=None,
            origins=[origin],
            owners=np.zeros(count, np.int32),
            positions=positions,
            schemas={},
        )
        return to_batch(shape, changes)

    def _after(self, table: Table, rows: pa.RecordBatch) -> Structs:
        columns = visible_columns(table, _by_position(rows))
        return Structs(row_columns(self._shape, table, columns, rows.num_rows))

    def _table(self) -> Table:
        assert self._followed.table is not None
        return self._followed.table


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
