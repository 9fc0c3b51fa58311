"""Patterns that the columnar engine binds by itself: regular expressions, and LIKE of several patterns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import arrays, casts
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.emit import call
from herdpy_sql.columnar.routines import types_of
from herdpy_sql.duck import TEXTUAL, Typed, padded, typed
from herdpy_sql.expr.resolve import no_function, no_operator
from herdpy_sql.types import BOOLEAN, TEXT, Base
from herdpy_sql.values.form import quote

if TYPE_CHECKING:
    from herdpy_sql.columnar.scope import Scope


def pattern_operands(binder: Binder, node: Any, scope: Scope, symbol: str) -> tuple[Typed, Typed]:
    """Both operands of LIKE or a regular expression as text."""
    a, b = binder.bind(node.this, scope), binder.bind(node.expression, scope)
    out = []
    for x in (a, b):
        if not x.unknown and x.base not in TEXTUAL:
            raise no_operator(symbol, types_of(a, b))
        # CHAR(n) keeps its blanks in LIKE and ~, unlike in comparisons.
        out.append(padded(x) if x.base is Base.CHAR else casts.coerce(binder, x, TEXT))
    return out[0], out[1]


def like_several(binder: Binder, node: Any, scope: Scope) -> Typed:
    """LIKE ANY or ALL of several patterns; where it is negated, the opposite of what it is."""
    inner = node.expression.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    inner = arrays.written_out(inner)
    if not isinstance(inner, exp.Array) or not inner.expressions:
        return _like_rows(binder, node, inner, scope)
    tests = [
        binder.bind(type(node)(this=node.this.copy(), expression=item.copy()), scope)
        for item in inner.expressions
    ]
    word = " OR " if isinstance(node.expression, exp.Any) else " AND "
    if node.args.get("negate"):  # of each pattern
        return typed("(NOT (" + word.join(f"NOT {test.sql}" for test in tests) + "))", BOOLEAN, *tests)
    return typed("(" + word.join(test.sql for test in tests) + ")", BOOLEAN, *tests)


def _like_rows(binder: Binder, node: Any, patterns: Any, scope: Scope) -> Typed:
    """LIKE ANY or ALL of the patterns that a query or an array gives."""
    a = binder.bind(node.this, scope)
    alias = binder.alias()
    if isinstance(patterns, exp.Query):
        bound = binder.query(patterns, scope)
        given, rows, variables = bound.columns[0], f"({bound.sql}) AS {alias}({bound.names()})", bound.vars
    else:
        array = arrays.operand(binder, patterns, a, scope)
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
    return replace(typed(f"(NOT {whole})" if negated else whole, BOOLEAN, a), vars=a.vars | variables)


@handles(exp.RegexpLike, exp.RegexpILike)
def _regexp(binder: Binder, node: Any, scope: Scope) -> Typed:
    if node.args.get("flag") is not None:
        parts = binder.bind_all([node.this, node.expression, node.args["flag"]], scope)
        found = call(binder, "regexp_like", parts)
        if found is None:
            raise no_function("regexp_like", types_of(*parts))
        return found
    insensitive = isinstance(node, exp.RegexpILike)
    a, b = pattern_operands(binder, node, scope, "~*" if insensitive else "~")
    options = "'si'" if insensitive else "'s'"
    return typed(f"regexp_matches({a.sql}, {b.sql}, {options})", BOOLEAN, a, b)


@handles(exp.SimilarTo)
def _similar(binder: Binder, node: Any, scope: Scope) -> Typed:
    a, b = pattern_operands(binder, node, scope, "~")
    return typed(f"regexp_matches({a.sql}, pg_similar({b.sql}), 's')", BOOLEAN, a, b)
