"""The columns that a load stages, as the server's plan names them. The lowest module of the package; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy.codec.arrow import arrow_type
from herdpy.codec.kinds import Field, Kind

if TYPE_CHECKING:
    from herdpy_sql.catalog import Table
    from herdpy_sql.types import SqlType

types: Any = pa.types
_KINDS = {
    pa.bool_(): Kind.BOOL,
    pa.int16(): Kind.INT16,
    pa.int32(): Kind.INT32,
    pa.int64(): Kind.INT64,
    pa.float32(): Kind.FLOAT32,
    pa.float64(): Kind.FLOAT64,
    pa.string(): Kind.TEXT,
    pa.binary(): Kind.BYTES,
    pa.date32(): Kind.DATE,
    pa.time64("us"): Kind.TIME,
    pa.timestamp("us"): Kind.TIMESTAMP,
    pa.timestamp("us", "UTC"): Kind.TIMESTAMPTZ,
    pa.uuid(): Kind.UUID,
}


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A column that is staged.

    Attributes:
        precision: of NUMERIC(p, s), where it has one.
        nullable: whether a NULL may stand in it.
        labels: the ENUM, or array of one, that it is of; None of other types, and where that is not known.
    """

    name: str
    field: Field
    precision: int | None = None
    nullable: bool = True
    labels: SqlType | None = None

    @property
    def type(self) -> pa.DataType:
        """What its values are in Arrow."""
        return arrow_type(self.field, self.precision)


def target_columns(schema: pa.Schema) -> tuple[TargetColumn, ...]:
    """The columns of a load's Arrow schema; ValueError when one has a type that no column of a table has.

    Strings are taken to be TEXT: what else they may be, only the table knows (see ``of_table``).
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
    labels = type_ if type_.enum is not None else None
    known = replace(column, field=replace(column.field, kind=type_.kind), labels=labels)
    return known if known.type == column.type else column


def _column(field: Any) -> TargetColumn:
    type_ = field.type
    if types.is_decimal128(type_):
        kind = Kind.DECIMAL64 if type_.precision <= 18 else Kind.DECIMAL128
        return TargetColumn(field.name, Field(kind, type_.scale), type_.precision, field.nullable)
    if type_ not in _KINDS:
        raise ValueError(
            f'column "{field.name}" of a load has the Arrow type {type_}, which is not known here'
        )
    return TargetColumn(field.name, Field(_KINDS[type_]), None, field.nullable)
