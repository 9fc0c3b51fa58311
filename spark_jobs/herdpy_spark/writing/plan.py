"""A load as the driver planned it, once, and as every task gets it. Above ``target``; no I/O here."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from herdpy.rpc.address import GrpcAddress
from herdpy_spark.writing.target import TargetColumn, of_table, target_columns

if TYPE_CHECKING:
    from herdpy_sql.catalog import Table

ipc: Any = pa.ipc


class WriteMode(enum.Enum):
    """What a load does with its rows."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    UPSERT = "upsert"
    IGNORE = "ignore"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class StagingLedgers:
    """Rows are staged in ledgers, written to the bookies by the tasks.

    Attributes:
        zookeeper: "host:port,host:port".
        root: the znode of BookKeeper's metadata.
        log_id: the log that may refer to them.
    """

    zookeeper: str
    root: str
    password: bytes = field(repr=False)
    ensemble: int
    write_quorum: int
    ack_quorum: int
    strict: bool
    log_id: str
    tablespace: str


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """Rows are staged in files of the server that leads, sent by gRPC."""

    place: GrpcAddress
    tablespace: str


@dataclass(frozen=True, slots=True)
class DirectoryFiles:
    """Rows are staged in files below an embedded database's directory."""

    path: str


StagingPlace: TypeAlias = StagingLedgers | ServerFiles | DirectoryFiles


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What tasks need to stage their rows, and the driver to publish them.

    Attributes:
        table_id: of the table that was planned for: one of the same name made later is another.
        columns: what is staged.
        constants: an Arrow IPC stream of one row, with the columns that the DataFrame has not; or empty.
        max_chunk_bytes: how large a batch, or a message to the server, may be.
        key: the columns of the primary key, where it is known, for messages.
    """

    load_id: str
    tablespace: str
    table: str
    mode: WriteMode
    table_id: int
    columns: tuple[TargetColumn, ...]
    constants: bytes
    max_chunk_bytes: int
    staging: StagingPlace
    key: tuple[str, ...] = ()

    def of_table(self, table: Table) -> WritePlan:
        """The plan with what only the table's definition says."""
        key = () if table.has_hidden_key else tuple(table.columns[at].name for at in table.key_positions)
        return replace(self, columns=of_table(self.columns, table), key=key)

    def constant_row(self) -> pa.RecordBatch | None:
        """The constants' one row, or None."""
        if not self.constants:
            return None
        batch: pa.RecordBatch = ipc.open_stream(self.constants).read_next_batch()
        return batch


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What a published load came to.

    Attributes:
        lsn: "ledger:entry" of the entry with which its rows were there.
        inserted, updated, deleted, skipped: rows.
    """

    load_id: str
    lsn: str
    inserted: int
    updated: int
    deleted: int
    skipped: int


def columns_of(schema_message: bytes) -> tuple[TargetColumn, ...]:
    """The columns of a schema message of an Arrow IPC stream; ValueError for types not known here."""
    return target_columns(ipc.read_schema(pa.py_buffer(schema_message)))
