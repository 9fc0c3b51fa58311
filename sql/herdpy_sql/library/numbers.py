"""Functions of numbers, each with both emitters: over datums, and in DuckDB.

NUMERIC stays exact, natively on DECIMALs of known digits and else by functions over its text; what is not
NUMERIC becomes DOUBLE PRECISION, as in PostgreSQL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from herdpy_sql.duck import MAX_DIGITS, Typed, let, numeric_text, typed
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import integers, numeric
from herdpy_sql.expr.operators import float_power
from herdpy_sql.library.routine import Poly, add, routine
from herdpy_sql.types import BIGINT, DOUBLE, INTEGER, NUMERIC, REAL, SMALLINT
from herdpy_sql.values.numeric import EXACT

_INTEGERS = (SMALLINT, INTEGER, BIGINT)


def _out_of_range() -> SqlError:
    return SqlError("22003", "input is out of range")


# ---------------------------------------------------------------------------- trigonometry


def _periodic(function: Callable[[float], float]) -> Callable[[float], float]:
    def run(value: float) -> float:
        if math.isinf(value):
            raise _out_of_range()
        return function(value)

    return run


def _arc(function: Callable[[float], float]) -> Callable[[float], float]:
    def run(value: float) -> float:
        if not -1 <= value <= 1 and not math.isnan(value):
            raise _out_of_range()
        return function(value)

    return run


_INFINITE = "error('SQLSTATE 22003: input is out of range')"
_BRIEF = 8
"""How many operands an expression may have to be in a text twice."""


def _duck_periodic(name: str) -> Callable[[Typed], Typed]:
    def of_finite(x: Typed) -> Typed:
        if x.weight > _BRIEF or x.volatile:
            sql = f"CASE WHEN isinf(v.x) THEN {_INFINITE} ELSE {name}(v.x) END"
            return typed(let({"x": x.sql}, sql), DOUBLE, x)
        sql = f"CASE WHEN isinf({x.sql}) THEN {_INFINITE} ELSE {name}({x.sql}) END"
        return replace(typed(sql, DOUBLE, x), weight=2 * x.weight)

    return of_finite


_RADIAN = 0.017453292519943295
"""Of a degree, as PostgreSQL has it: it divides by this rather than multiply by the inverse."""


def _degrees(value: float) -> float:
    result = value / _RADIAN
    if math.isinf(result) and not math.isinf(value):
        raise SqlError("22003", "value out of range: overflow")
    return result


def _cotangent(value: float) -> float:
    tangent = math.tan(value)
    return 1 / tangent if tangent else math.copysign(math.inf, tangent)


for _name, _count, _call, _duck in (
    ("sin", 1, _periodic(math.sin), _duck_periodic("sin")),
    ("cos", 1, _periodic(math.cos), _duck_periodic("cos")),
    ("tan", 1, _periodic(math.tan), _duck_periodic("tan")),
    ("asin", 1, _arc(math.asin), "pg_finput('asin', {0})"),
    ("acos", 1, _arc(math.acos), "pg_finput('acos', {0})"),
    ("atan", 1, math.atan, "atan({0})"),
    ("atan2", 2, math.atan2, "atan2({0}, {1})"),
    ("degrees", 1, _degrees, f"pg_fdiv({{0}}, CAST('{_RADIAN}' AS DOUBLE))"),
    ("radians", 1, lambda value: value * _RADIAN, f"({{0}} * CAST('{_RADIAN}' AS DOUBLE))"),
    ("cbrt", 1, math.cbrt, "cbrt({0})"),
    ("pi", 0, lambda: math.pi, "pi()"),
):
    add(_name, (DOUBLE,) * _count, DOUBLE, _call, duck=_duck)
add("cot", (DOUBLE,), DOUBLE, _periodic(_cotangent))


# ---------------------------------------------------------------------------- signs and whole numbers


def _of_numeric(form: str) -> Callable[..., Typed]:
    """DuckDB's text of a function that gives a NUMERIC as text; its operands are texts, too."""
    return lambda *args: typed(form.format(*map(numeric_text, args)), NUMERIC, *args)


def _duck_abs(x: Typed) -> Typed:
    if x.is_text_numeric:
        return typed(f"pg_numabs({x.sql})", NUMERIC, x)
    return replace(typed(f"abs({x.sql})", NUMERIC, x, dec=x.dec), scale_sql=x.scale_sql)


def _duck_sign(x: Typed) -> Typed:
    sql = f"pg_numsign({x.sql})" if x.dec is None else f"sign({x.sql})"
    return typed(f"CAST({sql} AS DECIMAL(1,0))", NUMERIC, x, dec=(1, 0))


def _duck_whole(name: str) -> Callable[[Typed], Typed]:
    def whole(x: Typed) -> Typed:
        if x.dec is None:
            return typed(f"pg_num{name}({x.sql})", NUMERIC, x)
        precision, scale = x.dec
        digits = min(max(precision - scale + 1, 1), MAX_DIGITS)
        return typed(f"CAST({name}({x.sql}) AS DECIMAL({digits},0))", NUMERIC, x, dec=(digits, 0))

    return whole


_ZERO_PLACES = Typed("0", INTEGER, literal="0")


def _duck_places(name: str) -> Callable[..., Typed]:
    """round() and trunc(): a DECIMAL where the places are known and its digits fit one."""

    def to_places(x: Typed, places: Typed = _ZERO_PLACES) -> Typed:
        if places.literal is not None and x.dec is not None and places.literal.isdigit():
            n, (precision, scale) = int(places.literal), x.dec
            whole = precision - scale
            if n >= scale and whole + n <= MAX_DIGITS:
                dec = (max(whole + n, 1), n)
                return typed(f"CAST({x.sql} AS DECIMAL({dec[0]},{n}))", NUMERIC, x, places, dec=dec)
            if name == "round" and whole + n + 1 <= MAX_DIGITS:
                dec = (whole + n + 1, n)
                return typed(f"CAST({x.sql} AS DECIMAL({dec[0]},{n}))", NUMERIC, x, places, dec=dec)
        return typed(f"pg_num{name}({numeric_text(x)}, {places.sql})", NUMERIC, x, places)

    return to_places


def _whole(operation: Callable[[float], float]) -> Callable[[float], float]:
    """``math.floor`` and its like over every float: large ones, infinities and NaN are whole already."""

    def run(value: float) -> float:
        return math.copysign(float(operation(value)), value) if abs(value) < 2**53 else value

    return run


for _type in _INTEGERS:
    add("abs", (_type,), _type, integers.absolute(_type.base), duck="abs({0})")
    add("mod", (_type, _type), _type, integers.remainder, duck="({0} % {1})")
for _type in (REAL, DOUBLE):
    add("abs", (_type,), _type, abs, duck="abs({0})")
add("abs", (NUMERIC,), NUMERIC, numeric.absolute, duck=_duck_abs)
add("mod", (NUMERIC, NUMERIC), NUMERIC, numeric.remainder, duck=_of_numeric("pg_nummod({}, {})"))
add("div", (NUMERIC, NUMERIC), NUMERIC, numeric.whole_quotient, duck=_of_numeric("pg_numintdiv({}, {})"))


@routine("sign", (DOUBLE,), DOUBLE, duck="CAST(sign({0}) AS DOUBLE)")
def _sign(value: float) -> float:
    return 1.0 if value > 0 else -1.0 if value < 0 else 0.0  # 0 of NaN too


add("sign", (NUMERIC,), NUMERIC, numeric.sign, duck=_duck_sign)
for _name in ("ceil", "ceiling"):
    add(_name, (DOUBLE,), DOUBLE, _whole(math.ceil), duck="ceil({0})")
    add(_name, (NUMERIC,), NUMERIC, numeric.ceiling, duck=_duck_whole("ceil"))
add("floor", (DOUBLE,), DOUBLE, _whole(math.floor), duck="floor({0})")
add("floor", (NUMERIC,), NUMERIC, numeric.floor, duck=_duck_whole("floor"))


@routine("round", (DOUBLE,), DOUBLE, duck="round_even({0}, 0)")
def _round(value: float) -> float:
    return math.copysign(round(value), value) if math.isfinite(value) else value


add("trunc", (DOUBLE,), DOUBLE, _whole(math.trunc), duck="trunc({0})")
for _name, _places in (("round", numeric.round_to), ("trunc", numeric.truncate_to)):
    add(_name, (NUMERIC,), NUMERIC, lambda value, to=_places: to(value, 0), duck=_duck_places(_name))
    add(_name, (NUMERIC, INTEGER), NUMERIC, _places, duck=_duck_places(_name))


# ---------------------------------------------------------------------------- roots, powers, logarithms


@routine("sqrt", (DOUBLE,), DOUBLE, duck="pg_fsqrt({0})")
def _sqrt(value: float) -> float:
    if value < 0:
        raise SqlError("2201F", "cannot take square root of a negative number")
    return math.sqrt(value)


@routine("exp", (DOUBLE,), DOUBLE, duck="pg_fexp({0})")
def _exp(value: float) -> float:
    try:
        result = math.exp(value)
    except OverflowError:
        raise SqlError("22003", "value out of range: overflow") from None
    if result == 0 and not math.isinf(value):
        raise SqlError("22003", "value out of range: underflow")
    return result


def _log(function: Callable[[float], float]) -> Callable[[float], float]:
    def run(value: float) -> float:
        if value <= 0:
            raise SqlError("2201E", f"cannot take logarithm of {'a negative number' if value else 'zero'}")
        return function(value)

    return run


add("sqrt", (NUMERIC,), NUMERIC, numeric.square_root, duck=_of_numeric("pg_numsqrt({})"))
add("exp", (NUMERIC,), NUMERIC, numeric.exponential, duck=_of_numeric("pg_numexp({})"))
add("ln", (DOUBLE,), DOUBLE, _log(math.log), duck="pg_flog('ln', {0})")
add("ln", (NUMERIC,), NUMERIC, numeric.natural_log, duck=_of_numeric("pg_numln({})"))
for _name in ("log", "log10"):
    add(_name, (DOUBLE,), DOUBLE, _log(math.log10), duck="pg_flog('log', {0})")
    add(
        _name,
        (NUMERIC,),
        NUMERIC,
        lambda value: numeric.logarithm(Decimal(10), value),
        duck=_of_numeric("pg_numlog('10', {})"),
    )
add("log", (NUMERIC, NUMERIC), NUMERIC, numeric.logarithm, duck=_of_numeric("pg_numlog({}, {})"))
for _name in ("power", "pow"):
    add(_name, (DOUBLE, DOUBLE), DOUBLE, float_power, duck="pg_fpow({0}, {1})")
    add(_name, (NUMERIC, NUMERIC), NUMERIC, numeric.power, duck=_of_numeric("pg_numpow({}, {})"))


# ---------------------------------------------------------------------------- buckets, scales, divisors


@routine("width_bucket", (NUMERIC, NUMERIC, NUMERIC, INTEGER), INTEGER)
def _bucket(value: Any, low: Any, high: Any, count: int) -> int:
    if count <= 0:
        raise SqlError("2201G", "count must be greater than zero")
    if low == high:
        raise SqlError("2201G", "lower bound cannot equal upper bound")
    if low < high:
        if value < low:
            return 0
        return count + 1 if value >= high else int((value - low) * count / (high - low)) + 1
    if value > low:
        return 0
    return count + 1 if value <= high else int((low - value) * count / (low - high)) + 1


add("width_bucket", (DOUBLE, DOUBLE, DOUBLE, INTEGER), INTEGER, _bucket)


@routine("width_bucket", (Poly.ELEMENT, Poly.ARRAY), INTEGER)
def _bucket_of(value: Any, bounds: Any) -> int:
    return sum(one <= value for one in bounds)


@routine("trim_scale", (NUMERIC,), NUMERIC)
def _trim(value: Decimal) -> Decimal:
    digits = -int(value.as_tuple().exponent)
    while digits and value == EXACT.quantize(value, Decimal(1).scaleb(-(digits - 1))):
        digits -= 1
    return EXACT.quantize(value, Decimal(1).scaleb(-digits))


add("scale", (NUMERIC,), INTEGER, lambda value: -int(value.as_tuple().exponent))
add("min_scale", (NUMERIC,), INTEGER, lambda value: -int(_trim(value).as_tuple().exponent))


@routine("factorial", (BIGINT,), NUMERIC)
def _factorial(value: int) -> Decimal:
    if value < 0:
        raise SqlError("22003", "factorial of a negative number is undefined")
    if value > 32_177:
        raise SqlError("22003", "value overflows numeric format")
    return EXACT.create_decimal(math.factorial(value))


def _within(limit: int, name: str) -> Any:
    def check(value: int) -> int:
        if value >= limit:
            raise SqlError("22003", f"{name} out of range")
        return value

    return check


for _type, _limit in ((INTEGER, 2**31), (BIGINT, 2**63)):
    _check = _within(_limit, _type.name)
    add("gcd", (_type, _type), _type, lambda a, b, check=_check: check(math.gcd(a, b)))
    add("lcm", (_type, _type), _type, lambda a, b, check=_check: check(math.lcm(a, b)))
