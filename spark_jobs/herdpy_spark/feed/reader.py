"""What Spark calls for a stream: offsets and batches in the driver, rows in the tasks. Above all of the feed.

Spark makes one reader beside the driver, which lives as long as the query, and sends another, pickled before
it was used, to the tasks. A task reads one stretch of the log, or a part of a published state. The lease on
the log is not released when the stream ends, so that one started again in time finds its entries.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from herdpy.codec.arrow_stream import ArrowStreamReader
from herdpy.log.lsn import LSN
from herdpy.log.records import LoadBatch
from herdpy.rpc import common_pb2, logs_pb2, logs_pb2_grpc
from herdpy.rpc.address import GrpcAddress
from herdpy_spark.access import CALL_TIMEOUT_S, AccessError, SparkDatabase, TablespaceServers, find
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
from herdpy_spark.feed.driver import FeedDriver, Offset, SnapshotTask, StretchTask, newest_table
from herdpy_spark.feed.table import FeedShape, FollowedTable, columns_of, shape_of
from herdpy_spark.log.entries import read
from herdpy_spark.log.history import MAX_MESSAGE_BYTES
from herdpy_spark.log.ledgers import LogLedgers, opened
from herdpy_spark.log.partition import read_partition
from herdpy_spark.options import OptionError, Options
from herdpy_sql.definitions import decode_table

_log = logging.getLogger("herdpy.spark.feed")


class FeedLease:
    """Keeps the entries after a position that moves on. Failures are logged: the stream may go well without.

    Args:
        purpose: for operators to see.
        lease_s: seconds without a renewal after which it is over.
    """

    def __init__(self, servers: TablespaceServers, purpose: str, lease_s: float) -> None:
        self._servers = servers
        self._purpose = purpose
        self._lease_s = max(lease_s, 1.0)
        self._after: LSN | None = None
        self._made: Any = None
        self._wake = threading.Event()
        self._over = False
        self._thread: threading.Thread | None = None

    def keep(self, after: LSN) -> None:
        """Nothing up to ``after`` is needed any more. The first call makes the lease, before it returns."""
        self._after = after
        if self._thread is None:
            self._renew()
            self._thread = threading.Thread(target=self._run, name="herdpy-feed-lease", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Renew no more. What was not read stays for the time of the lease."""
        self._over = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def release(self) -> None:
        """Renew no more, and end the lease: nothing of the log is needed any more."""
        self.close()
        made, self._made = self._made, None
        if made is None:
            return
        try:
            self._call("Release", logs_pb2.LogLeaseId(id=made.id, tablespace=made.tablespace))
        except AccessError as error:  # then it ends by itself
            _log.warning("the lease on the log is not released: %s", error)

    def _run(self) -> None:
        while not self._wake.wait(self._lease_s / 3):
            self._renew()
        self._renew()

    def _renew(self) -> None:
        after = self._after
        assert after is not None
        try:
            if self._made is not None:
                try:
                    self._call("Renew", self._renewal(self._made, after))
                except AccessError as error:
                    if not error.is_gone:
                        raise
                    self._made = None
            if self._made is None and not self._over:
                request = logs_pb2.LeaseLogRequest(
                    tablespace=self._servers.tablespace, lease_s=self._lease_s, purpose=self._purpose
                )
                request.after.CopyFrom(_lsn(after))
                self._made = self._call("Lease", request)
        except AccessError as error:
            _log.warning("the log is not retained for the stream: %s", error, extra={"after": str(after)})

    def _renewal(self, made: Any, after: LSN) -> Any:
        request = logs_pb2.RenewLogLeaseRequest(id=made.id, tablespace=made.tablespace, lease_s=self._lease_s)
        request.after.CopyFrom(_lsn(after))
        return request

    def _call(self, method: str, request: Any) -> Any:
        def do(channel: grpc.Channel, place: GrpcAddress) -> Any:
            stub: Any = logs_pb2_grpc.LogsStub(channel)
            return getattr(stub, method)(request, metadata=place.metadata, timeout=CALL_TIMEOUT_S)

        return self._servers.call(do)


def _lsn(lsn: LSN) -> Any:
    return common_pb2.Lsn(ledger_id=lsn.ledger_id, entry_id=lsn.entry_id)


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


class FeedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The changes of the table that the options name."""

    def __init__(self, options: Options, schema: StructType) -> None:
        if options.table is None:
            raise OptionError("a stream is of a table: name it with the option table")
        self._options = options
        self._schema = schema
        self._shape = shape_of(schema)
        self._driver: FeedDriver | None = None
        self._lease: FeedLease | None = None

    # In the driver.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new query begins."""
        assert self._options.starting is not None
        return self._opened().first(self._options.starting).to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch."""
        begin = Offset.from_json(start)
        driver = self._opened()
        most = None if isinstance(limit, ReadAllAvailable) else self._options.max_entries
        self._keep(begin)
        return driver.next(begin, most).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark knows no limit in entries: it gets a number of rows, and hands that back."""
        most = self._options.max_entries
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """How far the log goes, for the query's progress."""
        newest = self._driver.newest if self._driver is not None else None
        return None if newest is None else {"ledger": newest.ledger_id, "entry": newest.entry_id}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The query ends at what is confirmed now."""
        self._opened().freeze()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What tasks read between two offsets."""
        begin = Offset.from_json(start)
        self._keep(begin)
        return [InputPartition(task) for task in self._opened().tasks(begin, Offset.from_json(end))]

    def commit(self, end: dict[str, Any]) -> None:
        """The batch up to ``end`` is done: its entries need not be kept."""
        self._keep(Offset.from_json(end))

    def stop(self) -> None:
        """The query is over; what it has not read stays for the time of its lease."""
        if self._lease is not None:
            self._lease.close()
            self._lease = None

    # In a task.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """A task's rows."""
        yield from read_task(partition.value, self._shape)

    def _opened(self) -> FeedDriver:
        if self._driver is None:
            options = self._options
            database = find(options)
            assert options.table is not None
            self._driver = FeedDriver(
                database,
                options.table,
                self._shape,
                on_trimmed=options.on_trimmed,
                partitions=options.partitions,
            )
            self._lease = _lease(database, options)
        return self._driver

    def _keep(self, offset: Offset) -> None:
        self._opened()
        if self._lease is not None:
            self._lease.keep(offset.lsn)


def _lease(database: SparkDatabase, options: Options) -> FeedLease | None:
    if database.servers is None:
        return None
    return FeedLease(database.servers, f"changes of {options.table}", options.lease_s)


def feed_schema(options: Options) -> StructType:
    """The columns of a stream of the table's changes, by the table as it is now.

    Raises:
        OptionError: no table is named, or there is none of that name.
        AccessError, LogError: nobody can say what it is.
    """
    if options.table is None:
        raise OptionError("a stream is of a table: name it with the option table")
    table = newest_table(find(options), options.table)
    if table is None:
        raise OptionError(
            f'the option table: there is no table "{options.table}" now. To wait for one, give the stream the'
            " schema that its feed will have"
        )
    return columns_of(table)
