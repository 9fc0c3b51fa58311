"""The job ``compact``: joins the small files of an export, which many incremental runs leave behind.

    the newest generation -> its small files -> fewer files with the same rows -> the next generation

The position stays, so the next incremental export goes on as if nothing had been. It needs no database. A
run that was killed leaves the export as it was, and of two runs at once one publishes, as for exports.
"""

from __future__ import annotations

import argparse
import re

from herdpy_spark.jobs.exporting import compaction, new_run_id
from herdpy_spark.jobs.exporting.changeset import FileWriter, GenerationStore
from herdpy_spark.jobs.exporting.generations import Generations, needs_spark, place, publish
from herdpy_spark.jobs.exporting.rows import quoted
from herdpy_spark.jobs.exporting.task_files import row_files
from herdpy_spark.jobs.job import (
    JobError,
    JobRun,
    SparkJob,
    add_export,
    check_catalog,
    count,
    run_id,
)
from herdpy_spark.jobs.running import has_delta, lake, main

_SIZE = re.compile(r"(\d+)\s*(B|KB|MB|GB)?", re.IGNORECASE)
_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30}


def size(text: str) -> int:
    """Bytes: 64MB, 1GB, or a number."""
    found = _SIZE.fullmatch(text.strip())
    made = int(found[1]) * _UNITS[(found[2] or "B").lower()] if found else 0
    if made < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: write 64MB, 1GB, or how many bytes")
    return made


def _arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what")
    add_export(what)
    how = parser.add_argument_group("how")
    how.add_argument(
        "--target-size", type=size, default="128MB", metavar="SIZE", help="of the joined files (128MB)"
    )
    how.add_argument("--keep", type=count, default=2, help="generations to keep (2); of files alone")
    how.add_argument(
        "--run-id", type=run_id, help="names this run: when the newest generation has it, nothing is done"
    )


def run(this: JobRun) -> None:
    """Compact. JobError, UsageError as they say; the export is as it was then."""
    arguments = this.arguments
    this.report["export"] = arguments.export
    check_catalog(arguments)
    if arguments.catalog:
        lake("iceberg_compaction").compact(this)
        return
    at = place(arguments.export, this.spark if needs_spark(arguments.export) else None)
    if at.names("_delta_log"):
        _optimize(this, at.join("").rstrip("/"))
        return
    _compact_files(this, Generations(at))


def _optimize(this: JobRun, table: str) -> None:
    from herdpy_spark.jobs.exporting.to_delta import DELTA_HINT, NO_DELTA

    if not has_delta(this.spark):
        raise JobError(NO_DELTA, hint=DELTA_HINT)
    if this.dry:
        this.report["plan"] = {"runs": "OPTIMIZE"}
        return
    (row,) = this.spark.sql(f"OPTIMIZE delta.{quoted(table)}").collect()
    metrics = row["metrics"]
    this.report |= {"removed": metrics["numFilesRemoved"], "added": metrics["numFilesAdded"]}


def _compact_files(this: JobRun, generations: Generations) -> None:
    from pyspark.sql.types import StructType

    arguments = this.arguments
    newest = generations.newest()
    if newest is None:
        raise JobError(f"{arguments.export} is no export: it has no manifest")
    if compaction.is_repeated(this, newest):
        return
    small = compaction.small_files(newest.files, arguments.target_size, parted=bool(newest.partition_by))
    if not compaction.is_worth_it(this, newest, small):
        return
    name = arguments.run_id or new_run_id()
    number = newest.generation + 1
    files = row_files(generations.place, newest.file_format, None, newest.partition_by)
    writer = FileWriter(this.spark, generations, files, run_id=name)
    schema = StructType.fromJson(newest.schema)
    rows = compaction.rows_per_file(small, arguments.target_size)
    store = GenerationStore(writer, number, schema, newest.file_format, per_file=rows)
    joined = compaction.join(store, newest, small)
    manifest = compaction.next_manifest(newest, name, joined.files)
    publish(this, generations, manifest)
    swept = generations.sweep(arguments.keep)
    compaction.report(this, manifest, joined)
    this.report["swept"] = len(swept)


JOB = SparkJob(
    name="compact",
    says=(
        "Join the small files of an export.\n\n"
        "Files with less than three quarters of the wanted size are written anew as fewer ones, in ranges\n"
        "of the key, as the next generation (of Iceberg: one snapshot; of Delta: OPTIMIZE). The position\n"
        "stays what it is, and the next incremental export goes on from there."
    ),
    examples=(
        "compact --export /exports/orders",
        "compact --export s3a://lake/orders --target-size 512MB",
        "compact --export shop.orders --catalog lake --catalog-option type=rest"
        " --catalog-option uri=http://catalog:8181",
    ),
    add_arguments=_arguments,
    run=run,
)

if __name__ == "__main__":
    raise SystemExit(main(JOB))
