"""Codec layer, inside: JSONB values to bytes that sort as PostgreSQL's do, and back. ``keys`` has the format.

The order is that of PostgreSQL 15's compareJsonbContainers: by type, then arrays and objects by how many
they hold, then by what they hold in turn. An empty array at the top is less than all else, as there.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from herdpy.codec._keybytes import decimal_bytes, read_decimal, read_text, text_bytes

_EMPTY, _NULL, _STRING, _NUMBER, _FALSE, _TRUE, _ARRAY, _OBJECT = range(8)
_DECODER = json.JSONDecoder(parse_int=Decimal, parse_float=Decimal)


def jsonb_bytes(text: str) -> bytes:
    """Return the ascending bytes of a JSONB datum."""
    value = _DECODER.decode(text)
    if value == [] and isinstance(value, list):
        return bytes((_EMPTY,))
    out = bytearray()
    _write(value, out)
    return bytes(out)


def _write(value: Any, out: bytearray) -> None:
    match value:
        case None:
            out.append(_NULL)
        case bool():
            out.append(_TRUE if value else _FALSE)
        case str():
            out.append(_STRING)
            out += text_bytes(value)
        case Decimal():
            out.append(_NUMBER)
            out += decimal_bytes(value)
        case list():
            out.append(_ARRAY)
            out += len(value).to_bytes(4, "big")
            for one in value:
                _write(one, out)
        case _:
            out.append(_OBJECT)
            out += len(value).to_bytes(4, "big")
            for key, one in value.items():
                out += text_bytes(key)
                _write(one, out)


def read_jsonb(key: bytes, at: int) -> tuple[str, int]:
    """Return the ascending JSONB that starts there, and where the next column starts."""
    tag = key[at]
    at += 1
    match tag:
        case 0:
            return "[]", at
        case 1:
            return "null", at
        case 2:
            text, at = read_text(key, at)
            return json.dumps(text, ensure_ascii=False), at
        case 3:
            number, at = read_decimal(key, at)
            return format(number, "f"), at
        case 4 | 5:
            return ("false" if tag == _FALSE else "true"), at
    count = int.from_bytes(key[at : at + 4], "big")
    at += 4
    parts = []
    for _ in range(count):
        name = ""
        if tag == _OBJECT:
            name, at = read_text(key, at)
            name = f"{json.dumps(name, ensure_ascii=False)}: "
        value, at = read_jsonb(key, at)
        parts.append(name + value)
    inner = ", ".join(parts)
    return (f"{{{inner}}}" if tag == _OBJECT else f"[{inner}]"), at
