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
from herdpy_sql.expr.nodes import ColumnRef, foreign_reason
from herdpy_sql.expr.output_names import output_name
from herdpy_sql.expr.scope import Scope
from herdpy_sql.plan.own import NotOwn, bind_own, has_aggregate
from herdpy_sql.plan.scope import name_of
from herdpy_sql.types import BIGINT, BOOLEAN, Base

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from herdpy_sql.execute.base import Row
    from herdpy_sql.expr.nodes import Expr
    from herdpy_sql.storage import Clock
    from herdpy_sql.types import SqlType


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
    found = bind_own(node, scope, params, BOOLEAN)
    if found.type.base is Base.UNKNOWN:
        found = coerce(found, BOOLEAN, "implicit", params)
    if found.type != BOOLEAN:
        raise SqlError("42804", f"argument of {clause} must be type boolean, not type {found.type}")
    return found


def bind_outputs(
    nodes: Sequence[exp.Expression],
    scope: Scope,
    params: Params,
    targets: Sequence[SqlType] | None = None,
    *,
    aggregates: bool = False,
) -> list[tuple[str, Expr]]:
    """The columns of a SELECT list or RETURNING: names and expressions, stars written out.

    ``targets`` are the types that bare literals and parameters take at their places. NotOwn for what own
    plans do not evaluate; where there may be ``aggregates``, an expression with one is left to the caller.
    """
    found: list[tuple[str, Expr]] = []

    def bind_as(one: exp.Expression) -> Expr:
        target = targets[len(found)] if targets is not None and len(found) < len(targets) else None
        expr = settle(bind(one, scope, params, target), params)
        if (reason := foreign_reason(expr)) and not (aggregates and has_aggregate(expr)):
            raise NotOwn(reason)
        return expr

    for node in nodes:
        if isinstance(node, exp.Star):
            if any(node.args.values()):
                raise NotOwn("* with EXCEPT or REPLACE")
            found += scope.starred()
        elif isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            found += scope.starred(name_of(node.args["table"]))
        elif isinstance(node, exp.Alias):
            found.append((name_of(node.args["alias"]), bind_as(node.this)))
        else:
            found.append((output_name(node), bind_as(node)))
    return found


def limits_of(tree: exp.Select, params: Params) -> tuple[Expr | None, Expr | None]:
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    found: list[Expr | None] = []
    for node in (limit, offset):
        if node is None:
            found.append(None)
            continue
        if isinstance(node, exp.Fetch):
            options = node.args.get("limit_options")
            if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
                raise NotOwn("FETCH with PERCENT or TIES")
            value = node.args.get("count") or exp.Literal.number(1)
        else:
            if node.args.get("offset") or node.args.get("expressions"):
                raise SqlError("42601", "LIMIT #,# syntax is not supported", hint="Use LIMIT and OFFSET.")
            value = node.expression
        if isinstance(value, exp.Var) and str(value.this).upper() == "ALL":
            found.append(None)
            continue
        bound = bind_own(value, Scope(clause="LIMIT"), params, BIGINT)
        found.append(coerce(bound, BIGINT, "assignment", params))
    return found[0], found[1]
