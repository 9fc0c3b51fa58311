"""NUMERIC: reading, printing, fitting into NUMERIC(p, s), and the binary form.

A NUMERIC datum is a finite Decimal whose exponent is minus its display scale (so never above zero)
and which is never a negative zero; :func:`normal` makes one of any finite Decimal. All arithmetic on
them uses ``EXACT``, whose precision no value reaches.

The binary form is PostgreSQL 15's, src/backend/utils/adt/numeric.c, numeric_send: four 16-bit numbers (how
many groups of four decimal digits, the weight of the first as a power of 10000, the sign, the display scale),
then the groups, big-endian; zeros at either end are left out. Above ``form``, below ``forms``.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from decimal import (
    MAX_EMAX,
    MAX_PREC,
    MIN_EMIN,
    ROUND_HALF_UP,
    Context,
    Decimal,
    DivisionByZero,
    InvalidOperation,
)
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType
from herdpy_sql.values.form import Array, Bytes, ColumnForms, DuckForms, Reader, TypeForms, always, mismatch
from herdpy_sql.values.string_columns import cast_to_text, has_letters, made_by_arrow, pa, pc
from herdpy_sql.values.styles import Style

EXACT = Context(
    prec=MAX_PREC,
    rounding=ROUND_HALF_UP,
    Emin=MIN_EMIN,
    Emax=MAX_EMAX,
    traps=[InvalidOperation, DivisionByZero],
)
MAX_WHOLE_DIGITS = 131_072
MAX_SCALE = 16_383
ZERO = Decimal(0)

# Blanks before the exponent are strtol's, which reads it.
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]\s*([+-]?\d{1,9}))?", re.ASCII)
_SPECIAL = frozenset({"nan", "infinity", "+infinity", "-infinity", "inf", "+inf", "-inf"})
_HEAD = struct.Struct("!HhHH")
_NEGATIVE = 0x4000
_NOT_FINITE = frozenset({0xC000, 0xD000, 0xF000})  # NaN, infinity, -infinity
_LARGEST_SCALE = 0x3FFF
_QUANTA = [Decimal(1).scaleb(-scale) for scale in range(64)]


def quantum(scale: int) -> Decimal:
    """The Decimal ``10 ** -scale``, as an exponent to quantize to."""
    return _QUANTA[scale] if 0 <= scale < 64 else Decimal((0, (1,), -scale))


def normal(value: Decimal) -> Decimal:
    """``value`` as a datum. SqlError 22003 beyond PostgreSQL's 131072 whole digits and 16383 others."""
    if not value.is_finite():
        raise SqlError("0A000", "NaN and infinity are not supported in type numeric")
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    if value.adjusted() >= MAX_WHOLE_DIGITS or exponent < -MAX_SCALE:
        if not value:
            return ZERO if exponent > 0 else quantum(min(-exponent, MAX_SCALE)) * 0
        raise SqlError("22003", "value overflows numeric format")
    if exponent > 0:
        value = EXACT.quantize(value, _QUANTA[0])
    return value if value else value.copy_abs()


def rescale(value: Decimal, scale: int) -> Decimal:
    """``value`` with exactly ``scale`` digits after the point (0 or more), rounded half away from zero."""
    result = EXACT.quantize(value, quantum(scale))
    return result if result else result.copy_abs()


def fit(value: Decimal, sql_type: SqlType) -> Decimal:
    """A datum as a value of ``sql_type``, rounded to its scale. SqlError 22003 when it is too large."""
    precision = sql_type.precision
    if precision is None:
        return value
    scale = sql_type.scale or 0
    result = rescale(value, scale)
    if scale < 0:
        result = rescale(result, 0)
    if result.adjusted() >= precision - scale and result:
        bound = f"10^{precision - scale}" if precision > scale else "1" if precision == scale else ""
        raise SqlError(
            "22003",
            "numeric field overflow",
            detail=f"A field with precision {precision}, scale {scale} must round to an absolute value "
            f"less than {bound or f'10^{precision - scale}'}.",
        )
    return result


def parse_numeric(text: str) -> Decimal:
    """Read a NUMERIC. SqlError 22P02 for bad syntax, 22003 when it is out of range."""
    stripped = text.strip(" \t\n\r\f\v")
    found = _NUMBER.fullmatch(stripped)
    if found:
        return normal(Decimal(stripped if found[2] is None else f"{found[1]}e{found[2]}"))
    if stripped.lower() in _SPECIAL:
        raise SqlError("0A000", "NaN and infinity are not supported in type numeric")
    raise SqlError("22P02", f'invalid input syntax for type numeric: "{text}"')


def numeric_text(value: Decimal) -> str:
    """PostgreSQL's text of a NUMERIC: plain notation, every digit of the display scale."""
    return f"{value:f}"


def from_float(value: float, digits: int) -> Decimal:
    """PostgreSQL's float to numeric cast: ``digits`` significant ones (15 of a double, 6 of a real)."""
    return normal(Decimal(f"{value:.{digits}g}"))


def _read(sql_type: SqlType) -> Reader:
    if sql_type.precision is None:
        return parse_numeric
    return lambda text: fit(parse_numeric(text), sql_type)


def _take(sql_type: SqlType) -> Reader:
    parse = _read(sql_type)
    precision, scale = sql_type.precision, sql_type.scale or 0
    fitting = None if precision is None else quantum(scale)  # what is of this scale already
    limit = Decimal(1).scaleb((precision or 0) - scale)

    def convert(value: object) -> Any:
        if value is None:
            return None
        if type(value) is Decimal:
            if fitting is not None and value.same_quantum(fitting) and -limit < value < limit:
                return value if value else value.copy_abs()
            return fit(normal(value), sql_type)
        value = plain(value)
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, bool):
            raise mismatch(value, "numeric")
        if isinstance(value, float):
            if not math.isfinite(value):
                raise SqlError("0A000", "NaN and infinity are not supported in type numeric")
            return fit(from_float(value, 15), sql_type)
        if isinstance(value, Decimal):
            return convert(value)
        index = getattr(value, "__index__", None)
        if index is None:
            raise mismatch(value, "numeric")
        return fit(normal(Decimal(index())), sql_type)

    return convert


def _unpack(sql_type: SqlType) -> Reader:
    """The function that reads a NUMERIC and fits it into ``sql_type``."""
    if sql_type.precision is None:
        return unpack_numeric
    return lambda data: fit(unpack_numeric(data), sql_type)


def unpack_numeric(data: Bytes) -> Decimal:
    """The Decimal of a binary NUMERIC; digits beyond its display scale are cut off, as PostgreSQL does.

    SqlError 22P03 for a malformed one, 08P01 for one that ends too early, 0A000 for NaN and infinity.
    """
    # The first error is reported, so a sign or digit before what is missing at the end.
    if len(data) >= 6:
        sign = int.from_bytes(data[4:6], "big")
        if sign not in {0, _NEGATIVE} and sign not in _NOT_FINITE:
            raise SqlError("22P03", 'invalid sign in external "numeric" value')
    if len(data) < 8:
        raise _too_short()
    count, weight, sign, scale = _HEAD.unpack_from(data)
    if scale > _LARGEST_SCALE:
        raise SqlError("22P03", 'invalid scale in external "numeric" value')
    groups = struct.unpack_from(f"!{min(count, (len(data) - 8) // 2)}H", data, 8)
    if groups and max(groups) > 9999:
        raise SqlError("22P03", 'invalid digit in external "numeric" value')
    if len(groups) < count:
        raise _too_short()
    if len(data) > 8 + 2 * count:
        raise SqlError("22P03", "incorrect binary data format")
    if sign in _NOT_FINITE:
        raise SqlError("0A000", "NaN and infinity are not supported in type numeric")
    return _value(groups, weight, scale, negative=sign == _NEGATIVE)


def _value(groups: tuple[int, ...], weight: int, scale: int, *, negative: bool) -> Decimal:
    digits = "".join([f"{group:04d}" for group in groups])
    fraction = 4 * (len(groups) - 1 - weight)  # digits after the point, before cutting and padding
    if fraction > scale:
        digits = digits[: len(digits) - (fraction - scale)] if fraction - scale < len(digits) else ""
        fraction = scale
    if not digits.strip("0"):
        return quantum(scale) * 0
    value = Decimal(f"{'-' if negative else ''}{digits}E{-fraction}")
    if value.adjusted() >= MAX_WHOLE_DIGITS:
        raise SqlError("22003", "value overflows numeric format")
    return rescale(value, scale)


def pack_numeric(value: Decimal) -> bytes:
    """The binary form of a NUMERIC datum."""
    text = f"{value:f}"
    negative = text[0] == "-"
    whole, _, fraction = text.lstrip("-").partition(".")
    scale = len(fraction)
    whole = whole.lstrip("0")
    whole = whole.zfill(-(-len(whole) // 4) * 4)
    if scale % 4:
        fraction += "0" * (4 - scale % 4)
    digits = whole + fraction
    groups = [int(digits[at : at + 4]) for at in range(0, len(digits), 4)]
    weight = len(whole) // 4 - 1
    first = 0
    last = len(groups)
    while first < last and groups[first] == 0:
        first += 1
    while last > first and groups[last - 1] == 0:
        last -= 1
    if first == last:
        return _HEAD.pack(0, 0, 0, scale)
    count = last - first
    return struct.pack(
        f"!HhHH{count}H", count, weight - first, _NEGATIVE if negative else 0, scale, *groups[first:last]
    )


def _too_short() -> SqlError:
    return SqlError("08P01", "insufficient data left in message")


_PLAIN = r"^-?(0|[1-9][0-9]{0,999})(\.[0-9]{1,999})?$"
_NEGATIVE_ZERO = r"^-0(\.0+)?$"


def _write_column(array: Array, sql_type: SqlType, _style: Style) -> Array | None:
    if not pa.types.is_decimal(array.type):
        return array
    # Arrow writes an exponent only below the sixth digit after the point.
    return cast_to_text(array) if (sql_type.scale or 0) <= 6 else None


def _read_column(strings: Array, target: Any, sql_type: SqlType, _style: Style) -> Array | None:
    if pa.types.is_decimal(target):
        return None if has_letters(strings) else pc.cast(strings, target)
    if sql_type.precision is not None:
        return None
    good = pc.match_substring_regex(strings, _PLAIN)
    zero = pc.match_substring_regex(strings, _NEGATIVE_ZERO)
    if pc.all(good).as_py() is False or pc.any(zero).as_py() is True:
        return None
    return strings


def _take_column(values: Sequence[object], target: Any) -> Array:
    """ValueError where there is no number, or one with more digits than the type has."""
    if not pa.types.is_decimal128(target):
        raise ValueError("numbers of any scale")
    return made_by_arrow(values, target)


FORMS: TypeForms = TypeForms(
    columns=ColumnForms(write=_write_column, read=_read_column, python=Decimal, take=_take_column),
    write=always(numeric_text),
    read=_read,
    take=_take,
    pack=always(pack_numeric),
    unpack=_unpack,
    duck=DuckForms(
        "VARCHAR",
        "pg_numeric",
        client=lambda value: format(value, "f") if isinstance(value, Decimal) else str(value),
    ),
    guessed=(Decimal,),
    unquoted=True,
)
