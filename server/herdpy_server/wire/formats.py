"""The text and the binary form of every type: which function reads and which writes each.

A ``SqlType``, a format and the session's time zone come in, functions between bytes and datums go out. They
are made once per type and kept, so that a caller may ask again for every message. First the two functions
that choose; then text as bytes of UTF-8: ``herdpy_sql.values`` reads and writes it, here are the session's
time zone, and faster functions for values in the form that PostgreSQL itself writes.

Last come arrays in both forms; their elements are read and written as values of their own. Binary format:
PostgreSQL 15, src/backend/utils/adt/arrayfuncs.c, array_recv: how many dimensions, whether there are NULLs,
the elements' type, for each dimension its size and first index, and then length and bytes of each element.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import math
import re
import struct
from collections.abc import Callable
from typing import Any

from herdpy.codec.kinds import mapped, of_lists, shaped, sizes_of
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import from_text
from herdpy_sql.values.arrays import RAGGED, join_array, split_array
from herdpy_sql.values.form import Bytes
from herdpy_sql.values.forms import FORMS
from herdpy_sql.values.integers import INTEGER_RANGES
from herdpy_sql.values.moment_output import styled_timestamptz
from herdpy_sql.values.moments import timestamp_bytes
from herdpy_sql.values.precision import fitted
from herdpy_sql.values.strings import text_of
from herdpy_sql.values.styled import is_read_by_style, is_written_by_style, reader, writer
from herdpy_sql.values.styles import PLAIN, Style

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_DATETIME_MIN = -62_135_596_800_000_000
_DATETIME_END = 253_402_300_800_000_000


@functools.lru_cache(maxsize=1024)
def decoder(sql_type: SqlType, binary: bool, style: Style = PLAIN) -> Callable[[Bytes], Any]:
    """The function from a value's bytes to its datum.

    ``style`` is the session's, which texts of moments and intervals are read by; none may say "now" here.

    It raises SqlError as PostgreSQL does: of text 22P02, 22003, 22007, 22008, 22001 and whatever else the
    type's input function says, 22021 for bytes that are not UTF-8; of binary 22P03 for too many bytes, 08P01
    for too few, 22003 and 22008 out of range.
    """
    if sql_type.element is not None:
        element = sql_type.element_type
        read = decoder(element, binary, style)
        if binary:
            return array_binary_reader(element, read)
        return array_text_reader(read, of_json=element.base in {Base.JSON, Base.JSONB})
    return FORMS[sql_type.base].unpack(sql_type) if binary else _text_reader(sql_type, style)


@functools.lru_cache(maxsize=1024)
def encoder(sql_type: SqlType, binary: bool, style: Style = PLAIN) -> Callable[[Any], bytes]:
    """The function from a datum (never None) to the value's bytes."""
    if sql_type.element is not None:
        element = sql_type.element_type
        write = encoder(element, binary, style)
        return array_binary_writer(element, write) if binary else array_text_writer(write)
    return FORMS[sql_type.base].pack(sql_type) if binary else _text_writer(sql_type, style)


def _text_reader(sql_type: SqlType, style: Style) -> Callable[[Bytes], Any]:
    """The function from text to datums."""
    base = sql_type.base
    if base in INTEGER_RANGES:
        return _integer_reader(sql_type)
    if FORMS[base].unpack(sql_type) is text_of:
        return text_of
    if not is_read_by_style(sql_type):
        parse: Callable[[str], Any] = from_text(sql_type)
        return lambda data: parse(text_of(data))
    read = reader(sql_type)
    if base is Base.TIMESTAMP:
        return fitted(_timestamp_reader(lambda text: read(text, style, None)))(sql_type)
    if base is Base.TIMESTAMPTZ:
        return fitted(_zoned_reader(lambda text: read(text, style, None)))(sql_type)
    return lambda data: read(text_of(data), style, None)


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


_UTC = ("+00", "+00:00")
"""How servers write UTC, and how drivers do."""


def _zoned_reader(parse: Callable[[str], int]) -> Callable[[Bytes], int]:
    def read(data: Bytes) -> int:
        text = text_of(data)
        for utc in _UTC:
            if text.endswith(utc) and (value := _plain_moment(text.removesuffix(utc))) is not None:
                return value
        return parse(text)

    return read


def _text_writer(sql_type: SqlType, style: Style) -> Callable[[Any], bytes]:
    """The function from datums to text."""
    base = sql_type.base
    if base is Base.TIMESTAMPTZ and style.dates == "ISO" and style.zone == "UTC":
        return _utc_bytes
    found = FORMS[base].text_bytes
    if found is not None and (style._replace(zone="UTC") == PLAIN or not is_written_by_style(sql_type)):
        return found
    convert = writer(sql_type, style)
    return lambda value: convert(value).encode()


def _utc_bytes(us: int) -> bytes:
    if _DATETIME_MIN <= us < _DATETIME_END:
        return timestamp_bytes(us) + b"+00"
    return styled_timestamptz(us, PLAIN).encode()


_BOUNDS = re.compile(r"(\[\s*[+-]?\d+(\s*:\s*[+-]?\d+)?\s*\]\s*)+=")
"""What PostgreSQL's text of an array has before its values where indexes do not begin with 1."""
_HEAD = struct.Struct("!iiI")
_DIMENSION = struct.Struct("!ii")
_LENGTH = struct.Struct("!i")
_MAX_DIMENSIONS = 6


def array_text_reader(
    read: Callable[[Bytes], Any], *, of_json: bool = False
) -> Callable[[Bytes], tuple[Any, ...]]:
    """The function from text to datums; ``of_json`` where the elements are JSON.

    SqlError 22P02, 0A000 and what an element's raises.

    JSON's arrays are taken too: HerdPy's driver writes lists so, not knowing what their places want.
    """

    def parse(data: Bytes) -> tuple[Any, ...]:
        text = text_of(data)
        is_list = text[:1] == "[" and _BOUNDS.match(text) is None
        parts = _array_from_json(text, of_json=of_json) if is_list else split_array(text)
        return mapped(parts, lambda one: read(one.encode()))

    return parse


def _array_from_json(text: str, *, of_json: bool) -> tuple[str | None, ...]:
    """The texts of what is within JSON's arrays.

    ``of_json``: what the outermost has is JSON itself, and its strings are texts of JSON, as in PostgreSQL's
    form and as the embedded driver takes them.
    """
    try:
        if of_json:
            return tuple([_text_of_json(one) for one in json.loads(text)])
        values = json.loads(text, parse_int=str, parse_float=str)
    except ValueError:
        return split_array(text)
    try:
        return of_lists(
            values, lambda one: one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)
        )
    except ValueError:
        raise SqlError("2202E", RAGGED) from None


def _text_of_json(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def array_text_writer(write: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """The function from datums to text."""
    return lambda values: join_array(mapped(values, lambda one: write(one).decode())).encode()


def array_binary_reader(element: SqlType, read: Callable[[Bytes], Any]) -> Callable[[Bytes], tuple[Any, ...]]:
    """The function from binary form to datums. SqlError 22P03, 08P01, 42804, 0A000, and of an element."""

    def parse(data: Bytes) -> tuple[Any, ...]:
        if len(data) < _HEAD.size:
            raise _short_array()
        dimensions, flags, oid = _HEAD.unpack_from(data)
        if not 0 <= dimensions <= _MAX_DIMENSIONS:
            raise SqlError(
                "54000", f"number of array dimensions ({dimensions}) exceeds the maximum allowed (6)"
            )
        if flags not in {0, 1}:
            raise SqlError("22P03", "invalid array flags")
        if oid != element.oid:
            raise SqlError(
                "42804",
                f"binary data has array element type {oid} instead of expected {element.oid} ({element})",
            )
        if not dimensions:
            return ()
        at = _HEAD.size + _DIMENSION.size * dimensions
        if len(data) < at:
            raise _short_array()
        sizes = _array_sizes(data, dimensions)
        count = math.prod(sizes)
        if count > (len(data) - at) // _LENGTH.size:
            raise _short_array()
        found: list[Any] = []
        for _ in range(count):
            if len(data) < at + _LENGTH.size:
                raise _short_array()
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size
            if length == -1:
                found.append(None)
                continue
            if length < 0 or len(data) < at + length:
                raise _short_array()
            found.append(read(data[at : at + length]))
            at += length
        if at != len(data):
            raise SqlError("22P03", "incorrect binary data format")
        return shaped(found, sizes)

    return parse


def _array_sizes(data: Bytes, dimensions: int) -> list[int]:
    """How many elements each dimension has. SqlError 22P03; 0A000 where indexes do not begin at 1."""
    sizes = []
    for nth in range(dimensions):
        size, first = _DIMENSION.unpack_from(data, _HEAD.size + nth * _DIMENSION.size)
        if size < 0:
            raise SqlError("22P03", "invalid array size")
        if first != 1 and dimensions > 1:
            raise SqlError("0A000", "arrays whose indexes do not begin at 1 are not supported")
        sizes.append(size)
    return sizes


def array_binary_writer(element: SqlType, write: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """The function from datums to binary form."""

    def make(values: Any) -> bytes:
        if not values:
            return _HEAD.pack(0, 0, element.oid)
        sizes = sizes_of(values)
        parts = [_HEAD.pack(len(sizes), int(None in values), element.oid)]
        parts += [_DIMENSION.pack(size, 1) for size in sizes]
        for one in values:
            if one is None:
                parts.append(_LENGTH.pack(-1))
            else:
                data = write(one)
                parts += (_LENGTH.pack(len(data)), data)
        return b"".join(parts)

    return make


def _short_array() -> SqlError:
    return SqlError("08P01", "insufficient data left in message")
