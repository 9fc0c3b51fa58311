"""Floating point at the edges: 32-bit rounding and PostgreSQL's shortest text forms.

PostgreSQL 12 and later print the shortest digits that read back as the same value, with an exponent
when it is below -4 or at least 15 (double precision) or 6 (real).
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal

from herdpy_sql.errors import SqlError

_FLOAT32 = struct.Struct("<f")
_LEAST_NORMAL32 = 1.1754943508222875e-38
_BEYOND32 = 2.0**128 - 2.0**103  # just between the greatest 32-bit float and what overflows
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_SPECIAL = {"nan": math.nan, "infinity": math.inf, "inf": math.inf}


def round32(value: float) -> float:
    """The nearest 32-bit float; SqlError 22003 when it over- or underflows."""
    try:
        rounded: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    except OverflowError:
        rounded = math.inf
    if math.isinf(rounded) and not math.isinf(value):
        raise SqlError("22003", "value out of range: overflow")
    if rounded == 0 and value != 0:
        raise SqlError("22003", "value out of range: underflow")
    return rounded


def nearest32(value: float, text: str) -> float:
    """The 32-bit float nearest to the number that ``text`` says, whose double is ``value``.

    The double alone misleads where it is just between two 32-bit floats and the text is not. SqlError
    as of :func:`round32`.
    """
    if not math.isfinite(value) or value == 0:
        return value
    try:
        rounded = round32(value)
        other = rounded + 2 * (value - rounded)  # the 32-bit float on its other side, if it is between
        if other == rounded or _FLOAT32.unpack(_FLOAT32.pack(other))[0] != other:
            return rounded
    except (SqlError, OverflowError):
        if abs(value) != _BEYOND32:
            raise
    exact, double = Decimal(text.strip(" \t\n\r\f\v")), Decimal(value)
    if exact == double:
        return round32(value)
    return round32(math.nextafter(value, math.inf if exact > double else -math.inf))


def float64_text(value: float) -> str:
    """PostgreSQL's text of a double precision."""
    if 1e-4 <= abs(value) < 1e15:
        text = repr(value)
        return text[:-2] if text.endswith(".0") else text
    shortest = repr(value)
    if 2.0**54 <= abs(value) < 1e32 and _is_between(shortest, value, math.ulp(value)):
        digits = len(Decimal(shortest).normalize().as_tuple().digits)
        shortest = next(
            text
            for text in (f"{value:.{more}e}" for more in range(digits - 1, 17))
            if float(text) == value and not _is_between(text, value, math.ulp(value))
        )
    return _text(value, shortest, 15)


def float32_text(value: float) -> str:
    """PostgreSQL's text of a real (a float already rounded to 32 bits)."""
    return _text(value, _shortest32(value), 6)


def parse_float(text: str, type_name: str) -> float:
    """Read PostgreSQL's text of a float. SqlError 22P02 for bad syntax, 22003 when out of range."""
    stripped = text.strip(" \t\n\r\f\v")
    if _FLOAT.fullmatch(stripped):
        value = float(stripped)
        if math.isinf(value) or (value == 0 and any(c in "123456789" for c in re.split("[eE]", stripped)[0])):
            raise SqlError("22003", f'"{stripped}" is out of range for type {type_name}')
        return value
    unsigned = stripped.lstrip("+-").lower() if stripped[:1] in "+-" else stripped.lower()
    if unsigned in _SPECIAL and len(stripped) - len(unsigned) <= 1:
        value = _SPECIAL[unsigned]
        return -value if stripped.startswith("-") else value
    raise SqlError("22P02", f'invalid input syntax for type {type_name}: "{text}"')


def shortest32(value: float) -> float:
    """The double nearest to the shortest text of a real: what drivers give for a REAL."""
    return float(_shortest32(value)) if math.isfinite(value) else value


def _shortest32(value: float) -> str:
    if not math.isfinite(value) or value == 0:
        return repr(value)
    for digits in range(6 if abs(value) >= _LEAST_NORMAL32 else 1, 9):
        text = f"{value:.{digits}g}"
        if _FLOAT32.unpack(_FLOAT32.pack(float(text)))[0] == value and not (
            abs(value) >= 2.0**25 and _is_between(text, value, math.ulp(value) * 2.0**29)
        ):
            return text
    return f"{value:.9g}"


def _is_between(text: str, value: float, ulp: float) -> bool:
    """Whether a text lies just between ``value`` and the next float, where Ryu does not look for digits.

    Only where an ulp is 2 or more can so short a text lie there.
    """
    return abs(Decimal(text) - Decimal(value)) * 2 == Decimal(ulp)


def _text(value: float, shortest: str, limit: int) -> str:
    if not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"  # noqa: PLR0124
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digits_tuple, exponent = Decimal(shortest).as_tuple()
    digits = "".join(map(str, digits_tuple)).rstrip("0")
    power = len(digits_tuple) + int(exponent) - 1
    minus = "-" if sign else ""
    if power < -4 or power >= limit:
        fraction = "." + digits[1:] if len(digits) > 1 else ""
        return f"{minus}{digits[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if power < 0:
        return f"{minus}0.{'0' * (-power - 1)}{digits}"
    if len(digits) <= power + 1:
        return minus + digits + "0" * (power + 1 - len(digits))
    return f"{minus}{digits[: power + 1]}.{digits[power + 1 :]}"
