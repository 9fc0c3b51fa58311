"""Comparison in the columnar engine: what two typed texts become so that DuckDB compares as PostgreSQL does.

Both sides are brought to one type; ``order_key`` does the same for sorting and grouping. Below all handlers
of nodes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from herdpy_sql.columnar import casts
from herdpy_sql.columnar.casts import align, common_type
from herdpy_sql.columnar.routines import as_texts, full_type, types_of
from herdpy_sql.duck import (
    INTEGERS,
    MAX_DIGITS,
    NUMBERS,
    STRINGS,
    TIMES,
    Typed,
    elements,
    typed,
)
from herdpy_sql.errors import SqlError
from herdpy_sql.expr.resolve import no_operator
from herdpy_sql.types import BOOLEAN, NUMERIC, OID, TEXT, Base, SqlType
from herdpy_sql.values.reg_types import REG_TYPES

if TYPE_CHECKING:
    from herdpy_sql.columnar.binder import Binder


def comparable(binder: Binder, symbol: str, a: Typed, b: Typed) -> tuple[str, str]:
    """Both sides as DuckDB text that compares as PostgreSQL compares ``a`` and ``b``."""
    if a.array or b.array:
        return _comparable_arrays(binder, symbol, a, b)
    if a.unknown and b.unknown:
        a, b = casts.settle(binder, a, TEXT), casts.settle(binder, b, TEXT)
    elif a.unknown:
        b = _with_operator(b)
        if a.param is not None and b.base is Base.NUMERIC and b.dec is not None and b.dec[0] <= 36:
            casts.param(binder, a.param, NUMERIC)
            if binder.params[a.param].base is Base.NUMERIC:
                return binder.surrogate(a.param, *b.dec), b.sql
        a = casts.settle(binder, a, b.type)
    elif b.unknown:
        a = _with_operator(a)
        if b.param is not None and a.base is Base.NUMERIC and a.dec is not None and a.dec[0] <= 36:
            casts.param(binder, b.param, NUMERIC)
            if binder.params[b.param].base is Base.NUMERIC:
                return a.sql, binder.surrogate(b.param, *a.dec)
        b = casts.settle(binder, b, a.type)
    given = a, b
    a, b = casts.plain_id(a), casts.plain_id(b)
    x, y = a.base, b.base
    if {given[0].base, given[1].base} & _IDS and not {x, y} <= {*INTEGERS}:
        raise no_operator(symbol, types_of(*given))
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
        raise no_operator(symbol, types_of(*given))
    return a.sql, b.sql


_IDS = frozenset({Base.OID, Base.XID, *REG_TYPES})


def _with_operator(x: Typed) -> Typed:
    """REGCLASS and its relatives as OID: they have no operators of their own."""
    if x.base not in REG_TYPES or x.array:
        return x
    return replace(casts.plain_id(x), type=OID)


def _comparable_arrays(binder: Binder, symbol: str, a: Typed, b: Typed) -> tuple[str, str]:
    """Both sides of one type; DuckDB compares lists as PostgreSQL does arrays, NULLs being the greatest."""
    a, b = casts.widened(binder, a, b.array), casts.widened(binder, b, a.array)
    try:  # dimensions are no part of the type
        target = common_type([replace(one, array=min(one.array, 1)) for one in (a, b)], "=")
    except SqlError:
        raise no_operator(symbol, types_of(a, b)) from None
    a, b = casts.settled(binder, a, target), casts.settled(binder, b, target)
    if a.dec != b.dec:
        a, b = (replace(one, sql=as_texts(one), dec=None) for one in (a, b))
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


def condition(binder: Binder, x: Typed, what: str) -> Typed:
    """A BOOLEAN; SqlError 42804 naming the place."""
    if x.unknown:
        return casts.settle(binder, x, BOOLEAN)
    if x.base is not Base.BOOLEAN or x.array:
        raise SqlError("42804", f"argument of {what} must be type boolean, not type {full_type(x).name}")
    return x
