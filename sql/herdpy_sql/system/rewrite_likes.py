"""LIKE and its relatives in queries over the catalog.

DuckDB's LIKE knows no escape character unless one is named, and has no LIKE ANY and LIKE ALL.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from herdpy_sql.system.rewrite_lists import each
from herdpy_sql.system.rewriter import Rewriter, handles

_EACH = "list_transform(:2, lambda s_one: {test}(:1, s_one, '\\'))"
_EVERY = (
    "CASE WHEN :1 IS NULL THEN NULL WHEN list_contains(:1, {settles}) THEN {settles} "
    "WHEN list_count(:1) < len(:1) THEN NULL ELSE NOT {settles} END"
)


@handles(exp.Like, exp.ILike)
def like(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    """A comparison with one pattern, or with each of several."""
    pattern = node.expression
    if isinstance(pattern, exp.Any | exp.All):
        return _each(rewriter, node, pattern)
    if isinstance(node.parent, exp.Escape):
        return None
    return exp.Escape(this=node.copy(), expression=exp.Literal.string("\\"))


def _each(rewriter: Rewriter, node: Any, patterns: Any) -> exp.Expression:
    """True as soon as one decides it, else NULL as soon as one is NULL: as PostgreSQL's ANY and ALL."""
    several = patterns.this
    while isinstance(several, exp.Paren | exp.Subquery):
        several = several.this
    if isinstance(several, exp.Query):
        several = exp.Array(expressions=[several.copy()])
    name = ("not_" if node.args.get("negate") else "") + ("ilike" if isinstance(node, exp.ILike) else "like")
    tests = rewriter.template(_EACH.format(test=f"{name}_escape"), node.this, several)
    return rewriter.template(_EVERY.format(settles=str(isinstance(patterns, exp.Any)).lower()), tests)


@handles(exp.All)
def _all(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    return each(rewriter, node) if isinstance(node.parent, exp.Like | exp.ILike) else None


@handles(exp.ByteString)
def _escapes(rewriter: Rewriter, node: Any) -> exp.Expression:
    """E'...': the text that it means was read already; DuckDB would read it again."""
    return exp.Literal.string(str(node.this))
