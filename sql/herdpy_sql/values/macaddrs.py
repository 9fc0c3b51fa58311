"""MACADDR: a datum is the text that PostgreSQL writes, which sorts as the address does.

Above ``form``, below ``forms``. Text and binary forms: PostgreSQL 15, src/backend/utils/adt/mac.c.
"""

from __future__ import annotations

import re
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.values.form import Bytes, DuckForms, TypeForms, always, mismatch, quote, wrong_length

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


def _take(value: object) -> Any:
    if value is None:
        return None
    if isinstance(value, str):
        return parse_macaddr(plain(value))
    raise mismatch(value, "macaddr")


def _unpack(data: Bytes) -> str:
    if len(data) != 6:
        raise wrong_length(len(data), 6)
    return bytes(data).hex(":")


FORMS: TypeForms = TypeForms(
    write=always(str),
    read=always(parse_macaddr),
    take=always(_take),
    pack=always(lambda value: bytes.fromhex(value.replace(":", ""))),
    unpack=always(_unpack),
    duck=DuckForms("VARCHAR", text="{}", constant=quote),
    unquoted=True,
)
