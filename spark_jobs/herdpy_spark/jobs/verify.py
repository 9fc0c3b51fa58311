"""The job ``verify``: whether an export is what it says, and what the table was at its position.

    files: are they there, do they hold the rows of the manifest?  ->  table at that position: the same rows?
                                                                   ->  which keys differ

Rows are compared by a fingerprint (``exporting.rows``); only where that differs are rows themselves
compared, by key.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from herdpy_spark.jobs.database import JobDatabase
from herdpy_spark.jobs.exporting.generations import (
    DATA,
    ExportManifest,
    Fingerprint,
    Generations,
    needs_spark,
    place,
)
from herdpy_spark.jobs.exporting.rows import (
    FILE_PATH,
    RowFiles,
    aggregates,
    fingerprint,
    from_row,
    quoted,
    row_hash,
)
from herdpy_spark.jobs.exporting.task_files import row_files
from herdpy_spark.jobs.job import (
    JobError,
    JobRun,
    SparkJob,
    add_export,
    check_catalog,
    count,
    given,
    shown_url,
    source_options,
)
from herdpy_spark.jobs.running import lake, main
from herdpy_spark.jobs.steps import step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_HINT = (
    "A position can be read as long as the log and its published snapshots reach back to it. --latest"
    " compares"
    " with the table as it is now; --files-only does not look at it."
)


def _arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what")
    add_export(what)
    what.add_argument("--generation", type=count, metavar="N", help="which generation (the newest)")
    what.add_argument(
        "--files-only", action="store_true", help="compare the files with the manifest, no table"
    )
    what.add_argument(
        "--latest",
        action="store_true",
        help="compare with the table as it is now, not at the export's position",
    )
    how = parser.add_argument_group("how")
    how.add_argument("--from", dest="source", choices=("replica", "log"), help="what to read, with --latest")
    how.add_argument("--partitions", type=count, help="how many partitions to read")
    how.add_argument("--show", type=count, default=10, help="how many differing keys to report (10)")


def run(this: JobRun) -> None:
    """Compare. JobError when something differs."""
    arguments = this.arguments
    check_catalog(arguments)
    stored = _stored(this)
    manifest = stored.manifest
    this.report |= {
        "export": arguments.export,
        "generation": manifest.generation,
        "table": manifest.table,
        "lsn": str(manifest.lsn),
    }
    base = {} if arguments.files_only else source_options(arguments)
    if base:
        this.report["url"] = shown_url(base["url"])
    if this.dry:
        this.report["plan"] = {"files": stored.count, "rows": stored.fingerprint.rows}
        return
    with step(this.spark, "read the files"):
        damaged = stored.damaged()
    this.report |= {"damaged_files": damaged, "fingerprint": asdict(stored.fingerprint)}
    if damaged:
        raise JobError(
            f"{len(damaged)} of {stored.count} files are not as they were written: "
            + "; ".join(f"{name} {why}" for name, why in sorted(damaged.items())[:3]),
            hint="Run a full export.",
        )
    this.note(f"{stored.count} files hold the {stored.fingerprint.rows:,} rows of the manifest")
    if base:
        _compare(this, stored, base)


class StoredExport(Protocol):
    """One generation of an export, wherever it is."""

    @property
    def manifest(self) -> ExportManifest:
        """What it says of itself."""

    @property
    def fingerprint(self) -> Fingerprint:
        """Of its rows, as it says itself."""

    @property
    def count(self) -> int:
        """Of its files."""

    def damaged(self) -> dict[str, str]:
        """Files that are gone, or hold other rows; each with what is wrong with it."""

    def rows(self) -> DataFrame:
        """All of it."""


def _stored(this: JobRun) -> StoredExport:
    """The generation that the arguments name; JobError: there is none."""
    arguments = this.arguments
    if arguments.catalog:
        options = dict(arguments.catalog_option)
        found: StoredExport = lake("iceberg_stored").stored(
            this, arguments.catalog, options, arguments.export, arguments.generation
        )
        return found
    generations = Generations(place(arguments.export, this.spark if needs_spark(arguments.export) else None))
    manifest = (
        generations.newest() if arguments.generation is None else generations.load(arguments.generation)
    )
    if manifest is None:
        raise JobError(f"{arguments.export} is no export: it has no manifest")
    return StoredFiles(this, generations, manifest)


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """``StoredExport`` of a directory."""

    this: JobRun
    generations: Generations
    manifest: ExportManifest

    @property
    def fingerprint(self) -> Fingerprint:
        """The sum of those of its files."""
        return self.manifest.fingerprint

    @property
    def count(self) -> int:
        """Of its files."""
        return len(self.manifest.files)

    def damaged(self) -> dict[str, str]:
        """See ``StoredExport``."""
        return damaged_files(self.this, self.generations, self.manifest)

    def rows(self) -> DataFrame:
        """See ``StoredExport``."""
        names = [one.path for one in self.manifest.files]
        files = _files(self.generations, self.manifest)
        return files.read(self.this.spark, names, schema_of(self.manifest))


def damaged_files(this: JobRun, generations: Generations, manifest: ExportManifest) -> dict[str, str]:
    """Files of a generation that are gone, or hold other rows; each with what is wrong with it."""
    wrong: dict[str, str] = {}
    whole = []
    sizes = generations.place.sizes(DATA)
    for one in manifest.files:
        size = sizes.get(one.path)
        if size is None:
            wrong[one.path] = "is missing"
        elif size != one.size_bytes:
            wrong[one.path] = f"has {size} bytes, not {one.size_bytes}"
        else:
            whole.append(one)
    if not whole:
        return wrong
    schema = schema_of(manifest)
    try:
        held = _held(this, generations, [one.path for one in whole], manifest, schema)
    except Exception:  # noqa: BLE001 - Spark does not say which file: each is asked alone, and says why
        held = {}
        for one in whole:
            try:
                held |= _held(this, generations, [one.path], manifest, schema)
            except Exception as error:  # noqa: BLE001 - reported as the file's damage
                wrong[one.path] = f"cannot be read: {str(error).splitlines()[0]}"
    for one in whole:
        if one.path not in wrong and held.get(one.path) != one.fingerprint:
            wrong[one.path] = f"holds other rows: {held.get(one.path)}, not {one.fingerprint}"
    return wrong


def _held(
    this: JobRun, generations: Generations, names: list[str], manifest: ExportManifest, schema: StructType
) -> dict[str, Any]:
    files = _files(generations, manifest)
    stored = files.read(this.spark, names, schema, path=True)
    rows = stored.groupBy(FILE_PATH).agg(*aggregates(schema)).collect()
    return {files.named(row[FILE_PATH]): from_row(row) for row in rows}


def _files(generations: Generations, manifest: ExportManifest) -> RowFiles:
    return row_files(generations.place, manifest.file_format, None, manifest.partition_by)


def schema_of(manifest: ExportManifest) -> StructType:
    """The columns of an export."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(manifest.schema)


def _compare(this: JobRun, stored: StoredExport, base: dict[str, str]) -> None:
    arguments, manifest = this.arguments, stored.manifest
    reading = given(arguments, partitions="numPartitions")
    if arguments.latest:
        reading |= given(arguments, source="from")
    else:
        reading["snapshot"] = str(manifest.lsn)
    database = JobDatabase(base, manifest.selection.get("table"))
    if manifest.log_id and database.log_id and manifest.log_id != database.log_id:
        raise JobError("the export is of another database: their logs have different identities")
    with database.pinned(this.spark, manifest.selection, reading) as pinned:
        try:
            with step(this.spark, f"read the table at {pinned.lsn}"):
                found = fingerprint(pinned.frame)
        except Exception as error:
            raise JobError(f"the table cannot be read at {manifest.lsn}: {error}", hint=_HINT) from error
        equal = found == stored.fingerprint
        this.report |= {"equal": equal, "table_fingerprint": asdict(found), "compared_at": str(pinned.lsn)}
        if equal:
            this.note(f"the table at {pinned.lsn} has the same {found.rows:,} rows")
            return
        with step(this.spark, "find what differs"):
            shown = differences(pinned.frame, stored.rows(), manifest.key, arguments.show)
    this.report["differences"] = shown
    for one in shown:
        this.note(f"{one['which']}: {one['row']}")
    raise JobError(
        f"the export differs from the table at {pinned.lsn}: {stored.fingerprint.rows:,} rows there,"
        f" {found.rows:,} in the table"
    )


def differences(table: DataFrame, export: DataFrame, key: tuple[str, ...], most: int) -> list[dict[str, Any]]:
    """Some of the rows that differ: by their keys where there are any, else as a whole.

    ``which`` says where: "only in the table", "only in the export", "different".
    """
    from pyspark.sql import functions as sql

    names = list(key) or export.columns
    left = table.groupBy(*map(quoted, names)).agg(
        sql.sum(row_hash(table.schema).cast("decimal(20,0)")).alias("__t"), sql.count("*").alias("__n")
    )
    right = export.groupBy(*map(quoted, names)).agg(
        sql.sum(row_hash(export.schema).cast("decimal(20,0)")).alias("__e"), sql.count("*").alias("__m")
    )
    on = [sql.col(f"l.{quoted(name)}").eqNullSafe(sql.col(f"r.{quoted(name)}")) for name in names]
    joined = left.alias("l").join(right.alias("r"), on, "full_outer")
    differing = joined.where("NOT (__t <=> __e AND __n <=> __m)")
    rows = differing.select(
        sql.when(sql.col("__m").isNull(), "only in the table")
        .when(sql.col("__n").isNull(), "only in the export")
        .otherwise("different")
        .alias("which"),
        sql.struct(
            *(
                sql.when(sql.col("__n").isNull(), sql.col(f"r.{quoted(name)}"))
                .otherwise(sql.col(f"l.{quoted(name)}"))
                .alias(name)
                for name in names
            )
        ).alias("row"),
    )
    return [
        {"which": row["which"], "row": {name: str(value) for name, value in row["row"].asDict().items()}}
        for row in rows.limit(most).collect()
    ]


JOB = SparkJob(
    name="verify",
    says=(
        "Compare an export with itself and with the table it is of.\n\n"
        "The files must be there, whole, and hold the rows of the manifest; and the table, as it was at the\n"
        "export's position, must have the same rows. Differences are reported by key. Exit code 1 means"
        " that\n"
        "something does."
    ),
    examples=(
        "verify --url herdpy://db1/shop --export /exports/orders",
        "verify --url herdpy://db1/shop --export /exports/orders --generation 12 --report -",
        "verify --export /exports/orders --files-only",
        "verify --url herdpy://db1/shop --export shop.orders --catalog lake --catalog-option type=rest"
        " --catalog-option uri=http://catalog:8181",
    ),
    add_arguments=_arguments,
    run=run,
)

if __name__ == "__main__":
    raise SystemExit(main(JOB))
