"""What own plans evaluate: a typed tree that has nothing of the columnar engine's alone.

``expr.bind`` makes the tree of any expression. Here its place in an own plan is decided: NotOwn sends the
statement to the columnar engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.expr import NotOwn, bind
from herdpy_sql.expr.nodes import foreign_reason

if TYPE_CHECKING:
    from sqlglot import expressions as exp

    from herdpy_sql.expr import ColumnScope, Params
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.types import SqlType


def own(expr: Expr) -> Expr:
    """The tree. NotOwn, with the reason, for one that own plans do not evaluate."""
    if reason := foreign_reason(expr):
        raise NotOwn(reason)
    return expr


def bind_own(
    node: exp.Expression, scope: ColumnScope, params: Params, expected: SqlType | None = None
) -> Expr:
    """As ``expr.bind``; NotOwn for what own plans do not evaluate."""
    return own(bind(node, scope, params, expected))
