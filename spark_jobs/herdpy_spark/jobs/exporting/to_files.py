"""Exports to Parquet and CSV: one generation after the other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from herdpy import __version__
from herdpy.log.lsn import LSN
from herdpy_spark.jobs.database import JobDatabase
from herdpy_spark.jobs.exporting import ExportRequest, changeset, new_run_id, now
from herdpy_spark.jobs.exporting.changeset import SCRATCH, FileWriter, stretch
from herdpy_spark.jobs.exporting.generations import DataFile, ExportManifest, Generations, needs_spark, place
from herdpy_spark.jobs.exporting.task_files import check_partitions, row_files
from herdpy_spark.jobs.job import JobError, UsageError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from herdpy_spark.jobs.job import JobRun

FULL = "full"
INCREMENTAL = "incremental"


def export(this: JobRun, asked: ExportRequest) -> None:
    """Make the next generation. JobError, UsageError as they say; nothing is published then."""
    generations = Generations(place(asked.to, this.spark if needs_spark(asked.to) else None))
    row_files(generations.place, asked.file_format, asked.compression, asked.partition_by)  # or a UsageError
    newest = generations.newest()
    if newest is not None and asked.run_id is not None and newest.run_id == asked.run_id:
        this.note(f"generation {newest.generation} is of run {asked.run_id}: nothing is to be done")
        this.report |= _summary(newest) | {"repeated": True}
        return
    database = JobDatabase(asked.base, asked.selection.get("table"))
    if asked.incremental and newest is not None:
        manifest = _incremental(this, asked, generations, newest, database)
    else:
        manifest = _full(this, asked, generations, newest, database)
    if manifest is None:
        return
    publish(this, generations, manifest)
    generations.place.remove(SCRATCH)
    swept = generations.sweep(asked.keep)
    this.note(
        f"generation {manifest.generation}: {manifest.fingerprint.rows:,} rows at {manifest.lsn}"
        f" in {len(manifest.files)} files; {len(swept)} old ones removed"
    )
    this.report |= _summary(manifest) | {"removed": len(swept)}


def publish(this: JobRun, generations: Generations, manifest: ExportManifest) -> None:
    """Publish, and say what that is worth there. JobError, as ``Generations.publish``."""
    generations.publish(manifest)
    if not generations.place.is_exclusive:
        this.report["exclusive"] = False
        this.note(
            f"{generations.place.url} cannot create a file on the condition that there is none: of two runs"
            " that publish within moments, one would replace the other's generation"
        )


def _full(
    this: JobRun,
    asked: ExportRequest,
    generations: Generations,
    newest: ExportManifest | None,
    database: JobDatabase,
) -> ExportManifest | None:
    number = 1 if newest is None else newest.generation + 1
    key = _key(asked, database)
    if asked.incremental:
        _require_key(asked, key)
    if this.dry:
        this.report["plan"] = {"kind": FULL, "generation": number, "key": list(key)}
        this.note(f"would export {asked.subject} whole, as generation {number} of {asked.to}")
        return None
    with database.pinned(this.spark, asked.selection, asked.reading) as pinned:
        this.note(f"exporting {asked.subject} as it is at {pinned.lsn}")
        check_partitions(asked.partition_by, pinned.schema)
        writer, run_id = _writer(this, asked, generations)
        files = writer.write(number, pinned.frame, key)
        return _manifest(asked, number, FULL, pinned.lsn, pinned.schema, key, files, run_id, database)


def _incremental(
    this: JobRun,
    asked: ExportRequest,
    generations: Generations,
    newest: ExportManifest,
    database: JobDatabase,
) -> ExportManifest | None:
    from pyspark.sql.types import StructType

    _check_same(asked, newest, database)
    key = _key(asked, database)
    _require_key(asked, key)
    number = newest.generation + 1
    if this.dry:
        this.report["plan"] = {"kind": INCREMENTAL, "generation": number, "since": str(newest.lsn)}
        this.note(f"would merge what has changed since {newest.lsn} into generation {number} of {asked.to}")
        return None
    schema = StructType.fromJson(newest.schema)
    writer, run_id = _writer(this, asked, generations)
    options = asked.base | {"table": asked.subject}
    for name in ("numPartitions", "lease"):
        if name in asked.reading:
            options[name] = asked.reading[name]
    with stretch(this.spark, options, newest.lsn, generations.place, run_id) as found:
        changes = changeset.net(found.changes, schema, key)
        this.note(f"merging {changes.events:,} changes after {newest.lsn} up to {found.upto}")
        check_definition(changes, this)
        files = writer.merge(number, newest, schema, changes)
        this.report["changes"] = changes.events
        return _manifest(
            asked, number, INCREMENTAL, found.upto, schema, key, files, run_id, database, newest.lsn
        )


def check_definition(changes: changeset.ChangeSet, this: JobRun) -> None:
    """Whether the table is still the one whose rows are there. JobError: it was dropped."""
    if changes.defined:
        this.report["defined"] = [op for op, _ in changes.defined]
        if changes.defined[-1][0] == "drop":
            raise JobError("the table was dropped", hint="The export stays as it is.")


def _check_same(request: ExportRequest, newest: ExportManifest, database: JobDatabase) -> None:
    differs = {
        "table": (newest.table, request.subject),
        "format": (newest.file_format, request.file_format),
        "columns": (newest.selection.get("columns"), request.selection.get("columns")),
        "--partition-by": (list(newest.partition_by), list(request.partition_by)),
        "log": (newest.log_id or database.log_id, database.log_id),
    }
    for what, (there, wanted) in differs.items():
        if there != wanted:
            raise UsageError(
                f"the export in {request.to} has another {what}: {there}, not {wanted}",
                hint="Give another --to, or run a full export (without --incremental).",
            )
    if newest.selection.get("where"):
        raise UsageError(f"the export in {request.to} has only rows where {newest.selection['where']}")


def _require_key(asked: ExportRequest, key: tuple[str, ...]) -> None:
    if not key:
        raise UsageError(
            f"table {asked.subject} has no primary key: changes cannot be merged",
            hint="Leave out --incremental.",
        )
    missing = [name for name in key if asked.columns is not None and name not in asked.columns]
    if missing:
        raise UsageError(f"changes are merged by the key: --columns lacks {', '.join(missing)}")


def _key(asked: ExportRequest, database: JobDatabase) -> tuple[str, ...]:
    return database.key if "table" in asked.selection else ()


def _writer(this: JobRun, request: ExportRequest, generations: Generations) -> tuple[FileWriter, str]:
    run_id = request.run_id or new_run_id()
    files = row_files(generations.place, request.file_format, request.compression, request.partition_by)
    return FileWriter(this.spark, generations, files, run_id=run_id), run_id


def _manifest(
    asked: ExportRequest,
    number: int,
    kind: str,
    lsn: LSN,
    schema: StructType,
    key: tuple[str, ...],
    files: tuple[DataFile, ...],
    run_id: str,
    database: JobDatabase,
    since: LSN | None = None,
) -> ExportManifest:
    return ExportManifest(
        generation=number,
        kind=kind,
        table=asked.subject,
        lsn=lsn,
        since=since,
        file_format=asked.file_format,
        schema=json.loads(schema.json()),
        key=key,
        files=files,
        run_id=run_id,
        created=now(),
        log_id=database.log_id,
        selection=dict(asked.selection),
        herdpy=__version__,
        partition_by=asked.partition_by,
    )


def _summary(manifest: ExportManifest) -> dict[str, Any]:
    return {
        "generation": manifest.generation,
        "kind": manifest.kind,
        "lsn": str(manifest.lsn),
        "since": None if manifest.since is None else str(manifest.since),
        "rows": manifest.fingerprint.rows,
        "files": len(manifest.files),
        "bytes": sum(one.size_bytes for one in manifest.files),
    }
