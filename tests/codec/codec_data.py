"""Strategies of fields and datums of every kind, and PostgreSQL's order of them."""

from __future__ import annotations

import functools
import json
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from herdpy.codec.jsonb import jsonb_text
from herdpy.codec.kinds import MAX_INTERVAL_US, Datum, Field, Interval, KeyField, Kind, shaped, sizes_of

_BITS = {
    Kind.INT16: 16,
    Kind.INT32: 32,
    Kind.INT64: 64,
    Kind.DATE: 32,
    Kind.TIME: 64,
    Kind.TIMESTAMP: 64,
    Kind.TIMESTAMPTZ: 64,
    Kind.DECIMAL64: 64,
    Kind.DECIMAL128: 128,
}
_ARROW: dict[Kind, Callable[[Any, int], bool]] = {
    Kind.DECIMAL64: lambda value, scale: abs(value) < Decimal(10) ** (18 - scale),
    Kind.DECIMAL128: lambda value, scale: abs(value) < Decimal(10) ** (38 - scale),
    Kind.DATE: lambda value, _: value != -(2**31) + 1,
    Kind.TIMESTAMP: lambda value, _: value != -(2**63) + 1,
    Kind.TIMESTAMPTZ: lambda value, _: value != -(2**63) + 1,
}
MICROSECONDS_A_DAY = 86_400_000_000


def _integers(bits: int) -> st.SearchStrategy[int]:
    least, greatest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return st.one_of(
        st.integers(-3, 3),
        st.sampled_from([least, least + 1, greatest - 1, greatest]),
        st.integers(least, greatest),
    )


def single(value: float) -> float:
    """Return the value rounded to 32 bits."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


@st.composite
def _decimals(draw: st.DrawFn) -> Decimal:
    # Not by scaleb, which rounds to 28 digits and leaves an exponent that the engine's values never have.
    digits = draw(st.one_of(st.integers(-20, 20), st.integers(-(10**45), 10**45)))
    return Decimal(f"{digits}E-{draw(st.integers(0, 40 if digits else 9))}")


_INTERVALS = st.one_of(
    st.builds(Interval, st.integers(-2, 2), st.integers(-60, 60), st.integers(-2, 2)),
    st.builds(Interval, _integers(32), _integers(32), st.integers(-MAX_INTERVAL_US, MAX_INTERVAL_US)),
)
_JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.sampled_from(["", "a", "b\x01", "é"]), st.integers(-3, 30).map(Decimal)
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "aa"]), inner),
    max_leaves=6,
)


def _grids(one: st.SearchStrategy[Any], dimensions: int) -> st.SearchStrategy[Any]:
    """Return arrays of so many dimensions, and the one without elements."""

    def filled(sizes: tuple[int, ...]) -> st.SearchStrategy[Any]:
        count = math.prod(sizes)
        return st.lists(one, min_size=count, max_size=count).map(lambda found: shaped(found, sizes))

    return st.tuples(*[st.integers(0, 3)] * dimensions).flatmap(filled)


def _scales(kind: Kind) -> st.SearchStrategy[int]:
    if kind in {Kind.DECIMAL64, Kind.DECIMAL128}:
        return st.integers(0, 6)
    return st.sampled_from([0, 0, 2, 3]) if kind == Kind.ARRAY else st.just(0)


ELEMENTS = [k for k in Kind if k not in {Kind.ARRAY, Kind.VECTOR}]


def datums(
    kind: Kind, scale: int = 0, element: Field | None = None, *, key: bool = False, arrow: bool = False
) -> st.SearchStrategy[Any]:
    """Return the values of a kind, extremes and infinities among them; no NULL.

    ``key``: only those that a key can hold. ``arrow``: only those that Arrow can hold, which are
    all that SQL's types have.
    """
    if arrow and kind in _ARROW:
        return datums(kind, scale, key=key).filter(lambda value: _ARROW[kind](value, scale))
    match kind:
        case Kind.INTERVAL:
            return _INTERVALS
        case Kind.JSONB:
            return _JSON.map(jsonb_text)
        case Kind.VECTOR:
            return st.lists(st.floats(width=32), min_size=1, max_size=4).map(tuple)
        case Kind.ARRAY:
            assert element is not None
            one = datums(element.kind, element.scale, key=key, arrow=arrow)
            if scale > 1:
                return _grids(one | st.none(), scale)
            return st.lists(one | st.none(), max_size=4).map(tuple)
        case Kind.BOOL:
            return st.booleans()
        case Kind.FLOAT32:
            return st.floats(width=32)
        case Kind.FLOAT64:
            return st.one_of(st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan]), st.floats())
        case Kind.DECIMAL64 | Kind.DECIMAL128:
            return _integers(_BITS[kind]).map(lambda n: Decimal(f"{n}E-{scale}"))
        case Kind.DECIMAL:
            return _decimals()
        case Kind.TEXT | Kind.JSON:
            barred = "\0" if key or arrow else ""
            alphabet = st.characters(exclude_categories=["Cs"], exclude_characters=barred)
            return st.one_of(st.text("ab\x01\U0010ffff", max_size=4), st.text(alphabet, max_size=30))
        case Kind.BYTES:
            return st.one_of(
                st.lists(st.sampled_from([b"\0", b"\x01", b"\xff", b"a"]), max_size=5).map(b"".join),
                st.binary(max_size=30),
            )
        case Kind.UUID:
            return st.binary(min_size=16, max_size=16)
        case Kind.TIME:
            return st.integers(0, MICROSECONDS_A_DAY)
        case _:
            return _integers(_BITS[kind])


@st.composite
def fields(draw: st.DrawFn, kinds: list[Kind] | None = None, *, arrow: bool = False) -> Field:
    """Return a field of any kind, with a value for rows older than the column."""
    kind = draw(st.sampled_from(kinds or list(Kind)))
    scale = draw(_scales(kind))
    element = draw(_element(ELEMENTS)) if kind == Kind.ARRAY else None
    return Field(kind, scale, draw(st.none() | datums(kind, scale, element, arrow=arrow)), element)


@st.composite
def _element(draw: st.DrawFn, kinds: list[Kind]) -> Field:
    kind = draw(st.sampled_from(kinds))
    return Field(kind, draw(st.integers(0, 6)) if kind in {Kind.DECIMAL64, Kind.DECIMAL128} else 0)


def rows(columns: list[Field], *, arrow: bool = False) -> st.SearchStrategy[tuple[Datum, ...]]:
    """Return rows of these fields; about one datum in five is NULL."""
    one = [st.one_of(*[datums(f.kind, f.scale, f.element, arrow=arrow)] * 4, st.none()) for f in columns]
    return st.tuples(*one)


@st.composite
def key_fields(draw: st.DrawFn, kinds: list[Kind] | None = None) -> KeyField:
    """Return a key field of any kind and direction."""
    kind = draw(st.sampled_from(kinds or [k for k in Kind if k != Kind.JSON]))
    scale = draw(_scales(kind))
    ordered = [k for k in ELEMENTS if k != Kind.JSON]
    element = draw(_element(ordered)) if kind == Kind.ARRAY else None
    return KeyField(kind, scale, draw(st.booleans()), draw(st.booleans()), draw(st.booleans()), element)


def keys(columns: list[KeyField], *, arrow: bool = False) -> st.SearchStrategy[tuple[Datum, ...]]:
    """Return keys of these fields, NULL where a field takes it."""
    one = [
        st.one_of(
            datums(f.kind, f.scale, f.element, key=True, arrow=arrow), *([st.none()] if f.nullable else [])
        )
        for f in columns
    ]
    return st.tuples(*one)


def same(left: Datum, right: Datum) -> bool:
    """Return whether two datums are the same to the last displayed digit (NaN is itself, -0.0 is not 0.0)."""
    if type(left) is not type(right):
        return False
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        if math.isnan(left):
            return math.isnan(right)
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return left.as_tuple() == right.as_tuple()
    return left == right


def same_rows(left: tuple[Datum, ...], right: tuple[Datum, ...]) -> bool:
    """Return whether two rows have the same datums."""
    return len(left) == len(right) and all(map(same, left, right))


_read = functools.cache(json.loads)


def _json_order(left: Any, right: Any, *, top: bool = True) -> int:
    """compareJsonbContainers of PostgreSQL 15."""
    ranks = [_json_rank(one, top=top) for one in (left, right)]
    if ranks[0] != ranks[1]:
        return _order(*ranks)
    if isinstance(left, list | dict):
        if len(left) != len(right):
            return _order(len(left), len(right))
        one, two = (
            [part for pair in value.items() for part in pair] if isinstance(value, dict) else value
            for value in (left, right)
        )
        return next(
            (found for a, b in zip(one, two, strict=True) if (found := _json_order(a, b, top=False))), 0
        )
    return 0 if left is None else _order(left, right)


def _json_rank(value: Any, *, top: bool) -> int:
    if value == [] and top and isinstance(value, list):
        return -1
    kinds = (type(None), str, (int, float), bool, list, dict)
    return (
        3 if isinstance(value, bool) else next(i for i, kind in enumerate(kinds) if isinstance(value, kind))
    )


def _ordered(field: KeyField | Field, left: Any, right: Any) -> int:
    if field.kind == Kind.JSONB:
        return _json_order(_read(left), _read(right))
    if field.kind == Kind.INTERVAL:
        return _order(left.span, right.span)
    if field.kind in {Kind.ARRAY, Kind.VECTOR}:
        element = field.element or Field(Kind.FLOAT32)
        for a, b in zip(left, right, strict=False):
            found = _order(a is None, b is None) if a is None or b is None else _ordered(element, a, b)
            if found:
                return found
        shapes = [(len(sizes_of(one)), sizes_of(one)) for one in (left, right)]
        return _order((len(left), *shapes[:1]), (len(right), *shapes[1:]))
    return _order(left, right)


def _order(left: Any, right: Any) -> int:
    if isinstance(left, float) and (math.isnan(left) or math.isnan(right)):
        return math.isnan(left) - math.isnan(right)
    return int(left > right) - int(left < right)


def compare(columns: list[KeyField], left: tuple[Datum, ...], right: tuple[Datum, ...]) -> int:
    """Return -1, 0 or 1: how PostgreSQL's ORDER BY has the two keys."""
    for column, a, b in zip(columns, left, right, strict=True):
        if a is None or b is None:
            result = int(a is None) - int(b is None)
            result = -result if column.nulls_first else result
        else:
            result = -_ordered(column, a, b) if column.descending else _ordered(column, a, b)
        if result:
            return result
    return 0
