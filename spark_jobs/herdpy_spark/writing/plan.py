"""A load as the driver planned it, once, as every task gets it, and what becomes of it.

No I/O here. The columns that a load stages are those that the server's plan names. Plans go to tasks
pickled, and so comes back where their rows are staged (TaskRows).
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from herdpy.codec.arrow import arrow_type
from herdpy.codec.kinds import Field, Kind
from herdpy.codec.plain_arrow import PLAIN_TYPES
from herdpy.log.records import StagedPart
from herdpy.rpc.address import GrpcAddress

if TYPE_CHECKING:
    from herdpy_sql.catalog import Table
    from herdpy_sql.types import SqlType


class LoadError(Exception):
    """A load was refused or failed, and added nothing.

    Attributes:
        sqlstate: the server's, as docs/errors.md lists them; 08006 when none could be reached.
    """

    def __init__(self, message: str, sqlstate: str = "08006") -> None:
        super().__init__(f"{message} (SQLSTATE {sqlstate})")
        self.sqlstate = sqlstate


class LoadUnknownError(LoadError):
    """Nobody said whether the load was published. Repeating it under its id tells, and adds nothing twice."""

    def __init__(self, load_id: str, reason: str) -> None:
        super().__init__(
            f'it is not known whether the load "{load_id}" was published: {reason}. Write the same rows'
            f' again with the option loadId set to "{load_id}": what was published is not added again',
            "08007",
        )


types: Any = pa.types
_KINDS = {arrow: kind for kind, arrow in PLAIN_TYPES.items()}


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column that is staged.

    Attributes:
        precision: of NUMERIC(p, s), where it has one.
        nullable: whether a NULL may stand in it.
        sql: its SQL type; None where that is not known.
    """

    name: str
    field: Field
    precision: int | None = None
    nullable: bool = True
    sql: SqlType | None = None

    @property
    def type(self) -> pa.DataType:
        """What its values are in Arrow."""
        return arrow_type(self.field, self.precision)


def target_columns(schema: pa.Schema) -> tuple[TargetColumn, ...]:
    """The columns of a load's Arrow schema; ValueError when one has a type that no column of a table has.

    Strings are taken to be TEXT, lists to be arrays: what else they may be, only the table knows (see
    ``of_table``).
    """
    return tuple(_column(field) for field in schema)


def target_schema(columns: Sequence[TargetColumn]) -> pa.Schema:
    """The schema of the batches to stage."""
    return pa.schema([pa.field(column.name, column.type, column.nullable) for column in columns])


def of_table(columns: Sequence[TargetColumn], table: Table) -> tuple[TargetColumn, ...]:
    """The columns as the table has them: strings may be JSON, or NUMERIC of any scale; numbers are labels."""
    types = {column.name: column.type for column in table.columns if not column.dropped}
    return tuple(
        _of_type(column, types[column.name]) if column.name in types else column for column in columns
    )


def _of_type(column: TargetColumn, type_: SqlType) -> TargetColumn:
    known = replace(column, field=type_.field, precision=type_.precision, sql=type_)
    return known if known.type == column.type else column


def _column(field: Any) -> TargetColumn:
    kind = _kind_field(field.type)
    if kind is None:
        raise ValueError(
            f'column "{field.name}" of a load has the Arrow type {field.type}, which is not known here'
        )
    return TargetColumn(field.name, kind, _precision(field.type), field.nullable)


def _kind_field(type_: Any) -> Field | None:
    """What values of an Arrow type are; None: there are no such values."""
    if types.is_decimal128(type_):
        return Field(Kind.DECIMAL64 if type_.precision <= 18 else Kind.DECIMAL128, type_.scale)
    if types.is_interval(type_):
        return Field(Kind.INTERVAL)
    if types.is_fixed_size_binary(type_) and type_.byte_width == 16:  # UUIDs within lists
        return Field(Kind.UUID)
    if not types.is_list(type_):
        return Field(_KINDS[type_]) if type_ in _KINDS else None
    inner = _kind_field(type_.value_type)
    if inner is None or inner.element is None:
        return None if inner is None else Field(Kind.ARRAY, element=inner)
    return Field(Kind.ARRAY, max(inner.scale, 1) + 1, element=inner.element)


def _precision(type_: Any) -> int | None:
    while types.is_list(type_):
        type_ = type_.value_type
    return type_.precision if types.is_decimal128(type_) else None


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


@dataclass(frozen=True, slots=True)
class StagedFile:
    """Rows in a file that a server keeps, or in one of a database's directory.

    Attributes:
        id: the server's name for it, or its path.
        size_bytes, crc, rows: as of ``StagedPart``.
    """

    id: str
    size_bytes: int
    crc: int
    rows: int


Staged: TypeAlias = StagedPart | StagedFile


class CarriedBatch(NamedTuple):
    """A batch of rows as a message of an Arrow IPC stream, whose schema is that of the plan's columns."""

    message: bytes
    rows: int


@dataclass
class TaskRows(WriterCommitMessage):
    """What one attempt at a partition has staged.

    Attributes:
        partition: its number, which is the order in which rows count.
        task_attempt: which attempt of all the job's: unlike an attempt's number it is never used again.
        rows: how many it has; 0 also where the load was published before.
        parts: where its rows are, in order; none where it has no rows, or carries them.
        carried: its rows, where they are few: they are staged nowhere yet.
    """

    partition: int
    task_attempt: int
    rows: int = 0
    parts: tuple[Staged, ...] = ()
    carried: tuple[CarriedBatch, ...] = ()


def staged_in_order(messages: list[TaskRows]) -> list[TaskRows]:
    """What counts, in the order of partitions.

    Raises:
        ValueError: a partition has two winners. Its rows would be there twice.
    """
    ordered = sorted(messages, key=lambda one: one.partition)
    for one, other in itertools.pairwise(ordered):
        if one.partition == other.partition:
            raise ValueError(
                f"partition {one.partition} has two winners: {one.task_attempt} and {other.task_attempt}"
            )
    return [one for one in ordered if one.rows]
