"""Exports as directories of files, in generations, and as tables of Delta and Iceberg: what one is to be.

From the bottom: ``objects``, ``generations``, ``rows``, ``task_files``, ``evolving`` and ``following``,
``changeset``, what is Iceberg's (``iceberg_columns``, ``iceberg_table``, ``iceberg_files``), then
``to_files``, and ``to_delta`` and ``to_iceberg``.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from herdpy_spark.jobs.exporting.generations import ExportManifest, Generations

FOLLOW, STOP, REWRITE = "follow", "stop", "rewrite"
POLICIES = (FOLLOW, STOP, REWRITE)
"""What an export does where the table was altered: see ``ExportRequest.on_schema_change``."""


def export_files(directory: str, generation: int | None = None) -> list[str]:
    """URLs of the files of an export; those of its newest generation, or of that one.

    Args:
        directory: a local path, or a URL that fsspec reaches, with its configuration.

    Raises:
        JobError: there is no such export or generation.
        DamagedManifestError: its manifest is damaged.
        ValueError: only Spark reaches it.
    """
    there, manifest = _found(directory, generation, None)
    return there.files(manifest)


def read_export(spark: SparkSession, directory: str, generation: int | None = None) -> DataFrame:
    """The rows of an export, wherever it is: tasks read what Spark's own sources do not reach.

    Raises:
        JobError: there is no such export or generation.
        DamagedManifestError: its manifest is damaged.
    """
    from pyspark.sql.types import StructType

    from herdpy_spark.jobs.exporting.task_files import row_files

    there, manifest = _found(directory, generation, spark)
    files = row_files(there.place, manifest.file_format, None, manifest.partition_by)
    return files.read(spark, [one.path for one in manifest.files], StructType.fromJson(manifest.schema))


def _found(
    directory: str, generation: int | None, spark: SparkSession | None
) -> tuple[Generations, ExportManifest]:
    from herdpy_spark.jobs.exporting.generations import Generations, place
    from herdpy_spark.jobs.job import JobError

    there = Generations(place(directory, spark))
    manifest = there.newest() if generation is None else there.load(generation)
    if manifest is None:
        raise JobError(f"{directory} is no export: it has no manifest")
    return there, manifest


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """An export that is wanted.

    Attributes:
        base: the data source's options that say where the database is.
        selection: those that say which rows and columns.
        reading: those that say as of when, and how it is read.
        columns: the columns wanted; None: all.
        partition_by: columns whose values part the files into directories.
        run_id: given by who wants it once; None: each run is another one.
        on_schema_change: what an incremental export does where the table has other columns, or another key,
            than the newest export: "follow", "stop" or "rewrite".
        catalog: of Iceberg, by its name, with ``catalog_options``; ``to`` is a table in it then.
    """

    base: dict[str, str]
    selection: dict[str, str]
    reading: dict[str, str]
    columns: tuple[str, ...] | None
    to: str
    file_format: str
    compression: str | None
    incremental: bool
    keep: int
    run_id: str | None
    partition_by: tuple[str, ...] = ()
    on_schema_change: str = FOLLOW
    catalog: str = ""
    catalog_options: dict[str, str] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """The table, or the query."""
        return self.selection.get("table") or self.selection["query"]


def new_run_id() -> str:
    """A name that no other run has."""
    return uuid.uuid4().hex[:16]


def now() -> str:
    """UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
