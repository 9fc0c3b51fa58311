"""Whether PostgreSQL lets a cursor go back that was declared without SCROLL, as far as its text tells.

PostgreSQL asks its plan: what reads one relation goes both ways, and so does what was sorted last; what
joins, groups or puts queries together does not. What pg_cursors says follows it; here a cursor goes back
as far as its rows are kept.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

_FORWARD = (exp.AggFunc, exp.Window)


def goes_back(tree: Any) -> bool:
    """Whether a cursor of this query can go back."""
    if not isinstance(tree, exp.Select):
        return isinstance(tree, exp.Query) and tree.args.get("order") is not None
    if any(_makes_rows(one) for one in tree.expressions):
        return False
    if tree.args.get("order") is not None:
        return True
    if any(tree.args.get(key) for key in ("group", "distinct", "having", "joins", "laterals")):
        return False
    source = tree.args.get("from_")
    if source is None or any(one.find(*_FORWARD) is not None for one in tree.expressions):
        return False
    return goes_back(source.this.this) if isinstance(source.this, exp.Subquery) else True


def _makes_rows(node: exp.Expression) -> bool:
    return node.find(exp.ExplodingGenerateSeries, exp.GenerateSeries, exp.Unnest, exp.Explode) is not None
