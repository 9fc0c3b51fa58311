"""Functions and operators of bit strings: PostgreSQL 15, src/backend/utils/adt/varbit.c."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from herdpy_sql.errors import SqlError
from herdpy_sql.library.routine import add
from herdpy_sql.types import BIGINT, BIT, BYTEA, INTEGER, VARBIT

_FLIPPED = str.maketrans("01", "10")
_MAX_INTEGER = 2**31 - 1


def _combined(name: str, combine: Callable[[int, int], int]) -> Callable[[str, str], str]:
    def apply(one: str, other: str) -> str:
        if len(one) != len(other):
            raise SqlError("22026", f"cannot {name} bit strings of different sizes")
        return f"{combine(int(one, 2), int(other, 2)):0{len(one)}b}" if one else ""

    return apply


def _shifted_left(bits: str, count: int) -> str:
    if count < 0:
        return _shifted_right(bits, min(-count, _MAX_INTEGER))
    return bits[count:] + "0" * min(count, len(bits))


def _shifted_right(bits: str, count: int) -> str:
    if count < 0:
        return _shifted_left(bits, min(-count, _MAX_INTEGER))
    return ("0" * min(count, len(bits)) + bits)[: len(bits)]


def _substring(bits: str, start: int, length: int | None = None) -> str:
    """Places count from 1; those before the first are there, and have nothing."""
    if length is not None and length < 0:
        raise SqlError("22011", "negative substring length not allowed")
    end = len(bits) if length is None else start - 1 + length
    return bits[max(start - 1, 0) : max(end, 0)]


def _overlay(bits: str, new: str, start: int, length: int | None = None) -> str:
    if start <= 0:
        raise SqlError("22011", "negative substring length not allowed")
    after = start + (len(new) if length is None else length)
    if after > _MAX_INTEGER:
        raise SqlError("22003", "integer out of range")
    return _substring(bits, 1, start - 1) + new + _substring(bits, after)


def _place(bits: str, at: int) -> int:
    if not 0 <= at < len(bits):
        raise SqlError("2202E", f"bit index {at} out of valid range (0..{len(bits) - 1})")
    return at


def _one_bit(value: int) -> int:
    if value not in {0, 1}:
        raise SqlError("22023", "new bit must be 0 or 1")
    return value


def _set_bit(bits: str, at: int, value: int) -> str:
    at = _place(bits, at)
    return f"{bits[:at]}{_one_bit(value)}{bits[at + 1 :]}"


def _byte_of(data: bytes, at: int) -> int:
    """The number of the byte that has the bit."""
    if not 0 <= at < 8 * len(data):
        raise SqlError("2202E", f"index {at} out of valid range, 0..{8 * len(data) - 1}")
    return at // 8


def _get_bit_of_bytes(data: bytes, at: int) -> int:
    return data[_byte_of(data, at)] >> (at % 8) & 1


def _set_bit_of_bytes(data: bytes, at: int, value: int) -> bytes:
    byte, mask = _byte_of(data, at), 1 << (at % 8)
    changed = data[byte] & ~mask | (mask if _one_bit(value) else 0)
    return data[:byte] + bytes([changed]) + data[byte + 1 :]


for _symbol, _name, _combine in (
    ("&", "AND", int.__and__),
    ("|", "OR", int.__or__),
    ("#", "XOR", int.__xor__),
):
    add(_symbol, (BIT, BIT), BIT, _combined(_name, _combine))
add("~", (BIT,), BIT, lambda bits: bits.translate(_FLIPPED))
add("<<", (BIT, INTEGER), BIT, _shifted_left)
add(">>", (BIT, INTEGER), BIT, _shifted_right)
add("||", (VARBIT, VARBIT), VARBIT, lambda one, other: one + other)
add("length", (BIT,), INTEGER, len)
add("bit_length", (BIT,), INTEGER, len)
add("octet_length", (BIT,), INTEGER, lambda bits: (len(bits) + 7) // 8)
add("bit_count", (BIT,), BIGINT, lambda bits: bits.count("1"))
add("strpos", (BIT, BIT), INTEGER, lambda bits, part: bits.find(part) + 1 if bits else 0)
for _tail in ((INTEGER,), (INTEGER, INTEGER)):
    _more: tuple[Any, ...] = _tail
    add("substring", (BIT, *_more), BIT, _substring)
    add("overlay", (BIT, BIT, *_more), BIT, _overlay)
add("get_bit", (BIT, INTEGER), INTEGER, lambda bits, at: int(bits[_place(bits, at)]))
add("set_bit", (BIT, INTEGER, INTEGER), BIT, _set_bit)
add("get_bit", (BYTEA, BIGINT), INTEGER, _get_bit_of_bytes)
add("set_bit", (BYTEA, BIGINT, INTEGER), BYTEA, _set_bit_of_bytes)
