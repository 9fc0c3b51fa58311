"""Subqueries inside expressions: scalar, EXISTS, IN, ANY and ALL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import arrays, casts
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.common import common_type
from herdpy_sql.columnar.operators import comparable, compare, is_row, row_compare
from herdpy_sql.columnar.queries import Bound, bind_query
from herdpy_sql.columnar.typed import Typed, elements, let, once, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.syntax import leaves
from herdpy_sql.types import BOOLEAN

if TYPE_CHECKING:
    from herdpy_sql.columnar.scope import Scope


def _inner(binder: Binder, node: Any, scope: Scope) -> Bound:
    return bind_query(binder, node, scope)


def _outer_vars(bound: Bound, sql: str, template: Typed) -> Typed:
    return replace(template, sql=sql, vars=bound.vars, agg=False, window=False)


@handles(exp.Subquery, exp.Select, exp.Union, exp.Except, exp.Intersect)
def _scalar(binder: Binder, node: Any, scope: Scope) -> Typed:
    bound = _inner(binder, node, scope)
    if len(bound.columns) != 1:
        raise SqlError("42601", "subquery must return only one column")
    column = bound.columns[0]
    return Typed(
        f"({bound.sql})", column.type, column.dec, array=column.array, vars=bound.vars, name=column.name
    )


@handles(exp.Exists)
def _exists(binder: Binder, node: Any, scope: Scope) -> Typed:
    query = node.this
    if isinstance(query, exp.Select) and not query.expressions:  # SELECT FROM ...: rows of no columns
        query = query.copy()
        query.set("expressions", [exp.Literal.number(1)])
    bound = _inner(binder, query, scope)
    return Typed(f"EXISTS ({bound.sql})", BOOLEAN, vars=bound.vars, name="exists")


def _any_of(function: str, test: str) -> str:
    """bool_or or bool_and with SQL's three values: an unknown test leaves the rest unknown."""
    decided, rest = ("true", "false") if function == "bool_or" else ("false", "true")
    found = f"coalesce({function}({test}), {rest})"
    unknown = f"WHEN count(*) > count({test}) THEN NULL"
    return f"CASE WHEN {found} = {decided} THEN {decided} {unknown} ELSE {rest} END"


@handles(exp.In)
def _in(binder: Binder, node: Any, scope: Scope) -> Typed:
    query = node.args.get("query")
    if query is not None:
        return _quantified(binder, node.this, "=", query, scope, "ANY")
    if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Values):
        return _quantified(binder, node.this, "=", node.expressions[0], scope, "ANY")
    if not node.expressions:
        raise SqlError("42601", "syntax error: IN wants a list in parentheses")
    if is_row(node.this):
        left = binder.bind_all(node.this.expressions, scope)
        parts = [
            row_compare(binder, "=", left, binder.bind_all(r.expressions, scope)) for r in node.expressions
        ]
        return typed("(" + " OR ".join(p.sql for p in parts) + ")", BOOLEAN, *parts)
    x = binder.bind(node.this, scope)
    values = binder.bind_all(node.expressions, scope)
    if x.unknown:
        x = casts.settle(binder, x, common_type([x, *values], "IN"))
    return once(x, lambda x: _in_list(binder, x, values))


def _in_list(binder: Binder, x: Typed, values: list[Typed]) -> Typed:
    pairs = [comparable(binder, "=", x, v) for v in values]
    lefts = {left for left, _ in pairs}
    if len(lefts) == 1:
        return typed(f"({lefts.pop()} IN ({', '.join(r for _, r in pairs)}))", BOOLEAN, x, *values)
    return typed("(" + " OR ".join(f"{a} = {b}" for a, b in pairs) + ")", BOOLEAN, x, *values)


def compared_row(binder: Binder, left: Any, symbol: str, query: Any, scope: Scope) -> Typed:
    """``(a, b) symbol (subquery)``: compared with its one row; NULL where it has none."""
    bound = _inner(binder, query, scope)
    lefts = binder.bind_all(left.expressions, scope)
    _same_width(bound, lefts)
    alias = binder.alias()
    inside = [_inside(alias, i, column) for i, column in enumerate(bound.columns)]
    test = row_compare(binder, symbol, lefts, inside)
    result = typed(f"(SELECT {test.sql} FROM ({bound.sql}) AS {alias}({bound.names()}))", BOOLEAN, *lefts)
    return replace(result, vars=result.vars | bound.vars)


def _inside(alias: str, place: int, column: Typed) -> Typed:
    """A column of a subquery as those around it have it."""
    return Typed(f"{alias}.c{place}", column.type, column.dec, array=column.array)


def _same_width(bound: Bound, lefts: list[Typed]) -> None:
    if len(bound.columns) != len(lefts):
        many = "too many" if len(bound.columns) > len(lefts) else "too few"
        raise SqlError("42601", f"subquery has {many} columns")


def quantified(binder: Binder, left: Any, symbol: str, right: Any, scope: Scope) -> Typed:
    """``left symbol ANY|ALL (subquery or array)``."""
    word = "ANY" if isinstance(right, exp.Any) else "ALL"
    inner = right.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, (exp.Query, exp.Subquery)):
        return _quantified(binder, left, symbol, inner, scope, word)
    x = binder.bind(left, scope)
    inner = arrays.written_out(inner)
    if isinstance(inner, exp.Array):
        values = binder.bind_all(leaves(inner), scope)
        if not values:
            return typed("false" if word == "ANY" else "true", BOOLEAN, x)
        return once(x, lambda x: _compared(binder, x, symbol, values, word))
    array = arrays.operand(binder, inner, x, scope)
    if x.volatile:
        return _listed(binder, x, symbol, array, word)
    return _elements(binder, x, symbol, array, word)


def _compared(binder: Binder, x: Typed, symbol: str, values: list[Typed], word: str) -> Typed:
    """A value with ANY or ALL of values that are written out."""
    tests = [compare(binder, symbol, x, value) for value in values]
    joined = (" OR " if word == "ANY" else " AND ").join(test.sql for test in tests)
    return typed(f"({joined})", BOOLEAN, *tests)


def _listed(binder: Binder, x: Typed, symbol: str, array: Typed, word: str) -> Typed:
    """As :func:`_elements`, of a value that is computed once for all of them."""
    a, b = comparable(binder, symbol, replace(x, sql="v.operand"), Typed("e", array.type, array.dec))
    function, decided = ("list_bool_or", "true") if word == "ANY" else ("list_bool_and", "false")
    tests = let(
        {"operand": x.sql, "all": elements(array)}, f"list_transform(v.all, lambda e: {a} {symbol} {b})"
    )
    sql = (
        f"CASE WHEN v.tests IS NULL THEN NULL WHEN {function}(v.tests) = {decided} THEN {decided}"
        f" WHEN list_count(v.tests) < len(v.tests) THEN NULL ELSE NOT {decided} END"
    )
    return typed(let({"tests": tests}, sql), BOOLEAN, x, array)


def _elements(binder: Binder, x: Typed, symbol: str, array: Typed, word: str) -> Typed:
    """A value with ANY or ALL of an array's elements; of an empty array even NULL has an answer."""
    alias = binder.alias()
    a, b = comparable(binder, symbol, x, Typed(f"{alias}.c0", array.type, array.dec))
    inner = f"(SELECT {b} FROM (SELECT unnest({elements(array)}) AS c0) AS {alias})"
    if symbol == "=" and word == "ANY":
        sql = f"({a} IN {inner})"
    elif symbol == "<>" and word == "ALL":
        sql = f"({a} NOT IN {inner})"
    else:
        sql = f"({a} {symbol} {word} {inner})"
    return typed(f"(CASE WHEN {array.sql} IS NULL THEN NULL ELSE {sql} END)", BOOLEAN, x, array)


def _quantified(binder: Binder, left: Any, symbol: str, query: Any, scope: Scope, word: str) -> Typed:
    bound = _inner(binder, query, scope)
    lefts = binder.bind_all(left.expressions if is_row(left) else [left], scope)
    _same_width(bound, lefts)
    alias = binder.alias()
    outs, keys = [], []
    for i, (x, column) in enumerate(zip(lefts, bound.columns, strict=True)):
        inside = _inside(alias, i, column)
        a, b = comparable(binder, symbol, x, inside)
        outs.append(a)
        keys.append(b)
    inner = f"(SELECT {', '.join(keys)} FROM ({bound.sql}) AS {alias}({bound.names()}))"
    side = outs[0] if len(outs) == 1 else f"({', '.join(outs)})"
    if symbol == "=" and word == "ANY":
        sql = f"({side} IN {inner})"
    elif symbol == "<>" and word == "ALL":
        sql = f"({side} NOT IN {inner})"
    elif len(outs) == 1:
        sql = f"({side} {symbol} {word} {inner})"
    else:
        insides = [_inside(alias, i, column) for i, column in enumerate(bound.columns)]
        test = row_compare(binder, symbol, lefts, insides)
        function = "bool_or" if word == "ANY" else "bool_and"
        sql = f"(SELECT {_any_of(function, test.sql)} FROM ({bound.sql}) AS {alias}({bound.names()}))"
    result = typed(sql, BOOLEAN, *lefts)
    return replace(result, vars=result.vars | bound.vars)
