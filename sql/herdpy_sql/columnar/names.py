"""Names in the columnar engine: identifiers as PostgreSQL reads them, names of columns without an alias.

A column's name is found as PostgreSQL's parser does (its FigureColname).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.expr.typenames import MAX_PRECISION, catalog_name, modifiers_of, of_moment
from herdpy_sql.expr.typenames import sql_type as own_type
from herdpy_sql.types import INTERVAL, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.columnar.typed import Typed


def sql_type(node: exp.Expression) -> SqlType:
    """The type that a type name means; SqlError 42704, 22023, 42601 or 0A000 for others."""
    if isinstance(node, exp.Interval):
        return INTERVAL
    if isinstance(node, exp.DataType) and node.this is exp.DataType.Type.DECIMAL:
        modifiers = modifiers_of(node)
        if len(modifiers) == 2 and 1 <= modifiers[0] <= MAX_PRECISION and abs(modifiers[1]) <= MAX_PRECISION:
            return SqlType(Base.NUMERIC, precision=modifiers[0], scale=modifiers[1])  # of any scale, here
    return own_type(node)


def name_of(identifier: Any) -> str:
    """An identifier folded as PostgreSQL folds it."""
    if isinstance(identifier, exp.Identifier):
        return str(identifier.this) if identifier.quoted else str(identifier.this).lower()
    return str(identifier).lower()


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
    if isinstance(node, (exp.Paren, exp.Bracket)):
        return _figure(node.this, out)
    if isinstance(node, exp.Column):
        return name_of(node.this), 2
    if isinstance(node, exp.Cast):
        name, strength = _figure(node.this, out)
        if strength > 1:
            return name, strength
        return catalog_name(sql_type(of_moment(node.args["to"])[0])), 1
    if isinstance(node, exp.Array):
        return "array", 2
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
