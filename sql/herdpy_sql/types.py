"""SQL types: PostgreSQL's names, object ids and modifiers, and the physical kind under each.

A :class:`SqlType` is a value: two are equal when base and modifiers are. The text forms and the
Python forms of its values are in ``values``; casts between types in ``expr``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from herdpy.codec.kinds import Field, Kind


class Base(enum.Enum):
    """A type without its modifiers; the value is PostgreSQL's name for it (format_type)."""

    BOOLEAN = "boolean"
    SMALLINT = "smallint"
    INTEGER = "integer"
    BIGINT = "bigint"
    REAL = "real"
    DOUBLE = "double precision"
    NUMERIC = "numeric"
    TEXT = "text"
    VARCHAR = "character varying"
    CHAR = "character"
    BYTEA = "bytea"
    DATE = "date"
    TIME = "time without time zone"
    TIMESTAMP = "timestamp without time zone"
    TIMESTAMPTZ = "timestamp with time zone"
    UUID = "uuid"
    JSON = "json"
    INTERVAL = "interval"  # in expressions only, so far: no column can have it
    ARRAY = "array"  # of parameters and expressions; no column can have it
    UNKNOWN = "unknown"  # a literal or parameter whose type its place will decide


_KINDS = {
    Base.BOOLEAN: Kind.BOOL,
    Base.SMALLINT: Kind.INT16,
    Base.INTEGER: Kind.INT32,
    Base.BIGINT: Kind.INT64,
    Base.REAL: Kind.FLOAT32,
    Base.DOUBLE: Kind.FLOAT64,
    Base.TEXT: Kind.TEXT,
    Base.VARCHAR: Kind.TEXT,
    Base.CHAR: Kind.TEXT,
    Base.BYTEA: Kind.BYTES,
    Base.DATE: Kind.DATE,
    Base.TIME: Kind.TIME,
    Base.TIMESTAMP: Kind.TIMESTAMP,
    Base.TIMESTAMPTZ: Kind.TIMESTAMPTZ,
    Base.UUID: Kind.UUID,
    Base.JSON: Kind.JSON,
    Base.UNKNOWN: Kind.TEXT,
    Base.INTERVAL: Kind.TEXT,  # results only: as PostgreSQL writes it
}

_OIDS = {
    Base.BOOLEAN: 16,
    Base.BYTEA: 17,
    Base.BIGINT: 20,
    Base.SMALLINT: 21,
    Base.INTEGER: 23,
    Base.TEXT: 25,
    Base.JSON: 114,
    Base.REAL: 700,
    Base.DOUBLE: 701,
    Base.UNKNOWN: 705,
    Base.CHAR: 1042,
    Base.VARCHAR: 1043,
    Base.DATE: 1082,
    Base.TIME: 1083,
    Base.TIMESTAMP: 1114,
    Base.TIMESTAMPTZ: 1184,
    Base.INTERVAL: 1186,
    Base.NUMERIC: 1700,
    Base.UUID: 2950,
}

_ARRAY_OIDS = {
    Base.BOOLEAN: 1000,
    Base.BYTEA: 1001,
    Base.SMALLINT: 1005,
    Base.INTEGER: 1007,
    Base.TEXT: 1009,
    Base.CHAR: 1014,
    Base.VARCHAR: 1015,
    Base.BIGINT: 1016,
    Base.REAL: 1021,
    Base.DOUBLE: 1022,
    Base.TIMESTAMP: 1115,
    Base.DATE: 1182,
    Base.TIME: 1183,
    Base.TIMESTAMPTZ: 1185,
    Base.NUMERIC: 1231,
    Base.JSON: 199,
    Base.UUID: 2951,
}

_DECIMAL64_DIGITS = 18
_DECIMAL128_DIGITS = 38


@dataclass(frozen=True, slots=True)
class SqlType:
    """A SQL type with its modifiers.

    Attributes:
        base: the type without modifiers.
        length: characters, for VARCHAR(n) and CHAR(n); None without a limit.
        precision, scale: for NUMERIC(p, s); None for a NUMERIC of any precision and scale.
        element: what an ARRAY is of.
    """

    base: Base
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    element: Base | None = None

    @property
    def kind(self) -> Kind:
        """How a value of this type is held in row images and keys."""
        if self.base is not Base.NUMERIC:
            return _KINDS[self.base]
        if self.precision is None or self.precision > _DECIMAL128_DIGITS:
            return Kind.DECIMAL
        return Kind.DECIMAL64 if self.precision <= _DECIMAL64_DIGITS else Kind.DECIMAL128

    @property
    def field(self) -> Field:
        """The row-image field of a column of this type (whose missing value is NULL)."""
        return Field(self.kind, self.scale or 0)

    @property
    def oid(self) -> int:
        """PostgreSQL's object id of the type."""
        return _OIDS[self.base] if self.element is None else _ARRAY_OIDS[self.element]

    @property
    def typmod(self) -> int:
        """PostgreSQL's type modifier: -1 for none."""
        if self.base is Base.NUMERIC and self.precision is not None:
            return ((self.precision << 16) | (self.scale or 0)) + 4
        return -1 if self.length is None else self.length + 4

    def __str__(self) -> str:
        if self.element is not None:
            return f"{self.element.value}[]"
        if self.base is Base.NUMERIC and self.precision is not None:
            return f"numeric({self.precision},{self.scale or 0})"
        if self.length is not None:
            return f"{self.base.value}({self.length})"
        return self.base.value


def array_of(element: Base) -> SqlType:
    """The type of arrays of a type; TEXT's for one that there are no arrays of."""
    return SqlType(Base.ARRAY, element=element if element in _ARRAY_OIDS else Base.TEXT)


ARRAYS = {oid: array_of(base) for base, oid in _ARRAY_OIDS.items()}
"""The types of arrays by object id."""

BOOLEAN = SqlType(Base.BOOLEAN)
SMALLINT = SqlType(Base.SMALLINT)
INTEGER = SqlType(Base.INTEGER)
BIGINT = SqlType(Base.BIGINT)
REAL = SqlType(Base.REAL)
DOUBLE = SqlType(Base.DOUBLE)
NUMERIC = SqlType(Base.NUMERIC)
TEXT = SqlType(Base.TEXT)
VARCHAR = SqlType(Base.VARCHAR)
BYTEA = SqlType(Base.BYTEA)
DATE = SqlType(Base.DATE)
TIME = SqlType(Base.TIME)
TIMESTAMP = SqlType(Base.TIMESTAMP)
TIMESTAMPTZ = SqlType(Base.TIMESTAMPTZ)
UUID = SqlType(Base.UUID)
JSON = SqlType(Base.JSON)
INTERVAL = SqlType(Base.INTERVAL)
UNKNOWN = SqlType(Base.UNKNOWN)
