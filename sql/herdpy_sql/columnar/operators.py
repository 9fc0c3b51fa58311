"""Comparison and logic of the columnar engine: ``=``, ``<``, BETWEEN, IS, AND, OR, NOT.

Both sides come in as typed DuckDB text, are brought to one type that compares as PostgreSQL compares them,
and go out as a BOOLEAN; ``order_key`` does the same for sorting and grouping. Arithmetic is beside, in
``arithmetic``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from herdpy_sql.columnar import casts, library
from herdpy_sql.columnar.arithmetic import no_operator, type_name
from herdpy_sql.columnar.binder import Binder, handles
from herdpy_sql.columnar.common import align, common_type
from herdpy_sql.columnar.typed import MAX_DIGITS, NUMBERS, STRINGS, TIMES, Typed, elements, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.syntax import quantifier
from herdpy_sql.types import BOOLEAN, NUMERIC, TEXT, Base, SqlType

if TYPE_CHECKING:
    from herdpy_sql.columnar.scope import Scope


def comparable(binder: Binder, symbol: str, a: Typed, b: Typed) -> tuple[str, str]:
    """Both sides as DuckDB text that compares as PostgreSQL compares ``a`` and ``b``."""
    if a.array or b.array:
        return _comparable_arrays(binder, symbol, a, b)
    if a.unknown and b.unknown:
        a, b = casts.settle(binder, a, TEXT), casts.settle(binder, b, TEXT)
    elif a.unknown:
        if a.param is not None and b.base is Base.NUMERIC and b.dec is not None and b.dec[0] <= 36:
            binder.param(a.param, NUMERIC)
            if binder.params[a.param].base is Base.NUMERIC:
                return binder.surrogate(a.param, *b.dec), b.sql
        a = casts.settle(binder, a, b.type)
    elif b.unknown:
        if b.param is not None and a.base is Base.NUMERIC and a.dec is not None and a.dec[0] <= 36:
            binder.param(b.param, NUMERIC)
            if binder.params[b.param].base is Base.NUMERIC:
                return a.sql, binder.surrogate(b.param, *a.dec)
        b = casts.settle(binder, b, a.type)
    x, y = a.base, b.base
    if x in NUMBERS and y in NUMBERS:
        return _comparable_numbers(binder, a, b)
    if {x, y} == {Base.CHAR, Base.VARCHAR}:  # both as CHAR, which is blind to trailing blanks
        return tuple(casts.cast(binder, s, SqlType(Base.CHAR)).sql for s in (a, b))  # type: ignore[return-value]
    if x in STRINGS and y in STRINGS:
        return casts.as_text(binder, a).sql, casts.as_text(binder, b).sql
    if x in TIMES and y in TIMES:
        type_ = a.type if TIMES[x] >= TIMES[y] else b.type
        return casts.cast(binder, a, type_).sql, casts.cast(binder, b, type_).sql
    if x is y is Base.JSONB:
        return order_key(a), order_key(b)
    if x is not y or x is Base.JSON:
        raise no_operator(symbol, a, b)
    return a.sql, b.sql


def _comparable_arrays(binder: Binder, symbol: str, a: Typed, b: Typed) -> tuple[str, str]:
    """Both sides of one type; DuckDB compares lists as PostgreSQL does arrays, NULLs being the greatest."""
    a, b = library.widened(binder, a, b.array), library.widened(binder, b, a.array)
    try:  # dimensions are no part of the type
        target = common_type([replace(one, array=min(one.array, 1)) for one in (a, b)], "=")
    except SqlError:
        raise no_operator(symbol, a, b) from None
    a, b = library.settled(binder, a, target), library.settled(binder, b, target)
    if a.dec != b.dec:
        a, b = (replace(one, sql=library.as_texts(one), dec=None) for one in (a, b))
    if a.array != b.array:
        return _any_shape_key(a), _any_shape_key(b)
    return order_key(a), order_key(b)


def _comparable_numbers(binder: Binder, a: Typed, b: Typed) -> tuple[str, str]:
    x, y = NUMBERS[a.base], NUMBERS[b.base]
    if x <= 3 and y <= 3:
        return a.sql, b.sql
    if x >= 5 or y >= 5:
        if a.base is b.base:
            return a.sql, b.sql
        return casts.as_double(binder, a).sql, casts.as_double(binder, b).sql
    a, b = casts.as_numeric(binder, a), casts.as_numeric(binder, b)
    if a.dec is None and b.dec is not None and b.dec[0] <= MAX_DIGITS - 2:
        return _stand_in(a, b.dec), b.sql
    if b.dec is None and a.dec is not None and a.dec[0] <= MAX_DIGITS - 2:
        return a.sql, _stand_in(b, a.dec)
    left, right = align(binder, [a, b], loose=True)
    if left.dec is None:
        return f"pg_numkey({left.sql})", f"pg_numkey({right.sql})"
    return left.sql, right.sql


def _stand_in(x: Typed, dec: tuple[int, int]) -> str:
    """A DECIMAL that compares with every one of ``dec`` as the NUMERIC ``x``, which is text, does."""
    precision, scale = dec
    return f"CAST(pg_standin({x.sql}, {precision}, {scale}) AS DECIMAL({precision + 2},{scale + 1}))"


def compare(binder: Binder, symbol: str, a: Typed, b: Typed) -> Typed:
    """``a symbol b`` as BOOLEAN."""
    left, right = comparable(binder, symbol, a, b)
    return typed(f"({left} {symbol} {right})", BOOLEAN, a, b)


def _shaped_key(x: Typed) -> str:
    """Of an array of several dimensions: its elements in a row, and then its sizes."""
    return f"(CASE WHEN {x.sql} IS NULL THEN NULL ELSE {{'e': {_flat_key(x)}, 's': {_sizes(x)}}} END)"


def _any_shape_key(x: Typed) -> str:
    """The same beside one of other dimensions, whose number comes before the sizes; none have no elements."""
    shape = f"CASE WHEN len({x.sql}) = 0 THEN [0] ELSE list_prepend({x.array}, {_sizes(x)}) END"
    return f"(CASE WHEN {x.sql} IS NULL THEN NULL ELSE {{'e': {_flat_key(x)}, 's': {shape}}} END)"


def _flat_key(x: Typed) -> str:
    return order_key(replace(x, sql=elements(x), array=1))


def _sizes(x: Typed) -> str:
    return "[" + ", ".join(f"len({x.sql}{'[1]' * depth})" for depth in range(x.array)) + "]"


def order_key(x: Typed) -> str:
    """DuckDB text that sorts and groups as ``x`` does."""
    if x.is_text_numeric:
        return f"pg_numkey({x.sql})"
    if x.array > 1:
        return _shaped_key(x)
    if x.array and x.base is Base.NUMERIC and x.dec is None:
        return f"list_transform({x.sql}, lambda e: pg_numkey(e))"
    if x.base is Base.JSONB:
        return f"list_transform({x.sql}, lambda e: pg_jsonbkey(e))" if x.array else f"pg_jsonbkey({x.sql})"
    return x.sql


COMPARISONS: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


def is_row(node: exp.Expression) -> bool:
    """Whether the node is a row constructor."""
    return isinstance(node, exp.Tuple) or (
        isinstance(node, exp.Anonymous) and str(node.this).lower() == "row"
    )


def row_compare(binder: Binder, symbol: str, left: list[Typed], right: list[Typed]) -> Typed:
    """Row comparison, column by column."""
    if len(left) != len(right):
        raise SqlError("42601", "unequal number of entries in row expressions")
    if symbol in ("=", "<>"):
        parts = [compare(binder, symbol, a, b) for a, b in zip(left, right, strict=True)]
        word = " AND " if symbol == "=" else " OR "
        return typed("(" + word.join(p.sql for p in parts) + ")", BOOLEAN, *parts)
    if len(left) == 1:
        return compare(binder, symbol, left[0], right[0])
    strict = symbol[0]
    head, equal = compare(binder, strict, left[0], right[0]), compare(binder, "=", left[0], right[0])
    rest = row_compare(binder, symbol, left[1:], right[1:])
    return typed(f"({head.sql} OR ({equal.sql} AND {rest.sql}))", BOOLEAN, head, equal, rest)


@handles(*COMPARISONS)
def _compare(binder: Binder, node: Any, scope: Scope) -> Typed:
    symbol = COMPARISONS[type(node)]
    right = quantifier(node.expression)
    if isinstance(right, (exp.Any, exp.All)):
        from herdpy_sql.columnar import subqueries

        return subqueries.quantified(binder, node.this, symbol, right, scope)
    if is_row(node.this) and is_row(right):
        return row_compare(
            binder,
            symbol,
            binder.bind_all(node.this.expressions, scope),
            binder.bind_all(right.expressions, scope),
        )
    if is_row(node.this) and isinstance(right, (exp.Query, exp.Subquery)):
        from herdpy_sql.columnar import subqueries

        return subqueries.compared_row(binder, node.this, symbol, right, scope)
    return compare(binder, symbol, binder.bind(node.this, scope), binder.bind(right, scope))


@handles(exp.NullSafeEQ, exp.NullSafeNEQ)
def _distinct_from(binder: Binder, node: Any, scope: Scope) -> Typed:
    if is_row(node.this) and is_row(node.expression):
        return _distinct_rows(binder, node, scope)
    a, b = binder.bind(node.this, scope), binder.bind(node.expression, scope)
    left, right = comparable(binder, "=", a, b)
    word = "IS DISTINCT FROM" if isinstance(node, exp.NullSafeNEQ) else "IS NOT DISTINCT FROM"
    return typed(f"({left} {word} {right})", BOOLEAN, a, b)


def _distinct_rows(binder: Binder, node: Any, scope: Scope) -> Typed:
    left, right = node.this.expressions, node.expression.expressions
    if len(left) != len(right):
        raise SqlError("42601", "unequal number of entries in row expressions")
    parts = [
        _distinct_from(binder, type(node)(this=a.copy(), expression=b.copy()), scope)
        for a, b in zip(left, right, strict=True)
    ]
    word = " OR " if isinstance(node, exp.NullSafeNEQ) else " AND "
    return typed("(" + word.join(part.sql for part in parts) + ")", BOOLEAN, *parts)


@handles(exp.Between)
def _between(binder: Binder, node: Any, scope: Scope) -> Typed:
    if is_row(node.this) and is_row(node.args["low"]) and is_row(node.args["high"]):
        return _row_between(binder, node, scope)
    x = binder.bind(node.this, scope)
    low, high = binder.bind(node.args["low"], scope), binder.bind(node.args["high"], scope)
    divide = [_divides(node)] * 2
    inside = _range(binder, x, low, high, divide)
    if node.args.get("symmetric"):
        other = _range(binder, x, high, low, divide)
        return typed(f"({inside.sql} OR {other.sql})", BOOLEAN, x, low, high)
    return inside


def _row_between(binder: Binder, node: Any, scope: Scope) -> Typed:
    x, low, high = (
        binder.bind_all(one.expressions, scope) for one in (node.this, node.args["low"], node.args["high"])
    )
    ends = [(low, high), (high, low)] if node.args.get("symmetric") else [(low, high)]
    tests = [
        [row_compare(binder, ">=", x, first), row_compare(binder, "<=", x, last)] for first, last in ends
    ]
    text = " OR ".join(f"({above.sql} AND {below.sql})" for above, below in tests)
    return typed(f"({text})", BOOLEAN, *x, *low, *high)


def _range(binder: Binder, x: Typed, low: Typed, high: Typed, divide: list[bool]) -> Typed:
    above, below = compare(binder, ">=", x, low), compare(binder, "<=", x, high)
    return typed(_conjunction("AND", [above.sql, below.sql], divide), BOOLEAN, above, below)


# ---------------------------------------------------------------------------- logic


def condition(binder: Binder, x: Typed, what: str) -> Typed:
    """A BOOLEAN; SqlError 42804 naming the place."""
    if x.unknown:
        return casts.settle(binder, x, BOOLEAN)
    if x.base is not Base.BOOLEAN or x.array:
        raise SqlError("42804", f"argument of {what} must be type boolean, not type {type_name(x)}")
    return x


@handles(exp.And, exp.Or)
def _logic(binder: Binder, node: Any, scope: Scope) -> Typed:
    word = "AND" if isinstance(node, exp.And) else "OR"
    nodes = []
    cls = type(node)
    stack = [node]
    while stack:  # a long chain is a deep tree to the left
        one = stack.pop()
        if isinstance(one, cls):
            stack += [one.expression, one.this]
        else:
            nodes.append(one)
    parts = [condition(binder, binder.bind(one, scope), word) for one in nodes]
    texts = [part.sql for part in parts]
    return typed(_conjunction(word, texts, [_divides(one) for one in nodes]), BOOLEAN, *parts)


def _conjunction(word: str, texts: list[str], divide: list[bool]) -> str:
    """``texts`` joined by AND or OR; a division is not evaluated when what is before it decides.

    DuckDB reorders conditions, and what stands before a division often guards it.
    """
    joint, guard = f" {word} ", "FALSE" if word == "AND" else "TRUE"
    end, rest = len(texts), ""
    for i in range(len(texts) - 1, 0, -1):  # each text is there twice, however many divisions there are
        if divide[i]:
            rest = joint.join(texts[i:end]) + rest
            before = joint.join(texts[_last_division(divide, i) : i])
            rest, end = f"{joint}CASE WHEN ({before}) IS NOT {guard} THEN ({rest}) END", i
    return "(" + joint.join(texts[:end]) + rest + ")"


def _last_division(divide: list[bool], before: int) -> int:
    """Where the last text that divides begins; 0 where none does."""
    return next((i for i in range(before - 1, 0, -1) if divide[i]), 0)


def _divides(node: exp.Expression) -> bool:
    """Whether a division is anywhere in it."""
    found = node.find_all(exp.Div, exp.IntDiv, exp.Mod, exp.Anonymous)
    return any(not isinstance(one, exp.Anonymous) or str(one.this).lower() in {"div", "mod"} for one in found)


@handles(exp.Not)
def _not(binder: Binder, node: Any, scope: Scope) -> Typed:
    x = condition(binder, binder.bind(node.this, scope), "NOT")
    return typed(f"(NOT {x.sql})", BOOLEAN, x)


@handles(exp.Is)
def _is(binder: Binder, node: Any, scope: Scope) -> Typed:
    right = node.expression
    word = "IS NOT" if node.args.get("negate") else "IS"
    if isinstance(right, exp.Boolean):
        x = condition(binder, binder.bind(node.this, scope), "IS TRUE" if right.this else "IS FALSE")
        value = "true" if right.this else "false"
        kind = "IS DISTINCT FROM" if node.args.get("negate") else "IS NOT DISTINCT FROM"
        return typed(f"({x.sql} {kind} {value})", BOOLEAN, x)
    if isinstance(right, exp.Null):
        if is_row(node.this):
            parts = binder.bind_all(node.this.expressions, scope)
            return typed("(" + " AND ".join(f"{p.sql} {word} NULL" for p in parts) + ")", BOOLEAN, *parts)
        x = casts.settle_text(binder, binder.bind(node.this, scope))
        return typed(f"({x.sql} {word} NULL)", BOOLEAN, x)
    raise SqlError("0A000", f"IS {right.sql()} is not supported")


__all__ = ["comparable", "compare", "condition", "order_key"]
