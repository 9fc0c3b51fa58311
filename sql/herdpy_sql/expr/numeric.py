"""NUMERIC arithmetic with PostgreSQL's display scales (its numeric.c).

Sums keep the larger scale, products the sum of the scales, quotients at least 16 significant digits
(select_div_scale). Results are exact or, for division, roots, powers and logarithms, rounded half away from
zero at that scale. Both engines compute with these functions: DuckDB calls them back on texts.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, Context, Decimal

from herdpy_sql.errors import SqlError
from herdpy_sql.expr.integers import division_by_zero
from herdpy_sql.values.numeric import EXACT, MAX_SCALE, normal, quantum, rescale

_SIGNIFICANT = 16
_DIGITS = 4  # decimal digits in one of PostgreSQL's base-10000 digits
_MAX_DISPLAY = 1000
WIDE = Context(prec=3000, Emax=999999, Emin=-999999)


def scale_of(value: Decimal) -> int:
    """Digits after the point."""
    return -value.as_tuple().exponent  # type: ignore[operator]


def add(left: Decimal, right: Decimal) -> Decimal:
    """The sum."""
    return _positive_zero(EXACT.add(left, right))


def subtract(left: Decimal, right: Decimal) -> Decimal:
    """The difference."""
    return _positive_zero(EXACT.subtract(left, right))


def multiply(left: Decimal, right: Decimal) -> Decimal:
    """The product, rounded only when its scale would pass 16383."""
    result = EXACT.multiply(left, right)
    if scale_of(result) > MAX_SCALE:
        result = rescale(result, MAX_SCALE)
    return normal(result)


def divide(left: Decimal, right: Decimal) -> Decimal:
    """The quotient at PostgreSQL's scale. SqlError 22012 for a zero divisor."""
    if not right:
        raise division_by_zero()
    return quotient_at(left, right, division_scale(left, right))


def division_scale(left: Decimal, right: Decimal) -> int:
    """select_div_scale of numeric.c: at least 16 significant digits, and no fewer than the operands show."""
    weight1, first1 = leading(left)
    weight2, first2 = leading(right)
    weight = weight1 - weight2
    if first1 <= first2:
        weight -= 1
    scale = max(_SIGNIFICANT - weight * _DIGITS, scale_of(left), scale_of(right), 0)
    return min(scale, _MAX_DISPLAY)


def quotient_at(left: Decimal, right: Decimal, scale: int) -> Decimal:
    """The quotient rounded half away from zero at ``scale``: integer division, so never twice rounded."""
    shift = scale + scale_of(right) - scale_of(left)
    above, below = _digits(left), _digits(right)
    if shift >= 0:
        above = EXACT.scaleb(above, shift)
        above = EXACT.quantize(above, Decimal(1))
    else:
        below = EXACT.quantize(EXACT.scaleb(below, -shift), Decimal(1))
    whole, rest = EXACT.divmod(above.copy_abs(), below.copy_abs())
    if EXACT.add(rest, rest) >= below.copy_abs():
        whole = EXACT.add(whole, Decimal(1))
    if left.is_signed() != right.is_signed():
        whole = EXACT.minus(whole)
    return normal(EXACT.scaleb(whole, -scale))


def remainder(left: Decimal, right: Decimal) -> Decimal:
    """The remainder with the sign of the dividend."""
    if not right:
        raise division_by_zero()
    result = EXACT.remainder(left, right)
    return rescale(result, max(scale_of(left), scale_of(right)))


def whole_quotient(left: Decimal, right: Decimal) -> Decimal:
    """div(): the quotient truncated to a whole number."""
    if not right:
        raise division_by_zero()
    return _positive_zero(EXACT.quantize(EXACT.divide_int(left, right), Decimal(1)))


def negate(value: Decimal) -> Decimal:
    """The negation; zero has no sign."""
    return value.copy_negate() if value else value


def absolute(value: Decimal) -> Decimal:
    """The absolute value."""
    return value.copy_abs()


def sign(value: Decimal) -> Decimal:
    """-1, 0 or 1."""
    return Decimal(0 if not value else -1 if value.is_signed() else 1)


def round_to(value: Decimal, digits: int) -> Decimal:
    """round(value, digits); ``digits`` may be negative, and is held within PostgreSQL's limits."""
    digits = max(min(digits, 2000), -2000)
    if digits >= 0:
        return rescale(value, digits)
    return normal(EXACT.quantize(EXACT.quantize(value, quantum(digits)), Decimal(1)))


def truncate_to(value: Decimal, digits: int) -> Decimal:
    """trunc(value, digits)."""
    digits = max(min(digits, 2000), -2000)
    cut = value.quantize(quantum(digits), rounding=ROUND_DOWN, context=EXACT)
    return _positive_zero(cut if digits >= 0 else EXACT.quantize(cut, Decimal(1)))


def ceiling(value: Decimal) -> Decimal:
    """The least whole number that is not less."""
    return _positive_zero(value.quantize(Decimal(1), rounding=ROUND_CEILING, context=EXACT))


def floor(value: Decimal) -> Decimal:
    """The greatest whole number that is not greater."""
    return _positive_zero(value.quantize(Decimal(1), rounding=ROUND_FLOOR, context=EXACT))


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
    scale = min(max(_SIGNIFICANT - sweight, scale_of(value), 0), _MAX_DISPLAY)
    return rescale(WIDE.sqrt(value), scale)


def _ln_weight(value: Decimal) -> int:
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
    return min(max(scale, 0, *(scale_of(o) for o in operands)), _MAX_DISPLAY)


def exponential(value: Decimal) -> Decimal:
    """exp of a NUMERIC; SqlError 22003 on overflow. Scale and limits are those of numeric_exp and exp_var."""
    if value >= _MOST_EXPONENT:
        raise SqlError("22003", "value overflows numeric format")
    weight = int(float(value) * _LOG10_E)
    scale = _clamped(_SIGNIFICANT - max(weight, -_MOST_EXPONENT // 3), value)
    if value <= -_MOST_EXPONENT:
        return rescale(Decimal(0), scale)
    digits = Context(prec=max(weight, 0) + scale + _GUARD, Emax=999999, Emin=-999999)
    return rescale(digits.exp(value), scale)


def _check_positive(value: Decimal) -> None:
    if value <= 0:
        what = "zero" if not value else "a negative number"
        raise SqlError("2201E", f"cannot take logarithm of {what}")


def natural_log(value: Decimal) -> Decimal:
    """ln of a NUMERIC; SqlError 2201E."""
    _check_positive(value)
    scale = _clamped(_SIGNIFICANT - _ln_weight(value), value)
    return rescale(Context(prec=scale + 30, Emax=999999, Emin=-999999).ln(value), scale)


def logarithm(base: Decimal, value: Decimal) -> Decimal:
    """log(base, value); SqlError 2201E, or 22012 for base 1."""
    _check_positive(base)
    _check_positive(value)
    scale = _clamped(_SIGNIFICANT - (_ln_weight(value) - _ln_weight(base)), base, value)
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
        scale = min(max(_SIGNIFICANT, scale_of(base)), _MAX_DISPLAY)
    elif not base:
        scale = _SIGNIFICANT
    else:
        scale = _clamped(_SIGNIFICANT - int(_power_weight(base, exponent)), base, exponent)
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


def to_integer(value: Decimal, low: int, high: int, error: SqlError) -> int:
    """The value rounded half away from zero to an integer of a range, or ``error``."""
    if value.adjusted() > 19:
        raise error
    result = int(EXACT.quantize(value, Decimal(1)))
    if low <= result <= high:
        return result
    raise error


def _positive_zero(value: Decimal) -> Decimal:
    return value if value else value.copy_abs()


def _digits(value: Decimal) -> Decimal:
    return EXACT.scaleb(value, scale_of(value))


def leading(value: Decimal) -> tuple[int, int]:
    """Weight and value of the first base-10000 digit: (0, 0) for zero."""
    if not value:
        return 0, 0
    power = value.adjusted()
    weight = power // _DIGITS
    sign_digits = value.as_tuple().digits
    take = power - weight * _DIGITS + 1
    head = "".join(map(str, sign_digits[:take])).ljust(take, "0")
    return weight, int(head)
