"""A task of a batch read: a stretch of the log, or a part of a state, as changes. Above ``driver``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow_stream import ArrowStreamReader
from herdpy.log.detached import LogLedgers, opened
from herdpy.log.records import LoadBatch
from herdpy_spark.feed.changes import (
    INSERT,
    TRUNCATE,
    Block,
    ChangeReader,
    GatheredChanges,
    Origin,
    Structs,
    TableChanges,
    key_columns,
    keys_of,
    row_columns,
    to_batch,
    visible_columns,
)
from herdpy_spark.feed.driver import SnapshotTask, StretchTask
from herdpy_spark.feed.table import FollowedTable, Shapes
from herdpy_spark.lines import task_lines
from herdpy_spark.log.entries import read
from herdpy_spark.log.history import MAX_MESSAGE_BYTES
from herdpy_spark.log.partition import read_partition
from herdpy_sql.definitions import decode_table


class StagedRows:
    """Reads parts of loads of a log that is open."""

    def __init__(self, ledgers: LogLedgers) -> None:
        self._ledgers = ledgers

    def __call__(self, record: LoadBatch, part: int) -> Iterator[pa.RecordBatch]:
        """The batches of a part.

        Raises:
            LogTrimmedError: its ledger is gone.
            CorruptLedgerError, ValueError: it is damaged.
        """
        reader = ArrowStreamReader(MAX_MESSAGE_BYTES)
        with closing(self._ledgers.part(record.parts[part])) as pieces:
            for piece in pieces:
                yield from reader.feed(piece)
        if not reader.is_ended:
            raise ValueError(f"part {part} of a load ends in the middle of its Arrow stream")


_PARTITION_BITS = 40  # of positions: rows of a state have no order, and each has a position of its own


def read_task(task: StretchTask | SnapshotTask, shapes: Shapes) -> Iterator[pa.RecordBatch]:
    """As ``read_changes``, the batches alone."""
    batches = (found.batch for found in read_changes(task, shapes))
    if isinstance(task, SnapshotTask):
        yield from task_lines("read a state", batches, position=str(task.at))
    else:
        stretch = task.stretch
        fields = {"table": task.table, "position": str(stretch.after), "upto": str(stretch.upto)}
        yield from task_lines("read changes", batches, **fields)


def read_changes(task: StretchTask | SnapshotTask, shapes: Shapes) -> Iterator[TableChanges]:
    """The task's changes; errors are those of ``ChangeReader.changes`` and of reading the log."""
    if isinstance(task, SnapshotTask):
        yield from _state(task, shapes)
        return
    stretch = task.stretch
    with opened(task.address) as ledgers:
        followed = FollowedTable(task.table, stretch.table)
        reader = ChangeReader(followed, shapes, StagedRows(ledgers), stretch.slice)
        yield from reader.changes(read(ledgers, stretch.after, stretch.upto, crc=stretch.crc))


def _state(task: SnapshotTask, shapes: Shapes) -> Iterator[TableChanges]:
    """Rows in place of changes that are gone: all that was there goes (unless it is first), then these."""
    origin = Origin(task.at, 0, b"", None)
    table = None if task.plan is None else decode_table(task.plan.definition)
    shape = shapes.at(table)
    if task.number == 0 and not task.is_first:
        block = Block(shape, table)
        block.begin(origin)
        block.event(TRUNCATE, 0, None)
        yield TableChanges(table, block.batch())
    if task.plan is None or table is None:
        return
    live = [column.name for column in table.columns if not column.dropped]
    places = [at for at, column in enumerate(table.columns) if not column.dropped]
    first = (task.number << _PARTITION_BITS) + 1
    for rows in read_partition(task.plan, task.number, live):
        count = rows.num_rows
        by_position = dict(zip(places, rows.columns, strict=True))
        changes = GatheredChanges(
            ops=np.full(count, INSERT, np.uint8),
            key=Structs(key_columns(shape, table, keys_of(table, by_position))),
            after=Structs(row_columns(shape, table, visible_columns(table, by_position), count)),
            before=None,
            other_key=None,
            origins=[origin],
            owners=np.zeros(count, np.int32),
            positions=np.arange(first, first + count),
            schemas={},
        )
        first += count
        yield TableChanges(table, to_batch(shape, changes))
