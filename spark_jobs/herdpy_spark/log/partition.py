"""One partition of a plan, as Arrow batches: the snapshot's rows and, over them, what the log changed since.

The top of the package. A Spark task calls ``read_partition`` with the plan that the driver made. What the log
changed is decoded once in a process for all partitions of the table, as long as it is not too much.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import pyarrow as pa

from herdpy.log import LogTrimmedError
from herdpy_spark.log.delta import DeltaReader, TableDelta
from herdpy_spark.log.ledgers import opened
from herdpy_spark.log.plan import LogPlan
from herdpy_spark.log.shape import shape_of
from herdpy_spark.log.snapshot_rows import SnapshotRows

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
