"""BIT(n) and BIT VARYING(n): a datum is the text of its digits, which sorts as PostgreSQL's bit_cmp does.

Above ``form``, below ``forms``. Text and binary forms: PostgreSQL 15, src/backend/utils/adt/varbit.c.
"""

from __future__ import annotations

import struct
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.form import Bytes, DuckForms, Reader, TypeForms, always, mismatch, quote

_LENGTH = struct.Struct("!i")
_MAX_BITS = 2**31 - 1 - 8
_HEXADECIMAL = frozenset("0123456789abcdefABCDEF")


def parse_bits(text: str) -> str:
    """Read the digits: binary ones, or hexadecimal ones behind an x. SqlError 22P02."""
    if text[:1] in {"x", "X"}:
        return bits_of_hexadecimal(text[1:])
    digits = text[1:] if text[:1] in {"b", "B"} else text
    for digit in digits:
        if digit not in {"0", "1"}:
            raise SqlError("22P02", f'"{digit}" is not a valid binary digit')
    return digits


def bits_of_hexadecimal(digits: str) -> str:
    """Four bits for each digit. SqlError 22P02."""
    for digit in digits:
        if digit not in _HEXADECIMAL:
            raise SqlError("22P02", f'"{digit}" is not a valid hexadecimal digit')
    return f"{int(digits, 16):0{4 * len(digits)}b}" if digits else ""


def limit_bits(bits: str, sql_type: SqlType) -> str:
    """Bits as a column takes them. SqlError 22026, 22001 where their number is another, or too large."""
    length = sql_type.length
    if length is None or len(bits) == length:
        return bits
    if sql_type.base is Base.BIT:
        raise SqlError("22026", f"bit string length {len(bits)} does not match type bit({length})")
    if len(bits) > length:
        raise SqlError("22001", f"bit string too long for type bit varying({length})")
    return bits


def fit_bits(bits: str, sql_type: SqlType) -> str:
    """Bits as an explicit cast makes them: what is too much is cut off at the end, zeros are added there."""
    length = sql_type.length
    if length is None:
        return bits
    return bits[:length].ljust(length, "0") if sql_type.base is Base.BIT else bits[:length]


def bits_of_number(value: int, length: int | None, width: int) -> str:
    """A number's last bits, with copies of its sign before them. ``width``: of its type."""
    length = width if length is None else length
    return f"{value & ((1 << length) - 1):0{length}b}" if length else ""


def number_of_bits(bits: str, width: int, name: str) -> int:
    """The number of ``width`` bits at most, with its sign, that has these. SqlError 22003."""
    if len(bits) > width:
        raise SqlError("22003", f"{name} out of range")
    value = int(bits or "0", 2)
    return value - (1 << width) if value >> (width - 1) else value


def _reader(sql_type: SqlType) -> Reader:
    if sql_type.length is None:
        return parse_bits
    return lambda text: limit_bits(parse_bits(text), sql_type)


def _taker(sql_type: SqlType) -> Reader:
    read = _reader(sql_type)

    def take(value: object) -> Any:
        if value is None:
            return None
        if isinstance(value, str):
            return read(plain(value))
        raise mismatch(value, sql_type.base.value)

    return take


def _pack(bits: str) -> bytes:
    size = (len(bits) + 7) // 8
    return _LENGTH.pack(len(bits)) + int(bits.ljust(8 * size, "0") or "0", 2).to_bytes(size)


def _unpacker(sql_type: SqlType) -> Reader:
    def unpack(data: Bytes) -> str:
        if len(data) < _LENGTH.size:
            raise SqlError("08P01", "insufficient data left in message")
        (length,) = _LENGTH.unpack_from(data)
        if not 0 <= length <= _MAX_BITS:
            raise SqlError("22P03", "invalid length in external bit string")
        held = data[_LENGTH.size :]
        if len(held) < (length + 7) // 8:
            raise SqlError("08P01", "insufficient data left in message")
        if len(held) > (length + 7) // 8:
            raise SqlError("22P03", "incorrect binary data format")
        bits = f"{int.from_bytes(held):0{8 * len(held)}b}"[:length] if length else ""
        return limit_bits(bits, sql_type)

    return unpack


FORMS: TypeForms = TypeForms(
    write=always(str),
    read=_reader,
    take=_taker,
    pack=always(_pack),
    unpack=_unpacker,
    duck=DuckForms("VARCHAR", text="{}", constant=quote),
    unquoted=True,
)
