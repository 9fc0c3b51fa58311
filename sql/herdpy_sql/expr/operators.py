"""The operators: candidates for :func:`herdpy_sql.expr.resolve.choose`, each with both emitters.

What an operator is over datums stands beside what it is in DuckDB, whose operands are of the candidate's
types already. DuckDB's text raises PostgreSQL's errors on overflow; NUMERIC stays native while its digits
fit a DECIMAL.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from msgspec import structs

from herdpy.codec.kinds import DATE_INFINITY, DATE_NEGATIVE_INFINITY
from herdpy_sql import types as t
from herdpy_sql.duck import MAX_DIGITS, Digits, Typed, decimal_text, duck_type, numeric_text, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import integers, intervals, numeric
from herdpy_sql.expr.casts import date_to_timestamp
from herdpy_sql.expr.nodes import Function
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


# ---------------------------------------------------------------------------- in DuckDB


def _of_width(symbol: str, wider: Base) -> Callable[..., Typed]:
    """Of integers: both of the wider type, since a literal has none of its own in DuckDB."""
    type_ = SqlType(wider)

    def text(digits: Digits, a: Typed, b: Typed) -> Typed:
        left, right = (x.sql if x.base is wider else f"CAST({x.sql} AS {duck_type(type_)})" for x in (a, b))
        return typed(f"({left} {symbol} {right})", type_, a, b)

    return text


def _numeric_text(macro: str, a: Typed, b: Typed) -> Typed:
    return typed(f"{macro}({numeric_text(a)}, {numeric_text(b)})", t.NUMERIC, a, b)


def _numeric_product(digits: Digits, a: Typed, b: Typed) -> Typed:
    if a.dec is None or b.dec is None:
        return _numeric_text("pg_nummul", a, b)
    (p1, s1), (p2, s2) = a.dec, b.dec
    scale = s1 + s2
    mixed = a.scale_sql is not None or b.scale_sql is not None
    scale_sql = f"({a.scale_sql or s1}) + ({b.scale_sql or s2})" if mixed else None
    precision = digits.product_digits(p1, p2, scale)
    if precision > MAX_DIGITS:
        return _numeric_text("pg_nummul", a, b)
    # DuckDB multiplies two DECIMALs of up to 18 digits as one of 18 and no more.
    left = f"CAST({a.sql} AS DECIMAL(19,{s1}))" if max(p1, p2) <= 18 < precision else a.sql
    result = typed(f"({left} * {b.sql})", t.NUMERIC, a, b, dec=(precision, scale))
    native = max(p1, p2) <= 18 and precision <= 18  # it is of this type already
    sql = result.sql if native else f"CAST({result.sql} AS DECIMAL({precision},{scale}))"
    return replace(result, sql=sql, scale_sql=scale_sql)


def _numeric_sum(symbol: str) -> Callable[..., Typed]:
    macro = "pg_numadd" if symbol == "+" else "pg_numsub"

    def text(digits: Digits, a: Typed, b: Typed) -> Typed:
        if a.dec is None or b.dec is None:
            return _numeric_text(macro, a, b)
        (p1, s1), (p2, s2) = a.dec, b.dec
        scale = max(s1, s2)
        mixed = a.scale_sql is not None or b.scale_sql is not None
        scale_sql = f"greatest({a.scale_sql or s1}, {b.scale_sql or s2})" if mixed else None
        precision = digits.digits(max(p1 - s1, p2 - s2) + scale + 1, scale)
        dec = (precision, scale)
        if precision > MAX_DIGITS:
            return _numeric_text(macro, a, b)
        if precision < 18:  # DuckDB gives the sum one digit more than its operands have
            x, y = (decimal_text(one, (precision - 1, scale)) for one in (a, b))
            return replace(typed(f"({x} {symbol} {y})", t.NUMERIC, a, b, dec=dec), scale_sql=scale_sql)
        cast = f"AS DECIMAL({precision},{scale}))"
        sql = f"CAST((CAST({a.sql} {cast} {symbol} CAST({b.sql} {cast}) {cast}"
        return replace(typed(sql, t.NUMERIC, a, b, dec=dec), scale_sql=scale_sql)

    return text


def _numeric_by(macro: str) -> Callable[..., Typed]:
    return lambda digits, a, b: _numeric_text(macro, a, b)


def _numeric_negative(digits: Digits, x: Typed) -> Typed:
    if x.dec is None:
        return typed(f"pg_numneg({x.sql})", t.NUMERIC, x)
    return replace(typed(f"(-{x.sql})", t.NUMERIC, x, dec=x.dec), scale_sql=x.scale_sql)


_ONE_UNIT = re.compile(r"(?:\(-)?\(to_(?:months|days|microseconds)\([^()]*(?:\([^()]*\))?\)\)\)?")
"""A constant interval of months alone, days alone or time alone: DuckDB adds those as PostgreSQL does."""


def _zoned_sum(digits: Digits, moment: Typed, span: Typed) -> Typed:
    plain = _ONE_UNIT.fullmatch(span.sql)
    sql = f"({moment.sql} + {span.sql})" if plain else f"pg_zonedplus({moment.sql}, {span.sql})"
    return typed(sql, t.TIMESTAMPTZ, moment, span)


def _zoned_difference(digits: Digits, moment: Typed, span: Typed) -> Typed:
    # Months go before days and these before the rest, as in a sum.
    return _zoned_sum(digits, moment, typed(f"(-{span.sql})", t.INTERVAL, span))


# ---------------------------------------------------------------------------- candidates


def _same(
    symbol: str,
    base: Base,
    operation: Callable[..., Any],
    count: int = 2,
    duck: str | Callable[..., Typed] = "",
) -> Signature:
    return Signature((base,) * count, SqlType(base), Function(symbol, operation, duck=duck))


def _arithmetic(
    symbol: str,
    of_width: Callable[[Base], Callable[[int, int], int]],
    of_float: Callable[[float, float], float],
    of_numeric: Callable[..., Any],
    in_duck: tuple[str, str, Callable[..., Typed]],
) -> list[Signature]:
    """The number types' candidates: integers of different widths and floats pair without casts.

    ``in_duck`` is DuckDB's operator of integers, its macro of floats, and its text of NUMERICs.
    """
    of_integers, macro, duck = in_duck
    signatures = [_same(symbol, B.NUMERIC, of_numeric, duck=duck)]
    for left, right in product(INTS, INTS):
        wider = max(left, right, key=INTS.index)
        function = Function(symbol, of_width(wider), duck=_of_width(of_integers, wider))
        signatures.append(Signature((left, right), SqlType(wider), function))
    for left, right in product(FLOATS, FLOATS):
        real = left is right is B.REAL
        texts = (
            f"{{{at}}}" if real or base is B.DOUBLE else f"CAST({{{at}}} AS DOUBLE)"
            for at, base in enumerate((left, right))
        )
        function = Function(
            symbol, _in_real(of_float) if real else of_float, duck=f"{macro}({', '.join(texts)})"
        )
        signatures.append(Signature((left, right), t.REAL if real else t.DOUBLE, function))
    return signatures


_SUM, _DIFFERENCE = "({0} + {1})", "({0} + (-{1}))"


def _with_interval() -> tuple[list[Signature], list[Signature]]:
    plus: list[Signature] = []
    minus: list[Signature] = []

    def pair(base: Base, result: SqlType, added: Function, taken: Function) -> None:
        plus.append(Signature((base, B.INTERVAL), result, added))
        plus.append(Signature((B.INTERVAL, base), result, _swapped(added)))
        minus.append(Signature((base, B.INTERVAL), result, taken))

    midnight = "(CAST({0} AS TIMESTAMP) + "
    pair(
        B.DATE, t.TIMESTAMP,
        Function("+", intervals.add_to_date, duck=midnight + "{1})"),
        Function("-", intervals.take_from_date, duck=midnight + "(-{1}))"),
    )  # fmt: skip
    pair(
        B.TIMESTAMP, t.TIMESTAMP,
        Function("+", intervals.add, duck=_SUM), Function("-", intervals.take, duck=_DIFFERENCE),
    )  # fmt: skip
    pair(
        B.TIMESTAMPTZ, t.TIMESTAMPTZ,
        Function("+", intervals.add_zoned, needs_clock=True, duck=_zoned_sum),
        Function("-", intervals.take_zoned, needs_clock=True, duck=_zoned_difference),
    )  # fmt: skip
    pair(
        B.TIME, t.TIME,
        Function("+", intervals.add_to_time, duck=_SUM),
        Function("-", intervals.take_from_time, duck="({0} - {1})"),
    )  # fmt: skip
    plus.append(Signature((B.INTERVAL, B.INTERVAL), t.INTERVAL, Function("+", spans.add, duck=_SUM)))
    minus.append(
        Signature((B.INTERVAL, B.INTERVAL), t.INTERVAL, Function("-", spans.subtract, duck="({0} - {1})"))
    )
    between = Function("-", intervals.between, duck="pg_tsdiff({0}, {1})")
    minus.extend(Signature((base, base), t.INTERVAL, between) for base in (B.TIMESTAMP, B.TIMESTAMPTZ))
    times = "to_microseconds(epoch_us({0}) - epoch_us({1}))"
    minus.append(Signature((B.TIME, B.TIME), t.INTERVAL, Function("-", intervals.between_times, duck=times)))
    return plus, minus


def _swapped(function: Function) -> Function:
    """The same of operands the other way round."""
    run, duck = function.implementation, function.duck
    if isinstance(duck, str):
        return structs.replace(function, implementation=_swap(run), duck=duck.format("{1}", "{0}"))
    return structs.replace(
        function,
        implementation=(lambda clock, left, right: run(clock, right, left))
        if function.needs_clock
        else _swap(run),
        duck=lambda digits, a, b: duck(digits, b, a),
    )


def _swap(operation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda left, right: operation(right, left)


_PLUS_INTERVAL, _MINUS_INTERVAL = _with_interval()

_DATE_PLUS = Function("+", _date_plus, duck=_SUM)
_DATE_PLUS_TIME = Function("+", _date_plus_time, duck=_SUM)
BINARY: dict[str, list[Signature]] = {
    "+": [
        *_arithmetic("+", integers.adder, float_add, numeric.add, ("+", "pg_fadd", _numeric_sum("+"))),
        Signature((B.DATE, B.INTEGER), t.DATE, _DATE_PLUS),
        Signature((B.INTEGER, B.DATE), t.DATE, _swapped(_DATE_PLUS)),
        Signature((B.DATE, B.TIME), t.TIMESTAMP, _DATE_PLUS_TIME),
        Signature((B.TIME, B.DATE), t.TIMESTAMP, _swapped(_DATE_PLUS_TIME)),
        *_PLUS_INTERVAL,
    ],
    "-": [
        *_arithmetic(
            "-", integers.subtracter, float_subtract, numeric.subtract, ("-", "pg_fsub", _numeric_sum("-"))
        ),
        Signature(
            (B.DATE, B.INTEGER),
            t.DATE,
            Function("-", lambda days, count: _date_plus(days, -count), duck="({0} - {1})"),
        ),
        Signature(
            (B.DATE, B.DATE), t.INTEGER, Function("-", _date_minus, duck="CAST(({0} - {1}) AS INTEGER)")
        ),
        *_MINUS_INTERVAL,
    ],
    "*": _arithmetic(
        "*", integers.multiplier, float_multiply, numeric.multiply, ("*", "pg_fmul", _numeric_product)
    ),
    "/": _arithmetic(
        "/", integers.divider, float_divide, numeric.divide, ("//", "pg_fdiv", _numeric_by("pg_numdiv"))
    ),
    "%": [
        *(_same("%", base, integers.remainder, duck="({0} % {1})") for base in INTS),
        _same("%", B.NUMERIC, numeric.remainder, duck=_numeric_by("pg_nummod")),
    ],
    "^": [
        _same("^", B.DOUBLE, float_power, duck="pg_fpow({0}, {1})"),
        _same("^", B.NUMERIC, numeric.power, duck=_numeric_by("pg_numpow")),
    ],
    "&": [_same("&", base, lambda a, b: a & b, duck="({0} & {1})") for base in INTS],
    "|": [_same("|", base, lambda a, b: a | b, duck="({0} | {1})") for base in INTS],
    "#": [_same("#", base, lambda a, b: a ^ b, duck="xor({0}, {1})") for base in INTS],
}


def _shift(base: Base, symbol: str) -> Function:
    # C's shifts on the machines PostgreSQL runs on: the count is taken modulo the register's width.
    mask, width = (63, 64) if base is B.BIGINT else (31, 16 if base is B.SMALLINT else 32)
    macro = "pg_shl" if symbol == "<<" else "pg_shr"
    shifted = f"{macro}(CAST({{0}} AS BIGINT), {{1}} & {mask}, {width})"
    duck = f"CAST({shifted} AS {duck_type(SqlType(base))})"
    if symbol == "<<":
        return Function(symbol, lambda value, count: integers.wrap(base, value << (count & mask)), duck=duck)
    return Function(symbol, lambda value, count: value >> (count & mask), duck=duck)


for _symbol in ("<<", ">>"):
    BINARY[_symbol] = [
        Signature((_base, B.INTEGER), SqlType(_base), _shift(_base, _symbol)) for _base in INTS
    ]

UNARY: dict[str, list[Signature]] = {
    "-": [
        *(_same("-", base, integers.negater(base), 1, "(-{0})") for base in INTS),
        _same("-", B.NUMERIC, numeric.negate, 1, _numeric_negative),
        *(_same("-", base, lambda value: -value, 1, "(-{0})") for base in FLOATS),
        Signature((B.INTERVAL,), t.INTERVAL, Function("-", spans.negate, duck="(-{0})")),
    ],
    "~": [_same("~", base, lambda value: ~value, 1, "(~{0})") for base in INTS],
}

_COMPARED = Function("comparison", lambda: None)
"""Stands where a pair of types alone is asked for."""
COMPARABLE: list[Signature] = [
    *(Signature(pair, t.BOOLEAN, _COMPARED) for pair in product(INTS, INTS)),
    *(Signature(pair, t.BOOLEAN, _COMPARED) for pair in product(FLOATS, FLOATS)),
    *(Signature(pair, t.BOOLEAN, _COMPARED) for pair in product(MOMENTS, MOMENTS)),
    *(
        Signature((base, base), t.BOOLEAN, _COMPARED)
        for base, facts in FACTS.items()
        if facts.comparable and base not in {*INTS, *FLOATS, *MOMENTS, B.VARCHAR, B.CIDR}
    ),
    Signature((B.XID, B.INTEGER), t.BOOLEAN, _COMPARED),
]
"""Pairs of types that ``= <> < <= > >=`` exist for; the comparing itself is ``compile``'s."""
