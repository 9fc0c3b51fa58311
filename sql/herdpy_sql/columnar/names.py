"""Names in the columnar engine: identifiers as PostgreSQL reads them, names of columns without an alias.

A column's name is found as PostgreSQL's parser does (its FigureColname).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.expr.typenames import MAX_PRECISION, modifiers_of
from herdpy_sql.expr.typenames import sql_type as own_type
from herdpy_sql.types import INTERVAL, Base, SqlType

if TYPE_CHECKING:
    pass


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
