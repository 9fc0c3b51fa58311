"""What has changed since an export, as its net effect, and the next generation's files.

    changes (op, key, after, sequence, schema) -> one row a key: its columns, and whether it is gone
    files of before, change set -> files that stay, files that are new

A truncation voids all rows before it. Merging copies on write: only files that hold a changed key are
written anew, and read again before anybody relies on them. Files are in ranges of the key, so changes that
keep together touch few of them. Where files lie, and in what form, is the store's to know (``ExportStore``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from herdpy_spark.jobs.exporting.generations import DataFile, ExportManifest, Fingerprint, Generations
from herdpy_spark.jobs.exporting.rows import FILE_PATH, PARQUET, RowFiles, aggregates, from_row, quoted
from herdpy_spark.jobs.exporting.task_files import ROWS_PER_FILE, partition_of, partition_path
from herdpy_spark.jobs.job import JobError
from herdpy_spark.jobs.steps import step

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

    from herdpy_spark.jobs.exporting.evolving import SchemaChange

SCRATCH = "_scratch"  # where older versions had changes while they merged them

GONE = "__gone"
"""Column of a change set: the key's row was deleted."""
SEQUENCE = "sequence"
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
        .select("op", "schema", SEQUENCE)
        .sort(SEQUENCE)
        .collect()
    )
    voids = [row for row in definitions if row["op"] in _VOIDING]
    changed = feed.where(sql.col("op").isin("insert", "update", "delete"))
    if voids:
        changed = changed.where(sql.col(SEQUENCE) > place(feed, voids[-1][SEQUENCE]))
    ended = changed.where("op = 'delete'").select(*_columns(schema, key, "key", gone=True))
    made = changed.where("op <> 'delete'").select(*_columns(schema, key, "after", gone=False))
    by_key = Window.partitionBy(*map(quoted, key)).orderBy(sql.col(SEQUENCE).desc())
    newest = ended.unionByName(made).withColumn("__nth", sql.row_number().over(by_key)).where("__nth = 1")
    return ChangeSet(
        newest.drop("__nth", SEQUENCE),
        bool(voids),
        changed.count(),
        tuple((row["op"], row["schema"]) for row in definitions if row["op"] in _DEFINING),
    )


def place(feed: DataFrame, sequence: Row) -> Column:
    """A place in the log's order as an expression: what ``sequence`` of the feed is compared with."""
    from pyspark.sql import functions as sql

    kind = feed.schema[SEQUENCE].dataType.simpleString()
    return sql.struct(*(sql.lit(value).alias(name) for name, value in sequence.asDict().items())).cast(kind)


def _columns(schema: StructType, key: tuple[str, ...], source: str, *, gone: bool) -> list[Column]:
    """A change's columns: all of ``after``, or the ``key`` alone."""
    from pyspark.sql import functions as sql

    columns = [
        sql.col(f"{source}.{quoted(one.name)}").cast(one.dataType).alias(one.name)
        if not gone or one.name in key
        else sql.lit(None).cast(one.dataType).alias(one.name)
        for one in schema.fields
    ]
    return [*columns, sql.lit(gone).alias(GONE), sql.col(SEQUENCE)]


_SMALL = 8  # a file with less than this part of the wanted rows is joined with others


class ExportStore(Protocol):
    """Files of rows, where an export has them."""

    def add(self, frame: DataFrame, key: tuple[str, ...], rows: int) -> tuple[DataFile, ...]:
        """All rows (about so many) as new files, read again; JobError when they do not hold what was sent."""

    def rows(self, files: Sequence[DataFile]) -> DataFrame:
        """The rows of files, in the columns that the export has now."""

    def keys(self, files: Sequence[DataFile], key: tuple[str, ...]) -> DataFrame:
        """Their keys, and in ``FILE_PATH`` the file of each."""

    def path(self, found: str) -> str:
        """What ``DataFile.path`` has for a value of ``FILE_PATH``."""

    def beside(self, names: set[str], arrived: DataFrame) -> set[str] | None:
        """Partitions in which these files are, or rows arrive; None: the export has none."""


@dataclass(frozen=True, slots=True)
class MergedFiles:
    """What becomes of an export's files.

    Attributes:
        kept: those that stay as they are; ``gone``: those that do not; ``added``: new ones.
    """

    kept: tuple[DataFile, ...]
    gone: tuple[DataFile, ...]
    added: tuple[DataFile, ...]

    @property
    def files(self) -> tuple[DataFile, ...]:
        """All that there are afterwards."""
        return self.kept + self.added


def merge(
    store: ExportStore,
    files: tuple[DataFile, ...],
    key: tuple[str, ...],
    changes: ChangeSet,
    *,
    rewrite: bool = False,
) -> MergedFiles:
    """Apply a change set.

    Args:
        key: names of the key's columns, as they are now.
        rewrite: write all files anew: their columns are others now.
    """
    rows = changes.rows.cache()
    try:
        whole = changes.voided or rewrite
        if not whole and rows.isEmpty():
            return MergedFiles(files, (), ())
        arrived = rows.where(f"NOT {GONE}").drop(GONE)
        touched = files if whole else _touched(store, files, key, rows, arrived)
        names = {one.path for one in touched}
        kept = tuple(one for one in files if one.path not in names)
        fresh, before = arrived, 0
        if not changes.voided and touched:
            stays = by_key(store.rows(touched), rows, key, "left_anti")
            fresh = stays.select(*map(quoted, arrived.columns)).unionByName(arrived)
            before = sum(one.fingerprint.rows for one in touched)
        return MergedFiles(kept, touched, store.add(fresh, key, before + arrived.count()))
    finally:
        rows.unpersist()


def ranged(rows: DataFrame, key: tuple[str, ...], count: int, per_file: int) -> DataFrame:
    """Rows in partitions of so many, in ranges of the key and sorted by it."""
    keys = [quoted(name) for name in key]
    parts = max(1, -(-count // per_file))
    if not keys:
        return rows.repartition(parts)
    return rows.repartitionByRange(parts, *keys).sortWithinPartitions(*keys)


def by_key(rows: DataFrame, others: DataFrame, key: tuple[str, ...], how: str) -> DataFrame:
    """The rows whose key is among those of the others (``left_semi``), or is not (``left_anti``)."""
    from pyspark.sql import functions as sql

    # Not by names: Spark takes the dot in one for a field of a struct.
    same = [sql.col(f"l.{quoted(name)}") == sql.col(f"r.{quoted(name)}") for name in key]
    return rows.alias("l").join(others.select(*map(quoted, key)).alias("r"), same, how)


def _touched(
    store: ExportStore, files: tuple[DataFile, ...], key: tuple[str, ...], rows: DataFrame, arrived: DataFrame
) -> tuple[DataFile, ...]:
    """Files with a row whose key changed; and small ones of the partitions that get rows."""
    if not files:
        return ()
    hit = by_key(store.keys(files, key), rows, key, "left_semi").select(FILE_PATH).distinct()
    with step(rows.sparkSession, "find files with changed keys"):
        names = {store.path(row[FILE_PATH]) for row in hit.collect()}
    parts = store.beside(names, arrived)
    return tuple(
        one
        for one in files
        if one.path in names
        or (
            one.fingerprint.rows < ROWS_PER_FILE // _SMALL
            and (parts is None or partition_of(one.path) in parts)
        )
    )


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
        check_held(directory, files, sent)
        return files

    def merge(
        self,
        number: int,
        previous: ExportManifest,
        schema: StructType,
        changes: ChangeSet,
        evolved: SchemaChange | None = None,
    ) -> tuple[DataFile, ...]:
        """The files of the generation after ``previous``.

        Args:
            schema: the columns that the files of ``previous`` have.
            evolved: what became of these columns since; None: nothing.
        """
        store = GenerationStore(self, number, schema, previous.file_format, evolved)
        other = evolved is not None and evolved.is_other_shape
        key = previous.key if evolved is None else evolved.key
        return merge(store, previous.files, key, changes, rewrite=other).files

    @property
    def partition_by(self) -> tuple[str, ...]:
        """Columns by whose values files lie in directories."""
        return self._files.partition_by

    def read(self, files: Sequence[DataFile], schema: StructType, *, path: bool = False) -> DataFrame:
        """The rows of files; with ``path``, the file of each in ``FILE_PATH``."""
        return self._files.read(self._spark, [one.path for one in files], schema, path=path)

    def named(self, found: str) -> str:
        """The name of a file from what stands in ``FILE_PATH``."""
        return self._files.named(found)

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


@dataclass(frozen=True, slots=True)
class GenerationStore:
    """``ExportStore`` of one generation that is being made.

    Attributes:
        schema: the columns that the files before have.
        evolved: what became of these columns since; None: nothing.
    """

    writer: FileWriter
    number: int
    schema: StructType
    file_format: str
    evolved: SchemaChange | None = None
    per_file: int = 0

    def add(self, frame: DataFrame, key: tuple[str, ...], rows: int) -> tuple[DataFile, ...]:
        """In the generation's directory."""
        if not self.writer.partition_by:
            frame = ranged(frame, key, rows, self.per_file or ROWS_PER_FILE)
        return self.writer.write(self.number, frame, key)

    def rows(self, files: Sequence[DataFile]) -> DataFrame:
        """As the columns are now."""
        stored = self.writer.read(files, self.schema)
        return stored if self.evolved is None else self.evolved.carried(stored)

    def keys(self, files: Sequence[DataFile], key: tuple[str, ...]) -> DataFrame:
        """Of Parquet, no other column is read."""
        whole = self.schema if self.file_format != PARQUET else _only(self.schema, key)
        return self.writer.read(files, whole, path=True)

    def path(self, found: str) -> str:
        """The export's own name of it."""
        return self.writer.named(found)

    def beside(self, names: set[str], arrived: DataFrame) -> set[str] | None:
        """See ``ExportStore``."""
        columns = self.writer.partition_by
        if not columns:
            return None
        found = arrived.select(*map(quoted, columns)).distinct().toArrow()  # rows have local times
        values = [column.to_pylist() for column in found.columns]
        return {partition_of(name) for name in names} | {
            partition_path(columns, row) for row in zip(*values, strict=True)
        }


def check_held(where: str, files: Sequence[DataFile], sent: Fingerprint) -> None:
    """JobError when files do not hold what was sent there."""
    held = sum((one.fingerprint for one in files), Fingerprint())
    if held != sent:
        raise JobError(
            f"the files in {where} do not hold the rows that were written: {held}, not {sent}",
            hint="Nothing was published. If it happens again: the format cannot hold some value of the"
            " table (try Parquet), or the storage loses data.",
        )


def _only(schema: StructType, names: Sequence[str]) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([one for one in schema.fields if one.name in names])
