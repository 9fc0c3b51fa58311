"""What has changed since an export, as its net effect, and the next generation's files.

    changes (op, key, after, sequence, schema) -> one row a key: its columns, and whether it is gone

A stretch of the feed goes from a position to the log's end (``availableNow``), and is kept as Parquet while
it is merged; a batch that is tried again takes the place of what it left. A truncation voids all rows
before it. Merging copies on write: only files that hold a changed key are written anew, and read again
before anybody relies on them. Files are in ranges of the key, so changes that keep together touch few of
them.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy.log.lsn import LSN
from herdpy_spark.jobs.exporting.generations import (
    DataFile,
    ExportManifest,
    ExportPlace,
    Fingerprint,
    Generations,
)
from herdpy_spark.jobs.exporting.rows import FILE_PATH, PARQUET, RowFiles, aggregates, from_row, quoted
from herdpy_spark.jobs.exporting.task_files import (
    ROWS_PER_FILE,
    partition_of,
    partition_path,
    row_files,
)
from herdpy_spark.jobs.job import JobError
from herdpy_spark.jobs.steps import step

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

SCRATCH = "_scratch"
_TRIMMED = "LogTrimmedError"


@dataclass(frozen=True, slots=True)
class ExportStretch:
    """Changes after one position up to another.

    Attributes:
        upto: the end of a transaction; the position after which the next stretch begins.
        changes: rows of the feed, in any order.
    """

    upto: LSN
    changes: DataFrame


@contextmanager
def stretch(
    spark: SparkSession, options: dict[str, str], after: LSN, at: ExportPlace, run_id: str
) -> Iterator[ExportStretch]:
    """The changes after a position.

    Raises:
        JobError: the log does not go back as far.
    """
    scratch = f"{SCRATCH}/{run_id}"
    at.remove(scratch)
    files = row_files(at, PARQUET, None)
    feed = spark.readStream.format("herdpy").options(**options, startingOffsets=str(after)).load()
    schema = feed.schema
    batches: dict[int, list[str]] = {}

    def keep(batch: DataFrame, number: int) -> None:
        at.remove(f"{scratch}/batch-{number}")
        batches[number] = files.write(batch, f"{scratch}/batch-{number}")

    try:
        stream = feed.writeStream.queryName(f"herdpy changes of {options['table']} after {after}, {run_id}")
        with _checkpoint(at, scratch) as checkpoint:
            upto = _kept(stream.foreachBatch(keep).option("checkpointLocation", checkpoint), after)
        names = [name for number in sorted(batches) for name in batches[number]]
        yield ExportStretch(upto, files.read(spark, names, schema))
    finally:
        at.remove(scratch)


@contextmanager
def _checkpoint(at: ExportPlace, scratch: str) -> Iterator[str]:
    """Where the stream keeps its own state, which nobody needs after it."""
    if at.spark_reads:
        yield at.join(f"{scratch}/checkpoint")
        return
    with tempfile.TemporaryDirectory(prefix="herdpy-export-") as directory:
        yield f"file://{directory}"


def _kept(writer: DataStreamWriter, after: LSN) -> LSN:
    """Run the stream to what is the log's end now; where that is. JobError: the log is trimmed."""
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except Exception as error:
        query.stop()
        if _TRIMMED in str(error) or "trimmed" in str(error):
            raise JobError(
                f"the changes after {after} are not in the log any more: {error_line(error)}",
                hint="Run a full export, and the next ones more often; or keep the log for longer.",
            ) from error
        raise
    progress = query.lastProgress
    end = None if progress is None else progress["sources"][0]["endOffset"]
    return after if end is None else _position(end)


def _position(offset: object) -> LSN:
    found = json.loads(offset) if isinstance(offset, str) else offset
    assert isinstance(found, dict)
    return LSN(int(found["ledger"]), int(found["entry"]))


def error_line(error: BaseException) -> str:
    """The line of a long error that says what it was about."""
    lines = [line.strip() for line in str(error).splitlines() if "rror:" in line or "trimmed" in line]
    return lines[-1] if lines else str(error).splitlines()[0]


GONE = "__gone"
"""Column of a change set: the key's row was deleted."""
_SEQUENCE = "sequence"
_VOIDING = ("truncate", "drop")
_DEFINING = ("create", "alter", "drop")


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """What happened to a table after a generation.

    Attributes:
        rows: one row a key that changed: the table's columns, and ``GONE``. A key that is gone has NULL in
            all columns but the key's.
        voided: no row of the generation before is left but those that ``rows`` brings again.
        events: how many changes of rows there were.
        defined: the table's definition changed: (op, JSON) of each change, in order.
    """

    rows: DataFrame
    voided: bool
    events: int
    defined: tuple[tuple[str, str | None], ...]


def net(feed: DataFrame, schema: StructType, key: tuple[str, ...]) -> ChangeSet:
    """The change set of a stretch of the feed, which must be whole and can be in any order.

    Args:
        schema: the columns wanted.
        key: names of the key's columns, which are among them.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.window import Window

    definitions = (
        feed.where(sql.col("op").isin(*_VOIDING, *_DEFINING))
        .select("op", "schema", _SEQUENCE)
        .sort(_SEQUENCE)
        .collect()
    )
    voids = [row for row in definitions if row["op"] in _VOIDING]
    changed = feed.where(sql.col("op").isin("insert", "update", "delete"))
    if voids:
        last = voids[-1][_SEQUENCE].asDict()
        kind = feed.schema[_SEQUENCE].dataType.simpleString()
        changed = changed.where(
            sql.col(_SEQUENCE) > sql.struct(*(sql.lit(v).alias(n) for n, v in last.items())).cast(kind)
        )
    ended = changed.where("op = 'delete'").select(*_columns(schema, key, "key", gone=True))
    made = changed.where("op <> 'delete'").select(*_columns(schema, key, "after", gone=False))
    by_key = Window.partitionBy(*map(quoted, key)).orderBy(sql.col(_SEQUENCE).desc())
    newest = ended.unionByName(made).withColumn("__nth", sql.row_number().over(by_key)).where("__nth = 1")
    return ChangeSet(
        newest.drop("__nth", _SEQUENCE),
        bool(voids),
        changed.count(),
        tuple((row["op"], row["schema"]) for row in definitions if row["op"] in _DEFINING),
    )


def _columns(schema: StructType, key: tuple[str, ...], source: str, *, gone: bool) -> list[Column]:
    """A change's columns: all of ``after``, or the ``key`` alone."""
    from pyspark.sql import functions as sql

    columns = [
        sql.col(f"{source}.{quoted(one.name)}").cast(one.dataType).alias(one.name)
        if not gone or one.name in key
        else sql.lit(None).cast(one.dataType).alias(one.name)
        for one in schema.fields
    ]
    return [*columns, sql.lit(gone).alias(GONE), sql.col(_SEQUENCE)]


_SMALL = 8  # a file with less than this part of the wanted rows is joined with others


class FileWriter:
    """Writes the new files of one generation.

    Args:
        run_id: of this run; its files have it in their directory's name.
    """

    def __init__(
        self, spark: SparkSession, generations: Generations, files: RowFiles, *, run_id: str
    ) -> None:
        self._spark = spark
        self._generations = generations
        self._files = files
        self._run_id = run_id

    def write(self, number: int, frame: DataFrame, key: tuple[str, ...] = ()) -> tuple[DataFile, ...]:
        """All rows as new files, in the DataFrame's partitions, or those that the export has.

        Raises:
            JobError: what the files hold is not what was sent there.
        """
        from pyspark.sql import Observation

        place = self._generations.place
        directory = self._generations.directory(number, self._run_id)
        place.remove(directory)  # of an earlier try of this run
        seen = Observation()
        arranged = self._files.arranged(frame, key)
        with step(self._spark, "write the files"):
            names = self._files.write(arranged.observe(seen, *aggregates(frame.schema)), directory)
            sent = from_row(seen.get)
        with step(self._spark, "read the files again"):
            files = self._read_again(directory, names, frame.schema)
        held = sum((one.fingerprint for one in files), Fingerprint())
        if held != sent:
            raise JobError(
                f"the files in {directory} do not hold the rows that were written: {held}, not {sent}",
                hint="Nothing was published. If it happens again: the format cannot hold some value of the"
                " table (try Parquet), or the storage loses data.",
            )
        return files

    def merge(
        self, number: int, previous: ExportManifest, schema: StructType, changes: ChangeSet
    ) -> tuple[DataFile, ...]:
        """The files of the generation after ``previous``."""
        rows = changes.rows.cache()
        try:
            if not changes.voided and rows.isEmpty():
                return previous.files
            arrived = rows.where(f"NOT {GONE}").drop(GONE)
            touched = previous.files if changes.voided else self._touched(previous, schema, rows, arrived)
            names = {one.path for one in touched}
            kept = tuple(one for one in previous.files if one.path not in names)
            fresh = arrived
            if not changes.voided and touched:
                stored = self._files.read(self._spark, sorted(names), schema)
                stays = stored.join(rows.select(*map(quoted, previous.key)), list(previous.key), "left_anti")
                fresh = stays.select(*_quoted_columns(schema)).unionByName(arrived)
            before = sum(one.fingerprint.rows for one in touched)
            count = max(1, -(-(before + arrived.count()) // ROWS_PER_FILE))
            keys = [quoted(name) for name in previous.key]
            if not self._files.partition_by:
                fresh = fresh.repartitionByRange(count, *keys).sortWithinPartitions(*keys)
            return kept + self.write(number, fresh.select(*_quoted_columns(schema)), previous.key)
        finally:
            rows.unpersist()

    def _touched(
        self, previous: ExportManifest, schema: StructType, rows: DataFrame, arrived: DataFrame
    ) -> tuple[DataFile, ...]:
        """Files with a row whose key changed; and small ones of the partitions that get rows."""
        if not previous.files:
            return ()
        keys = list(previous.key)
        read = _only(schema, keys) if previous.file_format == PARQUET else schema
        stored = self._files.read(self._spark, [one.path for one in previous.files], read, path=True)
        hit = stored.join(rows.select(*map(quoted, keys)), keys, "left_semi").select(FILE_PATH).distinct()
        with step(self._spark, "find files with changed keys"):
            names = {self._files.named(row[FILE_PATH]) for row in hit.collect()}
        written = {partition_of(name) for name in names} | self._partitions(arrived)
        return tuple(
            one
            for one in previous.files
            if one.path in names
            or (one.fingerprint.rows < ROWS_PER_FILE // _SMALL and partition_of(one.path) in written)
        )

    def _partitions(self, rows: DataFrame) -> set[str]:
        """The partitions of rows; one without a name where there are none."""
        columns = self._files.partition_by
        if not columns:
            return {""}
        found = rows.select(*map(quoted, columns)).distinct().toArrow()  # rows have local times
        values = [column.to_pylist() for column in found.columns]
        return {partition_path(columns, row) for row in zip(*values, strict=True)}

    def _read_again(self, directory: str, names: list[str], schema: StructType) -> tuple[DataFile, ...]:
        place = self._generations.place
        held: dict[str, Fingerprint] = {}
        if names:
            stored = self._files.read(self._spark, names, schema, path=True)
            found = stored.groupBy(FILE_PATH).agg(*aggregates(schema)).collect()
            held = {self._files.named(row[FILE_PATH]): from_row(row) for row in found}
        sizes = place.sizes(directory)
        for name in sizes.keys() - held.keys():  # without rows, or of an attempt that was lost
            place.remove(name)
        return tuple(DataFile(name, sizes.get(name, 0), held[name]) for name in names if name in held)


def _only(schema: StructType, names: list[str]) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([one for one in schema.fields if one.name in names])


def _quoted_columns(schema: StructType) -> list[str]:
    return [quoted(one.name) for one in schema.fields]
