"""Variable-length integers and length-prefixed frames, the two encodings under everything here.

Used by the hand-made messages of ``adds`` and ``reads`` and by ``requests`` and ``replies``.

Format: protobuf's base-128 varints (groups of seven bits, lowest first; negative numbers as 64-bit two's
complement); a frame is its length as u32 big-endian, then that many bytes.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

pack_length: Final = struct.Struct(">I").pack
"""A length prefix; raises struct.error above 2**32 - 1."""

_MASK_64: Final = (1 << 64) - 1


def frame(body: bytes) -> bytes:
    """The message with its length prefix."""
    return pack_length(len(body)) + body


def encode_any(number: int) -> bytes:
    """The varint of a number from -2**63 to 2**64 - 1."""
    number &= _MASK_64
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


SHORT: Final = tuple(encode_any(number) for number in range(1 << 14))
"""Varints below 2**14, by number."""

LOW: Final = tuple(bytes((number & 127 | 128, number >> 7 | 128)) for number in range(1 << 14))
"""The first two bytes of longer varints, by the low 14 bits."""


def encode(number: int) -> bytes:
    """``encode_any``, fast for numbers below 2**28."""
    if 0 <= number < 16384:
        return SHORT[number]
    if 0 <= number < 268435456:
        return LOW[number & 16383] + SHORT[number >> 14]
    return encode_any(number)


def decode(data: bytes) -> int:
    """The number of a varint that is known to be whole and of at most nine bytes (63 bits)."""
    size = len(data)
    if size == 3:
        return data[0] & 127 | (data[1] & 127) << 7 | data[2] << 14
    if size == 4:
        return data[0] & 127 | (data[1] & 127) << 7 | (data[2] & 127) << 14 | data[3] << 21
    number = 0
    for byte in reversed(data):
        number = number << 7 | byte & 127
    return number


recall: Final = lru_cache(maxsize=4096)(decode)
"""``decode`` for numbers that come again and again, such as the ledger's id and lengths."""
