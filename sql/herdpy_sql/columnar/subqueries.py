"""DuckDB's text of queries inside expressions, and of ANY and ALL of arrays.

``expr`` binds them to ``Subquery`` and ``Quantified``; an ``InnerQuery`` there holds the bound query. DuckDB
has IN, ANY and ALL for most conditions; of others all rows are tested, and the tests brought together with
SQL's three values. Above ``emit``, whose fold this extends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.bind.nodes import BoundInnerQuery
from herdpy_sql.columnar.emit import EMITTERS, Emitter, comparison_texts, gathered
from herdpy_sql.duck import Typed, elements, let, typed
from herdpy_sql.expr import nodes as n
from herdpy_sql.types import BOOLEAN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy_sql.columnar.emission import EmittedQuery


def _subquery(emitter: Emitter, expr: n.Subquery) -> Typed:
    inner = expr.query
    assert isinstance(inner, BoundInnerQuery)
    emitter.seen.append(inner.syntax)
    bound = emitter.emission.query(inner.query)
    if expr.kind == "exists":
        return Typed(f"EXISTS ({bound.sql})", BOOLEAN)
    if expr.kind == "array":
        return _listed(emitter, bound)
    if expr.test is not None:
        return _tested(emitter, expr, expr.test, bound)
    column = bound.columns[0]
    return Typed(f"({bound.sql})", column.type, column.dec, array=column.array)


def _listed(emitter: Emitter, bound: EmittedQuery) -> Typed:
    """ARRAY(SELECT ...): its rows in their order."""
    column, alias = bound.columns[0], emitter.emission.alias()
    listed = f"(SELECT coalesce(list({alias}.c0), []) FROM ({bound.sql}) AS {alias}({bound.names()}))"
    if column.array:
        return gathered(emitter.emission, replace(column, sql=listed, array=column.array + 1))
    return Typed(listed, column.type, column.dec, array=1)


def _tested(emitter: Emitter, expr: n.Subquery, test: n.Expr, bound: EmittedQuery) -> Typed:
    alias = emitter.emission.alias()
    rows = f"({bound.sql}) AS {alias}({bound.names()})"
    emitter.rows.append([_inside(alias, i, column) for i, column in enumerate(bound.columns)])
    pairs = _pairs(test, expr.kind)
    if pairs:
        made = _native(emitter, pairs, expr.kind == "all", rows)
    else:
        found = emitter.emit(test)
        whole = found.sql if expr.kind == "row" else _all_tests(found.sql, every=expr.kind == "all")
        made = typed(f"(SELECT {whole} FROM {rows})", BOOLEAN, found)
    emitter.rows.pop()
    return made


def _inside(alias: str, place: int, column: Typed) -> Typed:
    """A column of a query as those around it have it."""
    return Typed(f"{alias}.c{place}", column.type, column.dec, array=column.array)


def _pairs(test: n.Expr, kind: str) -> Sequence[n.Comparison]:
    """The comparisons of which DuckDB has the condition; none where it has not."""
    if kind == "row":
        return ()
    if isinstance(test, n.Comparison):
        return [test]
    if isinstance(test, n.Or if kind == "all" else n.And):
        pairs = [one for one in test.args if isinstance(one, n.Comparison)]
        symbol = "<>" if kind == "all" else "="
        return pairs if all(one.op == symbol for one in pairs) and len(pairs) == len(test.args) else ()
    return ()


def _native(emitter: Emitter, pairs: Sequence[n.Comparison], every: bool, rows: str) -> Typed:
    """IN, NOT IN, ANY or ALL of the rows."""
    sides, keys, lefts = [], [], []
    for one in pairs:
        a, b = emitter.emit(one.left), emitter.emit(one.right)
        left, right = comparison_texts(emitter.emission, one.left, a, one.right, b)
        sides.append(left)
        keys.append(right)
        lefts.append(a)
    side = sides[0] if len(sides) == 1 else f"({', '.join(sides)})"
    text = _among(side, pairs[0].op, every, f"(SELECT {', '.join(keys)} FROM {rows})")
    return typed(text, BOOLEAN, *lefts)


def _among(side: str, op: str, every: bool, rows: str) -> str:
    if op == "=" and not every:
        return f"({side} IN {rows})"
    if op == "<>" and every:
        return f"({side} NOT IN {rows})"
    return f"({side} {op} {'ALL' if every else 'ANY'} {rows})"


def _all_tests(test: str, *, every: bool) -> str:
    """bool_or or bool_and with SQL's three values: an unknown test leaves the rest unknown."""
    function, decided, rest = ("bool_and", "false", "true") if every else ("bool_or", "true", "false")
    found = f"coalesce({function}({test}), {rest})"
    unknown = f"WHEN count(*) > count({test}) THEN NULL"
    return f"CASE WHEN {found} = {decided} THEN {decided} {unknown} ELSE {rest} END"


def _query_column(emitter: Emitter, expr: n.QueryColumn) -> Typed:
    return emitter.rows[-1][expr.place]


# ---------------------------------------------------------------------------- arrays


def _quantified(emitter: Emitter, expr: n.Quantified) -> Typed:
    """A value with ANY or ALL of an array's elements; of an empty array even NULL has an answer."""
    x, array = emitter.emit(expr.arg), emitter.emit(expr.array)
    if x.volatile:
        return _computed_once(emitter, expr, x, array)
    alias = emitter.emission.alias()
    rows = f"(SELECT unnest({elements(array)}) AS c0) AS {alias}"
    element = _element_of(array, f"{alias}.c0")
    if isinstance(expr.test, n.Comparison):
        a, b = _sides(emitter, expr, x, element)
        text = _among(a, expr.test.op, expr.every, f"(SELECT {b} FROM {rows})")
    else:
        text = f"(SELECT {_all_tests(_test(emitter, expr, x, element).sql, every=expr.every)} FROM {rows})"
    return typed(f"(CASE WHEN {array.sql} IS NULL THEN NULL ELSE {text} END)", BOOLEAN, x, array)


def _element_of(array: Typed, sql: str) -> Typed:
    return Typed(sql, array.type, array.dec)


def _sides(emitter: Emitter, expr: n.Quantified, x: Typed, element: Typed) -> tuple[str, str]:
    """Both sides of the comparison with one element."""
    assert isinstance(expr.test, n.Comparison)
    emitter.elements.append(element)
    b = emitter.emit(expr.test.right)
    emitter.elements.pop()
    return comparison_texts(emitter.emission, expr.arg, x, expr.test.right, b)


def _test(emitter: Emitter, expr: n.Quantified, x: Typed, element: Typed) -> Typed:
    emitter.elements.append(element)
    emitter.operands.append(x)
    found = emitter.emit(expr.test)
    emitter.elements.pop()
    emitter.operands.pop()
    return found


def _computed_once(emitter: Emitter, expr: n.Quantified, x: Typed, array: Typed) -> Typed:
    """The same of a value that is another one each time: it is computed once for all elements."""
    test = _test(emitter, expr, replace(x, sql="v.operand"), _element_of(array, "e")).sql
    function, decided = ("list_bool_and", "false") if expr.every else ("list_bool_or", "true")
    tests = let({"operand": x.sql, "all": elements(array)}, f"list_transform(v.all, lambda e: {test})")
    sql = (
        f"CASE WHEN v.tests IS NULL THEN NULL WHEN {function}(v.tests) = {decided} THEN {decided}"
        f" WHEN list_count(v.tests) < len(v.tests) THEN NULL ELSE NOT {decided} END"
    )
    return typed(let({"tests": tests}, sql), BOOLEAN, x, array)


def _element(emitter: Emitter, expr: n.Element) -> Typed:
    return emitter.elements[-1]


EMITTERS.update(
    {n.Subquery: _subquery, n.QueryColumn: _query_column, n.Quantified: _quantified, n.Element: _element}
)
