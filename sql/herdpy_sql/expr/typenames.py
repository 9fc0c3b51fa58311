"""From sqlglot's data types, as casts and column definitions have them, to SQL types."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import expressions as exp

from herdpy_sql import types as t
from herdpy_sql.absent import absent_type
from herdpy_sql.errors import SqlError
from herdpy_sql.types import BITS, FACTS, INTERVAL_FIELDS, MOMENTS, Base, SqlType
from herdpy_sql.values.precision import MAX_DIGITS
from herdpy_sql.values.vectors import MAX_DIMENSIONS

_PLAIN = {word: SqlType(base) for base, facts in FACTS.items() for word in facts.words}
_PLAIN["CHAR"] = SqlType(Base.CHAR, 1)
_PLAIN["BIT"] = SqlType(Base.BIT, 1)
CATALOG_TYPES = {
    facts.catalog_name or base.value: SqlType(base) for base, facts in FACTS.items() if facts.oid
}
"""By their names in pg_type."""
_CATALOG = CATALOG_TYPES | {
    f"_{name}": t.array_of(one) for name, one in CATALOG_TYPES.items() if FACTS[one.base].array_oid
}
"""The same with arrays, whose names begin with ``_``."""
_DOMAINS = {
    "sql_identifier": t.NAME, "character_data": t.VARCHAR, "yes_or_no": SqlType(Base.VARCHAR, 3),
    "cardinal_number": t.INTEGER, "time_stamp": t.TIMESTAMPTZ,
}  # fmt: skip
"""Domains of information_schema: what they are of."""
ENUM = "herdpy_enum"
"""Where a type's node has the ``EnumType`` that its name means (see ``plan.type_names``)."""
MAX_LENGTH = 10_485_760
MAX_BITS = 8 * MAX_LENGTH
MAX_PRECISION = 1_000


def sql_type(node: exp.Expression, *, any_scale: bool = False) -> SqlType:
    """The SQL type that a data type node names.

    ``any_scale``: a NUMERIC's scale may be below zero or above its precision: of values, not of columns.

    SqlError 0A000 for PostgreSQL's types and modifiers that are not supported, 42704 for what is no
    type, 22023 for modifiers out of range.
    """
    interval = node.this if isinstance(node, exp.DataType) else node
    if isinstance(interval, exp.Interval) and interval.this is None:
        return _of_fields(interval) if interval.args.get("unit") else t.INTERVAL
    if not isinstance(node, exp.DataType | exp.ObjectIdentifier):
        raise _no_type(node)
    if node.this is exp.DataType.Type.ARRAY:
        return _array_type(node)
    enum = node.args.get(ENUM)
    if enum is not None:
        return SqlType(Base.ENUM, enum=enum)
    found = builtin(node)
    if found is None or node.args.get("nested"):
        raise _no_type(node)
    modifiers = modifiers_of(node)
    if not modifiers:
        return found
    return _modified(found, modifiers, any_scale=any_scale)


def _no_type(node: exp.Expression) -> SqlError:
    """0A000 of a type that PostgreSQL has and HerdPy has not, 42704 of what is no type."""
    written = node.sql("postgres").lower()
    if isinstance(node, exp.Interval) or written.startswith("interval"):
        return SqlError("0A000", f"type {written} is not supported")
    refused = absent_type(written)
    name = written.partition("(")[0]
    return refused or SqlError("42704", f'type "{name}" does not exist')


def builtin(node: exp.DataType | exp.ObjectIdentifier) -> SqlType | None:
    """The built-in type that a node names, without its modifiers."""
    if isinstance(node, exp.ObjectIdentifier):
        return _PLAIN.get(str(node.this).lower())
    if node.this is not exp.DataType.Type.USERDEFINED:
        return _PLAIN.get(node.this.name if hasattr(node.this, "name") else str(node.this))
    kind = node.args.get("kind")
    if isinstance(kind, exp.Dot) and isinstance(kind.this, exp.Identifier):
        if kind.this.name == "information_schema":
            return _DOMAINS.get(kind.expression.name)
        return _CATALOG.get(kind.expression.name) if kind.this.name == "pg_catalog" else None
    if not isinstance(kind, exp.Identifier):
        return None
    name = kind.name if kind.args.get("quoted") else kind.name.lower()
    return _PLAIN.get(name) or _CATALOG.get(name)


def modifiers_of(node: exp.DataType) -> list[int]:
    """What stands in parentheses behind a type's name. SqlError 42601 for what is no integer."""
    return [_modifier(one) for one in node.expressions]


def catalog_name(type_: SqlType) -> str:
    """What pg_type calls a type, or the elements of an array: a cast's column is named so."""
    if type_.base is Base.ARRAY:
        return catalog_name(type_.element_type)
    if type_.enum is not None:
        return type_.enum.name
    return FACTS[type_.base].catalog_name or type_.base.value


def _array_type(node: exp.DataType) -> SqlType:
    """Of ``type[]``, ``type[][]`` and ``type[3]``: how many elements is not part of a type."""
    if not node.expressions:
        raise SqlError("0A000", "type array is not supported")
    inner = sql_type(node.expressions[0])
    if inner.base is Base.ARRAY:
        return t.array_of(inner)
    found = t.array_of(inner)
    if found.element is not inner.base:
        raise SqlError("0A000", f"type {inner}[] is not supported")
    return found


def element_of(to: exp.Expression) -> SqlType | None:
    """The type of the elements of a type of arrays; None for another type."""
    if not isinstance(to, exp.DataType) or to.this is not exp.DataType.Type.ARRAY or len(to.expressions) != 1:
        return None
    found = sql_type(to, any_scale=True)
    return found.element_type if found.dimensions == 1 else None


def _modified(plain: SqlType, modifiers: list[int], *, any_scale: bool) -> SqlType:
    base, first = plain.base, modifiers[0]
    if len(modifiers) > 1 and base in {Base.VARCHAR, Base.CHAR, Base.DOUBLE}:
        raise SqlError("42601", 'syntax error at or near ","')
    if base is Base.VECTOR and len(modifiers) == 1:
        if not 1 <= first <= MAX_DIMENSIONS:
            limit = "must be at least 1" if first < 1 else f"cannot exceed {MAX_DIMENSIONS}"
            raise SqlError("22023", f"dimensions for type vector {limit}")
        return SqlType(base, first)
    if base in MOMENTS or base is Base.INTERVAL:
        return _of_digits(plain, modifiers)
    if base in {Base.VARCHAR, Base.CHAR} and len(modifiers) == 1:
        short = "varchar" if base is Base.VARCHAR else "char"
        if first < 1:
            raise SqlError("22023", f"length for type {short} must be at least 1")
        if first > MAX_LENGTH:
            raise SqlError("22023", f"length for type {short} cannot exceed {MAX_LENGTH}")
        return SqlType(base, first)
    if base in BITS:
        if len(modifiers) > 1:
            raise SqlError("42601", 'syntax error at or near ","')
        if first < 1:
            raise SqlError("22023", f"length for type {catalog_name(plain)} must be at least 1")
        if first > MAX_BITS:
            raise SqlError("22023", f"length for type {catalog_name(plain)} cannot exceed {MAX_BITS}")
        return SqlType(base, first)
    if base is Base.NUMERIC:
        if len(modifiers) > 2:
            raise SqlError("22023", "invalid NUMERIC type modifier")
        scale = modifiers[1] if len(modifiers) == 2 else 0
        if not 1 <= first <= MAX_PRECISION:
            raise SqlError("22023", f"NUMERIC precision {first} must be between 1 and {MAX_PRECISION}")
        if abs(scale) > MAX_PRECISION:
            raise SqlError(
                "22023", f"NUMERIC scale {scale} must be between -{MAX_PRECISION} and {MAX_PRECISION}"
            )
        if not any_scale and not 0 <= scale <= first:
            raise SqlError("0A000", f"NUMERIC scale {scale} must be between 0 and the precision, {first}")
        return SqlType(base, precision=first, scale=scale)
    if base is Base.DOUBLE and len(modifiers) == 1:  # FLOAT(n), n in binary digits
        if not 1 <= first <= 53:
            limit = "at least 1 bit" if first < 1 else "less than 54 bits"
            raise SqlError("22023", f"precision for type float must be {limit}")
        return t.REAL if first <= 24 else t.DOUBLE
    raise SqlError("42601", f'type modifier is not allowed for type "{catalog_name(plain)}"')


def _of_digits(plain: SqlType, modifiers: list[int]) -> SqlType:
    """TIMESTAMP(3) and the like; more digits than there are mean all of them."""
    if len(modifiers) > 1:
        raise SqlError("42601", 'syntax error at or near ","')
    if modifiers[0] < 0:
        zone = " WITH TIME ZONE" if plain.base is Base.TIMESTAMPTZ else ""
        word = plain.base.value.partition(" ")[0].upper()
        raise SqlError("22023", f"{word}({modifiers[0]}){zone} precision must not be negative")
    return replace(plain, precision=min(modifiers[0], MAX_DIGITS))


_OF_SECONDS = re.compile(r"((?:[a-z]+ to )?second)\((\d)\)")


def _of_fields(node: exp.Interval) -> SqlType:
    """``INTERVAL DAY TO SECOND(3)``, whose ``SECOND(3)`` is one word to sqlglot."""
    unit = node.args["unit"]
    span = isinstance(unit, exp.IntervalSpan)
    words = f"{unit.this.name} to {unit.expression.name}" if span else str(unit.name)
    found = _OF_SECONDS.fullmatch(words.lower())
    fields = INTERVAL_FIELDS.get(found[1] if found else words.lower())
    if fields is None:
        raise SqlError("42601", f'syntax error at or near "{words.rpartition(" ")[2]}"')
    return replace(t.INTERVAL, length=fields, precision=int(found[2]) if found else None)


def _modifier(node: exp.Expression) -> int:
    value = node.this if isinstance(node, exp.DataTypeParam) else node
    if isinstance(value, exp.Literal) and not value.is_string and _WHOLE.fullmatch(value.this):
        return int(value.this)
    raise SqlError("42601", f'syntax error at or near "{value.sql("postgres")}"')


_WHOLE = re.compile(r"-?\d{1,9}", re.ASCII)
