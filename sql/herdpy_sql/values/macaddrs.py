"""MACADDR and MACADDR8: a datum is the text that PostgreSQL writes, which sorts as the address does.

Above ``form``, below ``forms``. Text and binary forms: PostgreSQL 15, src/backend/utils/adt/mac.c and mac8.c.
"""

from __future__ import annotations

import re
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.values.form import Bytes, DuckForms, Reader, TypeForms, always, mismatch, quote, wrong_length

# As C's sscanf reads "%x" and "%2x": blanks before a number, a sign, and as many digits as there are.
_NUMBER = r"(?>\s*([+-]?[0-9a-f]+))"
_OCTET = r"(?>\s*([+-][0-9a-f]|[0-9a-f]{1,2}))"
_FORMS = [
    re.compile(rf"{form}\s*", re.ASCII | re.IGNORECASE)
    for form in (
        ":".join([_NUMBER] * 6),
        "-".join([_NUMBER] * 6),
        f"{_OCTET * 3}:{_OCTET * 3}",
        f"{_OCTET * 3}-{_OCTET * 3}",
        r"\.".join([_OCTET * 2] * 3),
        "-".join([_OCTET * 2] * 3),
        _OCTET * 6,
    )
]


def parse_macaddr(text: str) -> str:
    """Read a MACADDR. SqlError 22P02, or 22003 for a number beyond an octet."""
    for form in _FORMS:
        found = form.fullmatch(text)
        if found:
            octets = [int(octet, 16) for octet in found.groups()]
            if min(octets) < 0 or max(octets) > 255:
                raise SqlError("22003", f'invalid octet value in "macaddr" value: "{text}"')
            return bytes(octets).hex(":")
    raise SqlError("22P02", f'invalid input syntax for type macaddr: "{text}"')


_BLANKS = " \t\n\v\f\r"
_PAIR = re.compile(r"[0-9a-fA-F]{2}")


def parse_macaddr8(text: str) -> str:
    """Read a MACADDR8, of eight octets or of the six of a MACADDR. SqlError 22P02."""
    octets = _pairs(text)
    if octets is None or len(octets) not in {6, 8}:
        raise SqlError("22P02", f'invalid input syntax for type macaddr8: "{text}"')
    return lengthened(octets.hex(":")) if len(octets) == 6 else octets.hex(":")


def _pairs(text: str) -> bytes | None:
    """The octets of pairs of digits, with the same sign between pairs, or none; as macaddr8_in reads them.

    A last character that has none to make a pair with is passed over, as there.
    """
    rest, found, signs = text.lstrip(_BLANKS), bytearray(), set()
    while len(rest) > 1:
        if not _PAIR.fullmatch(rest[:2]):
            return None
        found.append(int(rest[:2], 16))
        rest = rest[2:]
        if rest[:1] in {":", "-", "."}:
            signs.add(rest[0])
            rest = rest[1:]
        if len(signs) > 1:
            return None
        if len(found) in {6, 8} and rest[:1] and rest[0] in _BLANKS:
            return None if rest.strip(_BLANKS) else bytes(found)
    return bytes(found)


def lengthened(value: str) -> str:
    """A MACADDR as MACADDR8: EUI-48 in EUI-64."""
    return f"{value[:9]}ff:fe:{value[9:]}"


def shortened(value: str) -> str:
    """A MACADDR8 as MACADDR. SqlError 22003 for one that none is in."""
    if value[9:15] != "ff:fe:":
        raise SqlError(
            "22003",
            "macaddr8 data out of range to convert to macaddr",
            hint="Only addresses that have FF and FE as values in the 4th and 5th bytes from the left, "
            "for example xx:xx:xx:ff:fe:xx:xx:xx, are eligible to be converted from macaddr8 to macaddr.",
        )
    return value[:9] + value[15:]


def _taker(name: str, read: Reader) -> Reader:
    def take(value: object) -> Any:
        if value is None:
            return None
        if isinstance(value, str):
            return read(plain(value))
        raise mismatch(value, name)

    return take


def _unpack(data: Bytes) -> str:
    if len(data) != 6:
        raise wrong_length(len(data), 6)
    return bytes(data).hex(":")


def _unpack_long(data: Bytes) -> str:
    if len(data) == 6:
        return lengthened(bytes(data).hex(":"))
    if len(data) != 8:
        raise wrong_length(len(data), 8)
    return bytes(data).hex(":")


def _pack(value: str) -> bytes:
    return bytes.fromhex(value.replace(":", ""))


FORMS: TypeForms = TypeForms(
    write=always(str),
    read=always(parse_macaddr),
    take=always(_taker("macaddr", parse_macaddr)),
    pack=always(_pack),
    unpack=always(_unpack),
    duck=DuckForms("VARCHAR", text="{}", constant=quote),
    unquoted=True,
)
LONG_FORMS: TypeForms = TypeForms(
    write=always(str),
    read=always(parse_macaddr8),
    take=always(_taker("macaddr8", parse_macaddr8)),
    pack=always(_pack),
    unpack=always(_unpack_long),
    duck=DuckForms("VARCHAR", text="{}", constant=quote),
    unquoted=True,
)
