"""Strategies of fields and datums of every kind, and PostgreSQL's order of them."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from herdpy.codec.kinds import Datum, Field, KeyField, Kind

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


def datums(kind: Kind, scale: int = 0, *, key: bool = False, arrow: bool = False) -> st.SearchStrategy[Any]:
    """Return the values of a kind, extremes and infinities among them; no NULL.

    ``key``: only those that a key can hold. ``arrow``: only those that Arrow can hold, which are
    all that SQL's types have.
    """
    if arrow and kind in _ARROW:
        return datums(kind, scale, key=key).filter(lambda value: _ARROW[kind](value, scale))
    match kind:
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
            barred = "\0" if key else ""
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
    scale = draw(st.integers(0, 6)) if kind in {Kind.DECIMAL64, Kind.DECIMAL128} else 0
    return Field(kind, scale, draw(st.none() | datums(kind, scale, arrow=arrow)))


def rows(columns: list[Field], *, arrow: bool = False) -> st.SearchStrategy[tuple[Datum, ...]]:
    """Return rows of these fields; about one datum in five is NULL."""
    one = [st.one_of(*[datums(f.kind, f.scale, arrow=arrow)] * 4, st.none()) for f in columns]
    return st.tuples(*one)


@st.composite
def key_fields(draw: st.DrawFn, kinds: list[Kind] | None = None) -> KeyField:
    """Return a key field of any kind and direction."""
    kind = draw(st.sampled_from(kinds or [k for k in Kind if k != Kind.JSON]))
    scale = draw(st.integers(0, 6)) if kind in {Kind.DECIMAL64, Kind.DECIMAL128} else 0
    return KeyField(kind, scale, draw(st.booleans()), draw(st.booleans()), draw(st.booleans()))


def keys(columns: list[KeyField], *, arrow: bool = False) -> st.SearchStrategy[tuple[Datum, ...]]:
    """Return keys of these fields, NULL where a field takes it."""
    one = [
        st.one_of(datums(f.kind, f.scale, key=True, arrow=arrow), *([st.none()] if f.nullable else []))
        for f in columns
    ]
    return st.tuples(*one)


def same(left: Datum, right: Datum) -> bool:
    """Return whether two datums are the same to the last displayed digit (NaN is itself, -0.0 is not 0.0)."""
    if type(left) is not type(right):
        return False
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
            result = -_order(a, b) if column.descending else _order(a, b)
        if result:
            return result
    return 0
