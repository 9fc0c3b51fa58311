"""NUMERIC in binary: groups of four decimal digits.

Format: PostgreSQL 15, src/backend/utils/adt/numeric.c, numeric_send. Four 16-bit numbers (how many groups,
the weight of the first as a power of 10000, the sign, the display scale), then the groups, big-endian;
zeros at either end are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal

from herdpy_server.wire.texts import Bytes
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType
from herdpy_sql.values import numeric

_HEAD = struct.Struct("!HhHH")
_NEGATIVE = 0x4000
_SPECIAL = frozenset({0xC000, 0xD000, 0xF000})  # NaN, infinity, -infinity
_MAX_SCALE = 0x3FFF


def reader(sql_type: SqlType) -> Callable[[Bytes], Decimal]:
    """The function that reads a NUMERIC and fits it into ``sql_type``."""
    if sql_type.precision is None:
        return read
    return lambda data: numeric.fit(read(data), sql_type)


def read(data: Bytes) -> Decimal:
    """The Decimal of a binary NUMERIC; digits beyond its display scale are cut off, as PostgreSQL does.

    SqlError 22P03 for a malformed one, 08P01 for one that ends too early, 0A000 for NaN and infinity.
    """
    # What is wrong first is told, so a sign or digit before what is missing at the end.
    if len(data) >= 6:
        sign = int.from_bytes(data[4:6], "big")
        if sign not in {0, _NEGATIVE} and sign not in _SPECIAL:
            raise SqlError("22P03", 'invalid sign in external "numeric" value')
    if len(data) < 8:
        raise _too_short()
    count, weight, sign, scale = _HEAD.unpack_from(data)
    if scale > _MAX_SCALE:
        raise SqlError("22P03", 'invalid scale in external "numeric" value')
    groups = struct.unpack_from(f"!{min(count, (len(data) - 8) // 2)}H", data, 8)
    if groups and max(groups) > 9999:
        raise SqlError("22P03", 'invalid digit in external "numeric" value')
    if len(groups) < count:
        raise _too_short()
    if len(data) > 8 + 2 * count:
        raise SqlError("22P03", "incorrect binary data format")
    if sign in _SPECIAL:
        raise SqlError("0A000", "NaN and infinity are not supported in type numeric")
    return _value(groups, weight, scale, negative=sign == _NEGATIVE)


def _value(groups: tuple[int, ...], weight: int, scale: int, *, negative: bool) -> Decimal:
    digits = "".join([f"{group:04d}" for group in groups])
    fraction = 4 * (len(groups) - 1 - weight)  # digits after the point, before cutting and padding
    if fraction > scale:
        digits = digits[: len(digits) - (fraction - scale)] if fraction - scale < len(digits) else ""
        fraction = scale
    if not digits.strip("0"):
        return numeric.quantum(scale) * 0
    value = Decimal(f"{'-' if negative else ''}{digits}E{-fraction}")
    if value.adjusted() >= numeric.MAX_WHOLE_DIGITS:
        raise SqlError("22003", "value overflows numeric format")
    return numeric.rescale(value, scale)


def write(value: Decimal) -> bytes:
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
