"""Exports to Parquet and CSV: one generation after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from herdpy import __version__
from herdpy.log.lsn import LSN
from herdpy_spark.jobs.database import JobDatabase, key_names
from herdpy_spark.jobs.exporting import REWRITE, ExportRequest, changeset, new_run_id, now
from herdpy_spark.jobs.exporting.changeset import SCRATCH, FileWriter
from herdpy_spark.jobs.exporting.evolving import SchemaChange, refuse
from herdpy_spark.jobs.exporting.following import ExportStretch, stretch
from herdpy_spark.jobs.exporting.generations import ExportManifest, Generations, needs_spark, place, publish
from herdpy_spark.jobs.exporting.task_files import check_partitions, row_files
from herdpy_spark.jobs.job import UsageError
from herdpy_sql.definitions import decode_table, encode_table

if TYPE_CHECKING:
    from herdpy_spark.jobs.job import JobRun

FULL = "full"
INCREMENTAL = "incremental"


def export(this: JobRun, request: ExportRequest) -> None:
    """Make the next generation. JobError, UsageError as they say; nothing is published then."""
    generations = Generations(place(request.to, this.spark if needs_spark(request.to) else None))
    row_files(  # or a UsageError
        generations.place, request.file_format, request.compression, request.partition_by
    )
    newest = generations.newest()
    if newest is not None and request.run_id is not None and newest.run_id == request.run_id:
        this.note(f"generation {newest.generation} is of run {request.run_id}: nothing is to be done")
        this.report |= _summary(newest) | {"repeated": True}
        return
    database = JobDatabase(request.base, request.selection.get("table"))
    if request.incremental and newest is not None:
        manifest = _incremental(this, request, generations, newest, database)
    else:
        manifest = _full(this, request, generations, newest, database)
    if manifest is None:
        return
    publish(this, generations, manifest)
    generations.place.remove(SCRATCH)
    swept = generations.sweep(request.keep)
    this.note(
        f"generation {manifest.generation}: {manifest.fingerprint.rows:,} rows at {manifest.lsn}"
        f" in {len(manifest.files)} files; {len(swept)} old ones removed"
    )
    this.report |= _summary(manifest) | {"removed": len(swept)}


def _full(
    this: JobRun,
    request: ExportRequest,
    generations: Generations,
    newest: ExportManifest | None,
    database: JobDatabase,
) -> ExportManifest | None:
    number = 1 if newest is None else newest.generation + 1
    if request.incremental or this.dry:
        key = _key(request, database)
        if request.incremental:
            require_key(request, key)
        if this.dry:
            this.report["plan"] = {"kind": FULL, "generation": number, "key": list(key)}
            this.note(f"would export {request.subject} whole, as generation {number} of {request.to}")
            return None
    with database.pinned(this.spark, request.selection, request.reading) as pinned:
        this.note(f"exporting {request.subject} as it is at {pinned.lsn}")
        check_partitions(request.partition_by, pinned.schema)
        writer, run_id = _writer(this, request, generations)
        files = writer.write(number, pinned.frame, key_in(pinned.definition))
        return _manifest(
            request,
            run_id,
            database,
            generation=number,
            kind=FULL,
            lsn=pinned.lsn,
            schema=json.loads(pinned.schema.json()),
            key=key_in(pinned.definition),
            files=files,
            definition=pinned.definition,
        )


def _incremental(
    this: JobRun,
    request: ExportRequest,
    generations: Generations,
    newest: ExportManifest,
    database: JobDatabase,
) -> ExportManifest | None:
    from pyspark.sql.types import StructType

    check_same(request, newest, database)
    require_key(request, _key(request, database))
    number = newest.generation + 1
    if this.dry:
        this.report["plan"] = {"kind": INCREMENTAL, "generation": number, "since": str(newest.lsn)}
        this.note(f"would merge what has changed since {newest.lsn} into generation {number} of {request.to}")
        return None
    with following(this, request, database, newest.lsn, newest.definition) as (found, change):
        if change.lines() and request.on_schema_change == REWRITE:
            return _full(this, request, generations, newest, database)
        changes = changeset.net(found.changes, change.schema, change.key)
        note_changes(this, changes, newest.lsn, found.upto)
        check_partitions(request.partition_by, change.schema)
        writer, run_id = _writer(this, request, generations)
        files = writer.merge(number, newest, StructType.fromJson(newest.schema), changes, change)
        return _manifest(
            request,
            run_id,
            database,
            generation=number,
            kind=INCREMENTAL,
            lsn=found.upto,
            since=newest.lsn,
            schema=json.loads(change.schema.json()),
            key=change.key,
            files=files,
            definition=encode_table(found.after).decode(),
        )


@contextmanager
def following(
    this: JobRun, request: ExportRequest, database: JobDatabase, since: LSN, definition: str
) -> Iterator[tuple[ExportStretch, SchemaChange]]:
    """What changed in the table since an export, and what became of its columns.

    Raises:
        JobError: the log does not go back as far; the table was dropped, or changed where that is to stop
            the export; it has no key any more.
    """
    options = request.base | {"table": request.subject}
    for name in ("numPartitions", "lease"):
        if name in request.reading:
            options[name] = request.reading[name]
    with stretch(this.spark, database, options, since, definition) as found:
        change = SchemaChange(found.before, found.after, request.columns)
        refuse(change, request.on_schema_change)
        require_key(request, change.key)
        if change.lines():
            this.report["schema_changes"] = change.lines()
            this.note(f"since the newest export: {'; '.join(change.lines())}")
        yield found, change


def note_changes(this: JobRun, changes: changeset.ChangeSet, since: LSN, upto: LSN) -> None:
    """Report what is about to be merged."""
    this.note(f"merging {changes.events:,} changes after {since} up to {upto}")
    this.report["changes"] = changes.events
    if changes.defined:
        this.report["defined"] = [op for op, _ in changes.defined]


def key_in(definition: str) -> tuple[str, ...]:
    """Names of the key's columns, by a definition as manifests have it."""
    return key_names(decode_table(definition.encode())) if definition else ()


def is_renamed(database: JobDatabase, definition: str) -> bool:
    """Whether the table is the one of a definition, whatever it is called now."""
    return bool(definition) and decode_table(definition.encode()).id == database.definition.id


def check_same(request: ExportRequest, newest: ExportManifest, database: JobDatabase) -> None:
    """UsageError where the export there is of something else."""
    differs = {
        "table": (newest.table, request.subject),
        "format": (newest.file_format, request.file_format),
        "columns": (newest.selection.get("columns"), request.selection.get("columns")),
        "--partition-by": (list(newest.partition_by), list(request.partition_by)),
        "log": (newest.log_id or database.log_id, database.log_id),
    }
    for what, (there, wanted) in differs.items():
        if there != wanted and not (what == "table" and is_renamed(database, newest.definition)):
            raise UsageError(
                f"the export in {request.to} has another {what}: {there}, not {wanted}",
                hint="Give another --to, or run a full export (without --incremental).",
            )
    if newest.selection.get("where"):
        raise UsageError(f"the export in {request.to} has only rows where {newest.selection['where']}")


def require_key(request: ExportRequest, key: tuple[str, ...]) -> None:
    """UsageError where changes cannot be merged by the key."""
    if not key:
        raise UsageError(
            f"table {request.subject} has no primary key: changes cannot be merged",
            hint="Leave out --incremental.",
        )
    missing = [name for name in key if request.columns is not None and name not in request.columns]
    if missing:
        raise UsageError(f"changes are merged by the key: --columns lacks {', '.join(missing)}")


def _key(request: ExportRequest, database: JobDatabase) -> tuple[str, ...]:
    return database.key if "table" in request.selection else ()


def _writer(this: JobRun, request: ExportRequest, generations: Generations) -> tuple[FileWriter, str]:
    run_id = request.run_id or new_run_id()
    files = row_files(generations.place, request.file_format, request.compression, request.partition_by)
    return FileWriter(this.spark, generations, files, run_id=run_id), run_id


def _manifest(request: ExportRequest, run_id: str, database: JobDatabase, **facts: Any) -> ExportManifest:
    return ExportManifest(
        table=request.subject,
        file_format=request.file_format,
        run_id=run_id,
        created=now(),
        log_id=database.log_id,
        selection=dict(request.selection),
        herdpy=__version__,
        partition_by=request.partition_by,
        **facts,
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
