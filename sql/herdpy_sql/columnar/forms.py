"""Texts of floats, UUIDs, booleans and BYTEA in the columnar engine, as PostgreSQL reads and writes them.

Python functions that DuckDB calls (``macros``) and literals (``literals``) come here with text; values go
out, or SqlError with PostgreSQL's SQLSTATE.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal

from herdpy_sql.columnar.exact import bad_input, parse
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType


def parse_float(text: str, type_: SqlType) -> float:
    """A REAL or DOUBLE PRECISION from its text; SqlError 22P02 or 22003."""
    stripped = text.strip()
    try:
        if "_" in stripped:
            raise ValueError
        value = float(stripped)
    except ValueError:
        raise bad_input(type_.base.value, text) from None
    named = stripped.lstrip("+-").lower() in ("inf", "infinity", "nan")
    result = value
    if type_.base is Base.REAL and math.isfinite(value):
        try:
            result = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            result = math.inf
    lost = result == 0 and any(c in "123456789" for c in stripped.lower().split("e")[0])
    if (math.isinf(result) and not named) or lost:
        raise SqlError("22003", f'"{stripped}" is out of range for type {type_.base.value}')
    return result


def float_numeric(value: float, *, single: bool = False) -> Decimal:
    """A float cast to NUMERIC: 15 (REAL: 6) significant digits."""
    if not math.isfinite(value):
        raise SqlError("0A000", "NaN and infinity of type numeric are not supported")
    return parse(f"{value:.{6 if single else 15}g}")


_UUID = re.compile(r"(?:[0-9a-fA-F]{4}-?){8}|\{(?:[0-9a-fA-F]{4}-?){8}\}")


def uuid_bytes(text: str) -> bytes:
    """A UUID's bytes; SqlError 22P02."""
    if not _UUID.fullmatch(text) or text.rstrip("}").endswith("-"):
        raise bad_input("uuid", text)
    return bytes.fromhex(text.strip("{}").replace("-", ""))


def uuid_form(text: str) -> str:
    """A UUID's text as DuckDB reads it; SqlError 22P02."""
    return uuid_bytes(text).hex()


def boolean(text: str) -> bool:
    """PostgreSQL's reading of a boolean: unique prefixes of its words."""
    word = text.strip().lower()
    if word in ("1", "on") or (word and ("true".startswith(word) or "yes".startswith(word))):
        return True
    if word in ("0", "of", "off") or (word and ("false".startswith(word) or "no".startswith(word))):
        return False
    raise bad_input("boolean", text)


def _check_uuid(text: str) -> None:
    uuid_bytes(text)


def _check_bytea(text: str) -> None:
    bytea(text)


def bytea(text: str) -> bytes:
    """BYTEA from its hex or escape text; SqlError 22P02 or 22023."""
    if text.startswith("\\x"):
        try:
            return bytes.fromhex(text[2:])
        except ValueError:
            raise SqlError("22023", "invalid hexadecimal data") from None
    out = bytearray()
    at = 0
    while at < len(text):
        char = text[at]
        if char != "\\":
            out += char.encode()
            at += 1
        elif text[at + 1 : at + 2] == "\\":
            out.append(92)
            at += 2
        elif (
            len(text) >= at + 4
            and all(c in "01234567" for c in text[at + 1 : at + 4])
            and text[at + 1] in "0123"
        ):
            out.append(int(text[at + 1 : at + 4], 8))
            at += 4
        else:
            raise bad_input("bytea", text)
    return bytes(out)


CHECKS: dict[Base, Callable[[str], None]] = {Base.UUID: _check_uuid, Base.BYTEA: _check_bytea}
