"""Names in the columnar engine: type names to types, identifiers to what PostgreSQL reads them as."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr.typenames import ENUM
from herdpy_sql.expr.typenames import sql_type as own_type
from herdpy_sql.types import INTERVAL, Base, SqlType

_D = exp.DataType.Type

_TYPES: dict[Any, Base] = {
    _D.BOOLEAN: Base.BOOLEAN,
    _D.SMALLINT: Base.SMALLINT,
    _D.INT: Base.INTEGER,
    _D.BIGINT: Base.BIGINT,
    _D.FLOAT: Base.REAL,
    _D.DOUBLE: Base.DOUBLE,
    _D.DECIMAL: Base.NUMERIC,
    _D.TEXT: Base.TEXT,
    _D.VARCHAR: Base.VARCHAR,
    _D.CHAR: Base.CHAR,
    _D.BPCHAR: Base.CHAR,
    _D.VARBINARY: Base.BYTEA,
    _D.DATE: Base.DATE,
    _D.TIME: Base.TIME,
    _D.TIMESTAMP: Base.TIMESTAMP,
    _D.TIMESTAMPNTZ: Base.TIMESTAMP,
    _D.TIMESTAMPTZ: Base.TIMESTAMPTZ,
    _D.UUID: Base.UUID,
    _D.JSON: Base.JSON,
    _D.INTERVAL: Base.INTERVAL,
}


_OWN = frozenset({_D.ARRAY, _D.JSONB, _D.VECTOR})


def sql_type(node: exp.Expression) -> SqlType:
    """The type that a type name means; SqlError 42704 or 0A000 for others."""
    if isinstance(node, exp.Interval):
        return INTERVAL
    if not isinstance(node, exp.DataType):
        raise SqlError("0A000", f"type {node.sql('postgres')} is not supported")
    if node.this in _OWN or node.args.get(ENUM) is not None:
        return own_type(node)
    base = _TYPES.get(node.this)
    if base is None:
        if node.this is _D.USERDEFINED:
            raise SqlError("42704", f'type "{str(node.args.get("kind")).lower()}" does not exist')
        raise SqlError("0A000", f"type {node.sql('postgres').lower()} is not supported")
    sizes = []
    for size in node.expressions:
        inner = size.this if isinstance(size, exp.DataTypeParam) else size
        sign = 1
        if isinstance(inner, exp.Neg):
            sign, inner = -1, inner.this
        if not isinstance(inner, exp.Literal) or inner.is_string:
            raise SqlError("42601", f"type modifiers must be constants: {node.sql('postgres').lower()}")
        sizes.append(sign * int(inner.this))
    if base is Base.NUMERIC:
        if not sizes:
            return SqlType(base)
        if not 1 <= sizes[0] <= 1000:
            raise SqlError("22023", f"NUMERIC precision {sizes[0]} must be between 1 and 1000")
        return SqlType(base, precision=sizes[0], scale=sizes[1] if len(sizes) > 1 else 0)
    if base is Base.CHAR:
        length = sizes[0] if sizes else (None if node.this is _D.BPCHAR else 1)
        return SqlType(base, length=length)
    if base is Base.VARCHAR and sizes:
        if sizes[0] < 1:
            raise SqlError("22023", "length for type varchar must be at least 1")
        return SqlType(base, length=sizes[0])
    return SqlType(base)


def name_of(identifier: Any) -> str:
    """An identifier folded as PostgreSQL folds it."""
    if isinstance(identifier, exp.Identifier):
        return str(identifier.this) if identifier.quoted else str(identifier.this).lower()
    return str(identifier).lower()
