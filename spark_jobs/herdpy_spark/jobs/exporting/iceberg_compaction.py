"""``compact`` on an Iceberg table: the small files of the current snapshot, joined in one more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_spark.jobs.exporting import compaction, new_run_id
from herdpy_spark.jobs.exporting.iceberg_files import IcebergFiles
from herdpy_spark.jobs.exporting.iceberg_table import LakeChange, LakeTable, as_data_file
from herdpy_spark.jobs.job import JobError

if TYPE_CHECKING:
    from herdpy_spark.jobs.job import JobRun


def compact(this: JobRun) -> None:
    """See the compaction."""
    from pyspark.sql.types import StructType

    arguments = this.arguments
    lake = LakeTable(arguments.catalog, dict(arguments.catalog_option), arguments.export)
    newest = lake.newest()
    if newest is None or lake.table is None:
        raise JobError(
            f"{arguments.export} is no export: no snapshot of the table, if there is one, has a position"
        )
    foreign = lake.foreign()
    if foreign is not None:
        raise JobError(
            f"the Iceberg table {arguments.export} was changed by another program: snapshot"
            f" {foreign.snapshot_id}",
            hint="Run a full export: it replaces what is there.",
        )
    files = tuple(as_data_file(one) for one in lake.files.values())
    manifest = replace(newest.manifest, files=files)
    if compaction.is_repeated(this, manifest):
        return
    small = compaction.small_files(files, arguments.target_size, parted=False)
    if not compaction.is_worth_it(this, manifest, small):
        return
    name = arguments.run_id or new_run_id()
    schema = StructType.fromJson(manifest.schema)
    change = LakeChange(lake, lake.table.schema(), None)
    rows = compaction.rows_per_file(small, arguments.target_size)
    store = IcebergFiles(this.spark, change.io, change.metadata, schema, name, dict(lake.files), rows)
    joined = compaction.join(store, manifest, small)
    made = replace(compaction.next_manifest(manifest, name, ()), files=())
    gone, added = ([store.known[one.path] for one in some] for some in (joined.gone, joined.added))
    change.commit(gone, added, made, newest.fingerprint)
    compaction.report(this, made, joined)
