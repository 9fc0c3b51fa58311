"""REAL and DOUBLE PRECISION: a datum is a ``float``, of REAL rounded to 32 bits.

PostgreSQL 12 and later print the shortest digits that read back as the same value, with an exponent
when it is below -4 or at least 15 (double precision) or 6 (real). Above ``form``, below ``forms``.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.values.form import Array, ColumnForms, DuckForms, TypeForms, always, fixed_reader, mismatch
from herdpy_sql.values.string_columns import cast_to_text, made_by_arrow, np, pc
from herdpy_sql.values.styles import Style

_BLANKS = " \t\n\r\f\v"
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
    exact, double = Decimal(text.strip(_BLANKS)), Decimal(value)
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
    stripped = text.strip(_BLANKS)
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


def parse_real(text: str) -> float:
    """Read a REAL. SqlError 22P02, 22003."""
    value = parse_float(text, "real")
    try:
        return nearest32(value, text)
    except SqlError:
        raise SqlError("22003", f'"{text.strip(_BLANKS)}" is out of range for type real') from None


def parse_double(text: str) -> float:
    """Read a DOUBLE PRECISION. SqlError 22P02, 22003."""
    return parse_float(text, "double precision")


def _take_double(value: object) -> Any:
    if type(value) is float or value is None:
        return value
    value = plain(value)
    if isinstance(value, str):
        return parse_double(value)
    if isinstance(value, bool):
        raise mismatch(value, "double precision")
    convert = getattr(value, "__float__", None) or getattr(value, "__index__", None)
    if convert is None:
        raise mismatch(value, "double precision")
    try:
        result = float(convert())
    except OverflowError:
        result = math.inf
    except ValueError:  # a signaling NaN
        raise mismatch(value, "double precision") from None
    if math.isinf(result) and not isinstance(value, float) and getattr(value, "is_infinite", int)() == 0:
        raise SqlError("22003", "value is out of range for type double precision")
    return result


def _take_real(value: object) -> Any:
    if isinstance(value, str):
        return parse_real(plain(value))
    whole = _take_double(value)
    return None if whole is None else round32(whole)


def _give_real(value: float | None) -> object:
    return None if value is None else shortest32(value)


_FORM32, _FORM64 = struct.Struct("!f"), struct.Struct("!d")


def _column_writer(most: float) -> Callable[..., Array | None]:
    """Arrow writes them as PostgreSQL does, as short as can be, up to ``most``: then it has an exponent."""

    def write(floats: Array, _type: object, style: Style) -> Array | None:
        if style.float_digits <= 0:
            return None
        size = pc.abs(floats)
        plain = pc.or_(pc.equal(size, 0.0), pc.and_(pc.greater_equal(size, 1e-4), pc.less(size, most)))
        return None if pc.all(plain).as_py() is False else cast_to_text(floats)

    return write


def _read_column(strings: Array, target: Any, *_more: Any) -> Array | None:
    values = pc.cast(strings, target)
    plain = values.fill_null(1).to_numpy(zero_copy_only=False)
    if not np.isfinite(plain).all() or not plain.all():
        return None  # overflow, underflow and special words are PostgreSQL's to judge
    return values


REAL_FORMS: TypeForms = TypeForms(
    columns=ColumnForms(write=_column_writer(1e6), read=_read_column),
    write=always(float32_text),
    read=always(parse_real),
    take=always(_take_real),
    give=always(_give_real),
    pack=always(_FORM32.pack),
    unpack=always(fixed_reader(_FORM32)),
    duck=DuckForms("FLOAT", "pg_real", "pg_floattext({})", lambda value: f"CAST('{value!r}' AS FLOAT)"),
    fixed=_FORM32,
    unquoted=True,
)
DOUBLE_FORMS: TypeForms = TypeForms(
    columns=ColumnForms(write=_column_writer(1e10), read=_read_column, python=float, take=made_by_arrow),
    write=always(float64_text),
    read=always(parse_double),
    take=always(_take_double),
    pack=always(_FORM64.pack),
    unpack=always(fixed_reader(_FORM64)),
    duck=DuckForms("DOUBLE", "pg_double", "pg_doubletext({})", lambda value: f"CAST('{value!r}' AS DOUBLE)"),
    guessed=(float,),
    fixed=_FORM64,
    unquoted=True,
)
