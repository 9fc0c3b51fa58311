"""What Spark calls for a stream: offsets and batches in the driver, rows in the tasks. Above all of the feed.

Spark makes one reader beside the driver, which lives as long as the query, and sends another, pickled before
it was used, to the tasks. The lease on the log is not released when the stream ends, so that one started
again in time finds its entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from herdpy_spark.access import SparkDatabase, find
from herdpy_spark.feed.driver import FeedDriver, Offset, newest_table
from herdpy_spark.feed.lease import FeedLease
from herdpy_spark.feed.spark_columns import columns_of, shape_of
from herdpy_spark.feed.tasks import read_task
from herdpy_spark.options import OptionError, Options


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
        """How far the log goes, and how many entries that is beyond the batch, for the query's progress."""
        driver = self._driver
        if driver is None or driver.newest is None:
            return None
        newest = driver.newest
        return {"ledger": newest.ledger_id, "entry": newest.entry_id, "entriesBehind": driver.behind}

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
