"""Why own plans do not run a statement: what the planner finds in a typed tree or in a clause.

``bind`` and ``expr.bind`` make the tree of anything; ``expr.nodes.foreign_reason`` says what in it the
columnar engine alone has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr.nodes import foreign_reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from herdpy_sql.expr.nodes import Expr


@dataclass(frozen=True, slots=True)
class Refusal:
    """Own plans do not run it.

    Attributes:
        reason: what they have not, for EXPLAIN.
        is_choice: they could, but the columnar engine is the better one for it.
    """

    reason: str
    is_choice: bool = False


def refusal_of(exprs: Iterable[Expr]) -> Refusal | None:
    """Why own plans do not evaluate one of the expressions."""
    for one in exprs:
        if reason := foreign_reason(one):
            return Refusal(reason)
    return None


def query_within(*nodes: exp.Expression | None) -> Refusal | None:
    """Why a statement is not bound for own plans: there is a query in what it writes."""
    for node in nodes:
        if node is not None and not isinstance(node, LEAVES) and node.find(exp.Query, exp.Values):
            return Refusal("subquery")
    return None


LEAVES = (exp.Literal, exp.Parameter, exp.Null, exp.Boolean)
"""Expressions that have no parts."""


def own(expr: Expr, what: str) -> Expr:
    """The tree. SqlError 0A000, which begins with ``what``, for one that own plans do not evaluate."""
    if reason := foreign_reason(expr):
        raise SqlError("0A000", f"{what}: {reason} is not supported")
    return expr
