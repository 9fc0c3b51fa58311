"""The operators: candidates for :func:`herdpy_sql.expr.resolve.choose`, each with what carries it out."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

from herdpy.codec.kinds import DATE_INFINITY, DATE_NEGATIVE_INFINITY
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import integers, intervals, numeric
from herdpy_sql.expr.casts import date_to_timestamp
from herdpy_sql.expr.nodes import NOT_OWN, Function
from herdpy_sql.expr.resolve import Signature
from herdpy_sql.types import FACTS, Base, SqlType
from herdpy_sql.values import intervals as spans
from herdpy_sql.values.floats import round32
from herdpy_sql.values.moments import check_date, check_timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

B = Base
INTS = (B.SMALLINT, B.INTEGER, B.BIGINT)
FLOATS = (B.REAL, B.DOUBLE)
MOMENTS = (B.DATE, B.TIMESTAMP, B.TIMESTAMPTZ)


def _overflow() -> SqlError:
    return SqlError("22003", "value out of range: overflow")


def _underflow() -> SqlError:
    return SqlError("22003", "value out of range: underflow")


def float_add(left: float, right: float) -> float:
    """The sum; SqlError 22003 when it overflows."""
    result = left + right
    if math.isinf(result) and not math.isinf(left) and not math.isinf(right):
        raise _overflow()
    return result


def float_subtract(left: float, right: float) -> float:
    """The difference; SqlError 22003 when it overflows."""
    return float_add(left, -right)


def float_multiply(left: float, right: float) -> float:
    """The product; SqlError 22003 when it over- or underflows."""
    result = left * right
    if math.isinf(result) and not math.isinf(left) and not math.isinf(right):
        raise _overflow()
    if result == 0 and left != 0 and right != 0:
        raise _underflow()
    return result


def float_divide(left: float, right: float) -> float:
    """The quotient; SqlError 22012 for a zero divisor, 22003 when it over- or underflows."""
    if right == 0:
        if left != left:  # noqa: PLR0124
            return left
        raise integers.division_by_zero()
    result = left / right
    if math.isinf(result) and not math.isinf(left):
        raise _overflow()
    if result == 0 and left != 0 and not math.isinf(right):
        raise _underflow()
    return result


def float_power(left: float, right: float) -> float:
    """The power, as C's pow gives it. SqlError 2201F where it is not real, 22003 out of range."""
    if left == 0 and right < 0:
        raise SqlError("2201F", "zero raised to a negative power is undefined")
    if left < 0 and math.isfinite(right) and right != math.floor(right):
        raise SqlError("2201F", "a negative number raised to a non-integer power yields a complex result")
    try:
        result = math.pow(left, right)
    except OverflowError:
        raise _overflow() from None
    if result == 0 and left != 0 and math.isfinite(left) and math.isfinite(right):
        raise _underflow()
    return result


def _in_real(operation: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda left, right: round32(operation(left, right))


def _date_plus(days: int, count: int) -> int:
    if days in {DATE_INFINITY, DATE_NEGATIVE_INFINITY}:
        return days
    return check_date(days + count)


def _date_minus(left: int, right: int) -> int:
    if {left, right} & {DATE_INFINITY, DATE_NEGATIVE_INFINITY}:
        raise SqlError("22008", "cannot subtract infinite dates")
    return left - right


def _date_plus_time(days: int, us: int) -> int:
    start = date_to_timestamp(days)
    return start if days in {DATE_INFINITY, DATE_NEGATIVE_INFINITY} else check_timestamp(start + us)


def _same(symbol: str, base: Base, operation: Callable[..., Any], count: int = 2) -> Signature:
    return Signature((base,) * count, SqlType(base), Function(symbol, operation))


def _arithmetic(
    symbol: str,
    of_width: Callable[[Base], Callable[[int, int], int]],
    of_float: Callable[[float, float], float],
    of_numeric: Callable[..., Any],
) -> list[Signature]:
    """The number types' candidates: integers of different widths and floats pair without casts."""
    signatures = [_same(symbol, B.NUMERIC, of_numeric)]
    for left, right in product(INTS, INTS):
        wider = max(left, right, key=INTS.index)
        signatures.append(Signature((left, right), SqlType(wider), Function(symbol, of_width(wider))))
    for left, right in product(FLOATS, FLOATS):
        real = left is right is B.REAL
        function = Function(symbol, _in_real(of_float) if real else of_float)
        signatures.append(Signature((left, right), t.REAL if real else t.DOUBLE, function))
    return signatures


def _with_interval() -> tuple[list[Signature], list[Signature]]:
    plus: list[Signature] = []
    minus: list[Signature] = []
    for base in MOMENTS:
        result = t.TIMESTAMPTZ if base is B.TIMESTAMPTZ else t.TIMESTAMP
        zoned = base is B.TIMESTAMPTZ
        added = intervals.add_zoned if zoned else intervals.add_to_date if base is B.DATE else intervals.add
        taken = (
            intervals.take_zoned if zoned else intervals.take_from_date if base is B.DATE else intervals.take
        )
        swapped = _swap_zoned(added) if zoned else _swap(added)
        plus.append(Signature((base, B.INTERVAL), result, Function("+", added, needs_clock=zoned)))
        plus.append(Signature((B.INTERVAL, base), result, Function("+", swapped, needs_clock=zoned)))
        minus.append(Signature((base, B.INTERVAL), result, Function("-", taken, needs_clock=zoned)))
    plus.append(Signature((B.TIME, B.INTERVAL), t.TIME, Function("+", intervals.add_to_time)))
    minus.append(Signature((B.TIME, B.INTERVAL), t.TIME, Function("-", intervals.take_from_time)))
    plus.append(Signature((B.INTERVAL, B.TIME), t.TIME, Function("+", _swap(intervals.add_to_time))))
    plus.append(Signature((B.INTERVAL, B.INTERVAL), t.INTERVAL, Function("+", spans.add)))
    minus.append(Signature((B.INTERVAL, B.INTERVAL), t.INTERVAL, Function("-", spans.subtract)))
    minus.extend(
        Signature((base, base), t.INTERVAL, Function("-", intervals.between))
        for base in (B.TIMESTAMP, B.TIMESTAMPTZ)
    )
    minus.append(Signature((B.TIME, B.TIME), t.INTERVAL, Function("-", intervals.between_times)))
    return plus, minus


def _swap(operation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda left, right: operation(right, left)


def _swap_zoned(operation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda clock, left, right: operation(clock, right, left)


_PLUS_INTERVAL, _MINUS_INTERVAL = _with_interval()

BINARY: dict[str, list[Signature]] = {
    "+": [
        *_arithmetic("+", integers.adder, float_add, numeric.add),
        Signature((B.DATE, B.INTEGER), t.DATE, Function("+", _date_plus)),
        Signature((B.INTEGER, B.DATE), t.DATE, Function("+", _swap(_date_plus))),
        Signature((B.DATE, B.TIME), t.TIMESTAMP, Function("+", _date_plus_time)),
        Signature((B.TIME, B.DATE), t.TIMESTAMP, Function("+", _swap(_date_plus_time))),
        *_PLUS_INTERVAL,
    ],
    "-": [
        *_arithmetic("-", integers.subtracter, float_subtract, numeric.subtract),
        Signature((B.DATE, B.INTEGER), t.DATE, Function("-", lambda days, count: _date_plus(days, -count))),
        Signature((B.DATE, B.DATE), t.INTEGER, Function("-", _date_minus)),
        *_MINUS_INTERVAL,
    ],
    "*": [
        *_arithmetic("*", integers.multiplier, float_multiply, numeric.multiply),
        Signature((B.INTERVAL, B.DOUBLE), t.INTERVAL, Function("*", spans.multiply)),
        Signature((B.DOUBLE, B.INTERVAL), t.INTERVAL, Function("*", _swap(spans.multiply))),
    ],
    "/": [
        *_arithmetic("/", integers.divider, float_divide, numeric.divide),
        Signature((B.INTERVAL, B.DOUBLE), t.INTERVAL, Function("/", spans.divide)),
    ],
    "%": [
        *(_same("%", base, integers.remainder) for base in INTS),
        _same("%", B.NUMERIC, numeric.remainder),
    ],
    "^": [
        _same("^", B.DOUBLE, float_power),
        _same("^", B.NUMERIC, numeric.power),
    ],
    "&": [_same("&", base, lambda a, b: a & b) for base in INTS],
    "|": [_same("|", base, lambda a, b: a | b) for base in INTS],
    "#": [_same("#", base, lambda a, b: a ^ b) for base in INTS],
}


def _shift(base: Base, *, left: bool) -> Callable[[int, int], int]:
    # C's shifts on the machines PostgreSQL runs on: the count is taken modulo the register's width.
    mask = 63 if base is B.BIGINT else 31
    if left:
        return lambda value, count: integers.wrap(base, value << (count & mask))
    return lambda value, count: value >> (count & mask)


for _symbol in ("<<", ">>"):
    BINARY[_symbol] = [
        Signature((_base, B.INTEGER), SqlType(_base), Function(_symbol, _shift(_base, left=_symbol == "<<")))
        for _base in INTS
    ]

UNARY: dict[str, list[Signature]] = {
    "-": [
        *(_same("-", base, integers.negater(base), 1) for base in INTS),
        _same("-", B.NUMERIC, numeric.negate, 1),
        *(_same("-", base, lambda value: -value, 1) for base in FLOATS),
        Signature((B.INTERVAL,), t.INTERVAL, Function("-", spans.negate)),
    ],
    "~": [_same("~", base, lambda value: ~value, 1) for base in INTS],
}

COMPARABLE: list[Signature] = [
    *(Signature(pair, t.BOOLEAN, NOT_OWN) for pair in product(INTS, INTS)),
    *(Signature(pair, t.BOOLEAN, NOT_OWN) for pair in product(FLOATS, FLOATS)),
    *(Signature(pair, t.BOOLEAN, NOT_OWN) for pair in product(MOMENTS, MOMENTS)),
    *(
        Signature((base, base), t.BOOLEAN, NOT_OWN)
        for base, facts in FACTS.items()
        if facts.comparable and base not in {*INTS, *FLOATS, *MOMENTS, B.VARCHAR}
    ),
]
"""Pairs of types that ``= <> < <= > >=`` exist for; the comparing itself is ``compile``'s."""
