"""The columns that a load stages, as the server's plan names them. The lowest module of the package; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from herdpy.codec.arrow import arrow_type
from herdpy.codec.kinds import Field, Kind

KIND = b"herdpy.kind"
"""Metadata of a field whose Arrow type several kinds share: the kind's name."""

types: Any = pa.types
_PLAIN = {
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
    """

    name: str
    field: Field
    precision: int | None = None
    nullable: bool = True

    @property
    def type(self) -> pa.DataType:
        """What its values are in Arrow."""
        return arrow_type(self.field, self.precision)


def target_columns(schema: pa.Schema) -> tuple[TargetColumn, ...]:
    """The columns of a load's Arrow schema; ValueError when one has a type that no column of a table has."""
    return tuple(_column(field) for field in schema)


def target_schema(columns: Sequence[TargetColumn]) -> pa.Schema:
    """The schema of the batches to stage."""
    return pa.schema([pa.field(column.name, column.type, column.nullable) for column in columns])


def _column(field: Any) -> TargetColumn:
    kind = field.type
    if types.is_decimal128(kind):
        digits = Kind.DECIMAL64 if kind.precision <= 18 else Kind.DECIMAL128
        return TargetColumn(field.name, Field(digits, kind.scale), kind.precision, field.nullable)
    named = (field.metadata or {}).get(KIND)
    try:
        found = Kind[named.decode()] if named is not None else _PLAIN[kind]
    except KeyError:
        raise ValueError(
            f'the load\'s column "{field.name}" has the Arrow type {kind}, not known here'
        ) from None
    return TargetColumn(field.name, Field(found), None, field.nullable)
