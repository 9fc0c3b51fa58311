"""Functions and operators of network addresses: INET, CIDR, MACADDR and MACADDR8.

What PostgreSQL 15 has in src/backend/utils/adt/network.c, mac.c and mac8.c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from herdpy_sql.errors import SqlError
from herdpy_sql.library.routine import add
from herdpy_sql.types import BIGINT, BOOLEAN, CIDR, INET, INTEGER, MACADDR, MACADDR8, TEXT
from herdpy_sql.values.inets import (
    address_of,
    address_text,
    as_network,
    bits_of,
    family_of,
    inet_text,
    inet_value,
    mask_of,
    max_bits,
)

_LEAST_BIGINT, _GREATEST_BIGINT = -(2**63), 2**63 - 1


def _within(one: bytes, other: bytes, bits: int) -> bool:
    """Whether both are of one network of so many bits."""
    family = family_of(one)
    mask = mask_of(family, bits)
    return family == family_of(other) and address_of(one) & mask == address_of(other) & mask


def _is_below(one: bytes, other: bytes) -> bool:
    return bits_of(one) > bits_of(other) and _within(one, other, bits_of(other))


def _is_in(one: bytes, other: bytes) -> bool:
    return bits_of(one) >= bits_of(other) and _within(one, other, bits_of(other))


def _overlaps(one: bytes, other: bytes) -> bool:
    return _within(one, other, min(bits_of(one), bits_of(other)))


def _inverted(value: bytes) -> bytes:
    family = family_of(value)
    return inet_value(family, address_of(value) ^ mask_of(family, max_bits(family)), bits_of(value))


def _combined(name: str, combine: Callable[[int, int], int]) -> Callable[[bytes, bytes], bytes]:
    def apply(one: bytes, other: bytes) -> bytes:
        if family_of(one) != family_of(other):
            raise SqlError("22023", f"cannot {name} inet values of different sizes")
        bits = max(bits_of(one), bits_of(other))
        return inet_value(family_of(one), combine(address_of(one), address_of(other)), bits)

    return apply


def _plus(value: bytes, count: int) -> bytes:
    family, address = family_of(value), address_of(value) + count
    if not 0 <= address < 1 << max_bits(family):
        raise SqlError("22003", "result is out of range")
    return inet_value(family, address, bits_of(value))


def _difference(one: bytes, other: bytes) -> int:
    if family_of(one) != family_of(other):
        raise SqlError("22023", "cannot subtract inet values of different sizes")
    found = address_of(one) - address_of(other)
    if not _LEAST_BIGINT <= found <= _GREATEST_BIGINT:
        raise SqlError("22003", "result is out of range")
    return found


def _whole(value: bytes, address: int) -> bytes:
    family = family_of(value)
    return inet_value(family, address, max_bits(family))


def _netmask(value: bytes) -> bytes:
    return _whole(value, mask_of(family_of(value), bits_of(value)))


def _host_bits(value: bytes) -> int:
    family = family_of(value)
    return mask_of(family, max_bits(family)) ^ mask_of(family, bits_of(value))


def _broadcast(value: bytes) -> bytes:
    return inet_value(family_of(value), address_of(value) | _host_bits(value), bits_of(value))


def _set_masklen(value: bytes, bits: int) -> bytes:
    family = family_of(value)
    if not -1 <= bits <= max_bits(family):
        raise SqlError("22023", f"invalid mask length: {bits}")
    return inet_value(family, address_of(value), max_bits(family) if bits == -1 else bits)


def _merged(one: bytes, other: bytes) -> bytes:
    """The smallest network that has both."""
    if family_of(one) != family_of(other):
        raise SqlError("22023", "cannot merge addresses from different families")
    family = family_of(one)
    differing = (address_of(one) ^ address_of(other)).bit_length()
    bits = min(bits_of(one), bits_of(other), max_bits(family) - differing)
    return as_network(inet_value(family, address_of(one), bits))


def _abbreviated(value: bytes) -> str:
    """A CIDR without what its mask says to be zero, as pg_inet_cidr_ntop has it."""
    bits = bits_of(value)
    if family_of(value) == 4:
        octets = value[-4:][: (bits + 7) // 8]
        return f"{'.'.join(map(str, octets)) or '0'}/{bits}"
    return f"{_short_six(value[-16:], bits)}/{bits}"


def _short_six(address: bytes, bits: int) -> str:
    if bits == 0:
        return "::"
    count = max((bits + 15) // 16, 2)
    words = [int.from_bytes(address[at : at + 2]) for at in range(0, 2 * count, 2)]
    start, size = _shortened_zeros(words)
    seems_four = (
        size != count
        and start == 0
        and (
            size == 6
            or (size == 5 and words[5] == 0xFFFF)
            or (size == 7 and address[14] != 0 and address[15] != 1)
        )
    )
    made = ""
    for place, word in enumerate(words):
        if size and start <= place < start + size:
            made += ":" * ((place == start) + (place == count - 1))
        elif seems_four and place > 5:
            made += f"{':' if place == 6 else '.'}{word >> 8}"
            if place != 7 or bits > 120:
                made += f".{word & 0xFF}"
        else:
            made += f"{':' if made else ''}{word:x}"
    return made


def _shortened_zeros(words: list[int]) -> tuple[int, int]:
    """As ``longest_zeros``, but a run that is not longer than one before it goes on after its end."""
    start = size = run_start = run = 0
    for at, word in enumerate(words):
        if word == 0:
            run_start = run_start if run else at
            run += 1
        elif run > size:
            start, size, run = run_start, run, 0
    return (run_start, run) if run > size else (start, size)


add("family", (INET,), INTEGER, family_of)
add("host", (INET,), TEXT, address_text)
add("abbrev", (INET,), TEXT, inet_text)
add("abbrev", (CIDR,), TEXT, _abbreviated)
add("broadcast", (INET,), INET, _broadcast)
add("network", (INET,), CIDR, as_network)
add("netmask", (INET,), INET, _netmask)
add("hostmask", (INET,), INET, lambda value: _whole(value, _host_bits(value)))
add("masklen", (INET,), INTEGER, bits_of)
add("set_masklen", (INET, INTEGER), INET, _set_masklen)
add("set_masklen", (CIDR, INTEGER), CIDR, lambda value, bits: as_network(_set_masklen(value, bits)))
add("inet_same_family", (INET, INET), BOOLEAN, lambda one, other: family_of(one) == family_of(other))
add("inet_merge", (INET, INET), CIDR, _merged)
for _symbol, _function in (
    ("<<", _is_below),
    ("<<=", _is_in),
    (">>", lambda one, other: _is_below(other, one)),
    (">>=", lambda one, other: _is_in(other, one)),
    ("&&", _overlaps),
):
    add(_symbol, (INET, INET), BOOLEAN, _function)
add("~", (INET,), INET, _inverted)
add("&", (INET, INET), INET, _combined("AND", int.__and__))
add("|", (INET, INET), INET, _combined("OR", int.__or__))
add("+", (INET, BIGINT), INET, _plus)
add("+", (BIGINT, INET), INET, lambda count, value: _plus(value, count))
add("-", (INET, BIGINT), INET, lambda value, count: _plus(value, -count))
add("-", (INET, INET), BIGINT, _difference)


def _octets(value: str) -> bytes:
    return bytes.fromhex(value.replace(":", ""))


def _by_octet(combine: Callable[[int, int], int]) -> Any:
    return lambda one, other: bytes(map(combine, _octets(one), _octets(other))).hex(":")


for _type, _size in ((MACADDR, 6), (MACADDR8, 8)):
    add("~", (_type,), _type, lambda value: bytes(255 - octet for octet in _octets(value)).hex(":"))
    add("&", (_type, _type), _type, _by_octet(int.__and__))
    add("|", (_type, _type), _type, _by_octet(int.__or__))
    add("trunc", (_type,), _type, lambda value, size=_size: _octets(value)[:3].ljust(size, b"\0").hex(":"))
add("macaddr8_set7bit", (MACADDR8,), MACADDR8, lambda value: f"{int(value[:2], 16) | 2:02x}{value[2:]}")
