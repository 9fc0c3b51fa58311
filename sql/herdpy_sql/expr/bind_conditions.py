"""Binding of conditions: AND, OR, NOT, IS, comparisons, IN, BETWEEN and LIKE, part of the binder.

Each function takes the binder and a node of the syntax tree, and gives a typed BOOLEAN tree. Long runs of
AND and OR are flattened, so that they cost no depth.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import nodes as n
from herdpy_sql.expr.bind_arrays import member, quantified, quantifier
from herdpy_sql.expr.coerce import coerce
from herdpy_sql.expr.fold import folded
from herdpy_sql.expr.nodes import NotOwn
from herdpy_sql.expr.operate import compare, distinct, no_operator
from herdpy_sql.types import BOOLEAN, Base

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.expr.bind import Binder


def conjunction(binder: Binder, node: exp.Expression) -> n.Expr:
    """AND, a whole run of it at once."""
    return folded(n.And(BOOLEAN, tuple(binder.condition(part, "AND") for part in _flat(node, exp.And))))


def disjunction(binder: Binder, node: exp.Expression) -> n.Expr:
    """OR, a whole run of it at once."""
    return folded(n.Or(BOOLEAN, tuple(binder.condition(part, "OR") for part in _flat(node, exp.Or))))


def negation(binder: Binder, node: exp.Not) -> n.Expr:
    """NOT."""
    return negated(binder.condition(node.this, "NOT"))


def is_(binder: Binder, node: exp.Is) -> n.Expr:
    """IS [NOT] NULL, TRUE or FALSE."""
    negate = bool(node.args.get("negate"))
    what = node.expression
    if isinstance(node.this, exp.Tuple):
        raise NotOwn("row IS NULL")
    if isinstance(what, exp.Null):
        return folded(n.IsNull(BOOLEAN, binder.typed(node.this), negate))
    if isinstance(what, exp.Boolean):
        name = f"IS {'NOT ' if negate else ''}{'TRUE' if what.this else 'FALSE'}"
        return folded(n.IsTruth(BOOLEAN, binder.condition(node.this, name), bool(what.this), negate))
    raise NotOwn("IS")


def comparison(binder: Binder, node: exp.Expression, op: str) -> n.Expr:
    """``op`` of two values, of two rows (``=`` and ``<>``), or of a value with ANY of an array."""
    left, right = bare(node.this), quantifier(bare(node.expression))
    if isinstance(right, exp.Any | exp.All):
        return quantified(binder, left, op, right)
    if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
        return _rows(binder, op, left, right)
    return compare(op, binder.bind(left), binder.bind(right), binder.params)


def _rows(binder: Binder, op: str, left: exp.Tuple, right: exp.Tuple) -> n.Expr:
    if len(left.expressions) != len(right.expressions):
        raise SqlError("42601", "unequal number of entries in row expressions")
    pairs = [
        (binder.bind(a), binder.bind(b)) for a, b in zip(left.expressions, right.expressions, strict=True)
    ]
    if op not in {"=", "<>"}:
        return _ordered_rows(binder, op, pairs)
    parts = tuple(compare(op, a, b, binder.params) for a, b in pairs)
    if len(parts) == 1:
        return parts[0]
    return folded(n.And(BOOLEAN, parts) if op == "=" else n.Or(BOOLEAN, parts))


def _ordered_rows(binder: Binder, op: str, pairs: Sequence[tuple[n.Expr, n.Expr]]) -> n.Expr:
    """``(a, b) < (x, y)`` as ``a < x OR (a = x AND b < y)``: the first that differ decide, NULLs too."""
    *before, (a, b) = pairs
    found = compare(op, a, b, binder.params)
    for a, b in reversed(before):
        less, same = compare(op[0], a, b, binder.params), compare("=", a, b, binder.params)
        found = folded(n.Or(BOOLEAN, (less, folded(n.And(BOOLEAN, (same, found))))))
    return found


def is_distinct(binder: Binder, node: exp.Expression) -> n.Expr:
    """IS [NOT] DISTINCT FROM."""
    same = isinstance(node, exp.NullSafeEQ)
    return distinct(binder.bind(node.this), binder.bind(node.expression), same, binder.params)


def in_(binder: Binder, node: exp.In) -> n.Expr:
    """IN of a list, of values or of rows."""
    if node.args.get("query") is not None or node.args.get("unnest") is not None:
        raise NotOwn("subquery")
    if node.args.get("field") is not None:
        raise NotOwn("IN")
    left = bare(node.this)
    if isinstance(left, exp.Tuple):
        rows = [bare(row) for row in node.expressions]
        if not all(isinstance(row, exp.Tuple) for row in rows):
            raise NotOwn("row IN")
        parts = tuple(_rows(binder, "=", left, row) for row in rows)  # type: ignore[arg-type]
        return parts[0] if len(parts) == 1 else folded(n.Or(BOOLEAN, parts))
    return member(binder, binder.bind(left), [binder.bind(item) for item in node.expressions])


def between(binder: Binder, node: exp.Between) -> n.Expr:
    """BETWEEN; one node where both comparisons are over the same value."""
    if node.args.get("symmetric"):
        raise NotOwn("BETWEEN SYMMETRIC")
    arg = binder.bind(node.this)
    low, high = binder.bind(node.args["low"]), binder.bind(node.args["high"])
    first, second = compare(">=", arg, low, binder.params), compare("<=", arg, high, binder.params)
    if isinstance(first, n.Comparison) and isinstance(second, n.Comparison) and first.left == second.left:
        return n.Between(BOOLEAN, first.left, first.right, second.right)
    return folded(n.And(BOOLEAN, (first, second)))


def like(binder: Binder, node: exp.Expression) -> n.Expr:
    """LIKE and ILIKE."""
    return _like(binder, node, n.Const(t.TEXT, "\\"))


def escape(binder: Binder, node: exp.Escape) -> n.Expr:
    """LIKE and ILIKE with ESCAPE."""
    if not isinstance(node.this, exp.Like | exp.ILike):
        raise NotOwn("ESCAPE")
    mark = coerce(binder.bind(node.expression), t.TEXT, "implicit", binder.params)
    return _like(binder, node.this, mark)


def _like(binder: Binder, node: exp.Expression, escape: n.Expr) -> n.Expr:
    if isinstance(node.expression, exp.Any | exp.All | exp.Tuple | exp.Array):
        raise NotOwn("LIKE ANY")
    arg, pattern = binder.bind(node.this), binder.bind(node.expression)
    insensitive = isinstance(node, exp.ILike)
    for one in (arg, pattern):
        if one.type.base is Base.BYTEA:
            raise NotOwn("LIKE on bytea")
    arg, pattern = (
        _like_side(binder, arg, pattern, insensitive),
        _like_side(binder, pattern, arg, insensitive),
    )
    negate = bool(node.args.get("negate"))
    return folded(n.Like(BOOLEAN, arg, pattern, escape, insensitive, negate))


def _like_side(binder: Binder, side: n.Expr, other: n.Expr, insensitive: bool) -> n.Expr:
    base = side.type.base
    if base is Base.CHAR and side.type.length is not None:
        # LIKE, unlike comparison, sees the blanks that CHAR(n) is padded with.
        width = side.type.length
        return n.Call(t.TEXT, n.Function("pad", lambda text: text.ljust(width)), (side,))
    if base not in {Base.TEXT, Base.VARCHAR, Base.CHAR, Base.UNKNOWN}:
        symbol = "~~*" if insensitive else "~~"
        raise no_operator(symbol, [side.type, other.type])
    return coerce(side, t.TEXT, "implicit", binder.params)


def negated(condition: n.Expr) -> n.Expr:
    """NOT of a condition, taken into the nodes that have a negated form."""
    if isinstance(condition, n.In | n.Like | n.IsNull | n.IsTruth | n.Distinct):
        return replace(condition, negated=not condition.negated)
    return folded(n.Not(BOOLEAN, condition))


def _flat(node: exp.Expression, kind: type) -> list[exp.Expression]:
    parts: list[exp.Expression] = []
    stack = [node]
    while stack:
        one = bare(stack.pop())
        if isinstance(one, kind):
            stack.append(one.expression)
            stack.append(one.this)
        else:
            parts.append(one)
    return parts


def bare(node: exp.Expression) -> exp.Expression:
    """``node`` out of its parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node
