"""``bind``: an expression's syntax tree becomes a typed tree.

Above ``binder``, ``conditions`` and ``calls``, whose handlers are put together here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.aggregates import AGGREGATE_CALLS
from herdpy_sql.expr.binder import LEAVES_AND_OPERATORS, ColumnScope, ExprBinder
from herdpy_sql.expr.calls import CALLS, bind_call
from herdpy_sql.expr.coerce import Params, coerce
from herdpy_sql.expr.conditions import CONDITIONS
from herdpy_sql.expr.subqueries import SUBQUERIES
from herdpy_sql.types import Base, SqlType

if TYPE_CHECKING:
    from sqlglot import expressions as exp

_HANDLERS = {**LEAVES_AND_OPERATORS, **CONDITIONS, **CALLS, **SUBQUERIES, **AGGREGATE_CALLS}


def bind(node: exp.Expression, scope: ColumnScope, params: Params, expected: SqlType | None = None) -> n.Expr:
    """The typed tree of a scalar expression.

    Args:
        expected: the type that a literal or parameter without a type takes here; an expression that
            has a type keeps it (use :func:`coerce`). Without it such a literal stays UNKNOWN (use
            :func:`settle`).

    Raises:
        SqlError: for wrong SQL, with PostgreSQL's SQLSTATE.
        NotOwn: for valid SQL whose type is not known here.
    """
    bound = ExprBinder(scope, params, _HANDLERS, bind_call).bind(node)
    if bound.type.base is Base.UNKNOWN and expected is not None:
        bound = coerce(bound, expected, "assignment", params)
    return bound
