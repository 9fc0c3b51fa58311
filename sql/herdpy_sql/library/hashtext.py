"""hashtext, by which programs make numbers of names for advisory locks.

Source: Bob Jenkins' lookup3 as PostgreSQL 15 has it, src/common/hashfn.c, hash_bytes.
"""

from __future__ import annotations

import struct

from herdpy_sql.library.routine import add
from herdpy_sql.types import INTEGER, TEXT

_MASK = (1 << 32) - 1
_BLOCK = 12


def hashtext(text: str) -> int:
    """PostgreSQL's hashtext: a number of 32 bits, with sign."""
    data = text.encode()
    a = b = c = (0x9E3779B9 + len(data) + 3923095) & _MASK
    at = 0
    while len(data) - at >= _BLOCK:
        x, y, z = struct.unpack_from("<III", data, at)
        a, b, c = _mix((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)
        at += _BLOCK
    rest = data[at:]
    # The lowest byte of the last word is the length's, which is in there already.
    tail = rest[:8].ljust(8, b"\0") + b"\0" + rest[8:].ljust(3, b"\0")
    x, y, z = struct.unpack("<III", tail)
    c = _final((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)
    return c - (1 << 32) if c >> 31 else c


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _MASK


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for by in ((4, 6, 8), (16, 19, 4)):
        a = ((a - c) & _MASK) ^ _rotated(c, by[0])
        c = (c + b) & _MASK
        b = ((b - a) & _MASK) ^ _rotated(a, by[1])
        a = (a + c) & _MASK
        c = ((c - b) & _MASK) ^ _rotated(b, by[2])
        b = (b + a) & _MASK
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    c = ((c ^ b) - _rotated(b, 14)) & _MASK
    a = ((a ^ c) - _rotated(c, 11)) & _MASK
    b = ((b ^ a) - _rotated(a, 25)) & _MASK
    c = ((c ^ b) - _rotated(b, 16)) & _MASK
    a = ((a ^ c) - _rotated(c, 4)) & _MASK
    b = ((b ^ a) - _rotated(a, 14)) & _MASK
    return ((c ^ b) - _rotated(b, 24)) & _MASK


add("hashtext", (TEXT,), INTEGER, hashtext)
