"""Arrays in both forms; their elements are read and written as values of their own.

Under ``formats``. Binary format: PostgreSQL 15,
src/backend/utils/adt/arrayfuncs.c, array_recv: how many dimensions, whether there are NULLs, the elements'
type, for each dimension its size and first index, and then length and bytes of each element.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable
from typing import Any

from herdpy.codec.kinds import mapped, of_lists, shaped, sizes_of
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType
from herdpy_sql.values.arrays import RAGGED, join_array, split_array
from herdpy_sql.values.form import Bytes
from herdpy_sql.values.strings import text_of

_BOUNDS = re.compile(r"(\[\s*[+-]?\d+(\s*:\s*[+-]?\d+)?\s*\]\s*)+=")
"""What PostgreSQL's text of an array has before its values where indexes do not begin with 1."""
_HEAD = struct.Struct("!iiI")
_DIMENSION = struct.Struct("!ii")
_LENGTH = struct.Struct("!i")
_MAX_DIMENSIONS = 6


def text_reader(read: Callable[[Bytes], Any], *, of_json: bool = False) -> Callable[[Bytes], tuple[Any, ...]]:
    """The function from text to datums; ``of_json`` where the elements are JSON.

    SqlError 22P02, 0A000 and what an element's raises.

    JSON's arrays are taken too: HerdPy's driver writes lists so, not knowing what their places want.
    """

    def parse(data: Bytes) -> tuple[Any, ...]:
        text = text_of(data)
        is_list = text[:1] == "[" and _BOUNDS.match(text) is None
        parts = _from_json(text, of_json=of_json) if is_list else split_array(text)
        return mapped(parts, lambda one: read(one.encode()))

    return parse


def _from_json(text: str, *, of_json: bool) -> tuple[str | None, ...]:
    """The texts of what is within JSON's arrays; ``of_json``: those of the outermost are JSON themselves."""
    try:
        if of_json:
            values = json.loads(text)
            return tuple([None if one is None else json.dumps(one, ensure_ascii=False) for one in values])
        values = json.loads(text, parse_int=str, parse_float=str)
    except ValueError:
        return split_array(text)
    try:
        return of_lists(
            values, lambda one: one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)
        )
    except ValueError:
        raise SqlError("2202E", RAGGED) from None


def text_writer(write: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """The function from datums to text."""
    return lambda values: join_array(mapped(values, lambda one: write(one).decode())).encode()


def binary_reader(element: SqlType, read: Callable[[Bytes], Any]) -> Callable[[Bytes], tuple[Any, ...]]:
    """The function from binary form to datums. SqlError 22P03, 08P01, 42804, 0A000, and of an element."""

    def parse(data: Bytes) -> tuple[Any, ...]:
        if len(data) < _HEAD.size:
            raise _short()
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
            raise _short()
        sizes = _sizes(data, dimensions)
        count = math.prod(sizes)
        if count > (len(data) - at) // _LENGTH.size:
            raise _short()
        found: list[Any] = []
        for _ in range(count):
            if len(data) < at + _LENGTH.size:
                raise _short()
            (length,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size
            if length == -1:
                found.append(None)
                continue
            if length < 0 or len(data) < at + length:
                raise _short()
            found.append(read(data[at : at + length]))
            at += length
        if at != len(data):
            raise SqlError("22P03", "incorrect binary data format")
        return shaped(found, sizes)

    return parse


def _sizes(data: Bytes, dimensions: int) -> list[int]:
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


def binary_writer(element: SqlType, write: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
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


def _short() -> SqlError:
    return SqlError("08P01", "insufficient data left in message")
