"""BYTEA: a datum is ``bytes``. Above ``strings``, below ``forms``."""

from __future__ import annotations

import re
from typing import Any

from herdpy.codec.kinds import plain
from herdpy_sql.errors import SqlError
from herdpy_sql.values.form import Array, ColumnForms, DuckForms, TypeForms, always, mismatch
from herdpy_sql.values.string_columns import made_by_arrow, pa
from herdpy_sql.values.strings import check_text

_HEX = frozenset("0123456789abcdefABCDEF")


def parse_bytea(text: str) -> bytes:
    """Read a BYTEA in its hex or its escape form. SqlError 22P02, 22023, 22021."""
    if text.startswith("\\x"):
        return _parse_hex(text[2:])
    if "\\" not in text:
        return check_text(text).encode()
    return _parse_escaped(text)


def _parse_hex(digits: str) -> bytes:
    """Pairs of hexadecimal digits, with blanks between pairs but not within one."""
    at, pairs = 0, []
    if digits.isalnum():
        pairs.append(digits)
        at = len(digits)
    while at < len(digits):
        if digits[at] in " \t\n\r":
            at += 1
        else:
            pairs.append(digits[at : at + 2])
            at += 2
    found = "".join(pairs)
    for digit in found:
        if digit not in _HEX:
            raise SqlError("22023", f'invalid hexadecimal digit: "{digit}"')
    if len(found) % 2:
        raise SqlError("22023", "invalid hexadecimal data: odd number of digits")
    return bytes.fromhex(found)


def _parse_escaped(text: str) -> bytes:
    """The traditional "escape" form: ``\\\\`` and three octal digits."""
    data = check_text(text).encode()
    result = bytearray()
    at = 0
    while at < len(data):
        if data[at] != 0x5C:
            result.append(data[at])
            at += 1
        elif data[at + 1 : at + 2] == b"\\":
            result.append(0x5C)
            at += 2
        elif re.fullmatch(rb"[0-3][0-7]{2}", data[at + 1 : at + 4]):
            result.append(int(data[at + 1 : at + 4], 8))
            at += 4
        else:
            raise SqlError("22P02", "invalid input syntax for type bytea")
    return bytes(result)


def escaped_text(value: bytes) -> str:
    """The traditional "escape" form: what is no printable ASCII, in octal digits."""
    return "".join(
        ["\\\\" if one == 0x5C else chr(one) if 0x20 <= one <= 0x7E else f"\\{one:03o}" for one in value]
    )


def _take(value: object) -> Any:
    if type(value) is bytes or value is None:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(memoryview(value))
    if isinstance(value, str):
        return parse_bytea(plain(value))
    raise mismatch(value, "bytea")


def _read_column(strings: Array, target: Any, *_more: Any) -> Array | None:
    found: list[bytes | None] = []
    for text in strings.to_pylist():
        if text is None:
            found.append(None)
            continue
        if text[:2] != "\\x" or not (text[2:].isalnum() or len(text) == 2):
            return None
        try:
            found.append(bytes.fromhex(text[2:]))
        except ValueError:
            return None
    return pa.array(found, target)


FORMS: TypeForms = TypeForms(
    columns=ColumnForms(read=_read_column, is_packed=True, python=bytes, take=made_by_arrow),
    write=always(lambda value: "\\x" + value.hex()),
    read=always(parse_bytea),
    take=always(_take),
    pack=always(bytes),
    unpack=always(bytes),
    duck=DuckForms("BLOB", "pg_bytea", "pg_byteatext({})", check=parse_bytea),
    guessed=(bytes, bytearray, memoryview),
    text_bytes=lambda value: b"\\x" + value.hex().encode(),
)
