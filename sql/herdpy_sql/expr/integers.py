"""Integer arithmetic with PostgreSQL's overflow errors, one set of functions per width."""

from __future__ import annotations

from collections.abc import Callable

from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base
from herdpy_sql.values.integers import INTEGER_RANGES

Binary = Callable[[int, int], int]


def out_of_range(base: Base) -> SqlError:
    """SqlError 22003 naming the type."""
    return SqlError("22003", f"{base.value} out of range")


def division_by_zero() -> SqlError:
    """SqlError 22012."""
    return SqlError("22012", "division by zero")


def checked(base: Base, operation: Binary) -> Binary:
    """``operation`` with its result checked against the range of ``base``."""
    low, high = INTEGER_RANGES[base]

    def run(left: int, right: int) -> int:
        result = operation(left, right)
        if low <= result <= high:
            return result
        raise out_of_range(base)

    return run


def adder(base: Base) -> Binary:
    """Addition in ``base``."""
    low, high = INTEGER_RANGES[base]

    def add(left: int, right: int) -> int:
        result = left + right
        if low <= result <= high:
            return result
        raise out_of_range(base)

    return add


def subtracter(base: Base) -> Binary:
    """Subtraction in ``base``."""
    return checked(base, lambda left, right: left - right)


def multiplier(base: Base) -> Binary:
    """Multiplication in ``base``."""
    return checked(base, lambda left, right: left * right)


def truncating_quotient(left: int, right: int) -> int:
    """Division towards zero."""
    if right == 0:
        raise division_by_zero()
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def divider(base: Base) -> Binary:
    """Division towards zero in ``base``: only the least value by -1 is out of range."""
    return checked(base, truncating_quotient)


def remainder(left: int, right: int) -> int:
    """The remainder with the sign of the dividend."""
    if right == 0:
        raise division_by_zero()
    result = abs(left) % abs(right)
    return -result if left < 0 else result


def negater(base: Base) -> Callable[[int], int]:
    """Negation in ``base``."""
    _, high = INTEGER_RANGES[base]

    def negate(value: int) -> int:
        if -value > high:
            raise out_of_range(base)
        return -value

    return negate


def absolute(base: Base) -> Callable[[int], int]:
    """The absolute value in ``base``."""
    _, high = INTEGER_RANGES[base]

    def run(value: int) -> int:
        if abs(value) > high:
            raise out_of_range(base)
        return abs(value)

    return run


def wrap(base: Base, value: int) -> int:
    """``value`` cut to the bits of ``base``, as C does: for shifts."""
    bits = {Base.SMALLINT: 16, Base.INTEGER: 32, Base.BIGINT: 64}[base]
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
