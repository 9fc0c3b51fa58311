"""Exports to a table of Apache Iceberg, in a catalog of SQL or REST: each generation is one snapshot.

    full:         the table at one position -> new files -> all files before are replaced
    incremental:  what has changed since the newest snapshot of an export -> the files with changed keys anew

The position, and all else that the manifest of files says, is in the snapshot's summary: a run that was
killed leaves files that nothing names, and the table as it was. Columns follow the table by field ids, so a
renamed, dropped or added one rewrites no file (unless rows there have a value in it).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from herdpy import __version__
from herdpy_spark.jobs.database import JobDatabase
from herdpy_spark.jobs.exporting import REWRITE, ExportRequest, changeset, new_run_id, now
from herdpy_spark.jobs.exporting.changeset import ExportStore, MergedFiles
from herdpy_spark.jobs.exporting.evolving import SchemaChange
from herdpy_spark.jobs.exporting.generations import DataFile, ExportManifest, Fingerprint
from herdpy_spark.jobs.exporting.iceberg_columns import evolved_schema, first_schema
from herdpy_spark.jobs.exporting.iceberg_files import IcebergFiles
from herdpy_spark.jobs.exporting.iceberg_table import (
    ICEBERG,
    LakeChange,
    LakeGeneration,
    LakeTable,
    as_data_file,
)
from herdpy_spark.jobs.exporting.rows import fingerprint
from herdpy_spark.jobs.exporting.to_files import (
    FULL,
    INCREMENTAL,
    check_same,
    following,
    key_in,
    note_changes,
    require_key,
)
from herdpy_spark.jobs.job import JobError
from herdpy_sql.definitions import decode_table, encode_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from herdpy_spark.jobs.job import JobRun
    from herdpy_sql.catalog import Table


def export(this: JobRun, request: ExportRequest) -> None:
    """Bring the table up to date. JobError, UsageError as they say; the table is as it was then."""
    lake = LakeTable(request.catalog, request.catalog_options, request.to)
    newest = lake.newest()
    if newest is not None and request.run_id is not None and newest.manifest.run_id == request.run_id:
        this.note(
            f"generation {newest.manifest.generation} is of run {request.run_id}: nothing is to be done"
        )
        this.report |= _summary(newest.manifest, newest.fingerprint, len(lake.files)) | {"repeated": True}
        return
    lake.check_ours()
    database = JobDatabase(request.base, request.selection.get("table"))
    if request.incremental:
        require_key(request, database.key)
    merging = request.incremental and newest is not None
    if this.dry:
        kind, number = INCREMENTAL if merging else FULL, 1 if newest is None else _next(newest)
        since = str(newest.manifest.lsn) if merging and newest is not None else None
        this.report["plan"] = {"kind": kind, "generation": number, "since": since}
        return
    if merging:
        assert newest is not None
        _incremental(this, request, lake, newest, database)
    else:
        _full(this, request, lake, newest, database)


def _next(newest: LakeGeneration | None) -> int:
    return 1 if newest is None else newest.manifest.generation + 1


def _full(
    this: JobRun,
    request: ExportRequest,
    lake: LakeTable,
    newest: LakeGeneration | None,
    database: JobDatabase,
) -> None:
    with database.pinned(this.spark, request.selection, request.reading) as pinned:
        this.note(f"exporting {request.subject} as it is at {pinned.lsn}")
        run = _Run(this, request, lake, pinned.schema, _kept_names(newest, pinned.definition, pinned.schema))
        added = run.files.write(pinned.frame)
        gone = tuple(as_data_file(one) for one in lake.files.values())
        held = sum((one.fingerprint for one in added), Fingerprint())
        facts = {"lsn": pinned.lsn, "kind": FULL, "generation": _next(newest)}
        facts |= {"key": key_in(pinned.definition), "definition": pinned.definition}
        run.publish(MergedFiles((), gone, added), held, database.log_id, facts)


def _incremental(
    this: JobRun, request: ExportRequest, lake: LakeTable, newest: LakeGeneration, database: JobDatabase
) -> None:
    before = newest.manifest
    check_same(request, before, database)
    foreign = lake.foreign()
    if foreign is not None:
        raise JobError(
            f"the Iceberg table {request.to} was changed by another program after generation"
            f" {before.generation}: snapshot {foreign.snapshot_id}",
            hint="Run a full export (without --incremental): it replaces what is there.",
        )
    with following(this, request, database, before.lsn, before.definition) as (found, change):
        if change.lines() and request.on_schema_change == REWRITE:
            _full(this, request, lake, newest, database)
            return
        changes = changeset.net(found.changes, change.schema, change.key)
        note_changes(this, changes, before.lsn, found.upto)
        names = {} if change.made_anew else _renames(change)
        run = _Run(this, request, lake, change.schema, names, fills=change)
        files = tuple(as_data_file(one) for one in lake.files.values())
        rewrite = bool(change.fills) and not changes.voided
        merged = changeset.merge(run.store, files, change.key, changes, rewrite=rewrite)
        facts = {"lsn": found.upto, "since": before.lsn, "kind": INCREMENTAL, "generation": _next(newest)}
        facts |= {"key": change.key, "definition": encode_table(found.after).decode()}
        run.publish(merged, run.held(merged, newest, change), database.log_id, facts)


def _renames(change: SchemaChange) -> dict[str, str]:
    """For names of exported columns now, what they were called before."""
    return {
        change.after.columns[at].name: source for at, source in change.sources.items() if source is not None
    }


def _kept_names(newest: LakeGeneration | None, definition: str, schema: StructType) -> dict[str, str]:
    """As ``_renames``, for a full export over another one."""
    if newest is None:
        return {}
    old = newest.manifest.definition
    if not (old and definition):
        return {} if old or definition else {name: name for name in schema.names}  # of queries: by name
    before, after = _table(old), _table(definition)
    if before.id != after.id:
        return {}
    known = {at: before.columns[at].name for at in before.visible}
    exported = set(schema.names)
    return {
        after.columns[at].name: known[at]
        for at in after.visible
        if at in known and after.columns[at].name in exported
    }


def _table(definition: str) -> Table:
    return decode_table(definition.encode())


class _Run:
    """One run's files and its commit.

    Args:
        names: for columns that the table has already, what they were called there.
        fills: has the values that rows there have in added columns; None: there are none.
    """

    def __init__(
        self,
        this: JobRun,
        request: ExportRequest,
        lake: LakeTable,
        schema: StructType,
        names: dict[str, str],
        fills: SchemaChange | None = None,
    ) -> None:
        self._this, self._asked, self._lake, self._schema = this, request, lake, schema
        self._fills = fills
        self._id = request.run_id or new_run_id()
        table = lake.table
        if table is None:
            columns = first_schema(schema)
        else:
            there = {one.name: one for one in table.schema().fields}
            before = {now: there[old] for now, old in names.items() if old in there}
            number = max(one.schema_id for one in table.metadata.schemas) + 1
            columns = evolved_schema(schema, before, table.metadata.last_column_id, number)
        self._change = LakeChange(lake, columns, request.compression)
        self.files = IcebergFiles(
            this.spark, self._change.io, self._change.metadata, schema, self._id, dict(lake.files)
        )

    @property
    def store(self) -> ExportStore:
        """The files as merging reads and writes them."""
        return self if self._fills is not None else self.files

    def add(self, frame: DataFrame, key: tuple[str, ...], rows: int) -> tuple[DataFile, ...]:
        """See ``ExportStore``."""
        return self.files.add(frame, key, rows)

    def rows(self, files: Sequence[DataFile]) -> DataFrame:
        """With the values that they have in added columns."""
        found = self.files.rows(files)
        return found if self._fills is None else self._fills.filled(found)

    def keys(self, files: Sequence[DataFile], key: tuple[str, ...]) -> DataFrame:
        """See ``ExportStore``."""
        return self.files.keys(files, key)

    def path(self, found: str) -> str:
        """The same."""
        return found

    def beside(self, names: set[str], arrived: DataFrame) -> set[str] | None:
        """There are no partitions."""
        return None

    def held(self, merged: MergedFiles, newest: LakeGeneration, change: SchemaChange) -> Fingerprint:
        """Of all rows, when files were merged."""
        added = sum((one.fingerprint for one in merged.added), Fingerprint())
        if change.is_other_shape or not merged.kept:  # hashes are of rows in their columns and types
            return self._read(merged.kept) + added
        return newest.fingerprint - self._read(merged.gone) + added

    def _read(self, files: tuple[DataFile, ...]) -> Fingerprint:
        return fingerprint(self.files.rows(files)) if files else Fingerprint()

    def publish(self, merged: MergedFiles, held: Fingerprint, log_id: str, facts: dict[str, Any]) -> None:
        """Commit, and report what was."""
        request = self._asked
        manifest = ExportManifest(
            table=request.subject,
            file_format=ICEBERG,
            schema=json.loads(self._schema.json()),
            files=(),
            run_id=self._id,
            created=now(),
            log_id=log_id,
            selection=dict(request.selection),
            herdpy=__version__,
            **facts,
        )
        known = self.files.known
        gone, added = ([known[one.path] for one in some] for some in (merged.gone, merged.added))
        self._change.commit(gone, added, manifest, held)
        count = len(merged.files)
        self._this.note(
            f"generation {manifest.generation}: {held.rows:,} rows at {manifest.lsn} in {count} files"
        )
        self._this.report |= _summary(manifest, held, count)


def _summary(manifest: ExportManifest, held: Fingerprint, files: int) -> dict[str, Any]:
    return {
        "generation": manifest.generation,
        "kind": manifest.kind,
        "lsn": str(manifest.lsn),
        "since": None if manifest.since is None else str(manifest.since),
        "rows": held.rows,
        "files": files,
        "run_id": manifest.run_id,
    }
