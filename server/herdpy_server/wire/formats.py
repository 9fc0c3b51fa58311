"""The text and the binary form of every type: which function reads and which writes each.

A ``SqlType``, a format and the session's time zone come in, functions between bytes and datums go out.
They are made once per type and kept, so that a caller may ask again for every message. First the two
functions that choose; then text as bytes of UTF-8: ``herdpy_sql.values`` reads and writes it, here are
the session's time zone, and faster functions for values in the form that PostgreSQL itself writes.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable
from typing import Any

from herdpy_server.wire import arrays
from herdpy_sql.expr.zones import array_from_text, array_text, local_text, to_utc
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import from_text, to_text
from herdpy_sql.values.form import Bytes
from herdpy_sql.values.forms import FORMS
from herdpy_sql.values.integers import INTEGER_RANGES
from herdpy_sql.values.moments import parse_zoned, timestamp_bytes
from herdpy_sql.values.strings import text_of

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_DATETIME_MIN = -62_135_596_800_000_000
_DATETIME_END = 253_402_300_800_000_000


@functools.lru_cache(maxsize=1024)
def decoder(sql_type: SqlType, binary: bool, zone: str = "UTC") -> Callable[[Bytes], Any]:
    """The function from a value's bytes to its datum.

    ``zone`` is the session's time zone, which TIMESTAMPTZ text without an offset is in.

    It raises SqlError as PostgreSQL does: of text 22P02, 22003, 22007, 22008, 22001 and whatever else the
    type's input function says, 22021 for bytes that are not UTF-8; of binary 22P03 for too many bytes, 08P01
    for too few, 22003 and 22008 out of range.
    """
    if sql_type.element is not None:
        element = sql_type.element_type
        read = decoder(element, binary, zone)
        if binary:
            return arrays.binary_reader(element, read)
        return arrays.text_reader(read, of_json=element.base in {Base.JSON, Base.JSONB})
    return FORMS[sql_type.base].unpack(sql_type) if binary else _text_reader(sql_type, zone)


@functools.lru_cache(maxsize=1024)
def encoder(sql_type: SqlType, binary: bool, zone: str = "UTC") -> Callable[[Any], bytes]:
    """The function from a datum (never None) to the value's bytes."""
    if sql_type.element is not None:
        element = sql_type.element_type
        write = encoder(element, binary, zone)
        return arrays.binary_writer(element, write) if binary else arrays.text_writer(write)
    return FORMS[sql_type.base].pack(sql_type) if binary else _text_writer(sql_type, zone)


def _text_reader(sql_type: SqlType, zone: str) -> Callable[[Bytes], Any]:
    """The function from text to datums."""
    base = sql_type.base
    if base in INTEGER_RANGES:
        return _integer_reader(sql_type)
    if FORMS[base].unpack(sql_type) is text_of:
        return text_of
    parse: Callable[[str], Any] = from_text(sql_type)
    if base is Base.TIMESTAMP:
        return _timestamp_reader(parse)
    if base is Base.TIMESTAMPTZ:
        return _zoned_reader(zone)
    if sql_type.element is Base.TIMESTAMPTZ:
        return lambda data: array_from_text(text_of(data), zone)
    return lambda data: parse(text_of(data))


def _integer_reader(sql_type: SqlType) -> Callable[[Bytes], int]:
    low, high = INTEGER_RANGES[sql_type.base]
    parse: Callable[[str], int] = from_text(sql_type)

    def read(data: Bytes) -> int:
        if len(data) < 19:  # int() is quadratic, and would take blanks and underscores
            raw = bytes(data)
            if raw.isdigit() or (raw[:1] == b"-" and raw[1:].isdigit()):
                value = int(raw)
                if low <= value <= high:
                    return value
        return parse(text_of(data))

    return read


def _plain_moment(text: str) -> int | None:
    """A timestamp in the form ``2001-02-03 04:05:06[.789012]``; None for all else."""
    if (
        len(text) in {19, 26}
        and text[10] == " "
        and text[4] == text[7] == "-"
        and text[13] == text[16] == ":"
        and (len(text) == 19 or (text[19] == "." and text[20:].isdigit()))
        and text.isascii()
    ):
        try:
            return (dt.datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
        except ValueError:
            return None
    return None


def _timestamp_reader(parse: Callable[[str], int]) -> Callable[[Bytes], int]:
    def read(data: Bytes) -> int:
        text = text_of(data)
        value = _plain_moment(text)
        return parse(text) if value is None else value

    return read


def _zoned_reader(zone: str) -> Callable[[Bytes], int]:
    def read(data: Bytes) -> int:
        text = text_of(data)
        if text[-3:] == "+00":
            value = _plain_moment(text[:-3])
            if value is not None:
                return value
        us, named = parse_zoned(text)
        return us if named else to_utc(us, zone)

    return read


def _text_writer(sql_type: SqlType, zone: str) -> Callable[[Any], bytes]:
    """The function from datums to text."""
    base = sql_type.base
    if base is Base.TIMESTAMPTZ:
        return _zoned_writer(zone)
    if sql_type.element is Base.TIMESTAMPTZ:
        return lambda value: array_text(value, zone).encode()
    found = FORMS[base].text_bytes if sql_type.element is None else None
    if found is not None:
        return found
    convert = to_text(sql_type)
    return lambda value: convert(value).encode()


def _zoned_writer(zone: str) -> Callable[[int], bytes]:
    if zone != "UTC":
        return lambda us: local_text(us, zone).encode()

    def write(us: int) -> bytes:
        if _DATETIME_MIN <= us < _DATETIME_END:
            return timestamp_bytes(us) + b"+00"
        return local_text(us, "UTC").encode()

    return write
