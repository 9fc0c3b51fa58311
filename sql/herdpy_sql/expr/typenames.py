"""From sqlglot's data types, as casts and column definitions have them, to SQL types."""

from __future__ import annotations

from sqlglot import expressions as exp

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType

_PLAIN = {
    "BOOLEAN": t.BOOLEAN,
    "SMALLINT": t.SMALLINT,
    "INT": t.INTEGER,
    "BIGINT": t.BIGINT,
    "FLOAT": t.REAL,
    "DOUBLE": t.DOUBLE,
    "DECIMAL": t.NUMERIC,
    "TEXT": t.TEXT,
    "VARCHAR": t.VARCHAR,
    "CHAR": SqlType(Base.CHAR, 1),
    "BPCHAR": SqlType(Base.CHAR),
    "VARBINARY": t.BYTEA,
    "DATE": t.DATE,
    "TIME": t.TIME,
    "TIMESTAMP": t.TIMESTAMP,
    "TIMESTAMPTZ": t.TIMESTAMPTZ,
    "UUID": t.UUID,
    "JSON": t.JSON,
    "INTERVAL": t.INTERVAL,
    "JSONB": t.JSONB,
    "VECTOR": t.VECTOR,
}
ENUM = "herdpy_enum"
"""Where a type's node has the ``EnumType`` that its name means (see ``plan.type_names``)."""
_MOMENTS = frozenset({Base.TIME, Base.TIMESTAMP, Base.TIMESTAMPTZ})
MAX_LENGTH = 10_485_760
MAX_PRECISION = 1_000
MAX_DIMENSIONS = 16_000


def sql_type(node: exp.Expression) -> SqlType:
    """The SQL type that a data type node names.

    SqlError 0A000 for PostgreSQL's types and modifiers that are not supported, 42704 for what is no
    type, 22023 for modifiers out of range.
    """
    if not isinstance(node, exp.DataType):
        raise SqlError("0A000", f"type {node.sql('postgres').lower()} is not supported")
    if node.this is exp.DataType.Type.ARRAY:
        return _array_type(node)
    enum = node.args.get(ENUM)
    if enum is not None:
        return SqlType(Base.ENUM, enum=enum)
    name = node.this.name if hasattr(node.this, "name") else str(node.this)
    found = _PLAIN.get(name)
    if found is None or node.args.get("nested"):
        if name == "USERDEFINED":
            raise SqlError("42704", f'type "{node.sql("postgres").lower()}" does not exist')
        raise SqlError("0A000", f"type {node.sql('postgres').lower()} is not supported")
    modifiers = [_modifier(one) for one in node.expressions]
    if not modifiers:
        return found
    return _modified(found, modifiers)


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


def _modified(plain: SqlType, modifiers: list[int]) -> SqlType:
    base, first = plain.base, modifiers[0]
    if base is Base.VECTOR and len(modifiers) == 1:
        if not 1 <= first <= MAX_DIMENSIONS:
            limit = "must be at least 1" if first < 1 else f"cannot exceed {MAX_DIMENSIONS}"
            raise SqlError("22023", f"dimensions for type vector {limit}")
        return SqlType(base, first)
    if base is Base.INTERVAL and len(modifiers) == 1 and modifiers[0] >= 6:
        return plain  # more than there are is as many as there are, as in PostgreSQL
    if base in {Base.VARCHAR, Base.CHAR} and len(modifiers) == 1:
        short = "varchar" if base is Base.VARCHAR else "char"
        if first < 1:
            raise SqlError("22023", f"length for type {short} must be at least 1")
        if first > MAX_LENGTH:
            raise SqlError("22023", f"length for type {short} cannot exceed {MAX_LENGTH}")
        return SqlType(base, first)
    if base is Base.NUMERIC and len(modifiers) <= 2:
        scale = modifiers[1] if len(modifiers) == 2 else 0
        if not 1 <= first <= MAX_PRECISION:
            raise SqlError("22023", f"NUMERIC precision {first} must be between 1 and {MAX_PRECISION}")
        if not 0 <= scale <= first:
            raise SqlError("0A000", f"NUMERIC scale {scale} must be between 0 and the precision, {first}")
        return SqlType(base, precision=first, scale=scale)
    if base is Base.DOUBLE and len(modifiers) == 1:  # FLOAT(n), n in binary digits
        if not 1 <= first <= 53:
            raise SqlError("22023", "precision for type float must be between 1 and 53 bits")
        return t.REAL if first <= 24 else t.DOUBLE
    if base in _MOMENTS and modifiers == [6]:
        return plain
    raise SqlError("0A000", f"type {plain} with a modifier is not supported")


def _modifier(node: exp.Expression) -> int:
    value = node.this if isinstance(node, exp.DataTypeParam) else node
    negative = isinstance(value, exp.Neg)
    literal = value.this if negative else value
    if (
        isinstance(literal, exp.Literal)
        and not literal.is_string
        and literal.this.isdigit()
        and len(literal.this) < 10
    ):
        return -int(literal.this) if negative else int(literal.this)
    raise SqlError("22023", "type modifiers must be simple constants")
