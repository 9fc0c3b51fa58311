"""NUMERIC arithmetic with PostgreSQL's display scales (its numeric.c).

Sums keep the larger scale, products the sum of the scales, quotients at least 16 significant digits
(select_div_scale). Results are exact or, for division, rounded half away from zero at that scale.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from herdpy_sql.expr.integers import division_by_zero
from herdpy_sql.values.numeric import EXACT, MAX_SCALE, normal, quantum, rescale

if TYPE_CHECKING:
    from herdpy_sql.errors import SqlError

_SIGNIFICANT = 16
_DIGITS = 4  # decimal digits in one of PostgreSQL's base-10000 digits
_MAX_DISPLAY = 1000


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
