"""Binding of queries inside expressions: scalar ones, EXISTS, ARRAY(...), and conditions on the rows of one.

The scope where the expression stands (``Scope``) binds the query itself; what comes out is a
:class:`~herdpy_sql.expr.nodes.Subquery` that knows the types of its columns. Below ``conditions``, which
makes the test of IN, ANY, ALL and of comparisons with a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.types import BOOLEAN, SqlType, array_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdpy_sql.expr.binder import ExprBinder, Handler


def scalar(binder: ExprBinder, node: Any) -> n.Expr:
    """The one value of a query. SqlError 42601 where it has several columns."""
    query = binder.query(node)
    return n.Subquery(_only(query), query, "scalar")


def exists(binder: ExprBinder, node: exp.Exists) -> n.Expr:
    """Whether a query gives a row."""
    query = node.this
    if isinstance(query, exp.Select) and not query.expressions:  # SELECT FROM ...: rows of no columns
        query = query.copy()
        query.set("expressions", [exp.Literal.number(1)])
    return n.Subquery(BOOLEAN, binder.query(query), "exists")


def array(binder: ExprBinder, node: Any) -> n.Expr:
    """``ARRAY(SELECT ...)``: its rows in their order. SqlError 42601 where they have several columns."""
    query = binder.query(node)
    return n.Subquery(array_of(_only(query)), query, "array")


def _only(query: n.InnerQuery) -> SqlType:
    if len(query.columns) != 1:
        raise SqlError("42601", "subquery must return only one column")
    return query.columns[0]


def tested(
    binder: ExprBinder,
    node: exp.Expression,
    kind: str,
    width: int,
    test: Callable[[list[n.Expr]], n.Expr],
) -> n.Expr:
    """A condition on the rows of a query. SqlError 42601 where it has not as many columns as ``width``.

    Args:
        kind: which rows it is to hold for, as :class:`~herdpy_sql.expr.nodes.Subquery` has it.
        test: makes the condition of the query's columns.
    """
    query = binder.query(node)
    if len(query.columns) != width:
        many = "too many" if len(query.columns) > width else "too few"
        raise SqlError("42601", f"subquery has {many} columns")
    columns: list[n.Expr] = [n.QueryColumn(type_, place) for place, type_ in enumerate(query.columns)]
    return n.Subquery(BOOLEAN, query, kind, test(columns))


SUBQUERIES: dict[type, Handler] = {
    **dict.fromkeys((exp.Subquery, exp.Select, exp.Union, exp.Except, exp.Intersect), scalar),
    exp.Exists: exists,
}
