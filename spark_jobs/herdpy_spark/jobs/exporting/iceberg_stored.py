"""An export in an Iceberg table, as ``verify`` looks at it: a snapshot's files, and what its summary says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import Table

from herdpy_spark.jobs.exporting.generations import ExportManifest, Fingerprint
from herdpy_spark.jobs.exporting.iceberg_files import IcebergFiles
from herdpy_spark.jobs.exporting.iceberg_table import LakeGeneration, LakeTable, as_data_file
from herdpy_spark.jobs.exporting.rows import fingerprint
from herdpy_spark.jobs.job import JobError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from herdpy_spark.jobs.job import JobRun


def stored(
    this: JobRun, catalog: str, options: Mapping[str, str], name: str, number: int | None
) -> StoredLake:
    """A generation of an export (the newest, or that one); JobError: there is none."""
    lake = LakeTable(catalog, options, name)
    generations = lake.generations()
    if not generations or lake.table is None:
        raise JobError(f"{name} is no export: no snapshot of the table, if there is one, has a position")
    found = [one for one in generations if number in (None, one.manifest.generation)]
    if not found:
        there = ", ".join(str(one.manifest.generation) for one in reversed(generations))
        raise JobError(f"{name} has no generation {number}; there: {there}")
    foreign = lake.foreign() if number is None else None
    if foreign is not None:
        raise JobError(
            f"the Iceberg table {name} was changed by another program after generation"
            f" {found[0].manifest.generation}: snapshot {foreign.snapshot_id}",
            hint="--generation names one to verify.",
        )
    return StoredLake(this, lake.table, found[0])


@dataclass(frozen=True)
class StoredLake:
    """One snapshot of a table."""

    this: JobRun
    table: Table
    generation: LakeGeneration

    @property
    def manifest(self) -> ExportManifest:
        """What the summary says; of the files it says nothing."""
        return self.generation.manifest

    @property
    def fingerprint(self) -> Fingerprint:
        """As the summary has it."""
        return self.generation.fingerprint

    @cached_property
    def files(self) -> dict[str, IcebergFile]:
        """The snapshot's data files, by path."""
        scan = self.table.scan(snapshot_id=self.generation.snapshot.snapshot_id)
        return {task.file.file_path: task.file for task in scan.plan_files()}

    @property
    def count(self) -> int:
        """Of its files."""
        return len(self.files)

    def damaged(self) -> dict[str, str]:
        """Files that are gone or cannot be read; under the table's name, that all hold other rows."""
        wrong: dict[str, str] = {}
        for path, one in self.files.items():
            try:
                size = len(self.table.io.new_input(path))
            except FileNotFoundError:
                wrong[path] = "is missing"
            else:
                if size != one.file_size_in_bytes:
                    wrong[path] = f"has {size} bytes, not {one.file_size_in_bytes}"
        if wrong:
            return wrong
        try:
            held = fingerprint(self.rows())
        except Exception as error:  # noqa: BLE001 - reported as damage: Spark does not say of which file
            return {self.table.name()[-1]: f"cannot be read: {str(error).splitlines()[0]}"}
        if held != self.fingerprint:
            return {self.table.name()[-1]: f"holds other rows: {held}, not {self.fingerprint}"}
        return {}

    def rows(self) -> DataFrame:
        """All rows, in the columns that the table had then."""
        from pyspark.sql.types import StructType

        schema = StructType.fromJson(self.manifest.schema)
        number = self.generation.snapshot.schema_id
        then = self.table.metadata.model_copy(
            update={"current_schema_id": self.table.metadata.current_schema_id if number is None else number}
        )
        files = IcebergFiles(self.this.spark, self.table.io, then, schema, "", self.files)
        return files.rows([as_data_file(one) for one in self.files.values()])
