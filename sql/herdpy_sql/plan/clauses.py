"""Clauses of a statement, bound over a scope: SELECT list and RETURNING, conditions, LIMIT and OFFSET.

Output columns have PostgreSQL's names. ``project`` gives the function that makes output rows.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import OutputColumn
from herdpy_sql.expr import Params, bind, coerce, compile_expr, settle
from herdpy_sql.expr.nodes import ColumnRef
from herdpy_sql.expr.output_names import output_name
from herdpy_sql.expr.scope import Scope
from herdpy_sql.plan.own import Refusal, query_within, refusal_of
from herdpy_sql.plan.scope import name_of
from herdpy_sql.types import BIGINT, BOOLEAN, Base

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Row
    from herdpy_sql.expr.nodes import Expr


def output_columns(outputs: Sequence[tuple[str, Expr]], scope: Scope) -> tuple[OutputColumn, ...]:
    """What a result with these names and expressions looks like; they are numbered as ``scope`` does."""
    return tuple([OutputColumn(name, expr.type, scope.origin(expr)) for name, expr in outputs])


def project(exprs: Sequence[Expr]) -> Callable[[Row, Row, Clock], Row]:
    """A function that makes an output row: (row, params, clock) -> row."""
    plain = [expr.index for expr in exprs if isinstance(expr, ColumnRef)]
    if len(plain) == len(exprs) and len(plain) > 1:
        pick = operator.itemgetter(*plain)
        return lambda row, params, clock: pick(row)
    if len(plain) == len(exprs) == 1:
        only = plain[0]
        return lambda row, params, clock: (row[only],)
    compiled = [compile_expr(expr) for expr in exprs]
    if len(compiled) == 1:
        single = compiled[0]
        return lambda row, params, clock: (single(row, params, clock),)
    return lambda row, params, clock: tuple([one(row, params, clock) for one in compiled])


def condition(node: exp.Expression, scope: Scope, params: Params, clause: str) -> Expr:
    """A bound condition; SqlError 42804 when it is not boolean."""
    scope.clause = clause
    found = bind(node, scope, params, BOOLEAN)
    if found.type.base is Base.UNKNOWN:
        found = coerce(found, BOOLEAN, "implicit", params)
    if found.type != BOOLEAN:
        raise SqlError("42804", f"argument of {clause} must be type boolean, not type {found.type}")
    return found


def bind_outputs(
    nodes: Sequence[exp.Expression], scope: Scope, params: Params
) -> list[tuple[str, Expr]] | Refusal:
    """The columns of RETURNING, names and expressions, stars written out; or why they are not ours."""
    found: list[tuple[str, Expr]] = []
    for node in nodes:
        if isinstance(node, exp.Star):
            if any(node.args.values()):
                raise SqlError("0A000", "* with EXCEPT or REPLACE is not supported")
            found += scope.starred()
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            found += scope.starred(name_of(node.args["table"]))
        else:
            name = name_of(node.args["alias"]) if isinstance(node, exp.Alias) else output_name(node)
            inner = node.this if isinstance(node, exp.Alias) else node
            if refusal := query_within(inner):
                return refusal
            expr = settle(bind(inner, scope, params), params)
            if refusal := refusal_of([expr]):
                return refusal
            found.append((name, expr))
    return found


def limits_of(tree: exp.Select, params: Params) -> tuple[Expr | None, Expr | None] | Refusal:
    """LIMIT and OFFSET of a query, None where there is none; or why they are not ours."""
    found: list[Expr | None] = []
    for node in (tree.args.get("limit"), tree.args.get("offset")):
        value = node
        if isinstance(node, exp.Fetch):
            options = node.args.get("limit_options")
            if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
                return Refusal("FETCH with PERCENT or TIES")
            value = node.args.get("count") or exp.Literal.number(1)
        elif node is not None:
            value = node.expression
        if value is None or (isinstance(value, exp.Var) and str(value.this).upper() == "ALL"):
            found.append(None)
            continue
        if refusal := query_within(value):
            return refusal
        bound = bind(value, Scope(clause="LIMIT"), params, BIGINT)
        if refusal := refusal_of([bound]):
            return refusal
        found.append(coerce(bound, BIGINT, "assignment", params))
    return found[0], found[1]
