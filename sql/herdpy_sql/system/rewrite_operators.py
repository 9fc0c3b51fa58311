"""Names and operators in queries over the catalog."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from herdpy_sql.errors import SqlError
from herdpy_sql.system import casts
from herdpy_sql.system.rewrite_calls import call
from herdpy_sql.system.rewrite_columns import system_column
from herdpy_sql.system.rewrite_likes import like
from herdpy_sql.system.rewrite_lists import list_of
from herdpy_sql.system.rewriter import VECTORS, Rewriter, function_name, handles
from herdpy_sql.system_relations import CATALOG, INFORMATION, column_types

_OPERATORS: dict[str, tuple[type[exp.Expression], bool]] = {
    "~": (exp.RegexpLike, False),
    "~*": (exp.RegexpILike, False),
    "!~": (exp.RegexpLike, True),
    "!~*": (exp.RegexpILike, True),
    "~~": (exp.Like, False),
    "~~*": (exp.ILike, False),
    "!~~": (exp.Like, True),
    "!~~*": (exp.ILike, True),
    "=": (exp.EQ, False),
    "<>": (exp.NEQ, False),
    "<": (exp.LT, False),
    "<=": (exp.LTE, False),
    ">": (exp.GT, False),
    ">=": (exp.GTE, False),
    "||": (exp.DPipe, False),
    "+": (exp.Add, False),
    "-": (exp.Sub, False),
}


@handles(exp.Dot)
def _dot(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    if node.find_ancestor(exp.DataType) is not None:
        return None  # a type's name, which the cast sees to
    if isinstance(node.this, exp.Identifier):
        if node.this.name.lower() not in (CATALOG, INFORMATION):
            raise SqlError("3F000", f'schema "{node.this.name}" does not exist')
        return node.expression  # type: ignore[no-any-return]
    return None


@handles(exp.Column)
def _column(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    if function_name(node) is not None:
        return call(rewriter, node)
    if node.args.get("db"):
        node.set("db", None)
    own = system_column(rewriter, node)
    if own is not None:
        return own
    if node.name in VECTORS and _is_output(node):
        return rewriter.template("array_to_string(:1, ' ')", node)
    return None


def _is_output(node: exp.Expression) -> bool:
    parent = node.parent
    if isinstance(parent, exp.Cast):
        return casts.target_name(parent.args["to"]) in (None, "name", "text") and not parent.args[
            "to"
        ].args.get("nested")
    while isinstance(parent, exp.Alias):
        parent = parent.parent
    return isinstance(parent, exp.Select) and parent.parent_select is None


@handles(exp.Collate)
def _collate(rewriter: Rewriter, node: Any) -> exp.Expression:
    return node.this  # type: ignore[no-any-return]


@handles(exp.Operator)
def _operator(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    symbol = str(node.args["operator"]).rpartition("pg_catalog.")[2].strip()
    found = _OPERATORS.get(symbol)
    if found is None:
        raise SqlError("42883", f"operator does not exist: {symbol}")
    cls, negated = found
    new = cls(this=node.this, expression=node.expression)
    if isinstance(new, exp.Like | exp.ILike):
        new.set("negate", negated)
        return like(rewriter, new)
    return exp.Not(this=exp.Paren(this=new)) if negated else new


@handles(exp.Bracket)
def _bracket(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    """Vectors count from 0. sqlglot adds 1 to a literal index for DuckDB unless it is told not to."""
    inner = node.this
    node.set("offset", 1)
    if not isinstance(inner, exp.Column) or inner.name.lower() not in rewriter.vectors:
        return None
    index = node.expressions[0]
    return rewriter.template("list_extract(:1, (:2) + 1)", inner, index)


@handles(exp.EQ, exp.NEQ)
def _equality(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    every = node.expression
    if isinstance(every, exp.Anonymous) and str(every.this).lower() == "all":
        test = "NOT list_contains(:1, :2)" if isinstance(node, exp.NEQ) else "list_has_all([:2], :1)"
        return rewriter.template(test, every.expressions[0], node.this)
    for side, other in (("this", node.expression), ("expression", node.this)):
        elements = casts.array_literal(node.args[side])
        if elements is not None and isinstance(other, exp.Column):
            type_ = column_types().get(other.name, "text")
            if type_.endswith("[]"):
                node.set(side, list_of(elements, number=type_ in ("oid[]", "int2[]")))
    return None


@handles(exp.Coalesce)
def _coalesce(rewriter: Rewriter, node: Any) -> exp.Expression | None:
    for other in node.expressions:
        if casts.array_literal(other) == [] and not casts.is_text(node.this):
            other.replace(exp.Array(expressions=[]))
    return None
