"""INET and CIDR: a datum is bytes that sort as PostgreSQL's network_cmp does. Above ``form``.

The bytes are the family (4 or 6), the network, the length of its mask, and the address. So networks sort
before what is within them, and the keys of an index are the datums themselves. Text and binary forms:
PostgreSQL 15, src/port/inet_net_ntop.c and src/backend/utils/adt/inet_net_pton.c and network.c.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.form import Bytes, DuckForms, Reader, TypeForms, always, mismatch

_WIDTHS = {4: 4, 6: 16}
_ON_WIRE = {4: 2, 6: 3}
_OF_WIRE = {2: 4, 3: 6}
_OCTETS = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_BITS = re.compile(r"0|[1-9][0-9]*")
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]+")
_GROUP = re.compile(r"[0-9a-fA-F]{1,4}")
_CLASSES = ((240, 32), (224, 8), (192, 24), (128, 16), (0, 8))
"""The mask that a CIDR without one has, by its first octet."""


def inet_value(family: int, address: int, bits: int) -> bytes:
    """The datum of an address with the length of its mask."""
    width = _WIDTHS[family]
    network = address & mask_of(family, bits)
    return b"%c%b%c%b" % (family, network.to_bytes(width), bits, address.to_bytes(width))


def family_of(value: bytes) -> int:
    """4 or 6."""
    return value[0]


def bits_of(value: bytes) -> int:
    """The length of a datum's mask."""
    return value[len(value) // 2]


def address_of(value: bytes) -> int:
    """The whole address, as a number."""
    return int.from_bytes(value[-_WIDTHS[value[0]] :])


def max_bits(family: int) -> int:
    """How many bits addresses of a family have."""
    return 8 * _WIDTHS[family]


def mask_of(family: int, bits: int) -> int:
    """The mask of a network, as a number."""
    width = max_bits(family)
    return ((1 << bits) - 1) << (width - bits)


def is_network(value: bytes) -> bool:
    """Whether no bit of the address is behind the mask: what a CIDR is."""
    return value[1 : 1 + _WIDTHS[value[0]]] == value[-_WIDTHS[value[0]] :]


def as_network(value: bytes) -> bytes:
    """The same without the bits behind the mask."""
    family = value[0]
    network = int.from_bytes(value[1 : 1 + _WIDTHS[family]])
    return inet_value(family, network, bits_of(value))


def parse_inet(text: str) -> bytes:
    """Read an INET. SqlError 22P02."""
    found = _six(text) if ":" in text else _four(text)
    if found is None:
        raise SqlError("22P02", f'invalid input syntax for type inet: "{text}"')
    return inet_value(6 if ":" in text else 4, *found)


def parse_cidr(text: str) -> bytes:
    """Read a CIDR. SqlError 22P02."""
    found = _six(text) if ":" in text else _four_of_network(text)
    if found is None:
        raise SqlError("22P02", f'invalid input syntax for type cidr: "{text}"')
    value = inet_value(6 if ":" in text else 4, *found)
    if not is_network(value):
        raise SqlError(
            "22P02", f'invalid cidr value: "{text}"', detail="Value has bits set to right of mask."
        )
    return value


def _octets(text: str) -> bytes | None:
    """The octets of decimal numbers between points: four at most."""
    if not _OCTETS.fullmatch(text):
        return None
    numbers = [int(one) for one in text.split(".")]
    return bytes(numbers) if len(numbers) <= 4 and max(numbers) <= 255 else None


def _prefix(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and int(text) <= 32 else None


def _four(text: str) -> tuple[int, int] | None:
    """inet_net_pton_ipv4: octets may be left out at the end where the mask does not need them."""
    shown, slash, after = text.partition("/")
    octets = _octets(shown.removesuffix("."))
    bits = _prefix(after) if slash else 32
    if octets is None or bits is None or (not slash and len(octets) < 4) or bits // 8 > len(octets):
        return None
    return int.from_bytes(octets.ljust(4, b"\0")), bits


def _four_of_network(text: str) -> tuple[int, int] | None:
    """inet_cidr_pton_ipv4: hexadecimal digits too, and a mask by the class of the network."""
    shown, slash, after = text.partition("/")
    if _HEXADECIMAL.fullmatch(shown):
        digits = shown[2:]
        octets: bytes | None = bytes.fromhex(digits + "0" * (len(digits) % 2))
    else:
        octets = _octets(shown)
    if octets is None or len(octets) > 4:
        return None
    bits = _prefix(after) if slash else _implied(octets)
    if bits is None:
        return None
    return int.from_bytes(octets.ljust(4, b"\0")), bits


def _implied(octets: bytes) -> int:
    bits = next(bits for least, bits in _CLASSES if octets[0] >= least)
    bits = max(bits, 8 * len(octets))
    return 4 if bits == 8 and octets[0] == 224 else bits


def _six(text: str) -> tuple[int, int] | None:
    """inet_cidr_pton_ipv6: groups of four digits, ``::`` once, octets at the end, and a mask."""
    shown, slash, after = text.partition("/")
    bits = 128
    if slash:
        if not _BITS.fullmatch(after) or int(after) > 128:
            return None
        bits = int(after)
    before, gap, behind = shown.partition("::")
    if "::" in behind or behind.startswith(":"):
        return None
    head = _groups(before, last=not gap)
    tail = _groups(behind, last=True) if gap else b""
    if head is None or tail is None:
        return None
    missing = 16 - len(head) - len(tail)
    if missing < 0 or (missing == 0) == bool(gap):
        return None
    return int.from_bytes(head + bytes(missing) + tail), bits


def _groups(text: str, *, last: bool) -> bytes | None:
    """The bytes of groups between colons; the last one may be octets, of which some may be missing."""
    made = b""
    groups = text.split(":") if text else []
    for place, group in enumerate(groups):
        if _GROUP.fullmatch(group):
            made += int(group, 16).to_bytes(2)
        elif last and place == len(groups) - 1 and "." in group and _is_plain(group):
            octets = _octets(group)
            if octets is None:
                return None
            made += octets.ljust(4, b"\0")
        else:
            return None
    return made


def _is_plain(octets: str) -> bool:
    """Whether no octet has a leading zero."""
    return all(_BITS.fullmatch(one) for one in octets.split("."))


def address_text(value: bytes) -> str:
    """The address without its mask."""
    if value[0] == 4:
        return ".".join(map(str, value[-4:]))
    return _six_text(value[-16:])


def _six_text(address: bytes) -> str:
    """pg_inet_net_ntop: the longest run of zeros is left out; what embeds an IPv4 address shows that."""
    words = [int.from_bytes(address[at : at + 2]) for at in range(0, 16, 2)]
    start, size = longest_zeros(words)
    if size < 2:
        return ":".join(f"{word:x}" for word in words)
    if start == 0 and (size == 6 or (size == 5 and words[5] == 0xFFFF)):
        middle = "ffff:" if size == 5 else ""
        return f"::{middle}{'.'.join(map(str, address[12:]))}"
    before = ":".join(f"{word:x}" for word in words[:start])
    after = ":".join(f"{word:x}" for word in words[start + size :])
    return f"{before}::{after}"


def longest_zeros(words: list[int]) -> tuple[int, int]:
    """Where the first of the longest runs of zeros begins, and how long it is."""
    start = size = run = 0
    for at, word in enumerate(words):
        run = 0 if word else run + 1
        if run > size:
            start, size = at + 1 - run, run
    return start, size


def inet_text(value: bytes) -> str:
    """PostgreSQL's text of an INET: with its mask, unless that is of the whole address."""
    bits = bits_of(value)
    return address_text(value) if bits == max_bits(value[0]) else f"{address_text(value)}/{bits}"


def cidr_text(value: bytes) -> str:
    """PostgreSQL's text of a CIDR, and of an INET that is cast to TEXT: always with its mask."""
    return f"{address_text(value)}/{bits_of(value)}"


_ADDRESSES = (ipaddress.IPv4Address, ipaddress.IPv6Address)  # interfaces are addresses too
_NETWORKS = (ipaddress.IPv4Network, ipaddress.IPv6Network)


def _taker(base: Base, read: Reader) -> Reader:
    def take(value: object) -> Any:
        if value is None:
            return None
        if isinstance(value, str):
            return read(plain(value))
        if isinstance(value, _ADDRESSES + _NETWORKS):
            return read(str(value))
        raise mismatch(value, base.value)

    return take


def _give_inet(value: bytes | None) -> object:
    if value is None:
        return None
    if bits_of(value) == max_bits(value[0]):
        return ipaddress.ip_address(value[-_WIDTHS[value[0]] :])
    return ipaddress.ip_interface((value[-_WIDTHS[value[0]] :], bits_of(value)))


def _give_cidr(value: bytes | None) -> object:
    if value is None:
        return None
    return ipaddress.ip_network((value[-_WIDTHS[value[0]] :], bits_of(value)))


def _pack(is_cidr: bool) -> Reader:
    def pack(value: bytes) -> bytes:
        width = _WIDTHS[value[0]]
        return bytes((_ON_WIRE[value[0]], bits_of(value), is_cidr, width)) + value[-width:]

    return pack


def _unpack(sql_type: SqlType) -> Reader:
    name = sql_type.base.value

    def invalid(what: str) -> SqlError:
        return SqlError("22P03", f'invalid {what} in external "{name}" value')

    def unpack(data: Bytes) -> bytes:
        if len(data) < 4:
            if data and data[0] not in _OF_WIRE:
                raise invalid("address family")
            raise SqlError("08P01", "no data left in message")
        family = _OF_WIRE.get(data[0])
        if family is None:
            raise invalid("address family")
        if data[1] > max_bits(family):
            raise invalid("bits")
        if data[3] != _WIDTHS[family]:
            raise invalid("length")
        if len(data) < 4 + data[3]:
            raise SqlError("08P01", "no data left in message")
        if len(data) > 4 + data[3]:
            raise SqlError("22P03", "incorrect binary data format")
        value = inet_value(family, int.from_bytes(data[4:]), data[1])
        if sql_type.base is Base.CIDR and not is_network(value):
            raise SqlError(
                "22P03", 'invalid external "cidr" value', detail="Value has bits set to right of mask."
            )
        return value

    return unpack


def _constant(value: bytes) -> str:
    return "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'::BLOB"


INET_FORMS: TypeForms = TypeForms(
    write=always(inet_text),
    read=always(parse_inet),
    take=always(_taker(Base.INET, parse_inet)),
    give=always(_give_inet),
    pack=always(_pack(False)),
    unpack=_unpack,
    duck=DuckForms("BLOB", constant=_constant),
    guessed=(
        ipaddress.IPv4Address,
        ipaddress.IPv6Address,
        ipaddress.IPv4Interface,
        ipaddress.IPv6Interface,
    ),
)
CIDR_FORMS: TypeForms = TypeForms(
    write=always(cidr_text),
    read=always(parse_cidr),
    take=always(_taker(Base.CIDR, parse_cidr)),
    give=always(_give_cidr),
    pack=always(_pack(True)),
    unpack=_unpack,
    duck=DuckForms("BLOB", constant=_constant),
    guessed=(ipaddress.IPv4Network, ipaddress.IPv6Network),
)
