"""Comparison in the columnar engine: what two typed texts become so that DuckDB compares as PostgreSQL does.

Both sides are brought to one type; ``order_key`` does the same for sorting and grouping. Below all handlers
of nodes.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from herdpy_sql.columnar import casts
from herdpy_sql.columnar.casts import align
from herdpy_sql.columnar.routines import as_texts, full_type
from herdpy_sql.duck import (
    INTEGERS,
    MAX_DIGITS,
    NUMBERS,
    STRINGS,
    TIMES,
    Typed,
    duck_type,
    elements,
)
from herdpy_sql.types import Base, need_equality, need_ordering

if TYPE_CHECKING:
    from herdpy_sql.columnar.emission import Emission


def comparable_texts(emission: Emission, a: Typed, b: Typed) -> tuple[str, str]:
    """Two values of types that compare (``expr.operate.comparable``) as DuckDB text that does, too."""
    if a.array or b.array:
        return _arrays(emission, a, b)
    if a.base is b.base and a.base in _COMPARED_AS_THEY_ARE:
        return a.sql, b.sql
    a, b = casts.plain_id(a), casts.plain_id(b)
    if a.base in NUMBERS and b.base in NUMBERS:
        return _numbers(emission, a, b)
    return order_key(a), order_key(b)


_COMPARED_AS_THEY_ARE = frozenset({*INTEGERS, *STRINGS, *TIMES, Base.BOOLEAN, Base.DOUBLE, Base.REAL})


def _arrays(emission: Emission, a: Typed, b: Typed) -> tuple[str, str]:
    """DuckDB compares lists as PostgreSQL does arrays, NULLs being the greatest."""
    a, b = casts.widened(emission, a, b.array), casts.widened(emission, b, a.array)
    if a.dec != b.dec:
        a, b = (replace(one, sql=as_texts(one), dec=None) for one in (a, b))
    if a.array != b.array:
        return _any_shape_key(a), _any_shape_key(b)
    return order_key(a), order_key(b)


def _numbers(emission: Emission, a: Typed, b: Typed) -> tuple[str, str]:
    x, y = NUMBERS[a.base], NUMBERS[b.base]
    if x <= 3 and y <= 3:
        return a.sql, b.sql
    if x >= 5 or y >= 5:
        if a.base is b.base:
            return a.sql, b.sql
        return casts.as_double(emission, a).sql, casts.as_double(emission, b).sql
    a, b = casts.as_numeric(emission, a), casts.as_numeric(emission, b)
    if a.dec is None and b.dec is not None and b.dec[0] <= MAX_DIGITS - 2:
        return _surrogate_of(a, b.dec), b.sql
    if b.dec is None and a.dec is not None and a.dec[0] <= MAX_DIGITS - 2:
        return a.sql, _surrogate_of(b, a.dec)
    left, right = align(emission, [a, b], loose=True)
    if left.dec is None:
        return f"pg_numkey({left.sql})", f"pg_numkey({right.sql})"
    return left.sql, right.sql


def _surrogate_of(x: Typed, dec: tuple[int, int]) -> str:
    """A DECIMAL that compares with every one of ``dec`` as the NUMERIC ``x``, which is text, does."""
    precision, scale = dec
    return f"CAST(pg_surrogate({x.sql}, {precision}, {scale}) AS DECIMAL({precision + 2},{scale + 1}))"


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
    if _LITERAL.fullmatch(x.sql):
        # DuckDB takes a number for that of a column, and refuses to sort by others.
        return f"CAST({x.sql} AS {duck_type(x.type, x.dec)})"
    return x.sql


def sort_key(x: Typed) -> str:
    """:func:`order_key` for ORDER BY. SqlError 42883 for a type without an order."""
    need_ordering(full_type(x))
    return order_key(x)


def group_key(x: Typed) -> str:
    """:func:`order_key` for what brings equal values together. SqlError 42883 for a type without equality."""
    need_equality(full_type(x))
    return order_key(x)


_LITERAL = re.compile(r"\(?-?[0-9]+\)?|true|false|'(?:[^']|'')*'")


def direction(descending: bool, nulls_first: bool) -> str:
    """What follows a sort key."""
    return f"{' DESC' if descending else ''} NULLS {'FIRST' if nulls_first else 'LAST'}"
