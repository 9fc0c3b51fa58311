"""SQL types: PostgreSQL's names, object ids and modifiers, and the physical kind under each.

A :class:`SqlType` is a value: two are equal when base and modifiers are. The forms of a type's values
(text, bytes, Python's objects, DuckDB's text) are in its file of ``values``; casts between types in ``expr``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from herdpy.codec.kinds import MAX_DIMENSIONS, Field, Kind
from herdpy_sql.errors import SqlError


class Base(enum.Enum):
    """A type without its modifiers; the value is PostgreSQL's name for it (format_type)."""

    __hash__ = object.__hash__  # members are themselves alone; Enum's own hash is a function in Python

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
    MACADDR = "macaddr"
    MACADDR8 = "macaddr8"
    INET = "inet"
    CIDR = "cidr"
    BIT = "bit"
    VARBIT = "bit varying"
    JSON = "json"
    INTERVAL = "interval"
    ARRAY = "array"
    JSONB = "jsonb"
    VECTOR = "vector"
    ENUM = "enum"
    OID = "oid"
    XID = "xid"
    NAME = "name"
    CHAR_BYTE = '"char"'
    REGCLASS = "regclass"
    REGTYPE = "regtype"
    REGPROC = "regproc"
    REGPROCEDURE = "regprocedure"
    REGOPER = "regoper"
    REGOPERATOR = "regoperator"
    REGNAMESPACE = "regnamespace"
    REGROLE = "regrole"
    INT2VECTOR = "int2vector"
    OIDVECTOR = "oidvector"
    RECORD = "record"
    UNKNOWN = "unknown"  # a literal or parameter whose type its place will decide


class TypeFacts(NamedTuple):
    """What PostgreSQL's catalog and SQL's grammar say of a type.

    Attributes:
        kind: how a value is held in row images and keys.
        oid, array_oid: the object ids of the type and of its arrays; None where there are none.
        category: pg_type's typcategory; X of untyped literals.
        catalog_name: pg_type's name where it is not the type's own.
        words: what the parser calls the type: its names for types, and of others the name as it is written.
        size: bytes of the binary form where all values have as many; else 0.
        preferred: whether its category prefers it.
        comparable: whether values are equal or in order.
    """

    kind: Kind
    oid: int | None
    array_oid: int | None
    category: str
    catalog_name: str = ""
    words: tuple[str, ...] = ()
    size: int = 0
    preferred: bool = False
    comparable: bool = True


FACTS = {
    Base.BOOLEAN: TypeFacts(Kind.BOOL, 16, 1000, "B", "bool", ("BOOLEAN",), 1, preferred=True),
    Base.SMALLINT: TypeFacts(Kind.INT16, 21, 1005, "N", "int2", ("SMALLINT",), 2),
    Base.INTEGER: TypeFacts(Kind.INT32, 23, 1007, "N", "int4", ("INT",), 4),
    Base.BIGINT: TypeFacts(Kind.INT64, 20, 1016, "N", "int8", ("BIGINT",), 8),
    Base.REAL: TypeFacts(Kind.FLOAT32, 700, 1021, "N", "float4", ("FLOAT",), 4),
    Base.DOUBLE: TypeFacts(Kind.FLOAT64, 701, 1022, "N", "float8", ("DOUBLE",), 8, preferred=True),
    Base.NUMERIC: TypeFacts(Kind.DECIMAL, 1700, 1231, "N", words=("DECIMAL",)),
    Base.TEXT: TypeFacts(Kind.TEXT, 25, 1009, "S", words=("TEXT",), preferred=True),
    Base.VARCHAR: TypeFacts(Kind.TEXT, 1043, 1015, "S", "varchar", ("VARCHAR",)),
    Base.CHAR: TypeFacts(Kind.TEXT, 1042, 1014, "S", "bpchar", ("BPCHAR",)),
    Base.BYTEA: TypeFacts(Kind.BYTES, 17, 1001, "U", words=("VARBINARY",)),
    Base.DATE: TypeFacts(Kind.DATE, 1082, 1182, "D", words=("DATE",), size=4),
    Base.TIME: TypeFacts(Kind.TIME, 1083, 1183, "D", "time", ("TIME",), 8),
    Base.TIMESTAMP: TypeFacts(Kind.TIMESTAMP, 1114, 1115, "D", "timestamp", ("TIMESTAMP", "TIMESTAMPNTZ"), 8),
    Base.TIMESTAMPTZ: TypeFacts(
        Kind.TIMESTAMPTZ, 1184, 1185, "D", "timestamptz", ("TIMESTAMPTZ",), 8, preferred=True
    ),
    Base.INTERVAL: TypeFacts(Kind.INTERVAL, 1186, 1187, "T", words=("INTERVAL",), size=16, preferred=True),
    Base.UUID: TypeFacts(Kind.UUID, 2950, 2951, "U", words=("UUID",), size=16),
    Base.MACADDR: TypeFacts(Kind.TEXT, 829, 1040, "U", words=("macaddr",), size=6),
    Base.MACADDR8: TypeFacts(Kind.TEXT, 774, 775, "U", words=("macaddr8",), size=8),
    Base.INET: TypeFacts(Kind.BYTES, 869, 1041, "I", words=("INET", "inet"), preferred=True),
    Base.CIDR: TypeFacts(Kind.BYTES, 650, 651, "I", words=("cidr",)),
    Base.BIT: TypeFacts(Kind.TEXT, 1560, 1561, "V", words=("BIT",)),
    Base.VARBIT: TypeFacts(Kind.TEXT, 1562, 1563, "V", "varbit", ("MEDIUMBLOB",), preferred=True),
    Base.JSON: TypeFacts(Kind.JSON, 114, 199, "U", words=("JSON",), comparable=False),
    Base.JSONB: TypeFacts(Kind.JSONB, 3802, 3807, "U", words=("JSONB",)),
    Base.VECTOR: TypeFacts(Kind.VECTOR, 16300, 16301, "U", words=("VECTOR",)),  # an extension's; fixed here
    Base.ENUM: TypeFacts(Kind.FLOAT64, None, None, "E"),  # the place of the label among the others
    Base.ARRAY: TypeFacts(Kind.ARRAY, None, None, "A"),
    Base.OID: TypeFacts(Kind.INT64, 26, 1028, "N", words=("oid",), size=4, preferred=True),
    Base.XID: TypeFacts(Kind.INT64, 28, 1011, "U", words=("xid",), size=4),
    Base.NAME: TypeFacts(Kind.TEXT, 19, 1003, "S", words=("NAME", "name")),
    Base.CHAR_BYTE: TypeFacts(Kind.TEXT, 18, 1002, "Z", "char", ("char",), 1),
    Base.REGCLASS: TypeFacts(Kind.TEXT, 2205, 2210, "N", words=("regclass",), size=4, comparable=False),
    Base.REGTYPE: TypeFacts(Kind.TEXT, 2206, 2211, "N", words=("regtype",), size=4, comparable=False),
    Base.REGPROC: TypeFacts(Kind.TEXT, 24, 1008, "N", words=("regproc",), size=4, comparable=False),
    Base.REGPROCEDURE: TypeFacts(
        Kind.TEXT, 2202, 2207, "N", words=("regprocedure",), size=4, comparable=False
    ),
    Base.REGOPER: TypeFacts(Kind.TEXT, 2203, 2208, "N", words=("regoper",), size=4, comparable=False),
    Base.REGOPERATOR: TypeFacts(Kind.TEXT, 2204, 2209, "N", words=("regoperator",), size=4, comparable=False),
    Base.REGNAMESPACE: TypeFacts(
        Kind.TEXT, 4089, 4090, "N", words=("regnamespace",), size=4, comparable=False
    ),
    Base.REGROLE: TypeFacts(Kind.TEXT, 4096, 4097, "N", words=("regrole",), size=4, comparable=False),
    Base.INT2VECTOR: TypeFacts(Kind.TEXT, 22, 1006, "A", words=("int2vector",), comparable=False),
    Base.OIDVECTOR: TypeFacts(Kind.TEXT, 30, 1013, "A", words=("oidvector",), comparable=False),
    Base.RECORD: TypeFacts(Kind.TEXT, 2249, 2287, "P", comparable=False),
    Base.UNKNOWN: TypeFacts(Kind.TEXT, 705, None, "X", comparable=False),
}
"""Of every type. The kind of a NUMERIC with a precision of 38 digits at most is a fixed one."""

OPAQUE = frozenset({Base.INET, Base.CIDR})
"""Types whose datums are made to sort: users get their values as text where they get Arrow columns."""
LATER_TYPES = (Base.MACADDR8, Base.INET, Base.CIDR, Base.BIT, Base.VARBIT)
"""Types that version 0.1 does not have."""
BITS = frozenset({Base.BIT, Base.VARBIT})
"""Types of bit strings."""
MOMENTS = frozenset({Base.TIME, Base.TIMESTAMP, Base.TIMESTAMPTZ})
"""Types whose seconds may have a precision."""
INTERVAL_FIELDS = {
    "year": 4, "month": 2, "day": 8, "hour": 1024, "minute": 2048, "second": 4096,
    "year to month": 6, "day to hour": 1032, "day to minute": 3080, "day to second": 7176,
    "hour to minute": 3072, "hour to second": 7168, "minute to second": 6144,
}  # fmt: skip
"""The fields of an INTERVAL as SQL writes them: PostgreSQL's mask (INTERVAL_MASK) of each."""
_FIELD_NAMES = {mask: words for words, mask in INTERVAL_FIELDS.items()}
_ALL_FIELDS, _ALL_DIGITS = 0x7FFF, 0xFFFF

_FIRST_USER_OID = 16384

ENUM_ARRAYS = 1 << 30
"""Object ids from here on are those of arrays of ENUMs."""
_DECIMAL64_DIGITS = 18
_SCALE_BITS = 0x7FF
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


@dataclass(frozen=True, slots=True)
class SqlType:
    """A SQL type with its modifiers.

    Attributes:
        base: the type without modifiers.
        length: characters, for VARCHAR(n) and CHAR(n); bits, for BIT(n) and BIT VARYING(n); dimensions, for
            VECTOR(n); None without a limit. Of an INTERVAL with fields PostgreSQL's mask of them
            (:data:`INTERVAL_FIELDS`).
        precision, scale: for NUMERIC(p, s); None for a NUMERIC of any precision and scale. Of times and
            INTERVAL the precision is how many digits their seconds have after the point.
        element: what an ARRAY is of; the modifiers are its elements'.
        enum: what an ENUM is, or the elements of an ARRAY.
        dimensions: of an ARRAY, as its column was declared or its expression makes them; 1 of all else. A
            value of others is no error before it is to go into a column or an Arrow list.
        row: names and types of the fields of a RECORD, which only functions of rows give.
    """

    base: Base
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    element: Base | None = None
    enum: EnumType | None = None
    dimensions: int = 1
    row: tuple[tuple[str, SqlType], ...] = ()

    @property
    def element_type(self) -> SqlType:
        """What the values of an ARRAY are of, with modifiers."""
        assert self.element is not None
        return replace(self, base=self.element, element=None, dimensions=1)

    @property
    def plain(self) -> SqlType:
        """The type without modifiers."""
        return SqlType(
            self.base, element=self.element, enum=self.enum, dimensions=self.dimensions, row=self.row
        )

    @property
    def kind(self) -> Kind:
        """How a value of this type is held in row images and keys."""
        if self.base is not Base.NUMERIC:
            return FACTS[self.base].kind
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
        if self.enum is not None:  # the array's is one that no object has: ids are never negative
            return self.enum.oid if self.element is None else ENUM_ARRAYS + self.enum.id
        found = FACTS[self.base].oid if self.element is None else FACTS[self.element].array_oid
        assert found is not None
        return found

    @property
    def is_rounded_time(self) -> bool:
        """Whether values lose what TIME(p), TIMESTAMP(p), INTERVAL(p) or an interval's fields leave out."""
        base = self.element or self.base
        return (base in MOMENTS and self.precision is not None) or (
            base is Base.INTERVAL and (self.precision is not None or self.length is not None)
        )

    @property
    def has_places(self) -> bool:
        """Whether Arrow columns of users have texts, and the engine something else: ENUMs, and OPAQUE."""
        return self.enum is not None or (self.element or self.base) in OPAQUE

    @property
    def typmod(self) -> int:
        """PostgreSQL's type modifier: -1 for none."""
        if self.is_rounded_time:
            return self._time_typmod
        if self.precision is not None:
            return ((self.precision << 16) | (self.scale or 0) & _SCALE_BITS) + 4
        if Base.VECTOR in (self.base, self.element):
            return self.length or -1
        if (self.element or self.base) in BITS:
            return -1 if self.length is None else self.length
        return -1 if self.length is None else self.length + 4

    @property
    def _time_typmod(self) -> int:
        """Of INTERVAL its fields are above its digits, each all ones where there are none."""
        if Base.INTERVAL not in (self.base, self.element):
            assert self.precision is not None
            return self.precision
        fields = _ALL_FIELDS if self.length is None else self.length
        return (fields << 16) | (_ALL_DIGITS if self.precision is None else self.precision)

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
        if self.is_rounded_time:
            return self._time_name
        if self.length is not None:
            return f"{self.base.value}({self.length})"
        return self.base.value

    @property
    def _time_name(self) -> str:
        """``timestamp(3) without time zone``, ``interval day to second(3)``."""
        digits = "" if self.precision is None else f"({self.precision})"
        if self.base is Base.INTERVAL:
            fields = "" if self.length is None else f" {_FIELD_NAMES[self.length]}"
            return f"interval{fields}{digits}"
        word, _, rest = self.base.value.partition(" ")
        return f"{word}{digits} {rest}"


def interval_of_typmod(typmod: int) -> str:
    """The name of the INTERVAL that has this modifier; "" where none has."""
    fields, digits = typmod >> 16 & _ALL_FIELDS, typmod & _ALL_DIGITS
    if fields != _ALL_FIELDS and fields not in _FIELD_NAMES:
        return ""
    length = None if fields == _ALL_FIELDS else fields
    return str(SqlType(Base.INTERVAL, length, None if digits == _ALL_DIGITS else digits))


def need_ordering(sql_type: SqlType) -> None:
    """SqlError 42883 for a type whose values have no order: json, and arrays of it."""
    if _is_json(sql_type):
        raise SqlError(
            "42883",
            f"could not identify an ordering operator for type {sql_type}",
            hint="Use an explicit ordering operator or modify the query.",
        )


def need_equality(sql_type: SqlType) -> None:
    """SqlError 42883 for a type whose values are never equal: json, and arrays of it."""
    if _is_json(sql_type):
        raise SqlError("42883", f"could not identify an equality operator for type {sql_type}")


def _is_json(sql_type: SqlType) -> bool:
    return Base.JSON in (sql_type.base, sql_type.element)


def array_of(element: Base | SqlType, dimensions: int = 1) -> SqlType:
    """The type of arrays of a type; TEXT's for one that there are no arrays of.

    Of an array's type it is the one of a dimension more. SqlError 54000 for more than there may be.
    """
    if isinstance(element, SqlType):
        if element.base is Base.ARRAY:
            return with_dimensions(element, element.dimensions + dimensions)
        if FACTS[element.base].array_oid or element.enum is not None:
            return replace(element, base=Base.ARRAY, element=element.base, dimensions=dimensions)
        return SqlType(Base.ARRAY, element=Base.TEXT)
    held = element if FACTS[element].array_oid else Base.TEXT
    return SqlType(Base.ARRAY, element=held, dimensions=dimensions)


def with_dimensions(array: SqlType, dimensions: int) -> SqlType:
    """The type of arrays of the same elements with so many dimensions. SqlError 54000 above 6."""
    if dimensions > MAX_DIMENSIONS:
        raise SqlError(
            "54000",
            f"number of array dimensions ({dimensions}) exceeds the maximum allowed ({MAX_DIMENSIONS})",
        )
    return array if array.dimensions == dimensions else replace(array, dimensions=dimensions)


ARRAYS = {facts.array_oid: array_of(base) for base, facts in FACTS.items() if facts.array_oid}
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
MACADDR = SqlType(Base.MACADDR)
MACADDR8 = SqlType(Base.MACADDR8)
INET = SqlType(Base.INET)
CIDR = SqlType(Base.CIDR)
BIT = SqlType(Base.BIT)
VARBIT = SqlType(Base.VARBIT)
JSON = SqlType(Base.JSON)
INTERVAL = SqlType(Base.INTERVAL)
JSONB = SqlType(Base.JSONB)
VECTOR = SqlType(Base.VECTOR)
OID = SqlType(Base.OID)
NAME = SqlType(Base.NAME)
CHAR_BYTE = SqlType(Base.CHAR_BYTE)
UNKNOWN = SqlType(Base.UNKNOWN)
