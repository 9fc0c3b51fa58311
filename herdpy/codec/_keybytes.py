"""Codec layer, inside: one value of a key to its ascending bytes, and back. ``keys`` has the format."""

from __future__ import annotations

import math
import struct
from decimal import Decimal

from herdpy.codec._compile import EXACT, plain

#: bytes.translate() tables.
FLIP = bytes(range(255, -1, -1))
_PLUS_ONE = bytes((i + 1) % 256 for i in range(256))
_MINUS_ONE = bytes((i - 1) % 256 for i in range(256))
_NAN32, _NAN64 = 0xFFC0_0000, 0xFFF8_0000_0000_0000

_FLOAT32, _FLOAT64 = struct.Struct(">f"), struct.Struct(">d")
_BITS32, _BITS64 = struct.Struct(">I"), struct.Struct(">Q")


def float32_bits(value: float) -> int:
    """Return the unsigned integer whose order is the floats' own; OverflowError if it needs 64 bits."""
    if math.isnan(value):
        return _NAN32
    bits: int = _BITS32.unpack(_FLOAT32.pack(value + 0.0))[0]
    return bits ^ 0xFFFF_FFFF if bits >> 31 else bits | 0x8000_0000


def float64_bits(value: float) -> int:
    """Return the unsigned integer whose order is the doubles' own."""
    if math.isnan(value):
        return _NAN64
    bits: int = _BITS64.unpack(_FLOAT64.pack(value + 0.0))[0]
    return bits ^ 0xFFFF_FFFF_FFFF_FFFF if bits >> 63 else bits | 0x8000_0000_0000_0000


def bits_float32(bits: int) -> float:
    """Return the float of ``float32_bits``."""
    bits = bits ^ 0x8000_0000 if bits >> 31 else bits ^ 0xFFFF_FFFF
    value: float = _FLOAT32.unpack(_BITS32.pack(bits))[0]
    return value


def bits_float64(bits: int) -> float:
    """Return the double of ``float64_bits``."""
    bits = bits ^ 0x8000_0000_0000_0000 if bits >> 63 else bits ^ 0xFFFF_FFFF_FFFF_FFFF
    value: float = _FLOAT64.unpack(_BITS64.pack(bits))[0]
    return value


def text_bytes(value: str) -> bytes:
    """Return the bytes of an ascending TEXT column; ValueError if it contains U+0000."""
    content = value.encode()
    if b"\0" in content:
        raise ValueError("text cannot contain the character U+0000")
    return content + b"\0"


def bytes_bytes(value: bytes) -> bytes:
    """Return the bytes of an ascending BYTES column."""
    return value.replace(b"\0", b"\0\xff") + b"\0\0"


def uuid_bytes(value: bytes) -> bytes:
    """Return the bytes of an ascending UUID column; ValueError if there are not 16."""
    if len(value) != 16:
        raise ValueError("a UUID has 16 bytes")
    return value


def decimal_bytes(value: Decimal) -> bytes:
    """Return the bytes of an ascending DECIMAL column; ValueError if it is not finite."""
    if not value.is_finite():
        raise ValueError(f"{value} is not a finite number")
    if not value:
        return b"\x02"
    exponent = value.adjusted()
    digits = str(EXACT.scaleb(value.copy_abs(), -exponent)).replace(".", "").rstrip("0")
    digits += "0" if len(digits) % 2 else ""
    body = struct.pack(">I", exponent + 0x8000_0000) + bytes.fromhex(digits).translate(_PLUS_ONE) + b"\0"
    return b"\x03" + body if value > 0 else b"\x01" + body.translate(FLIP)


def read_text(key: bytes, at: int) -> tuple[str, int]:
    """Return the ascending TEXT that starts there, and where the next column starts."""
    end = key.index(b"\0", at)
    return key[at:end].decode(), end + 1


def read_bytes(key: bytes, at: int) -> tuple[bytes, int]:
    """Return the ascending BYTES that starts there, and where the next column starts."""
    end = key.index(b"\0", at)
    while key[end + 1] == 0xFF:
        end = key.index(b"\0", end + 2)
    return key[at:end].replace(b"\0\xff", b"\0"), end + 2


def read_decimal(key: bytes, at: int) -> tuple[Decimal, int]:
    """Return the ascending DECIMAL that starts there, and where the next column starts."""
    if key[at] == 2:
        return Decimal(0), at + 1
    negative = key[at] == 1
    exponent = int.from_bytes(key[at + 1 : at + 5], "big")
    end = key.index(b"\xff" if negative else b"\0", at + 5)
    digits = key[at + 5 : end]
    if negative:
        exponent, digits = 0xFFFF_FFFF - exponent, digits.translate(FLIP)
    text = digits.translate(_MINUS_ONE).hex()
    whole = EXACT.create_decimal(text).scaleb(exponent - 0x8000_0000 - len(text) + 1, EXACT)
    return plain(whole.copy_negate() if negative else whole), end + 1
