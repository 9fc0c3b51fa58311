"""Binding of conditional expressions: CASE, COALESCE, GREATEST, LEAST and NULLIF, part of the binder.

Each function takes the binder and a node of the syntax tree, brings the branches to one type, and gives a
typed tree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.coerce import coerce, unify
from herdpy_sql.expr.fold import folded
from herdpy_sql.expr.operate import compare, compared_type
from herdpy_sql.types import UNKNOWN, Base

if TYPE_CHECKING:
    from herdpy_sql.expr.bind import Binder


def case(binder: Binder, node: exp.Case) -> n.Expr:
    """CASE with an operand or with conditions; SqlError 42804 when the branches have no common type."""
    operand: n.Expr | None = None
    whens: list[n.Expr] = []
    branches = node.args["ifs"]
    if node.this is not None:
        operand = binder.typed(node.this)
        place = n.CaseOperand(operand.type)
        whens = [compare("=", place, binder.bind(branch.this), binder.params) for branch in branches]
    else:
        whens = [binder.condition(branch.this, "CASE/WHEN") for branch in branches]
    default = node.args.get("default")
    results = [n.Const(UNKNOWN, None) if default is None else binder.bind(default)]
    results += [binder.bind(branch.args["true"]) for branch in branches]
    found, (last, *thens) = unify(results, binder.params, "CASE")
    return _settled_case(n.Case(found, operand, tuple(zip(whens, thens, strict=True)), last))


def coalesce(binder: Binder, node: exp.Coalesce) -> n.Expr:
    """COALESCE."""
    found, args = unify(
        [binder.bind(arg) for arg in (node.this, *node.expressions)], binder.params, "COALESCE"
    )
    return args[0] if len(args) == 1 else folded(n.Coalesce(found, args))


def extreme(binder: Binder, node: exp.Expression) -> n.Expr:
    """GREATEST and LEAST."""
    greatest = isinstance(node, exp.Greatest)
    name = "GREATEST" if greatest else "LEAST"
    found, args = unify([binder.bind(arg) for arg in (node.this, *node.expressions)], binder.params, name)
    if found.base is Base.JSON:
        raise SqlError("42883", f"could not identify a comparison function for type {found}")
    return folded(n.Extreme(found, args, greatest))


def nullif(binder: Binder, node: exp.Nullif) -> n.Expr:
    """NULLIF."""
    left, right = binder.bind(node.this), binder.bind(node.expression)
    if left.type.base is Base.UNKNOWN:
        left = coerce(
            left, t.TEXT if right.type.base is Base.UNKNOWN else right.type, "implicit", binder.params
        )
    left = coerce(left, compared_type(left, right), "implicit", binder.params)
    if isinstance(right, n.Const) and right.value is None:
        return left
    comparison = compare("=", n.CaseOperand(left.type), right, binder.params)
    assert isinstance(comparison, n.Comparison)
    return folded(n.NullIf(left.type, left, comparison))


def _settled_case(case: n.Case) -> n.Expr:
    """Without the conditions that are constant; what is left of it may be its default alone."""
    if case.operand is not None:
        return case
    kept: list[tuple[n.Expr, n.Expr]] = []
    default = case.default
    for when, then in case.whens:
        if isinstance(when, n.Const):
            if when.value is True:
                default = then
                break
            continue
        kept.append((when, then))
    return replace(case, whens=tuple(kept), default=default) if kept else default
