"""One partition of a plan, as Arrow batches: the snapshot's rows and, over them, what the log changed since.

The top of the package. A Spark task calls ``read_partition`` with the plan that the driver made. What the
log changed is decoded once in a process for all partitions of the table, as long as it is not too much.

SnapshotRows are the rows of a table in a published snapshot, without those that the log has changed since.
Whole row groups pass as they are; the keys are looked at only in groups that may hold a changed row, or
that reach over the bounds of the range.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from herdpy.log import LogTrimmedError
from herdpy.log.published import KEY_COLUMN, SnapshotFile, SnapshotRef, open_file
from herdpy.log.published.reading import between
from herdpy_spark.log.delta import DeltaReader, TableDelta
from herdpy_spark.log.ledgers import opened
from herdpy_spark.log.plan import LogPlan
from herdpy_spark.log.ranges import KeyRange
from herdpy_spark.log.shape import Array, TableShape, shape_of
from herdpy_sql.values.interval_columns import has_intervals, intervals_of

_BATCH_ROWS = 65_536
pc: Any = pyarrow.compute


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
        """Those in these files. DamagedSnapshotError, PublishedSnapshotError."""
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
        PublishedSnapshotError: the snapshot cannot be read.
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
