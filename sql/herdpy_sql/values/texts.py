"""PostgreSQL's text forms of every type: what casts to and from TEXT, COPY and the wire use."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any

from herdpy.codec.grids import mapped
from herdpy.codec.jsonb import JsonError, canonical_jsonb
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import arrays, floats, intervals, labels, moments, numeric

if TYPE_CHECKING:
    from collections.abc import Callable


INTEGER_RANGES = {
    Base.SMALLINT: (-(2**15), 2**15 - 1),
    Base.INTEGER: (-(2**31), 2**31 - 1),
    Base.BIGINT: (-(2**63), 2**63 - 1),
}
_BLANKS = " \t\n\r\f\v"
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_TRUE_WORDS = ("true", "yes", "on")
_FALSE_WORDS = ("false", "no", "off")
_HEX = frozenset("0123456789abcdefABCDEF")
_UUID = re.compile(r"\{?(?:[0-9a-f]{4}-?){7}[0-9a-f]{4}\}?", re.ASCII | re.IGNORECASE)


@functools.lru_cache(maxsize=512)
def to_text(sql_type: SqlType) -> Callable[[Any], str]:
    """The function from datums of ``sql_type`` (never None) to PostgreSQL's text."""
    base = sql_type.base
    if base is Base.CHAR and sql_type.length is not None:
        length = sql_type.length
        return lambda value: value.ljust(length)
    if base is Base.ARRAY:
        write = to_text(sql_type.element_type)
        return lambda value: arrays.join_array(mapped(value, write))
    if base is Base.ENUM:
        return labels.label_writer(sql_type)
    return _TO_TEXT[base]


@functools.lru_cache(maxsize=512)
def from_text(sql_type: SqlType) -> Callable[[str], Any]:
    """The function from PostgreSQL's text to datums of ``sql_type``.

    It raises SqlError: 22P02 bad syntax, 22003 out of range, 22007 and 22008 for dates and times,
    22001 too long for VARCHAR(n) or CHAR(n).
    """
    base = sql_type.base
    if base in INTEGER_RANGES:
        low, high = INTEGER_RANGES[base]
        return lambda text: _parse_integer(text, low, high, base.value)
    if base is Base.NUMERIC and sql_type.precision is not None:
        return lambda text: numeric.fit(numeric.parse_numeric(text), sql_type)
    if base in {Base.VARCHAR, Base.CHAR}:
        return lambda text: limit_text(check_text(text), sql_type)
    if base is Base.ARRAY:
        read = from_text(sql_type.element_type)
        return lambda text: arrays.parse_array(text, read)
    if base is Base.ENUM:
        return labels.label_reader(sql_type)
    if base is Base.VECTOR and sql_type.length is not None:
        return lambda text: labels.fit_vector(labels.parse_vector(text), sql_type)
    return _FROM_TEXT[base]


def check_text(text: str) -> str:
    """``text`` itself; SqlError 22021 when it has a NUL or a lone surrogate, which no TEXT can hold."""
    if "\0" in text:
        raise SqlError("22021", 'invalid byte sequence for encoding "UTF8": 0x00')
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise SqlError("22021", f'invalid character for encoding "UTF8": {error.reason}') from None
    return text


def limit_text(text: str, sql_type: SqlType) -> str:
    """``text`` as stored in VARCHAR(n) or CHAR(n); SqlError 22001 when more than blanks are too much."""
    if sql_type.base is Base.CHAR:
        text = text.rstrip(" ")
    length = sql_type.length
    if length is not None and len(text) > length:
        if text[length:].strip(" "):
            raise SqlError("22001", f"value too long for type {sql_type}")
        text = text[:length]
    return text


def cut_text(text: str, sql_type: SqlType) -> str:
    """``text`` cut to the length of VARCHAR(n) or CHAR(n), as explicit casts do."""
    if sql_type.length is not None:
        text = text[: sql_type.length]
    return text.rstrip(" ") if sql_type.base is Base.CHAR else text


def parse_json(text: str) -> str:
    """``text`` itself when it is JSON; SqlError 22P02 when not, 54001 when it is nested too deeply."""
    check_text(text)
    try:
        _JSON.decode(text)
    except ValueError as error:
        raise SqlError(
            "22P02", "invalid input syntax for type json", detail=f"The input is not JSON: {error}."
        ) from None
    except RecursionError:
        raise SqlError(
            "54001", "stack depth limit exceeded", detail="The JSON is nested too deeply."
        ) from None
    return text


def parse_jsonb(text: str) -> str:
    """The JSONB datum of a JSON text. SqlError 22P02, 22P05 for a NUL in it, 22003, or 54001."""
    try:
        return canonical_jsonb(check_text(text))
    except JsonError as error:
        raise json_error(error) from None


def json_error(error: JsonError) -> SqlError:
    """What PostgreSQL says of it."""
    match error.kind:
        case "nul":
            return SqlError("22P05", "unsupported Unicode escape sequence", detail=str(error))
        case "range":
            return SqlError("22003", str(error))
        case "depth":
            return SqlError("54001", "stack depth limit exceeded", detail=str(error))
        case _:
            return SqlError("22P02", "invalid input syntax for type json", detail=str(error))


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a JSON number")


# Numbers stay text: checking needs no value, and Python refuses to read very long integers.
_JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse_constant)


def _parse_integer(text: str, low: int, high: int, name: str) -> int:
    stripped = text.strip(_BLANKS)
    match = _INTEGER.match(stripped)
    if match is None:
        raise SqlError("22P02", f'invalid input syntax for type {name}: "{text}"')
    # As PostgreSQL does: digits beyond the least value are found before what comes after them.
    digits = match[0].lstrip("+-").lstrip("0")
    value = int(match[0]) if len(digits) <= 19 else low - 1
    too_long = abs(value) > -low
    if match.end() < len(stripped) and not too_long:
        raise SqlError("22P02", f'invalid input syntax for type {name}: "{text}"')
    if not low <= value <= high:
        raise SqlError("22003", f'value "{text}" is out of range for type {name}')
    return value


def _parse_bool(text: str) -> bool:
    word = text.strip(_BLANKS).lower()
    if word:
        if word == "1" or (word != "o" and any(full.startswith(word) for full in _TRUE_WORDS)):
            return True
        if word == "0" or (word != "o" and any(full.startswith(word) for full in _FALSE_WORDS)):
            return False
    raise SqlError("22P02", f'invalid input syntax for type boolean: "{text}"')


def _parse_bytea(text: str) -> bytes:
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


def _parse_uuid(text: str) -> bytes:
    if not _UUID.fullmatch(text) or (text[0] == "{") != (text[-1] == "}"):
        raise SqlError("22P02", f'invalid input syntax for type uuid: "{text}"')
    return bytes.fromhex(text.strip("{}").replace("-", ""))


def uuid_text(value: bytes) -> str:
    """PostgreSQL's text of a UUID datum."""
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _same(value: str) -> str:
    return value


def _parse_real(text: str) -> float:
    value = floats.parse_float(text, "real")
    try:
        return floats.nearest32(value, text)
    except SqlError:
        raise SqlError("22003", f'"{text.strip(_BLANKS)}" is out of range for type real') from None


_TO_TEXT: dict[Base, Callable[[Any], str]] = {
    Base.BOOLEAN: lambda value: "t" if value else "f",
    Base.SMALLINT: str,
    Base.INTEGER: str,
    Base.BIGINT: str,
    Base.REAL: floats.float32_text,
    Base.DOUBLE: floats.float64_text,
    Base.NUMERIC: numeric.numeric_text,
    Base.TEXT: _same,
    Base.VARCHAR: _same,
    Base.CHAR: _same,
    Base.UNKNOWN: _same,
    Base.JSON: _same,
    Base.BYTEA: lambda value: "\\x" + value.hex(),
    Base.DATE: moments.date_text,
    Base.TIME: moments.time_text,
    Base.TIMESTAMP: moments.timestamp_text,
    Base.TIMESTAMPTZ: moments.timestamptz_text,
    Base.UUID: uuid_text,
    Base.INTERVAL: intervals.interval_text,
    Base.JSONB: _same,
    Base.VECTOR: labels.vector_text,
}

_FROM_TEXT: dict[Base, Callable[[str], Any]] = {
    Base.BOOLEAN: _parse_bool,
    Base.REAL: _parse_real,
    Base.DOUBLE: lambda text: floats.parse_float(text, "double precision"),
    Base.NUMERIC: numeric.parse_numeric,
    Base.TEXT: check_text,
    Base.UNKNOWN: check_text,
    Base.JSON: parse_json,
    Base.BYTEA: _parse_bytea,
    Base.DATE: moments.parse_date,
    Base.TIME: moments.parse_time,
    Base.TIMESTAMP: moments.parse_timestamp,
    Base.TIMESTAMPTZ: moments.parse_timestamptz,
    Base.UUID: _parse_uuid,
    Base.INTERVAL: intervals.parse_interval,
    Base.JSONB: parse_jsonb,
    Base.VECTOR: labels.parse_vector,
}
