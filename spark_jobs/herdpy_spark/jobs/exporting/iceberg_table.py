"""A table in a catalog of Iceberg as an export: its generations are snapshots, found and committed.

    catalog, name -> LakeTable -> newest LakeGeneration (position, selection, definition, fingerprint)
    LakeChange: schema of now, files gone and added -> one commit: one snapshot with the new position

What an export's manifest says stands in the summary of the snapshot that brings the rows, so the two cannot
differ. A commit names the snapshot that it was made of: of two runs at once, one publishes. PyIceberg's own
retries would put one run's files on top of the other's, so they are switched off for the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import AddSchemaUpdate, AssertCurrentSchemaId, SetCurrentSchemaUpdate

from herdpy.log.lsn import LSN
from herdpy_spark.jobs.exporting.generations import (
    DataFile,
    ExportManifest,
    Fingerprint,
    is_local,
    local_path,
)
from herdpy_spark.jobs.exporting.iceberg_columns import is_same
from herdpy_spark.jobs.job import JobError, UsageError

ICEBERG = "iceberg"
PREFIX = "herdpy."
_PROPERTIES = {"commit.retry.num-retries": "0"}
_CODEC = "write.parquet.compression-codec"
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_REFUSED = (CommitFailedException, ValidationException, TableAlreadyExistsError, NoSuchTableError)


def table_name(text: str) -> tuple[str, ...]:
    """NAMESPACE.TABLE; parts with dots in them stand in double quotes. UsageError for anything else."""
    parts: list[str] = []
    at = 0
    while (found := _PART.match(text, at)) is not None:
        parts.append(found[1].replace('""', '"') if found[1] is not None else found[2])
        at = found.end()
        if at == len(text):
            break
        if text[at] != ".":
            at = -1
            break
        at += 1
    if at != len(text) or len(parts) < 2:
        raise UsageError(
            f"{text!r} names no table of a catalog", hint='Write NAMESPACE.TABLE, or "a.b"."c d" with quotes.'
        )
    return tuple(parts)


@dataclass(frozen=True, slots=True)
class LakeGeneration:
    """A snapshot that an export made.

    Attributes:
        manifest: what it says of itself; of each file only the count of rows is known.
        fingerprint: of all rows.
    """

    snapshot: Snapshot
    manifest: ExportManifest
    fingerprint: Fingerprint


class LakeTable:
    """The table of this name in a catalog, as it is now; it need not be there.

    Raises:
        JobError: the catalog cannot be reached.
    """

    def __init__(self, catalog_name: str, options: Mapping[str, str], name: str) -> None:
        self.name = table_name(name)
        self.text = name
        try:
            self.catalog: Catalog = load_catalog(catalog_name, **_settled(options))
            self.table: Table | None = self._loaded()
        except Exception as error:
            raise JobError(
                f"the catalog {catalog_name} of Iceberg cannot be used: {type(error).__name__}: {error}",
                hint="--catalog-option: type=sql, uri=... and warehouse=..., or type=rest and uri=...",
            ) from error

    def _loaded(self) -> Table | None:
        try:
            return self.catalog.load_table(self.name)
        except NoSuchTableError:
            return None

    def reload(self) -> None:
        """As it is now."""
        self.table = self._loaded()
        self.__dict__.pop("files", None)

    @cached_property
    def files(self) -> dict[str, IcebergFile]:
        """Its data files now, by path."""
        if self.table is None:
            return {}
        return {task.file.file_path: task.file for task in self.table.scan().plan_files()}

    def generations(self) -> list[LakeGeneration]:
        """Those that the table still has, newest first."""
        return [_generation(one) for one in self._line() if _has_position(one)]

    def newest(self) -> LakeGeneration | None:
        """What the newest export left there; None: there was none."""
        return next(iter(self.generations()), None)

    def foreign(self) -> Snapshot | None:
        """A snapshot after the newest export by which another program changed rows."""
        for one in self._line():
            if _has_position(one):
                return None
            if one.summary is None or one.summary.operation != Operation.REPLACE:
                return one
        return None

    def _line(self) -> Iterable[Snapshot]:
        """The current snapshot, and those that it was made of."""
        if self.table is None:
            return
        one = self.table.current_snapshot()
        while one is not None:
            yield one
            parent = one.parent_snapshot_id
            one = None if parent is None else self.table.snapshot_by_id(parent)

    def check_ours(self) -> None:
        """UsageError where the table is not one that an export made, or may make."""
        table = self.table
        if table is None:
            return
        if not table.spec().is_unpartitioned():
            raise UsageError(f"the Iceberg table {self.text} is partitioned: exports write no partitions")
        if table.current_snapshot() is not None and self.newest() is None:
            raise UsageError(
                f"the Iceberg table {self.text} has rows that no export of HerdPy wrote",
                hint="Give another --to.",
            )


def _settled(options: Mapping[str, str]) -> dict[str, str]:
    """A warehouse in a directory by its whole path: tasks run in other working directories than this one."""
    settled = dict(options)
    place = settled.get("warehouse")
    if settled.get("type") == "sql" and place is not None and is_local(place):
        settled["warehouse"] = f"file://{local_path(place)}"
    return settled


def _has_position(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and f"{PREFIX}lsn" in snapshot.summary.additional_properties


def _generation(snapshot: Snapshot) -> LakeGeneration:
    assert snapshot.summary is not None
    said = {
        name.removeprefix(PREFIX): text
        for name, text in snapshot.summary.additional_properties.items()
        if name.startswith(PREFIX)
    }
    manifest = ExportManifest(
        generation=int(said["generation"]),
        kind=said["kind"],
        table=said["table"],
        lsn=LSN.parse(said["lsn"]),
        since=LSN.parse(said["since"]) if "since" in said else None,
        file_format=ICEBERG,
        schema=json.loads(said["schema"]),
        key=tuple(json.loads(said["key"])),
        files=(),
        run_id=said["run-id"],
        created=said["created"],
        log_id=said["log-id"],
        selection=json.loads(said["selection"]),
        herdpy=said["version"],
        definition=said["definition"],
    )
    return LakeGeneration(snapshot, manifest, Fingerprint(**json.loads(said["fingerprint"])))


def summary(manifest: ExportManifest, fingerprint: Fingerprint) -> dict[str, str]:
    """What a snapshot's summary says of the export."""
    said = {
        "generation": str(manifest.generation),
        "kind": manifest.kind,
        "table": manifest.table,
        "lsn": str(manifest.lsn),
        "schema": json.dumps(manifest.schema),
        "key": json.dumps(manifest.key),
        "run-id": manifest.run_id,
        "created": manifest.created,
        "log-id": manifest.log_id,
        "selection": json.dumps(manifest.selection),
        "version": manifest.herdpy,
        "definition": manifest.definition,
        "fingerprint": json.dumps(asdict(fingerprint)),
    }
    if manifest.since is not None:
        said["since"] = str(manifest.since)
    return {f"{PREFIX}{name}": text for name, text in said.items()}


class LakeChange:
    """A commit that is being prepared.

    Attributes:
        metadata: of the table as it will be, with the schema of now.
    """

    def __init__(self, lake: LakeTable, schema: Schema, compression: str | None) -> None:
        self._lake = lake
        properties = dict(_PROPERTIES)
        if compression is not None:
            properties[_CODEC] = compression
        if lake.table is None:
            lake.catalog.create_namespace_if_not_exists(lake.name[:-1])
            self._transaction: Transaction = lake.catalog.create_table_transaction(
                lake.name, schema, properties=properties
            )
        else:
            self._transaction = lake.table.transaction()
            if not properties.items() <= lake.table.properties.items():
                self._transaction.set_properties(properties)
            self._apply(lake.table, schema)
        self._table: Table = self._transaction._table  # staged, where there is none yet

    @property
    def metadata(self) -> Any:
        """See the class."""
        return self._transaction.table_metadata

    @property
    def io(self) -> Any:
        """The table's files, with the credentials that the catalog gives."""
        return self._table.io

    def _apply(self, table: Table, schema: Schema) -> None:
        if _alike(table.schema(), schema):
            return
        known = next((one for one in table.metadata.schemas if _alike(one, schema)), None)
        updates: tuple[Any, ...] = (AddSchemaUpdate(schema=schema), SetCurrentSchemaUpdate())
        if known is not None:
            updates = (SetCurrentSchemaUpdate.model_validate({"schema-id": known.schema_id}),)
        now = AssertCurrentSchemaId.model_validate({"current-schema-id": table.metadata.current_schema_id})
        self._transaction._apply(updates, (now,))

    def commit(
        self,
        gone: Iterable[IcebergFile],
        added: Iterable[IcebergFile],
        manifest: ExportManifest,
        fingerprint: Fingerprint,
    ) -> None:
        """Make the snapshot the table's. JobError: another run was quicker; its files are gone."""
        added = list(added)
        said = summary(manifest, fingerprint)
        try:
            with self._transaction.update_snapshot(snapshot_properties=said).overwrite() as update:
                for one in gone:
                    update.delete_data_file(one)
                for one in added:
                    update.append_data_file(one)
            self._transaction.commit_transaction()
        except _REFUSED as error:
            if self._is_there(manifest.run_id):
                return
            for one in added:
                with suppress(Exception):  # it is no part of the table: only its place is lost
                    self.io.delete(one.file_path)
            raise JobError(
                f"another run changed the Iceberg table {self._lake.text} meanwhile: {error}",
                hint="Nothing was changed by this one. Run it again to go on from there.",
            ) from error
        except Exception as error:
            # The answer was lost: the table says whether the commit was.
            if not self._is_there(manifest.run_id):
                raise JobError(
                    f"it is not known whether the export to {self._lake.text} was committed: {error}",
                    hint="Run it again: it goes on from what is there.",
                ) from error

    def _is_there(self, run_id: str) -> bool:
        self._lake.reload()
        return any(one.manifest.run_id == run_id for one in self._lake.generations())


def _alike(one: Schema, other: Schema) -> bool:
    return len(one.fields) == len(other.fields) and all(
        (a.field_id, a.name, a.required) == (b.field_id, b.name, b.required)
        and is_same(a.field_type, b.field_type)
        for a, b in zip(one.fields, other.fields, strict=True)
    )


def as_data_file(one: IcebergFile) -> DataFile:
    """As exports know files; of its rows only the count is known."""
    return DataFile(one.file_path, one.file_size_in_bytes, Fingerprint(one.record_count))
