"""``bind``: an expression's syntax tree becomes a typed tree.

Above ``binder``, ``conditions`` and ``calls``, whose handlers are put together here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.aggregates import AGGREGATE_CALLS
from herdpy_sql.expr.binder import LEAVES_AND_OPERATORS, ExprBinder
from herdpy_sql.expr.calls import CALLS
from herdpy_sql.expr.coerce import Params, coerce
from herdpy_sql.expr.conditions import CONDITIONS
from herdpy_sql.expr.scope import Scope
from herdpy_sql.expr.set_returning import SET_RETURNING
from herdpy_sql.expr.subqueries import SUBQUERIES
from herdpy_sql.expr.windows import WINDOWS
from herdpy_sql.types import Base, SqlType

if TYPE_CHECKING:
    from sqlglot import expressions as exp

_HANDLERS = {
    **LEAVES_AND_OPERATORS,
    **CONDITIONS,
    **CALLS,
    **SUBQUERIES,
    **AGGREGATE_CALLS,
    **WINDOWS,
    **SET_RETURNING,
}


def tree_binder(scope: Scope, params: Params) -> ExprBinder:
    """What binds expressions that stand in ``scope``."""
    return ExprBinder(scope, params, _HANDLERS)


def bind(node: exp.Expression, scope: Scope, params: Params, expected: SqlType | None = None) -> n.Expr:
    """The typed tree of a scalar expression.

    It may have what own plans do not evaluate (``nodes.foreign_reason``).

    Args:
        expected: the type that a literal or parameter without a type takes here; an expression that
            has a type keeps it (use :func:`coerce`). Without it such a literal stays UNKNOWN (use
            :func:`settle`).

    Raises:
        SqlError: for wrong SQL, with PostgreSQL's SQLSTATE.
    """
    bound = ExprBinder(scope, params, _HANDLERS).bind(node)
    return bound if expected is None else typed_as(bound, expected, params)


def typed_as(bound: n.Expr, expected: SqlType, params: Params) -> n.Expr:
    """A tree that has been bound; a literal or parameter without a type takes the one expected."""
    return coerce(bound, expected, "assignment", params) if bound.type.base is Base.UNKNOWN else bound
