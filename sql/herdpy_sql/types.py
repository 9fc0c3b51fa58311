"""SQL types: PostgreSQL's names, object ids and modifiers, and the physical kind under each.

A :class:`SqlType` is a value: two are equal when base and modifiers are. The text forms and the
Python forms of its values are in ``values``; casts between types in ``expr``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

from herdpy.codec.grids import MAX_DIMENSIONS
from herdpy.codec.kinds import Field, Kind
from herdpy_sql.errors import SqlError


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
    INTERVAL = "interval"
    ARRAY = "array"
    JSONB = "jsonb"
    VECTOR = "vector"
    ENUM = "enum"
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
    Base.INTERVAL: Kind.INTERVAL,
    Base.ARRAY: Kind.ARRAY,
    Base.JSONB: Kind.JSONB,
    Base.VECTOR: Kind.VECTOR,
    Base.ENUM: Kind.FLOAT64,  # the place of the label among the others
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
    Base.JSONB: 3802,
    Base.VECTOR: 16300,  # an extension's, which has a fixed one here
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
    Base.INTERVAL: 1187,
    Base.JSONB: 3807,
    Base.VECTOR: 16301,
}
_FIRST_USER_OID = 16384

_ENUM_ARRAYS = 1 << 30
_DECIMAL64_DIGITS = 18
_DECIMAL128_DIGITS = 38


@dataclass(frozen=True, slots=True)
class EnumType:
    """What an ENUM is: its name and its labels, each with its place; a label's place never changes.

    Attributes:
        id: of the catalog's object.
        labels: in order; places are finite and grow.
        shown: how it is written where the search path is as it is at first.
    """

    id: int
    schema: str
    name: str
    labels: tuple[tuple[str, float], ...] = ()
    shown: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.shown or self.name

    @property
    def oid(self) -> int:
        """Its object id, where PostgreSQL's clients want one."""
        return _FIRST_USER_OID + self.id


_OID, _OIDS_ARRAY = 26, 1028


@dataclass(frozen=True, slots=True)
class SqlType:
    """A SQL type with its modifiers.

    Attributes:
        base: the type without modifiers.
        length: characters, for VARCHAR(n) and CHAR(n); dimensions, for VECTOR(n); None without a limit.
        precision, scale: for NUMERIC(p, s); None for a NUMERIC of any precision and scale.
        element: what an ARRAY is of; the modifiers are its elements'.
        enum: what an ENUM is, or the elements of an ARRAY.
        dimensions: of an ARRAY, as its column was declared or its expression makes them; 1 of all else. A
            value of others is no error before it is to go into a column or an Arrow list.
        told: the object id that clients are told, of types that only the system catalog has ("char", name,
            oid[]) and whose values are those of another.
    """

    base: Base
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    element: Base | None = None
    enum: EnumType | None = None
    told: int | None = None
    dimensions: int = 1

    @property
    def element_type(self) -> SqlType:
        """What the values of an ARRAY are of, with modifiers."""
        assert self.element is not None
        told = _OID if self.told == _OIDS_ARRAY else None
        return replace(self, base=self.element, element=None, told=told, dimensions=1)

    @property
    def plain(self) -> SqlType:
        """The type without modifiers."""
        return SqlType(
            self.base, element=self.element, enum=self.enum, told=self.told, dimensions=self.dimensions
        )

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
        if self.element is not None:
            shape = self.dimensions if self.dimensions > 1 else 0
            return Field(Kind.ARRAY, shape, element=self.element_type.field)
        return Field(self.kind, (self.length if self.base is Base.VECTOR else self.scale) or 0)

    @property
    def oid(self) -> int:
        """PostgreSQL's object id of the type."""
        if self.told is not None:
            return self.told
        if self.enum is not None:  # the array's is one that no object has: ids are never negative
            return self.enum.oid if self.element is None else _ENUM_ARRAYS + self.enum.id
        return _OIDS[self.base] if self.element is None else _ARRAY_OIDS[self.element]

    @property
    def typmod(self) -> int:
        """PostgreSQL's type modifier: -1 for none."""
        if self.precision is not None:
            return ((self.precision << 16) | (self.scale or 0)) + 4
        if Base.VECTOR in (self.base, self.element):
            return self.length or -1
        return -1 if self.length is None else self.length + 4

    @property
    def name(self) -> str:
        """PostgreSQL's name without modifiers, as messages have it."""
        if self.element is not None:
            return f"{self.element_type.name}[]"
        return self.base.value if self.enum is None else str(self.enum)

    def __str__(self) -> str:
        if self.element is not None:
            return f"{self.element_type}{'[]' * self.dimensions}"
        if self.enum is not None:
            return str(self.enum)
        if self.base is Base.NUMERIC and self.precision is not None:
            return f"numeric({self.precision},{self.scale or 0})"
        if self.length is not None:
            return f"{self.base.value}({self.length})"
        return self.base.value


def array_of(element: Base | SqlType, dimensions: int = 1) -> SqlType:
    """The type of arrays of a type; TEXT's for one that there are no arrays of.

    Of an array's type it is the one of a dimension more. SqlError 54000 for more than there may be.
    """
    if isinstance(element, SqlType):
        if element.base is Base.ARRAY:
            return with_dimensions(element, element.dimensions + dimensions)
        if element.base in _ARRAY_OIDS or element.enum is not None:
            return replace(element, base=Base.ARRAY, element=element.base, dimensions=dimensions)
        return SqlType(Base.ARRAY, element=Base.TEXT)
    held = element if element in _ARRAY_OIDS else Base.TEXT
    return SqlType(Base.ARRAY, element=held, dimensions=dimensions)


def with_dimensions(array: SqlType, dimensions: int) -> SqlType:
    """The type of arrays of the same elements with so many dimensions. SqlError 54000 above 6."""
    if dimensions > MAX_DIMENSIONS:
        raise SqlError(
            "54000",
            f"number of array dimensions ({dimensions}) exceeds the maximum allowed ({MAX_DIMENSIONS})",
        )
    return array if array.dimensions == dimensions else replace(array, dimensions=dimensions)


ARRAYS = {oid: array_of(base) for base, oid in _ARRAY_OIDS.items()}
"""The types of arrays by object id."""

OIDS = SqlType(Base.ARRAY, element=Base.INTEGER, told=_OIDS_ARRAY)
"""Arrays of object ids, of the system catalog."""

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
JSONB = SqlType(Base.JSONB)
VECTOR = SqlType(Base.VECTOR)
UNKNOWN = SqlType(Base.UNKNOWN)
