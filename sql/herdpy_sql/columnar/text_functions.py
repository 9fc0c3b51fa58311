"""Text in the columnar engine: ``||``, LIKE, regular expressions.

Handlers of nodes; other functions of text are the library's. ``||`` is that of bytes, arrays and JSONB, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import arrays, casts, library
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.functions import call
from herdpy_sql.columnar.routines import types_of
from herdpy_sql.duck import TEXTUAL, Typed, padded, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.resolve import no_operator
from herdpy_sql.expr.syntax import joined_literal
from herdpy_sql.types import BOOLEAN, TEXT, UNKNOWN, Base, SqlType
from herdpy_sql.values.form import quote

if TYPE_CHECKING:
    from herdpy_sql.columnar.scope import Scope


@handles(exp.Concat)
def _concat(binder: Binder, node: Any, scope: Scope) -> Typed:
    literal = joined_literal(node)
    if literal is not None:
        return Typed("", UNKNOWN, literal=literal)
    return call(binder, "concat", binder.bind_all(node.expressions, scope))


@handles(exp.Trim)
def _trim(binder: Binder, node: Any, scope: Scope) -> Typed:
    position = str(node.args.get("position") or "BOTH").upper()
    name = {"BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}.get(position)
    if name is None:
        raise SqlError("42883", "function trim with three arguments does not exist")
    parts = [node.this] + ([node.expression] if node.args.get("expression") is not None else [])
    return call(binder, name, binder.bind_all(parts, scope))


@handles(exp.Pad)
def _pad(binder: Binder, node: Any, scope: Scope) -> Typed:
    parts = [node.this, node.expression]
    if node.args.get("fill_pattern") is not None:
        parts.append(node.args["fill_pattern"])
    return call(binder, "lpad" if node.args.get("is_left") else "rpad", binder.bind_all(parts, scope))


def concatenation(binder: Binder, a: Typed, b: Typed) -> Typed:
    """``a || b``: text, or bytes, with one side of any other type cast to text."""
    if a.array or b.array or Base.JSONB in (a.base, b.base):
        found = library.call(binder, "||", [a, b])
        if found is not None:
            return found
        if a.array and b.array:
            raise no_operator("||", types_of(a, b))
    if a.base is Base.BYTEA or b.base is Base.BYTEA:
        bytea = SqlType(Base.BYTEA)
        if not (a.unknown or b.unknown or a.base is b.base):
            raise no_operator("||", types_of(a, b))
        a, b = casts.coerce(binder, a, bytea), casts.coerce(binder, b, bytea)
        return typed(f"({a.sql} || {b.sql})", bytea, a, b)
    if not (a.unknown or b.unknown or a.base in TEXTUAL or b.base in TEXTUAL):
        raise no_operator("||", types_of(a, b))
    a, b = casts.as_text(binder, a), casts.as_text(binder, b)
    return typed(f"({a.sql} || {b.sql})", TEXT, a, b)


@handles(exp.DPipe)
def _pipe(binder: Binder, node: Any, scope: Scope) -> Typed:
    return concatenation(binder, binder.bind(node.this, scope), binder.bind(node.expression, scope))


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


@handles(exp.Like, exp.ILike)
def _like(binder: Binder, node: Any, scope: Scope) -> Typed:
    if isinstance(node.expression, (exp.Any, exp.All)):
        return _like_each(binder, node, scope)
    return _match(binder, node, scope, "\\")


def _like_each(binder: Binder, node: Any, scope: Scope) -> Typed:
    """LIKE ANY or ALL of the patterns that are written out."""
    inner = node.expression.this
    while isinstance(inner, exp.Paren):
        inner = inner.this
    inner = arrays.written_out(inner)
    if not isinstance(inner, exp.Array) or not inner.expressions:
        return _like_rows(binder, node, inner, scope)
    tests = [
        _match(binder, type(node)(this=node.this.copy(), expression=item.copy()), scope, "\\")
        for item in inner.expressions
    ]
    word = " OR " if isinstance(node.expression, exp.Any) else " AND "
    if node.args.get("negate"):  # of each pattern; the whole is negated where this comes back to
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
    # The whole is negated where this comes back to.
    return replace(typed(f"(NOT {whole})" if negated else whole, BOOLEAN, a), vars=a.vars | variables)


def _match(binder: Binder, node: Any, scope: Scope, escape: str) -> Typed:
    insensitive = isinstance(node, exp.ILike)
    a, b = pattern_operands(binder, node, scope, "~~*" if insensitive else "~~")
    left, right = (f"pg_lower({a.sql})", f"pg_lower({b.sql})") if insensitive else (a.sql, b.sql)
    pattern = node.expression
    if isinstance(pattern, exp.Literal) and escape not in str(pattern.this):
        # What DuckDB knows to be a prefix or a part is looked for faster.
        return typed(f"({left} LIKE {right})", BOOLEAN, a, b)
    return typed(f"({left} LIKE {right} ESCAPE {quote(escape)})", BOOLEAN, a, b)


@handles(exp.Escape)
def _escape(binder: Binder, node: Any, scope: Scope) -> Typed:
    escape = node.expression
    if not isinstance(escape, exp.Literal) or not escape.is_string:
        raise SqlError("0A000", "ESCAPE of anything but a literal is not supported")
    if len(str(escape.this)) > 1:
        raise SqlError("22025", "invalid escape string", hint="Escape string must be empty or one character.")
    inner = node.this
    if isinstance(inner, exp.Not):
        x = _match(binder, inner.this, scope, str(escape.this))
        return typed(f"(NOT {x.sql})", BOOLEAN, x)
    result = _match(binder, inner, scope, str(escape.this))
    return typed(f"(NOT {result.sql})", BOOLEAN, result) if inner.args.get("negate") else result


@handles(exp.RegexpLike, exp.RegexpILike)
def _regexp(binder: Binder, node: Any, scope: Scope) -> Typed:
    if node.args.get("flag") is not None:
        parts = binder.bind_all([node.this, node.expression, node.args["flag"]], scope)
        return call(binder, "regexp_like", parts)
    insensitive = isinstance(node, exp.RegexpILike)
    a, b = pattern_operands(binder, node, scope, "~*" if insensitive else "~")
    options = "'si'" if insensitive else "'s'"
    return typed(f"regexp_matches({a.sql}, {b.sql}, {options})", BOOLEAN, a, b)


@handles(exp.SimilarTo)
def _similar(binder: Binder, node: Any, scope: Scope) -> Typed:
    a, b = pattern_operands(binder, node, scope, "~")
    return typed(f"regexp_matches({a.sql}, pg_similar({b.sql}), 's')", BOOLEAN, a, b)
