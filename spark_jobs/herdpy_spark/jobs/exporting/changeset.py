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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from herdpy.log.lsn import LSN
from herdpy_spark.jobs.exporting.generations import (
    DATA,
    DataFile,
    ExportManifest,
    ExportPlace,
    Fingerprint,
    Generations,
)
from herdpy_spark.jobs.exporting.rows import aggregates, from_row, quoted, read_files, write_files
from herdpy_spark.jobs.job import JobError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
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
    feed = spark.readStream.format("herdpy").options(**options, startingOffsets=str(after)).load()
    schema = feed.schema
    batches: list[int] = []

    def keep(batch: DataFrame, number: int) -> None:
        batches.append(number)
        batch.write.mode("overwrite").parquet(at.join(f"{scratch}/batch-{number}"))

    try:
        query = (
            feed.writeStream.foreachBatch(keep)
            .option("checkpointLocation", at.join(f"{scratch}/checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
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
        upto = after if end is None else _position(end)
        kept = [at.join(f"{scratch}/batch-{number}") for number in sorted(set(batches))]
        changes = spark.read.schema(schema).parquet(*kept) if kept else spark.createDataFrame([], schema)
        yield ExportStretch(upto, changes)
    finally:
        at.remove(scratch)


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


ROWS_PER_FILE = 1_000_000
_SMALL = 8  # a file with less than this part of the wanted rows is joined with others


class FileWriter:
    """Writes the new files of one generation.

    Args:
        run_id: of this run; its files have it in their directory's name.
    """

    def __init__(
        self,
        spark: SparkSession,
        generations: Generations,
        *,
        file_format: str,
        compression: str | None,
        run_id: str,
    ) -> None:
        self._spark = spark
        self._generations = generations
        self._format = file_format
        self._compression = compression
        self._run_id = run_id

    def write(self, number: int, frame: DataFrame) -> tuple[DataFile, ...]:
        """All rows as new files, in the DataFrame's partitions.

        Raises:
            JobError: what the files hold is not what was sent there.
        """
        from pyspark.sql import Observation

        directory = self._generations.directory(number, self._run_id)
        self._generations.place.remove(directory)  # of an earlier try of this run
        seen = Observation()
        write_files(
            frame.observe(seen, *aggregates(frame.schema)),
            self._generations.place.join(directory),
            self._format,
            self._compression,
        )
        sent = from_row(seen.get)
        files = self._read_again(directory, frame.schema)
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
            touched = previous.files if changes.voided else self._touched(previous, schema, rows)
            names = {one.path for one in touched}
            kept = tuple(one for one in previous.files if one.path not in names)
            arrived = rows.where(f"NOT {GONE}").drop(GONE)
            fresh = arrived
            if not changes.voided and touched:
                stored = read_files(
                    self._spark,
                    [self._generations.place.join(one) for one in sorted(names)],
                    schema,
                    self._format,
                )
                stays = stored.join(rows.select(*map(quoted, previous.key)), list(previous.key), "left_anti")
                fresh = stays.select(*_quoted_columns(schema)).unionByName(arrived)
            before = sum(one.fingerprint.rows for one in touched)
            count = max(1, -(-(before + arrived.count()) // ROWS_PER_FILE))
            keys = [quoted(name) for name in previous.key]
            ordered = fresh.repartitionByRange(count, *keys).sortWithinPartitions(*keys)
            return kept + self.write(number, ordered.select(*_quoted_columns(schema)))
        finally:
            rows.unpersist()

    def _touched(self, previous: ExportManifest, schema: StructType, rows: DataFrame) -> tuple[DataFile, ...]:
        """Files with a row whose key changed; and small ones."""
        if not previous.files:
            return ()
        stored = read_files(
            self._spark, self._generations.files(previous), schema, self._format, ("file_path",)
        )
        keys = list(previous.key)
        hit = stored.join(rows.select(*map(quoted, keys)), keys, "left_semi").select("file_path").distinct()
        names = {relative(row["file_path"]) for row in hit.collect()}
        return tuple(
            one
            for one in previous.files
            if one.path in names or one.fingerprint.rows < ROWS_PER_FILE // _SMALL
        )

    def _read_again(self, directory: str, schema: StructType) -> tuple[DataFile, ...]:
        place = self._generations.place
        names = [f"{directory}/{name}" for name in place.names(directory) if not name.startswith(("_", "."))]
        if not names:
            return ()
        stored = read_files(
            self._spark, [place.join(name) for name in names], schema, self._format, ("file_path",)
        )
        found = stored.groupBy("file_path").agg(*aggregates(schema)).collect()
        held = {relative(row["file_path"]): from_row(row) for row in found}
        files = []
        for name in names:
            if name in held:  # others have no rows
                files.append(DataFile(name, place.size(name) or 0, held[name]))
            else:
                place.remove(name)
        return tuple(files)


def relative(url: str) -> str:
    """The export's name for a file from Spark's."""
    directory, name = url.split("/")[-2:]
    return f"{DATA}/{directory}/{name}"


def _quoted_columns(schema: StructType) -> list[str]:
    return [quoted(one.name) for one in schema.fields]
