"""The files of a generation: written, read again before anybody relies on them; rewritten where rows changed.

Merging copies on write. Only files that hold a changed key are written anew; all others are the next
generation's as they are. Files are in ranges of the key, so that changes which keep together (the newest days
of a table) touch few of them. Small files are joined with what is written anyway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_spark.jobs.errors import JobError
from herdpy_spark.jobs.exporting import formats
from herdpy_spark.jobs.exporting.changeset import GONE, ChangeSet
from herdpy_spark.jobs.exporting.fingerprint import aggregates, from_row, quoted
from herdpy_spark.jobs.exporting.generations import DATA, DataFile, ExportManifest, Fingerprint, Generations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

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
        formats.write(
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
                stored = formats.read(
                    self._spark,
                    [self._generations.place.join(one) for one in sorted(names)],
                    schema,
                    self._format,
                )
                stays = stored.join(rows.select(*map(quoted, previous.key)), list(previous.key), "left_anti")
                fresh = stays.select(*_columns(schema)).unionByName(arrived)
            before = sum(one.fingerprint.rows for one in touched)
            count = max(1, -(-(before + arrived.count()) // ROWS_PER_FILE))
            keys = [quoted(name) for name in previous.key]
            ordered = fresh.repartitionByRange(count, *keys).sortWithinPartitions(*keys)
            return kept + self.write(number, ordered.select(*_columns(schema)))
        finally:
            rows.unpersist()

    def _touched(self, previous: ExportManifest, schema: StructType, rows: DataFrame) -> tuple[DataFile, ...]:
        """Files with a row whose key changed; and small ones."""
        if not previous.files:
            return ()
        stored = formats.read(
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
        stored = formats.read(
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


def _columns(schema: StructType) -> list[str]:
    return [quoted(one.name) for one in schema.fields]
