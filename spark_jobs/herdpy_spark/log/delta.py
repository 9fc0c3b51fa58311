"""The changes of one table in a stretch of the log: for each key that was touched, what became of its row.

Above ``history``, whose spans say which entries to read. Rows stay as they were logged, images as bytes and
batches as Arrow, until a partition asks for some of them: of a row that was changed ten times the last image
is decoded, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, repeat
from struct import Struct
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute

from herdpy.codec.arrow import ArrowStreamReader
from herdpy.log import CorruptLedgerError, RecordError
from herdpy.log.records import (
    Delete,
    Insert,
    InsertBatch,
    LoadBatch,
    LoadOp,
    StagedPart,
    Truncate,
    Update,
    decode_record,
)
from herdpy_spark.log.entries import read
from herdpy_spark.log.history import MAX_MESSAGE_BYTES, Span, records_start
from herdpy_spark.log.ledgers import LogLedgers
from herdpy_spark.log.ranges import KeyRange
from herdpy_spark.log.shape import Array, TableShape
from herdpy_sql.staged import kept_keys

_HEAD = Struct(">BBIII").unpack_from  # type, version, length, table, and the first number of what follows
_U32 = Struct(">I").unpack_from
_PAD = bytes(16)
_UNCHANGED = 0xFFFF_FFFF
_INSERT, _UPDATE, _DELETE, _TRUNCATE = Insert.type, Update.type, Delete.type, Truncate.type
_BATCHES = (InsertBatch.type, LoadBatch.type)
_OUT_ROWS = 65_536
pc: Any = pyarrow.compute

Row: TypeAlias = "bytes | int | None"
"""A row's image; or its number among the rows that came as Arrow; or None, where it is gone."""


class TableDelta:
    """The changes, when all spans were read: by column, so that a partition's are picked without a loop.

    Attributes:
        nbytes: how much memory they take.
    """

    def __init__(self, shape: TableShape, rows: dict[bytes, Row], batches: list[pa.RecordBatch]) -> None:
        self._shape = shape
        self._keys: Array = pa.array(list(rows), pa.large_binary())
        self._arrow = pa.Table.from_batches(batches, shape.schema)
        values = list(rows.values())
        images = [row if type(row) is bytes else None for row in values] if batches else values
        numbers = [row if type(row) is int else None for row in values] if batches else []
        self._images: Array = pa.array(images, pa.large_binary())
        self._numbers: Array = pa.array(numbers, pa.int64())
        parts = (self._keys, self._images, self._numbers, self._arrow)
        self.nbytes = sum(part.nbytes for part in parts)

    def part(self, low: bytes | None, high: bytes | None) -> DeltaPart:
        """The changes of rows whose keys are in [low, high)."""
        keys, inside = self._keys, None
        if low is not None:
            inside = pc.greater_equal(keys, pa.scalar(low, pa.large_binary()))
        if high is not None:
            below = pc.less(keys, pa.scalar(high, pa.large_binary()))
            inside = below if inside is None else pc.and_(inside, below)
        picked = [self._keys, self._images, self._numbers]
        if inside is not None:
            picked = [array.filter(inside) if len(array) else array for array in picked]
        return DeltaPart(self._shape, picked[0], picked[1].drop_null(), picked[2].drop_null(), self._arrow)


class DeltaPart:
    """Those of a range of keys."""

    def __init__(
        self, shape: TableShape, keys: Array, images: Array, numbers: Array, arrow: pa.Table
    ) -> None:
        self._shape, self._keys, self._images = shape, keys, images
        self._numbers, self._arrow = numbers, arrow

    def keys(self) -> Array:
        """The keys that were touched, in order, as a binary array."""
        keys = self._keys
        return keys.take(pc.sort_indices(keys)).cast(pa.binary())

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of the rows as they are now."""
        for start in range(0, len(self._images), _OUT_ROWS):
            yield self._shape.decoded(names, self._images.slice(start, _OUT_ROWS))
        arrow = self._arrow.select(list(names))
        for start in range(0, len(self._numbers), _OUT_ROWS):
            yield from arrow.take(self._numbers.slice(start, _OUT_ROWS)).to_batches()


class DeltaReader:
    """Reads the changes of a table out of the log.

    Args:
        bound_bytes: when so much was read, keys outside ``within`` are let go, and passed over from there on.
        within: the keys that are asked for.

    Attributes:
        is_whole: whether changes outside ``within`` are there, too.
    """

    def __init__(self, ledgers: LogLedgers, shape: TableShape, bound_bytes: int, within: KeyRange) -> None:
        self._ledgers, self._shape = ledgers, shape
        self._bound_bytes, self._within = bound_bytes, within
        self._rows: dict[bytes, Row] = {}
        self._batches: list[pa.RecordBatch] = []
        self._arrow_rows = 0
        self._bytes = 0
        self.is_whole = True

    def read(self, spans: Sequence[Span]) -> TableDelta:
        """The changes in these spans. Errors as ``entries``; those of staged rows are of the same kinds."""
        for span in spans:
            for entry in read(self._ledgers, span.after, span.upto, crc=span.crc):
                for body in entry.bodies:
                    if self.is_whole:
                        self._apply(body, self._rows)
                        self._grown(len(body))
                    else:
                        some: dict[bytes, Row] = {}
                        if self._apply(body, some):
                            self._rows.clear()
                        self._rows.update(self._inside(some))
        return TableDelta(self._shape, self._rows, self._batches)

    def _grown(self, size: int) -> None:
        self._bytes += size
        if self.is_whole and self._bytes > self._bound_bytes and self._within != (None, None):
            self.is_whole = False
            self._shrink()

    def _shrink(self) -> None:
        """Let go of what is outside; the dictionary stays the same one."""
        rows = self._rows
        inside = self._inside(rows)
        rows.clear()
        rows.update(inside)
        kept = [key for key, row in rows.items() if type(row) is int]
        if self._batches:
            table = pa.Table.from_batches(self._batches, self._shape.schema)
            self._batches = table.take(pa.array([rows[key] for key in kept], pa.int64())).to_batches()
        rows.update(zip(kept, range(len(kept)), strict=True))
        self._arrow_rows = len(kept)

    def _inside(self, rows: dict[bytes, Row]) -> dict[bytes, Row]:
        return {key: rows[key] for key, inside in zip(rows, self._are_inside(rows), strict=True) if inside}

    def _are_inside(self, keys: Iterable[bytes]) -> list[bool]:
        low, high = self._within
        return [(low is None or key >= low) and (high is None or key < high) for key in keys]

    def _apply(self, body: bytes, rows: dict[bytes, Row]) -> bool:
        """Take a transaction's changes into ``rows``; whether the table was emptied by it."""
        wanted = self._shape.table.id
        at, total = records_start(body), len(body)
        data = body + _PAD
        emptied = False
        while at < total:
            kind, version, length, table_id, size = _HEAD(data, at)
            stop = at + 6 + length
            if stop > total or version != 1:
                raise RecordError(f"a record of type {kind}, version {version} cannot be read")
            if table_id == wanted:
                if kind == _INSERT:
                    split = at + 14 + size
                    rows[data[at + 14 : split]] = data[split:stop]
                elif kind == _UPDATE:
                    start = at + 18
                    split = start + _U32(data, at + 14)[0]
                    if size != _UNCHANGED:
                        rows[data[start : start + size]] = None
                        start += size
                        split += size
                    rows[data[start:split]] = data[split:stop]
                elif kind == _DELETE:
                    rows[data[at + 10 : stop]] = None
                elif kind in _BATCHES:
                    self._take(decode_record(data[at:stop]), rows)
                elif kind == _TRUNCATE:
                    rows.clear()
                    emptied = True
            at = stop
        return emptied

    # Rows that came as Arrow.

    def _take(self, record: object, rows: dict[bytes, Row]) -> None:
        if isinstance(record, InsertBatch):
            positions = range(len(self._shape.table.columns))
            reader = ArrowStreamReader(MAX_MESSAGE_BYTES)
            for batch in reader.feed(record.stream):
                self._add(rows, positions[: batch.num_columns], batch.columns, batch.num_rows)
        elif isinstance(record, LoadBatch):
            first = 0
            for part in record.parts:
                self._load(record, part, first, rows)
                first += part.rows

    def _load(self, record: LoadBatch, part: StagedPart, first: int, rows: dict[bytes, Row]) -> None:
        """One part of a load, whose rows count from ``first``."""
        shape = self._shape
        reader = ArrowStreamReader(MAX_MESSAGE_BYTES)
        at = first
        for piece in self._ledgers.part(part):
            self._grown(len(piece))
            for batch in reader.feed(piece):
                count = batch.num_rows
                if record.op == LoadOp.DELETE:
                    rows.update(zip(kept_keys(shape.table, batch), repeat(None)))
                else:
                    positions = list(shape.table.visible)
                    columns: list[Array] = list(batch.columns)
                    if record.first_row_id >= 0:
                        positions += shape.table.key_positions
                        begin = record.first_row_id + at
                        columns.append(pa.array(np.arange(begin, begin + count, dtype=np.int64)))
                    mask = ~record.present_mask(at, count) if record.op == LoadOp.IGNORE else None
                    self._add(rows, positions, columns, count, mask)
                at += count
        if at - first != part.rows or not reader.is_ended:
            reason = f"the stream has {at - first} rows, the load says {part.rows}"
            raise CorruptLedgerError(part.ledger_id, None, "", reason)

    def _add(
        self,
        rows: dict[bytes, Row],
        positions: Sequence[int],
        columns: Sequence[Array],
        count: int,
        mask: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None,
    ) -> None:
        """Rows whose columns at these positions are given; only those where ``mask`` is true."""
        shape = self._shape
        batch = shape.conformed(positions, columns, count)
        if mask is not None and not mask.all():
            batch = batch.filter(pa.array(mask))
        keys = shape.keys([batch.column(shape.live.index(at)) for at in shape.table.key_positions])
        if not self.is_whole:
            inside = self._are_inside(keys)
            batch = batch.filter(pa.array(inside, pa.bool_()))
            keys = list(compress(keys, inside))
        rows.update(zip(keys, range(self._arrow_rows, self._arrow_rows + len(keys)), strict=True))
        self._arrow_rows += len(keys)
        self._batches.append(batch)
