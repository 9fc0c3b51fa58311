"""Codec layer, inside: reads the columns of a key, one after another. ``keys`` has the format.

A column's reader takes the key and where the column starts, and gives the datum and where the next
one starts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import cast

from herdpy.codec._compile import EXACT, quantum
from herdpy.codec._keybytes import FLIP, bits_float32, bits_float64, read_bytes, read_decimal, read_text
from herdpy.codec.grids import shaped
from herdpy.codec.jsonkeys import read_jsonb
from herdpy.codec.kinds import Datum, Field, Interval, KeyField, Kind

ColumnDecoder = Callable[[bytes, int], tuple[Datum, int]]

#: The struct format of the kinds that are integers in a key.
INTEGERS = {
    Kind.BOOL: "B",
    Kind.INT16: "H",
    Kind.INT32: "I",
    Kind.INT64: "Q",
    Kind.DATE: "I",
    Kind.TIME: "Q",
    Kind.TIMESTAMP: "Q",
    Kind.TIMESTAMPTZ: "Q",
    Kind.DECIMAL64: "Q",
}
BITS = {"B": 8, "H": 16, "I": 32, "Q": 64}
#: A nullable column's tags.
VALUE, NULL_FIRST, NULL_LAST = 1, b"\x00", b"\x02"


def column_decoder(one: KeyField) -> ColumnDecoder:
    """Return a function from (key, where the column starts) to its datum and where the next starts."""
    decode = _value_decoder(one)
    if not one.nullable:
        return decode
    null = (NULL_FIRST if one.nulls_first else NULL_LAST)[0]

    def decode_nullable(key: bytes, at: int) -> tuple[Datum, int]:
        tag = key[at]
        if tag == null:
            return None, at + 1
        if tag != VALUE:
            raise ValueError(f"no value has the tag {tag}")
        return decode(key, at + 1)

    return decode_nullable


def _value_decoder(one: KeyField) -> ColumnDecoder:
    match one.kind:
        case Kind.TEXT | Kind.BYTES | Kind.DECIMAL | Kind.JSONB | Kind.ARRAY | Kind.VECTOR:
            return _variable_decoder(one)
        case Kind.UUID:
            width = 16
        case Kind.FLOAT32 | Kind.FLOAT64:
            width = 4 if one.kind == Kind.FLOAT32 else 8
        case Kind.DECIMAL128 | Kind.INTERVAL:
            width = 16
        case _:
            width = BITS[INTEGERS[one.kind]] // 8
    top, half = (1 << 8 * width) - 1, 1 << 8 * width - 1
    unit = quantum(one.scale)

    def decode_fixed(key: bytes, at: int) -> tuple[Datum, int]:
        end = at + width
        if end > len(key):
            raise ValueError("it ends too early")
        bits = int.from_bytes(key[at:end], "big")
        if one.descending:
            bits = top - bits
        match one.kind:
            case Kind.BOOL:
                return bool(bits), end
            case Kind.UUID:
                return bits.to_bytes(16, "big"), end
            case Kind.FLOAT32:
                return bits_float32(bits), end
            case Kind.FLOAT64:
                return bits_float64(bits), end
            case Kind.DECIMAL64 | Kind.DECIMAL128:
                return EXACT.multiply(bits - half, unit), end
            case Kind.INTERVAL:
                return _interval(bits - half), end
            case _:
                return bits - half, end

    return decode_fixed


def _variable_decoder(one: KeyField) -> ColumnDecoder:
    readers: dict[Kind, ColumnDecoder] = {
        Kind.TEXT: read_text,
        Kind.BYTES: read_bytes,
        Kind.DECIMAL: read_decimal,
        Kind.JSONB: read_jsonb,
    }
    read = readers.get(one.kind) or _array_reader(one)

    def decode_descending(key: bytes, at: int) -> tuple[Datum, int]:
        value, end = read(key[at:].translate(FLIP), 0)
        return value, at + end

    return decode_descending if one.descending else read


def _interval(span: int) -> Interval:
    """Return the interval of that span with the most months and days that are in it, all of one sign."""
    sign = -1 if span < 0 else 1
    days, us = divmod(abs(span), 86_400_000_000)
    months = min(days // 30, 2**31 - 1)
    rest = min(days - months * 30, 2**31 - 1)
    us += (days - months * 30 - rest) * 86_400_000_000
    return Interval(sign * months, sign * rest, sign * us)


def _array_reader(one: KeyField) -> ColumnDecoder:
    element = one.element or Field(Kind.FLOAT32)
    read = column_decoder(KeyField(element.kind, element.scale, nullable=True, element=element.element))

    def read_array(key: bytes, at: int) -> tuple[Datum, int]:
        found: list[Datum] = []
        while key[at]:
            value, at = read(key, at)
            found.append(value)
        return tuple(found), at + 1

    def read_shaped(key: bytes, at: int) -> tuple[Datum, int]:
        found, at = read_array(key, at)
        sizes = struct.unpack_from(f">{key[at]}I", key, at + 1)
        return shaped(cast("tuple[Datum, ...]", found), sizes), at + 1 + 4 * len(sizes)

    return read_shaped if one.kind == Kind.ARRAY and one.scale > 1 else read_array
