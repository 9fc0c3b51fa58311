"""The functions of advisory locks, by name; and hashtext, by which programs make numbers of names.

A lock is known by one number of 64 bits or by two of 32, which never meet. Source of the hash: Bob Jenkins'
lookup3 as PostgreSQL 15 has it, src/common/hashfn.c, hash_bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from herdpy_sql.errors import SqlError

_MASK = (1 << 32) - 1
_BLOCK = 12
_ONE, _TWO = -1, -2


@dataclass(frozen=True, slots=True)
class AdvisoryCall:
    """A call of such a function.

    Attributes:
        space, key: which lock; a key of None stands for all of them.
        unlocks, tries, shared: what is done with it.
        scope: 0: until it is unlocked; 1: until the transaction ends.
    """

    space: int
    key: bytes | None
    unlocks: bool
    tries: bool
    shared: bool
    scope: int


NAMES = frozenset(
    f"pg_{verb}advisory_{scope}lock{shared}"
    for verb in ("", "try_")
    for scope in ("", "xact_")
    for shared in ("", "_shared")
) | {"pg_advisory_unlock", "pg_advisory_unlock_shared", "pg_advisory_unlock_all"}
ANSWERING = frozenset(name for name in NAMES if "try" in name or name.endswith(("unlock", "unlock_shared")))
"""Those that give a BOOLEAN; the others give nothing."""


def advisory_call(name: str, given: Sequence[object]) -> AdvisoryCall | None:
    """A call with its arguments; None when one is NULL. SqlError 42883, 22P02, 22003."""
    wanted = (0,) if name.endswith("_all") else (1, 2)
    if len(given) not in wanted:
        raise SqlError("42883", f"function {name} does not exist")
    if any(one is None for one in given):
        return None
    bits = 64 if len(given) == 1 else 32
    numbers = [_number(one, bits) for one in given]
    key = None if not numbers else b"".join(n.to_bytes(bits // 8, "big", signed=True) for n in numbers)
    return AdvisoryCall(
        _ONE if len(given) == 1 else _TWO,
        key,
        unlocks="unlock" in name,
        tries="try" in name,
        shared=name.endswith("_shared"),
        scope=int("xact" in name),
    )


def _number(value: object, bits: int) -> int:
    kind = "bigint" if bits == 64 else "integer"
    try:
        number = int(str(value))
    except ValueError:
        raise SqlError("22P02", f'invalid input syntax for type {kind}: "{value!s}"') from None
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise SqlError("22003", f"{kind} out of range")
    return number


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
