"""Conditions that only the columnar engine has: EXISTS, ANY, ALL and IN of a query, OVERLAPS.

Each handler takes a node of the syntax tree and the scope it stands in, and gives typed DuckDB text.
Subqueries in expressions are bound here, scalar ones too. Other conditions become typed trees (``trees``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import casts, emit
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.emit import comparable, gathered, row_compare, unify
from herdpy_sql.columnar.routines import types_of
from herdpy_sql.duck import TEXTUAL, TIMES, Typed, elements, let, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.conditions import COMPARISONS
from herdpy_sql.expr.resolve import no_operator
from herdpy_sql.expr.syntax import bare, is_row, quantifier
from herdpy_sql.types import BOOLEAN, TEXT, Base, array_of
from herdpy_sql.values.form import quote

if TYPE_CHECKING:
    from herdpy_sql.columnar.scope import BoundQuery, Scope


@handles(exp.Subquery, exp.Select, exp.Union, exp.Except, exp.Intersect)
def _scalar(binder: Binder, node: Any, scope: Scope) -> Typed:
    bound = binder.query(node, scope)
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
    bound = binder.query(query, scope)
    return Typed(f"EXISTS ({bound.sql})", BOOLEAN, vars=bound.vars)


def _any_of(function: str, test: str) -> str:
    """bool_or or bool_and with SQL's three values: an unknown test leaves the rest unknown."""
    decided, rest = ("true", "false") if function == "bool_or" else ("false", "true")
    found = f"coalesce({function}({test}), {rest})"
    unknown = f"WHEN count(*) > count({test}) THEN NULL"
    return f"CASE WHEN {found} = {decided} THEN {decided} {unknown} ELSE {rest} END"


def in_query(binder: Binder, node: Any, scope: Scope) -> Typed:
    """``left IN (subquery)``."""
    query = node.args.get("query")
    return _quantified(binder, node.this, "=", query or node.expressions[0], scope, "ANY")


def compared_row(binder: Binder, left: Any, symbol: str, query: Any, scope: Scope) -> Typed:
    """``(a, b) symbol (subquery)``: compared with its one row; NULL where it has none."""
    bound = binder.query(query, scope)
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


def _same_width(bound: BoundQuery, lefts: list[Typed]) -> None:
    if len(bound.columns) != len(lefts):
        many = "too many" if len(bound.columns) > len(lefts) else "too few"
        raise SqlError("42601", f"subquery has {many} columns")


def quantified(binder: Binder, left: Any, symbol: str, right: Any, scope: Scope) -> Typed:
    """``left symbol ANY|ALL (subquery or array)``."""
    word = "ANY" if isinstance(right, exp.Any) else "ALL"
    inner = bare(right.this)
    if isinstance(inner, (exp.Query, exp.Subquery)):
        return _quantified(binder, left, symbol, inner, scope, word)
    x = binder.bind(left, scope)
    array = _operand(binder, inner, x, scope)
    if x.volatile:
        return _listed(binder, x, symbol, array, word)
    return _elements(binder, x, symbol, array, word)


def _operand(binder: Binder, node: Any, other: Typed, scope: Scope) -> Typed:
    """What ANY or ALL is over: an array, of the type of ``other`` where nothing else says it."""
    x = binder.bind(node, scope)
    if x.unknown:
        x = emit.coerce(binder, x, array_of(other.type if other.base is not Base.UNKNOWN else TEXT))
    x = casts.listed(binder, x)
    if not x.array:
        raise SqlError("42809", "op ANY/ALL (array) requires array on right side")
    return x


def like_rows(binder: Binder, node: Any, scope: Scope) -> Typed:
    """LIKE ANY or ALL of the patterns that a query or an array gives."""
    patterns = bare(node.expression.this)
    a = binder.bind(node.this, scope)
    alias = binder.alias()
    if isinstance(patterns, exp.Query):
        bound = binder.query(patterns, scope)
        given, rows, variables = bound.columns[0], f"({bound.sql}) AS {alias}({bound.names()})", bound.vars
    else:
        array = _operand(binder, patterns, a, scope)
        given, variables = replace(array, array=0), array.vars
        rows = f"(SELECT unnest({array.sql})) AS {alias}(c0)"
    if a.base not in TEXTUAL or given.array or given.base not in TEXTUAL:
        raise no_operator("~~*" if isinstance(node, exp.ILike) else "~~", types_of(a, given))
    left, right = (casts.as_text(binder, one).sql for one in (a, replace(given, sql=f"{alias}.c0")))
    if isinstance(node, exp.ILike):
        left, right = f"pg_lower({left})", f"pg_lower({right})"
    negated, every = bool(node.args.get("negate")), isinstance(node.expression, exp.All)
    test = f"({left} LIKE {right} ESCAPE {quote(chr(92))})"
    found = f"(NOT {test})" if negated is not every else test  # what decides the whole where it is true
    decided, rest = ("false", "true") if every else ("true", "false")
    whole = (
        f"(SELECT CASE WHEN bool_or({found}) THEN {decided} WHEN bool_or({found} IS NULL) THEN NULL"
        f" ELSE {rest} END FROM {rows})"
    )
    return replace(typed(whole, BOOLEAN, a), vars=a.vars | variables)


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
    bound = binder.query(query, scope)
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


def comparison(binder: Binder, node: Any, scope: Scope) -> Typed:
    """A comparison with ANY or ALL, or of a row with a subquery's."""
    symbol, right = COMPARISONS[type(node)], quantifier(node.expression)
    if isinstance(right, (exp.Any, exp.All)):
        return quantified(binder, node.this, symbol, right, scope)
    return compared_row(binder, node.this, symbol, right, scope)


@handles(exp.Overlaps)
def _overlaps(binder: Binder, node: Any, scope: Scope) -> Typed:
    ends = []
    for side, word in ((node.this, "left"), (node.expression, "right")):
        if not is_row(side) or len(side.expressions) != 2:
            raise SqlError("42601", f"wrong number of parameters on {word} side of OVERLAPS expression")
        ends += _period(binder, side, scope)
    a, b, c, d = (x.sql for x in unify(binder, ends, "OVERLAPS"))
    return typed(_condition(a, b, c, d), BOOLEAN, *ends)


def _period(binder: Binder, side: Any, scope: Scope) -> list[Typed]:
    """Start and end of one side."""
    start, end = side.expressions
    last = binder.bind(end, scope)
    if last.base is Base.INTERVAL:
        last = binder.bind(exp.Add(this=start.copy(), expression=end.copy()), scope)
    first = binder.bind(start, scope)
    if {first.base, last.base} - {*TIMES, Base.UNKNOWN}:
        raise SqlError("42883", "function pg_catalog.overlaps of these types does not exist")
    return [first, last]


def _condition(a: str, b: str, c: str, d: str) -> str:
    s1, t1 = _ordered(a, b)
    s2, t2 = _ordered(c, d)
    return (
        f"(({s1} > {s2} AND NOT ({s1} >= {t2} AND {t1} >= {t2}))"
        f" OR ({s2} > {s1} AND NOT ({s2} >= {t1} AND {t2} >= {t1}))"
        f" OR ({s1} = {s2} AND ({t1} <> {t2} OR {t1} = {t2})))"
    )


def _ordered(a: str, b: str) -> tuple[str, str]:
    """A period's start, which is known unless both ends are not, and its end."""
    swap = f"({a} IS NULL OR {a} > {b})"
    return f"(CASE WHEN {swap} THEN {b} ELSE {a} END)", f"(CASE WHEN {swap} THEN {a} ELSE {b} END)"


def array_of_query(binder: Binder, node: Any, scope: Scope) -> Typed:
    """ARRAY(SELECT ...): its rows in their order."""
    bound = binder.query(node.expressions[0], scope)
    if len(bound.columns) != 1:
        raise SqlError("42601", "subquery must return only one column")
    column = bound.columns[0]
    alias = binder.alias()
    listed = f"(SELECT coalesce(list({alias}.c0), []) FROM ({bound.sql}) AS {alias}({bound.names()}))"
    if column.array:
        rows = replace(column, sql=listed, array=column.array + 1)
        return gathered(binder, rows)
    return Typed(listed, column.type, column.dec, array=1, vars=bound.vars)
