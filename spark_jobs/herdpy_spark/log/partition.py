"""One partition of a plan, as Arrow batches: the snapshot's rows and, over them, what the log changed since.

The top of ``log``. A task calls ``read_partition`` with the plan that the driver made. Changes stay as they
were logged until a partition asks for them, and are kept for all partitions of the table in the process. Row
groups of the snapshot without changed keys pass whole.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, repeat
from struct import Struct
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from herdpy.codec.arrow_stream import ArrowStreamReader
from herdpy.log import CorruptLedgerError, LogTrimmedError, RecordError
from herdpy.log.detached import LogLedgers, opened
from herdpy.log.published import KEY_COLUMN, SnapshotFile, SnapshotRef, open_file
from herdpy.log.published.tables import between
from herdpy.log.records import (
    TYPES,
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
from herdpy_spark.log.history import (
    MAX_MESSAGE_BYTES,
    Array,
    KeyRange,
    Span,
    TableShape,
    records_start,
    shape_of,
)
from herdpy_spark.log.plan import LogPlan
from herdpy_sql.staged import kept_keys, kept_rows
from herdpy_sql.values.interval_columns import has_intervals, intervals_of

_HEAD = Struct(">BBIII").unpack_from  # type, version, length, table, and the first number of what follows
_U32 = Struct(">I").unpack_from
_PAD = bytes(16)
_UNCHANGED = 0xFFFF_FFFF
_INSERT, _UPDATE, _DELETE, _TRUNCATE = TYPES[Insert], TYPES[Update], TYPES[Delete], TYPES[Truncate]
_BATCHES = (TYPES[InsertBatch], TYPES[LoadBatch])
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
                given = positions[: batch.num_columns]
                self._add(rows, self._shape.conformed(given, batch.columns, batch.num_rows))
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
                    kept = kept_rows(shape.table, batch, record.first_row_id + at)
                    mask = ~record.present_mask(at, count) if record.op == LoadOp.IGNORE else None
                    self._add(rows, shape.live_columns(kept), mask)
                at += count
        if at - first != part.rows or not reader.is_ended:
            reason = f"the stream has {at - first} rows, the load says {part.rows}"
            raise CorruptLedgerError(part.ledger_id, None, "", reason)

    def _add(
        self,
        rows: dict[bytes, Row],
        batch: pa.RecordBatch,
        mask: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None,
    ) -> None:
        """Rows of all live columns; only those where ``mask`` is true."""
        shape = self._shape
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


_BATCH_ROWS = 65_536


class SnapshotRows:
    """The rows of a range of keys.

    Args:
        changed: keys, in order, of rows that are left out; a binary array.
        names: the columns that are given.
    """

    def __init__(
        self,
        ref: SnapshotRef,
        shape: TableShape,
        within: KeyRange,
        changed: Array | None,
        names: Sequence[str],
    ) -> None:
        self._ref, self._shape = ref, shape
        self._low, self._high = within
        self._changed: Array = pa.array([], pa.binary()) if changed is None else changed
        self._schema = shape.projected(names)

    def read(self, files: Sequence[SnapshotFile]) -> Iterator[pa.RecordBatch]:
        """Those in these files. DamagedSnapshotError, PlaceError."""
        low, high = self._low, self._high
        for file in files:
            if (low is None or file.last_key >= low) and (high is None or file.first_key < high):
                yield from self._file(file)

    def _file(self, file: SnapshotFile) -> Iterator[pa.RecordBatch]:
        with open_file(self._ref, file) as source, pq.ParquetFile(source) as parquet:
            names = [name for name in self._schema.names if name in parquet.schema_arrow.names]
            plain: list[int] = []  # groups that pass as they are
            for group in range(parquet.num_row_groups):
                least, most = _bounds(parquet, group, file)
                if (self._low is not None and most < self._low) or (
                    self._high is not None and least >= self._high
                ):
                    continue
                cut = (self._low is not None and least < self._low) or (
                    self._high is not None and most >= self._high
                )
                changed = self._changed_in(least, most)
                if not cut and not len(changed):
                    plain.append(group)
                    continue
                if plain:
                    yield from self._groups(parquet, plain, names)
                    plain = []
                yield from self._group(parquet, group, names, changed)
            if plain:
                yield from self._groups(parquet, plain, names)

    def _changed_in(self, least: bytes, most: bytes) -> Array:
        """The changed keys from ``least`` to ``most``, both included."""
        keys = self._changed
        start = bisect_left(keys, least, key=_bytes)
        return keys.slice(start, bisect_right(keys, most, start, key=_bytes) - start)

    def _groups(
        self, parquet: pq.ParquetFile, groups: list[int], names: list[str]
    ) -> Iterator[pa.RecordBatch]:
        for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=groups, columns=names or [KEY_COLUMN]):
            yield self._dressed(batch)

    def _group(
        self, parquet: pq.ParquetFile, group: int, names: list[str], changed: Array
    ) -> Iterator[pa.RecordBatch]:
        for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=[group], columns=[*names, KEY_COLUMN]):
            kept = between(batch, self._low, self._high)
            if len(changed):
                kept = kept.filter(pc.invert(pc.is_in(kept.column(KEY_COLUMN), value_set=changed)))
            if kept.num_rows:
                yield self._dressed(kept)

    def _dressed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of a file with the columns that are asked for, of the types that the table has now."""
        present = set(batch.schema.names)
        arrays: list[Array] = []
        for field in self._schema:
            if field.name not in present:
                arrays.append(self._shape.missing(self._shape.table.positions[field.name], batch.num_rows))
                continue
            array: Array = batch.column(field.name)
            if array.type != field.type:
                array = intervals_of(array) if has_intervals(field.type) else array.cast(field.type)
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _bytes(scalar: Any) -> bytes:
    key: bytes = scalar.as_py()
    return key


def _bounds(parquet: pq.ParquetFile, group: int, file: SnapshotFile) -> tuple[bytes, bytes]:
    """The least and the greatest key of a row group, or keys beyond them where its file does not say."""
    metadata = parquet.metadata.row_group(group)
    statistics: Any = metadata.column(metadata.num_columns - 1).statistics
    if statistics is None or not statistics.has_min_max:
        return file.first_key, file.last_key
    return statistics.min, statistics.max


KEPT_BYTES = 256 << 20
"""How much of the log's changes a process keeps for partitions to come."""


def read_partition(
    plan: LogPlan, number: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one partition, in no order, in batches of at most 65,536.

    Args:
        number: of the partition: that of its range in ``plan.ranges``.
        columns: names, at least one, in the batches' order; None: all that ``SELECT *`` shows.

    Raises:
        LogTrimmedError: entries or staged rows that the plan needs were deleted since.
        DamagedSnapshotError: a file of the snapshot is gone or is not what was written.
        PlaceError: the snapshot cannot be read.
        CorruptLedgerError, ChainError, RecordError: the log is damaged.
        LogUnavailableError: ZooKeeper or the bookies did not answer for a while.
        ValueError: the table has no such column.
    """
    shape = shape_of(plan.definition)
    names = shape.visible if columns is None else list(columns)
    shape.projected(names)
    low, high = plan.ranges[number]
    delta = _delta(plan, number)
    changes = None if delta is None else delta.part(low, high)
    if plan.snapshot is not None:
        changed = None if changes is None else changes.keys()
        yield from SnapshotRows(plan.snapshot, shape, (low, high), changed, names).read(plan.files)
    if changes is not None:
        yield from changes.batches(names)


def _delta(plan: LogPlan, number: int) -> TableDelta | None:
    if not plan.spans:
        return None
    key = (plan.address, plan.definition, plan.spans)
    with _guard:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
            return found
    try:
        with opened(plan.address) as ledgers:
            reader = DeltaReader(ledgers, shape_of(plan.definition), KEPT_BYTES, plan.ranges[number])
            delta = reader.read(plan.spans)
    except LogTrimmedError as error:
        raise LogTrimmedError(
            f"{error}. The read stands on the log from {plan.after} to {plan.upto}: make the DataFrame "
            "again, and keep a lease while it is used"
        ) from error
    if reader.is_whole and delta.nbytes <= KEPT_BYTES:
        with _guard:
            _kept[key] = delta
            while sum(one.nbytes for one in _kept.values()) > KEPT_BYTES:
                _kept.popitem(last=False)
    return delta


_kept: OrderedDict[object, TableDelta] = OrderedDict()
_guard = threading.Lock()
