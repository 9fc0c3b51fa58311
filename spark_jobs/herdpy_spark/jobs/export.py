"""The job ``export``: rows of a table or query to Parquet, CSV, Delta or Iceberg; whole, or what has changed.

    full:         the table at one position -> new files or a new version -> published with that position
    incremental:  the position of the newest generation -> changes since -> merged into it, exactly once

The position travels with the data: in the manifest of files, in the commit of a Delta or Iceberg table. So
whatever happens to a run, the next one goes on from what is really there.
"""

from __future__ import annotations

import argparse

from herdpy_spark.jobs.exporting import FOLLOW, POLICIES, ExportRequest
from herdpy_spark.jobs.exporting.rows import FORMATS, PARQUET
from herdpy_spark.jobs.job import (
    JobRun,
    SparkJob,
    UsageError,
    add_catalog,
    check_catalog,
    count,
    given,
    listed,
    names,
    run_id,
    shown_url,
    source_options,
)
from herdpy_spark.jobs.running import lake, main

DELTA = "delta"
ICEBERG = "iceberg"


def _arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what")
    one = what.add_mutually_exclusive_group(required=True)
    one.add_argument("--table", help="the table")
    one.add_argument("--query", metavar="SQL", help="the rows of a SELECT (full exports only)")
    what.add_argument("--columns", metavar="COL,...", type=names, help="only these columns")
    what.add_argument("--where", metavar="SQL", help="only rows for which this holds (full exports only)")
    what.add_argument(
        "--as-of", dest="snapshot", metavar="LSN|TIME", help="as it was at a position of the log, or a time"
    )
    what.add_argument(
        "--incremental",
        action="store_true",
        help="bring the newest export there up to date; full if there is none",
    )
    how = parser.add_argument_group("how")
    how.add_argument("--from", dest="source", choices=("replica", "log"), help="what to read (replica)")
    how.add_argument("--partitions", type=count, help="how many partitions to read")
    how.add_argument("--lease", metavar="DURATION", help="how long the state is held after it was last read")
    where = parser.add_argument_group("where to")
    where.add_argument(
        "--to",
        required=True,
        metavar="PATH",
        help="directory or URL of the export; of Iceberg NAMESPACE.TABLE",
    )
    where.add_argument("--format", default="parquet", choices=(*FORMATS, DELTA, ICEBERG), help="(parquet)")
    where.add_argument(
        "--partition-by",
        metavar="COL,...",
        type=names,
        default=(),
        help="files in directories of these columns' values, as Hive has them (parquet)",
    )
    where.add_argument("--compression", metavar="CODEC", help="of the files: snappy, zstd, gzip, none ...")
    where.add_argument(
        "--keep", type=count, default=2, help="generations to keep (2); Delta and Iceberg keep their own way"
    )
    add_catalog(where)
    where.add_argument(
        "--on-schema-change",
        default=FOLLOW,
        choices=POLICIES,
        help="where the table was altered since the newest export: carry that into it, stop, or export anew"
        " (follow)",
    )
    where.add_argument(
        "--run-id", type=run_id, help="names this run: when the newest generation has it, nothing is done"
    )


_CODECS = ("zstd", "snappy", "gzip", "brotli", "lz4", "uncompressed")


def iceberg_codec(name: str) -> str:
    """What Iceberg calls it. UsageError: it has none of that name."""
    found = {"none": "uncompressed"}.get(name.lower(), name.lower())
    if found not in _CODECS:
        raise UsageError(f"--compression {name}: Iceberg tables have {', '.join(_CODECS[:-1])} and none")
    return found


def run(this: JobRun) -> None:
    """Export. JobError and UsageError as they say."""
    arguments = this.arguments
    if (arguments.format == ICEBERG) != bool(arguments.catalog):
        raise UsageError(
            "--catalog is for --format iceberg"
            if arguments.catalog
            else "an Iceberg table is in a catalog: --catalog is missing",
            hint="--format iceberg --catalog NAME --to NAMESPACE.TABLE; --catalog-option has its settings.",
        )
    check_catalog(arguments)
    if arguments.incremental:
        for option, value in (("--query", arguments.query), ("--where", arguments.where)):
            if value:
                raise UsageError(
                    f"an incremental export has no {option}", hint="Changes are those of whole tables."
                )
        if arguments.snapshot:
            raise UsageError("an incremental export is as of now", hint="Leave out --as-of.")
    if arguments.partition_by and arguments.format != PARQUET:
        raise UsageError(f"--partition-by is for --format parquet, not {arguments.format}")
    if arguments.compression and arguments.format == DELTA:
        raise UsageError("--compression is for files: Delta tables have their own setting")
    codec = arguments.compression
    if codec is not None and arguments.format == ICEBERG:
        codec = iceberg_codec(codec)
    base = source_options(arguments)
    selection = given(arguments, table="table", query="query", where="where")
    if arguments.columns:
        selection["columns"] = listed(arguments.columns)
    reading = given(arguments, snapshot="snapshot", source="from", partitions="numPartitions", lease="lease")
    request = ExportRequest(
        base=base,
        selection=selection,
        reading=reading,
        columns=arguments.columns,
        to=arguments.to,
        file_format=arguments.format,
        compression=codec,
        incremental=arguments.incremental,
        keep=arguments.keep,
        run_id=arguments.run_id,
        partition_by=arguments.partition_by,
        on_schema_change=arguments.on_schema_change,
        catalog=arguments.catalog or "",
        catalog_options=dict(arguments.catalog_option),
    )
    this.report |= {
        "url": shown_url(base["url"]),
        "table": arguments.table or arguments.query,
        "to": arguments.to,
        "format": arguments.format,
    }
    if arguments.format == DELTA:
        from herdpy_spark.jobs.exporting import to_delta

        to_delta.export(this, request)
    elif arguments.format == ICEBERG:
        lake("to_iceberg").export(this, request)
    else:
        from herdpy_spark.jobs.exporting import to_files

        to_files.export(this, request)


JOB = SparkJob(
    name="export",
    says=(
        "Export a table, or the rows of a query, as it is at one position of the log.\n\n"
        "Parquet and CSV exports are directories of generations: each has a manifest that names its files,\n"
        "its position and a checksum of its rows. An incremental export reads what has changed since the\n"
        "newest generation, and makes the next one of both; in Delta Lake the same is one MERGE, in Iceberg\n"
        "one snapshot. A run that was killed leaves the export as it was."
    ),
    examples=(
        "export --url herdpy://db1/shop --table orders --to /exports/orders",
        "export --url herdpy://db1/shop --table orders --to /exports/orders --from log --incremental",
        "export --url herdpy://db1/shop --table orders --to /exports/monday --as-of 2026-03-02T00:00:00Z",
        "export --url herdpy://db1/shop --table orders --to s3://lake/orders --partition-by region,day",
        "export --url herdpy://db1/shop --table orders --to s3a://lake/orders --format delta --with-delta",
        "export --url herdpy://db1/shop --table orders --format iceberg --to shop.orders --catalog lake"
        " --catalog-option type=rest --catalog-option uri=http://catalog:8181 --incremental",
        'export --url herdpy:///srv/shop --query "SELECT id, total FROM orders" --to ./totals --format csv',
    ),
    add_arguments=_arguments,
    run=run,
)

if __name__ == "__main__":
    raise SystemExit(main(JOB))
