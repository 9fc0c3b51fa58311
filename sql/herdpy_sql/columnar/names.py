"""The name of an output column that has no alias (FigureColname of PostgreSQL's parser)."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from herdpy_sql.columnar.typed import Typed
from herdpy_sql.columnar.typenames import name_of, sql_type
from herdpy_sql.types import Base

_TYPES = {
    Base.BOOLEAN: "bool",
    Base.SMALLINT: "int2",
    Base.INTEGER: "int4",
    Base.BIGINT: "int8",
    Base.REAL: "float4",
    Base.DOUBLE: "float8",
    Base.NUMERIC: "numeric",
    Base.TEXT: "text",
    Base.VARCHAR: "varchar",
    Base.CHAR: "bpchar",
    Base.BYTEA: "bytea",
    Base.DATE: "date",
    Base.TIME: "time",
    Base.TIMESTAMP: "timestamp",
    Base.TIMESTAMPTZ: "timestamptz",
    Base.UUID: "uuid",
    Base.JSON: "json",
    Base.INTERVAL: "interval",
    Base.JSONB: "jsonb",
    Base.VECTOR: "vector",
}

_CALLS = (
    exp.Func,
    exp.Mod,
    exp.Pow,
    exp.IntDiv,
    exp.Window,
    exp.Filter,
    exp.WithinGroup,
    exp.Array,
    exp.Exists,
    exp.AtTimeZone,
    exp.Overlaps,
)


def figure(node: Any, out: Typed) -> str:
    """The column's name: of the column, function or type it is made by, or ``?column?``."""
    return _figure(node, out)[0] or "?column?"


def named(node: Any, out: Typed) -> str | None:
    """The name when it is a column's or function's."""
    name, strength = _figure(node, out)
    return name if strength > 1 else None


def _figure(node: Any, out: Typed) -> tuple[str, int]:
    """The name and how sure it is: 2 for columns and functions, 1 for casts and CASE."""
    if isinstance(node, exp.Paren):
        return _figure(node.this, out)
    if isinstance(node, exp.Column):
        return name_of(node.this), 2
    if isinstance(node, exp.Cast):
        name, strength = _figure(node.this, out)
        if strength > 1:
            return name, strength
        found = sql_type(node.args["to"])
        found = found.element_type if found.base is Base.ARRAY else found
        return (_TYPES[found.base] if found.enum is None else found.enum.name), 1
    if isinstance(node, exp.Interval):
        return "interval", 1
    if isinstance(node, exp.Dot):
        return name_of(node.expression), 2
    if isinstance(node, exp.Collate):
        return _figure(node.this, out)
    if isinstance(node, exp.Case):  # the handler named it after its ELSE branch, if that has a name
        return out.name or "case", 1 if out.name == "case" else 2
    if isinstance(node, (exp.Subquery, exp.Select, exp.SetOperation)):
        return out.name or "?column?", 2
    operator = type(node) in (exp.Mod, exp.Pow) and "start" not in node.meta
    if out.name is not None and not operator and isinstance(node, _CALLS):
        return out.name, 2
    return "", 0
