"""NUMERIC arithmetic of the columnar engine, on values that outgrow DuckDB's DECIMAL.

All functions take and give ``Decimal`` whose exponent is the display scale; DuckDB passes them as text. The
rules for display scales are those of PostgreSQL's numeric.c (add, mul, sqrt_var and so on); division is that
of ``expr.numeric``, so that both engines divide alike.
"""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal

from herdpy_sql.errors import SqlError
from herdpy_sql.expr.numeric import division_scale, leading, quotient_at

MIN_SIGNIFICANT = 16
MAX_SCALE = 1000
WIDE = Context(prec=3000, Emax=999999, Emin=-999999)


def text_of(value: Decimal) -> str:
    """Decimal text with every fraction digit, never an exponent."""
    return format(value, "f") if value else format(value.copy_abs(), "f")


def scale_of(value: Decimal) -> int:
    """The display scale."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return max(-exponent, 0)


def rescale(value: Decimal, scale: int, rounding: str = ROUND_HALF_UP) -> Decimal:
    """``value`` with ``scale`` fraction digits, halves away from zero unless told."""
    return value.quantize(Decimal(1).scaleb(-scale), rounding=rounding, context=WIDE)


def add(a: Decimal, b: Decimal) -> Decimal:
    """a + b."""
    return WIDE.add(a, b)


def subtract(a: Decimal, b: Decimal) -> Decimal:
    """a - b."""
    return WIDE.subtract(a, b)


def multiply(a: Decimal, b: Decimal) -> Decimal:
    """a * b, the scales added."""
    product = WIDE.multiply(a, b)
    return rescale(product, MAX_SCALE) if scale_of(product) > MAX_SCALE else product


def divide(a: Decimal, b: Decimal) -> Decimal:
    """a / b; SqlError 22012 when ``b`` is zero."""
    if not b:
        raise SqlError("22012", "division by zero")
    return quotient_at(a, b, division_scale(a, b))


def modulo(a: Decimal, b: Decimal) -> Decimal:
    """a % b with the sign of ``a``; SqlError 22012 when ``b`` is zero."""
    if not b:
        raise SqlError("22012", "division by zero")
    scale = max(scale_of(a), scale_of(b))
    return rescale(WIDE.remainder(a, b), scale)


def round_to(value: Decimal, digits: int) -> Decimal:
    """round(value, digits); negative ``digits`` round left of the point."""
    digits = max(min(digits, 2000), -2000)
    if digits >= 0:
        return rescale(value, digits)
    return rescale(rescale(value, digits), 0)


def truncate_to(value: Decimal, digits: int) -> Decimal:
    """trunc(value, digits)."""
    digits = max(min(digits, 2000), -2000)
    if digits >= 0:
        return rescale(value, digits, ROUND_DOWN)
    return rescale(rescale(value, digits, ROUND_DOWN), 0)


def limit(value: Decimal, precision: int, scale: int) -> Decimal:
    """A cast to NUMERIC(precision, scale); SqlError 22003 when it does not fit."""
    result = rescale(value, scale)
    if scale < 0:
        result = rescale(result, 0)
    if result and result.adjusted() >= precision - scale:
        raise SqlError(
            "22003",
            "numeric field overflow",
            detail=f"A field with precision {precision}, scale {scale} must round to an absolute value "
            f"less than {'10^' + str(precision - scale) if precision != scale else '1'}.",
        )
    return result


_LOG10_E = 0.434294481903252
_MOST_EXPONENT = 6000
"""What exp of a NUMERIC takes (NUMERIC_MAX_RESULT_SCALE * 3)."""
_GUARD = 40
"""Digits that are computed beyond those that are shown."""


def square_root(value: Decimal) -> Decimal:
    """sqrt of a NUMERIC; SqlError 2201F for negative ones."""
    if value < 0:
        raise SqlError("2201F", "cannot take square root of a negative number")
    weight, _ = leading(value)
    # numeric_sqrt: assume the input was normalized, so arg.weight is accurate.
    sweight = (weight + 1) * 4 // 2 - 1 if weight >= 0 else -((-weight - 1) * 4 // 2) - 1
    scale = min(max(MIN_SIGNIFICANT - sweight, scale_of(value), 0), MAX_SCALE)
    return rescale(WIDE.sqrt(value), scale)


def estimate_ln_weight(value: Decimal) -> int:
    """estimate_ln_dweight: the decimal weight of ln(value)."""
    if Decimal("0.9") <= value <= Decimal("1.1"):
        rest = WIDE.subtract(value, Decimal(1)).copy_abs()
        if not rest:
            return 0
        weight, first = leading(rest)
        return weight * 4 + int(math.log10(first))
    weight, first = leading(value)
    two_digits = int(value.scaleb(-4 * (weight - 1), WIDE))
    if two_digits == first * 10000:
        return int(math.log10(abs(math.log(first) + weight * 4 * 2.302585092994046)))
    return int(math.log10(abs(math.log(two_digits) + (weight - 1) * 4 * 2.302585092994046)))


def _clamped(scale: int, *operands: Decimal) -> int:
    return min(max(scale, 0, *(scale_of(o) for o in operands)), MAX_SCALE)


def exponential(value: Decimal) -> Decimal:
    """exp of a NUMERIC; SqlError 22003 on overflow. Scale and limits are those of numeric_exp and exp_var."""
    if value >= _MOST_EXPONENT:
        raise SqlError("22003", "value overflows numeric format")
    weight = int(float(value) * _LOG10_E)
    scale = _clamped(MIN_SIGNIFICANT - max(weight, -_MOST_EXPONENT // 3), value)
    if value <= -_MOST_EXPONENT:
        return rescale(Decimal(0), scale)
    digits = Context(prec=max(weight, 0) + scale + _GUARD, Emax=999999, Emin=-999999)
    return rescale(digits.exp(value), scale)


def _positive(value: Decimal) -> None:
    if value <= 0:
        what = "zero" if not value else "a negative number"
        raise SqlError("2201E", f"cannot take logarithm of {what}")


def natural_log(value: Decimal) -> Decimal:
    """ln of a NUMERIC; SqlError 2201E."""
    _positive(value)
    scale = _clamped(MIN_SIGNIFICANT - estimate_ln_weight(value), value)
    return rescale(Context(prec=scale + 30, Emax=999999, Emin=-999999).ln(value), scale)


def logarithm(base: Decimal, value: Decimal) -> Decimal:
    """log(base, value); SqlError 2201E, or 22012 for base 1."""
    _positive(base)
    _positive(value)
    scale = _clamped(MIN_SIGNIFICANT - (estimate_ln_weight(value) - estimate_ln_weight(base)), base, value)
    wide = Context(prec=scale + 40, Emax=999999, Emin=-999999)
    bottom = wide.ln(base)
    if not bottom:
        raise SqlError("22012", "division by zero")
    return rescale(wide.divide(wide.ln(value), bottom), scale)


def power(base: Decimal, exponent: Decimal) -> Decimal:
    """base ^ exponent; SqlError 2201F, 22003."""
    if not base and exponent < 0:
        raise SqlError("2201F", "zero raised to a negative power is undefined")
    whole = exponent == exponent.to_integral_value()
    if base < 0 and not whole:
        raise SqlError("2201F", "a negative number raised to a non-integer power yields a complex result")
    if whole and abs(exponent) < 1 << 31:  # as power_var_int: digits behind the point, whatever stands before
        scale = min(max(MIN_SIGNIFICANT, scale_of(base)), MAX_SCALE)
    elif not base:
        scale = MIN_SIGNIFICANT
    else:
        scale = _clamped(MIN_SIGNIFICANT - int(_power_weight(base, exponent)), base, exponent)
    if not exponent or not base:
        return rescale(Decimal(0 if exponent else 1), scale)
    weight = _power_weight(base, exponent)
    if weight >= 131072:
        raise SqlError("22003", "value overflows numeric format")
    wide = Context(prec=max(int(weight), 0) + scale + _GUARD, Emax=999999, Emin=-999999)
    return rescale(wide.power(base, exponent), scale)


def _power_weight(base: Decimal, exponent: Decimal) -> float:
    """About log10 of a power of what is not zero."""
    if abs(base) < Decimal("1e-20"):
        return float(exponent) * base.adjusted()
    return float(exponent) * (math.log10(abs(int(base.scaleb(20, WIDE)))) - 20)


def whole_quotient(a: Decimal, b: Decimal) -> Decimal:
    """div(a, b): truncated; SqlError 22012."""
    if not b:
        raise SqlError("22012", "division by zero")
    return truncate_to(quotient_down(a, b), 0)


def quotient_down(a: Decimal, b: Decimal) -> Decimal:
    """a / b to the whole part, by integers."""
    return rescale(WIDE.divide_int(a, b), 0)


def stand_in(value: Decimal, precision: int, scale: int) -> str:
    """A value of DECIMAL(p+2, s+1) that compares with every DECIMAL(p, s) as ``value`` does."""
    most = Decimal(1).scaleb(precision - scale)
    if abs(value) >= most:
        return str(most if value > 0 else -most)
    quantum = Decimal(1).scaleb(-scale)
    floor = value.quantize(quantum, rounding=ROUND_FLOOR, context=WIDE)
    if floor == value:
        return format(floor, "f")
    return format(WIDE.add(floor, quantum / 2), "f")


def normal(value: Decimal) -> Decimal:
    """The value without trailing zeros after the point: one form for equal numbers."""
    result = value.normalize(WIDE)
    return rescale(result, 0) if scale_of(result) == 0 else result


def number_key(value: Decimal) -> str:
    """Text that sorts (by code point) as the numbers do; equal numbers have equal text."""
    if not value:
        return "1"
    digits = "".join(map(str, value.as_tuple().digits)).lstrip("0").rstrip("0")
    body = f"{value.adjusted() + 200000:06d}{digits}"
    if value > 0:
        return "2" + body
    return "0" + "".join(chr(ord("9") - ord(c) + ord("0")) for c in body) + "~"
