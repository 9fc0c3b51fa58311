"""The changes of a table after a position, in its columns of today. Above the feed; no streaming query.

    position, definition there -> FeedDriver (in this process) -> tasks -> DataFrame, definition now

The driver steps over the log's records first, so it knows what the table is at the end before a row is
read; tasks then put values of older definitions into the columns of the last one (``FeedShape.by_place``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from herdpy.log import LogError, LogTrimmedError
from herdpy.log.lsn import LSN
from herdpy_spark.feed.driver import FeedDriver, Offset
from herdpy_spark.feed.lease import FeedLease
from herdpy_spark.feed.spark_columns import SPARK, columns_of
from herdpy_spark.feed.table import AdaptingShape, FeedShape
from herdpy_spark.feed.tasks import read_task
from herdpy_spark.jobs.job import JobError
from herdpy_spark.options import Options
from herdpy_sql.definitions import decode_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from herdpy_spark.jobs.database import JobDatabase
    from herdpy_sql.catalog import Table


@dataclass(frozen=True, slots=True)
class ExportStretch:
    """Changes after one position up to another.

    Attributes:
        upto: the end of a transaction; the position after which the next stretch begins.
        before: the table where the stretch begins; ``after``: where it ends.
        changes: rows of the feed, in any order; they can be read more than once.
    """

    upto: LSN
    before: Table
    after: Table
    changes: DataFrame


@contextmanager
def stretch(
    spark: SparkSession, database: JobDatabase, options: dict[str, str], since: LSN, definition: str
) -> Iterator[ExportStretch]:
    """The changes after a position.

    Args:
        options: the data source's, with the table.
        definition: of the table there, the catalog's JSON; empty where it is not known.

    Raises:
        JobError: the log does not go back as far; the table was dropped.
    """
    parsed = Options.parse(options)
    assert parsed.table is not None
    access = database.access
    driver = FeedDriver(access, parsed.table, AdaptingShape(SPARK), partitions=parsed.partitions)
    lease = None
    if access.servers is not None:
        lease = FeedLease(access.servers, f"an export of {parsed.table}", parsed.lease_s)
        lease.keep(since)
    try:
        begin, end, tasks = _planned(driver, database, since, definition)
        before, after = begin.table, end.table
        if after is None or before is None:
            raise JobError("the table was dropped", hint="The export stays as it is.")
        frame = _frame(spark, tasks, after).persist()
        try:
            yield ExportStretch(end.lsn, before, after, frame)
        finally:
            frame.unpersist()
    finally:
        if lease is not None:
            lease.release()


def _planned(
    driver: FeedDriver, database: JobDatabase, since: LSN, definition: str
) -> tuple[Offset, Offset, list[Any]]:
    """Where the stretch begins and ends, and what tasks read in between."""
    try:
        driver.freeze()
        if definition:
            begin = Offset.of(since, database.log_id, decode_table(definition.encode()))
        else:
            begin = driver.first(since)
        tasks: list[Any] = []
        at = begin
        while (end := driver.next(at, None)).lsn != at.lsn:
            tasks += driver.tasks(at, end)
            at = end
    except LogTrimmedError as error:
        raise JobError(
            f"the changes after {since} are not in the log any more: {error}",
            hint="Run a full export, and the next ones more often; or keep the log for longer.",
        ) from error
    except LogError as error:
        raise JobError(
            f"the changes after {since} cannot be read: {error}", hint="Run a full export."
        ) from error
    return begin, at, tasks


def _frame(spark: SparkSession, tasks: list[Any], table: Table) -> DataFrame:
    schema = columns_of(table)
    if not tasks:
        return spark.createDataFrame([], schema)
    shape = FeedShape.by_place(table, SPARK)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_task(tasks[int(number or 0)], shape)

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, schema)
