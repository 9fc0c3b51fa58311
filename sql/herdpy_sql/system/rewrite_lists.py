"""What is compared with several values in queries over the catalog: those of a list, a parameter, a query."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp

from herdpy_sql.system import casts
from herdpy_sql.system.rewriter import Rewriter, handles

_LIST_PARAMETER = re.compile(r"\$p\d+ AS \w+\[\]")
"""A parameter that is an array, and so a list already."""


def list_of(elements: list[str], *, number: bool) -> exp.Expression:
    """A list of literals."""
    made = [exp.Literal.number(e) if number else exp.Literal.string(e) for e in elements]
    return exp.Array(expressions=made)


@handles(exp.Any)
def each(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    """What ANY or ALL is of: a list, or a query."""
    inner = node.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    elements = casts.array_literal(inner)
    if elements is not None:
        inner = list_of(elements, number=all(e.lstrip("-").isdigit() for e in elements))
    elif _LIST_PARAMETER.search(inner.sql("duckdb")):
        pass
    elif isinstance(inner, exp.Cast) and inner.find(exp.Parameter) and inner.args["to"].args.get("nested"):
        inner = rewriter.template("s_array(:1)", inner.this)
    elif not isinstance(inner, exp.Array) and (
        isinstance(inner, exp.Parameter | exp.Placeholder) or "$p" in inner.sql("duckdb")
    ):
        inner = rewriter.template("s_array(:1)", inner)
        compared = node.parent
        if isinstance(compared, exp.Binary):
            compared.set("this", exp.cast(compared.this.copy(), "VARCHAR"))
    if isinstance(inner, exp.Array) and len(inner.expressions) == 1:
        query = inner.expressions[0]
        if isinstance(query, exp.Query):  # ARRAY(SELECT ...): any of its rows
            inner = query
    if isinstance(inner, exp.Query):
        node.set("this", exp.Paren(this=inner) if not isinstance(inner, exp.Subquery) else inner)
        return None
    node.set("this", exp.Paren(this=inner))
    return None
