"""A task of a batch read: a stretch of the log, or a part of a state, as changes. Above ``driver``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow_stream import ArrowStreamReader
from herdpy.log.records import LoadBatch
from herdpy_spark.feed.changes import (
    INSERT,
    TRUNCATE,
    Block,
    ChangeReader,
    GatheredChanges,
    Origin,
    Structs,
    key_columns,
    keys_of,
    row_columns,
    to_batch,
    visible_columns,
)
from herdpy_spark.feed.driver import SnapshotTask, StretchTask
from herdpy_spark.feed.table import FeedShape, FollowedTable
from herdpy_spark.log.entries import read
from herdpy_spark.log.history import MAX_MESSAGE_BYTES
from herdpy_spark.log.ledgers import LogLedgers, opened
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


def read_task(task: StretchTask | SnapshotTask, shape: FeedShape) -> Iterator[pa.RecordBatch]:
    """The task's batches of the feed; errors are those of ``ChangeReader.batches`` and of reading the log."""
    if isinstance(task, SnapshotTask):
        yield from _state(task, shape)
        return
    stretch = task.stretch
    with opened(task.address) as ledgers:
        followed = FollowedTable(task.table, stretch.table)
        reader = ChangeReader(followed, shape, StagedRows(ledgers), stretch.slice)
        yield from reader.batches(read(ledgers, stretch.after, stretch.upto, crc=stretch.crc))


def _state(task: SnapshotTask, shape: FeedShape) -> Iterator[pa.RecordBatch]:
    """Rows in place of changes that are gone: all that was there goes, then these come."""
    origin = Origin(task.at, 0, b"", None)
    if task.number == 0:
        block = Block(shape, None)
        block.begin(origin)
        block.event(TRUNCATE, 0, None)
        yield block.batch()
    if task.plan is None:
        return
    table = decode_table(task.plan.definition)
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
        yield to_batch(shape, changes)
