"""What happened to the tables in a stretch of the log, without the rows: which stood, which entries matter.

Above ``entries``; the driver runs it once when a read is planned, so that tasks read only entries that change
their table, and so that ranges of keys follow the rows as they are. Records are stepped over by their frames;
definitions (a ``TableShape`` each) and a few keys are all that is decoded.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import pairwise
from struct import Struct
from typing import Any

import pyarrow as pa

from herdpy.codec.arrow import arrow_type, datums_to_array
from herdpy.codec.arrow_bytes import batch_to_keys, images_to_batch
from herdpy.codec.arrow_stream import ArrowStreamReader
from herdpy.log import LSN, RecordError
from herdpy.log.detached import LogLedgers
from herdpy.log.published import SnapshotTable
from herdpy.log.records import (
    TYPES,
    AlterTable,
    CreateTable,
    Delete,
    DropTable,
    Insert,
    InsertBatch,
    LoadBatch,
    LoadOp,
    PutObject,
    Record,
    Truncate,
    Update,
    decode_record,
)
from herdpy_spark.log.entries import TransactionsAtEntry
from herdpy_sql.catalog import Table, is_temporary, names_meant, relabelled
from herdpy_sql.definitions import decode_table, encode_table
from herdpy_sql.objects import CatalogObject, EnumDefinition, decode_object
from herdpy_sql.staged import kept_array, kept_rows

#: Encoded keys: from the first one on, up to and without the second; None is no bound.
KeyRange = tuple[bytes | None, bytes | None]


class Sample:
    """Keys that stand for many: each with the number of rows that it stands for."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self.points: list[tuple[bytes, float]] = []

    def add(self, keys: Iterable[bytes], rows: float) -> None:
        """Keys that each stand for so many rows."""
        self.points += [(key, rows) for key in keys]
        while len(self.points) > self._most:
            points = sorted(self.points)
            odd = points[len(points) // 2 * 2 :]
            pairs = zip(points[::2], points[1::2], strict=False)
            self.points = [(key, one + other) for (_, one), (key, other) in pairs] + odd


def cut(
    points: Sequence[tuple[bytes, float]], ranges: int, low: bytes | None = None, high: bytes | None = None
) -> tuple[KeyRange, ...]:
    """At most so many ranges that cover [low, high) without a gap; fewer where the points are few.

    Args:
        points: keys in any order, each with the number of rows that it stands for (those from it on).
    """
    if low is not None and high is not None and low >= high:
        return ()
    inside = sorted(
        (key, rows) for key, rows in points if (low is None or key >= low) and (high is None or key < high)
    )
    total = sum(rows for _, rows in inside)
    bounds: list[bytes] = []
    passed = 0.0
    for key, rows in inside:
        if passed and passed >= total * (len(bounds) + 1) / ranges and (not bounds or key > bounds[-1]):
            bounds.append(key)
        passed += rows
    bounds = bounds[: ranges - 1]
    return tuple(pairwise([low, *bounds, high]))


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

    def live_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Those of a batch of all physical columns that were not dropped."""
        return pa.RecordBatch.from_arrays([batch.column(at) for at in self.live], schema=self.schema)

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


_KNOWN = frozenset(TYPES.values())
_DEFINES = frozenset({TYPES[CreateTable], TYPES[AlterTable], TYPES[DropTable], TYPES[PutObject]})
_ROWS = frozenset(
    {TYPES[Insert], TYPES[Update], TYPES[Delete], TYPES[InsertBatch], TYPES[LoadBatch], TYPES[Truncate]}
)
_BATCHES = frozenset({TYPES[InsertBatch], TYPES[LoadBatch]})
_INSERT, _TRUNCATE = TYPES[Insert], TYPES[Truncate]
_FRAME = Struct(">BBII").unpack_from  # type, version, length; then what is the table in records of rows
_U32 = Struct(">I").unpack_from
_COUNT_AT = 9  # of a transaction: its time (8 bytes), how long its request id is (1), that, the count
_PAD = bytes(16)
_EVERY = 64
_FROM_BATCH = 8
_GAP_ENTRIES = 32
_MOST_SPANS = 256
MAX_MESSAGE_BYTES = 1 << 30


def records_start(body: bytes) -> int:
    """Where the first record of a transaction begins."""
    return _COUNT_AT + body[_COUNT_AT - 1] + 4


@dataclass(frozen=True, slots=True)
class Span:
    """Entries that are read in one go: after ``after`` (its running CRC, if known) to ``upto``."""

    after: LSN
    crc: int | None
    upto: LSN


@dataclass(slots=True)
class TableHistory:
    """A table at the end of the stretch.

    Attributes:
        schema, name, definition: as they are then.
        base: the table in the snapshot, None when nothing of that can be left (made later, or truncated).
        inserted: how many rows were added, counted roughly; ``sample``: some of their keys.
        loads: what loads staged, and the table's definition then.
    """

    schema: str
    name: str
    definition: bytes
    base: SnapshotTable | None
    inserted: int = 0
    sample: Sample = field(default_factory=Sample)
    loads: list[tuple[LoadBatch, bytes]] = field(default_factory=list)
    _spans: list[tuple[Span, int, int]] = field(default_factory=list)  # and the numbers of its entries
    _gap: int = _GAP_ENTRIES

    @property
    def spans(self) -> tuple[Span, ...]:
        """Where the log changes the table, in order."""
        return tuple(span for span, _, _ in self._spans)

    def touch(self, resume: Span, number: int) -> None:
        """The so many-th entry changes the table: ``resume`` is what to read of it."""
        spans = self._spans
        if spans and (resume.after <= spans[-1][0].upto or number - spans[-1][2] <= self._gap):
            last, first, _ = spans[-1]
            spans[-1] = (replace(last, upto=resume.upto), first, number)
            return
        spans.append((resume, number, number))
        if len(spans) > _MOST_SPANS:
            self._gap *= 2
            merged: list[tuple[Span, int, int]] = []
            for span, first, final in spans:
                if merged and first - merged[-1][2] <= self._gap:
                    merged[-1] = (replace(merged[-1][0], upto=span.upto), merged[-1][1], final)
                else:
                    merged.append((span, first, final))
            self._spans = merged

    def clear(self) -> None:
        """All rows go."""
        self.base = None
        self.inserted = 0
        self.sample = Sample()
        self.loads.clear()
        self._spans.clear()


class TableHistories:
    """Every table's, while the log is read: ``take`` each entry. Sessions' temporary tables are passed over.

    Args:
        temporary: ids of those that stand where the log begins.
    """

    def __init__(
        self, base: Iterable[SnapshotTable], after: LSN, crc: int | None, temporary: Iterable[int] = ()
    ) -> None:
        self.tables: dict[int, TableHistory] = {}
        self._temporary = set(temporary)
        for one in base:
            if is_temporary(one.schema):
                self._temporary.add(one.id)
            else:
                self.tables[one.id] = TableHistory(one.schema, one.name, one.definition.encode(), one)
        self._resume = (after, crc)
        self._number = 0

    def take(self, entry: TransactionsAtEntry) -> None:
        """The next entry. RecordError: it holds what is not known here, or changes a table that is none."""
        self._number += 1
        where = Span(*self._resume, entry.lsn)
        for body in entry.bodies:
            self._transaction(body, where)
        if entry.complete:
            self._resume = (entry.lsn, entry.crc)

    def named(self, text: str) -> TableHistory | None:
        """That of the table which this means now: a name in schema public, or "schema.name"."""
        there = {(one.schema, one.name): one for one in self.tables.values()}
        return next((there[meant] for meant in names_meant(text) if meant in there), None)

    def partitions(self, history: TableHistory) -> list[tuple[str, str]] | None:
        """Schema and name of each partition of a partitioned table; None: it is none, and has rows."""
        table = shape_of(history.definition).table
        if table.partition_key is None:
            return None
        others = [shape_of(one.definition).table for one in self.tables.values()]
        parts = [one for one in others if one.bound is not None and one.bound.parent == table.id]
        return [(one.schema, one.name) for one in parts]

    def _transaction(self, body: bytes, where: Span) -> None:
        at, total = records_start(body), len(body)
        data = body + _PAD
        tables, number = self.tables, self._number
        touched = -1
        while at < total:
            kind, version, length, table_id = _FRAME(data, at)
            stop = at + 6 + length
            if version != 1 or stop > total or kind not in _KNOWN:
                raise RecordError(f"a record of type {kind}, version {version} is not known here")
            if kind in _ROWS and table_id in self._temporary:
                touched = -1
            elif kind in _ROWS:
                history = tables.get(table_id) or self._known(table_id)
                if kind == _TRUNCATE:
                    history.clear()
                    touched = -1
                elif touched != table_id:
                    history.touch(where, number)
                    touched = table_id
                if kind == _INSERT:
                    history.inserted += 1
                    if not history.inserted % _EVERY:
                        (size,) = _U32(data, at + 10)
                        history.sample.add([data[at + 14 : at + 14 + size]], _EVERY)
                elif kind in _BATCHES:
                    _take_batch(history, decode_record(data[at:stop]))
            elif kind in _DEFINES:
                self._define(decode_record(data[at:stop]))
                touched = -1
            at = stop

    def _define(self, record: Record) -> None:
        if isinstance(record, CreateTable):
            table = shape_of(record.definition).table
            if table.is_temporary:
                self._temporary.add(table.id)
            else:
                self.tables[table.id] = TableHistory(table.schema, table.name, record.definition, None)
        elif isinstance(record, AlterTable):
            table = shape_of(record.definition).table
            if table.is_temporary:
                return
            history = self._known(table.id)
            history.schema, history.name, history.definition = table.schema, table.name, record.definition
        elif isinstance(record, PutObject):
            self._relabel(decode_object(record.definition))
        elif isinstance(record, DropTable) and record.table_id in self._temporary:
            self._temporary.remove(record.table_id)
        elif isinstance(record, DropTable):
            self._known(record.table_id)
            del self.tables[record.table_id]

    def _relabel(self, one: CatalogObject) -> None:
        """An ENUM may have more labels now; definitions have them, so that rows can be shown."""
        if not isinstance(one.definition, EnumDefinition):
            return
        for history in self.tables.values():
            table = shape_of(history.definition).table
            changed = relabelled(table, {one.id: one})
            if changed is not table:
                history.definition = encode_table(changed)

    def _known(self, table_id: int) -> TableHistory:
        history = self.tables.get(table_id)
        if history is None:
            raise RecordError(f"the log changes table {table_id}, which is not there")
        return history


def _take_batch(history: TableHistory, record: Record) -> None:
    if isinstance(record, InsertBatch):
        history.inserted += record.rows
        batch = _first_batch(iter([record.stream]))
        if batch is not None:
            keys = _keys_of(shape_of(history.definition), _some_rows(batch))
            history.sample.add(keys, record.rows / len(keys))
    elif isinstance(record, LoadBatch) and record.op != LoadOp.DELETE:
        history.inserted += record.rows
        history.loads.append((record, history.definition))


def sample_loads(ledgers: LogLedgers, history: TableHistory) -> None:
    """Look at some keys of each part of the loads: their first rows, of which a part has enough."""
    for record, definition in history.loads:
        shape, first = shape_of(definition), record.first_row_id
        for part in record.parts:
            with closing(ledgers.part(part)) as pieces:
                batch = _first_batch(pieces)
            if batch is not None:
                if shape.table.has_hidden_key:
                    ids = range(first, first + part.rows, max(1, part.rows // _FROM_BATCH))
                    keys = [shape.table.key_codec.encode([one]) for one in ids]
                else:
                    keys = _keys_of(shape, kept_rows(shape.table, _some_rows(batch), first))
                history.sample.add(keys, part.rows / len(keys))
            first += part.rows


def _first_batch(pieces: Iterator[bytes]) -> pa.RecordBatch | None:
    reader = ArrowStreamReader(MAX_MESSAGE_BYTES)
    found = (batch for piece in pieces for batch in reader.feed(piece) if batch.num_rows)
    return next(found, None)


def _some_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A few rows of a batch; of a large one as of single rows."""
    return batch.take(pa.array(range(0, batch.num_rows, min(max(1, batch.num_rows // _FROM_BATCH), _EVERY))))


def _keys_of(shape: TableShape, batch: pa.RecordBatch) -> list[bytes]:
    """The keys of rows with all of the table's columns."""
    return shape.keys([batch.column(at) for at in shape.table.key_positions])
