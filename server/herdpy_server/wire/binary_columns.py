"""Fields in binary form to Arrow arrays, column by column: the other way than ``columns``.

Beside ``columns``, above ``formats``. A column comes in as the places of its fields in the bytes of many
rows. Values of a fixed width and strings become an array without a Python object for a value; those of other
types go through the function that reads one (``formats.decoder``), which is also what tests hold this to.
A value that its type does not have is refused here without its place: who has the rows reads them one by
one then, and finds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import (
    arrow_type,
    buffer_of,
    datums_to_array,
    dress,
    hide_negative_infinity,
    storage_type,
)
from herdpy.codec.kinds import (
    DATE_INFINITY,
    DATE_NEGATIVE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY,
)
from herdpy.imports import lazy_module
from herdpy_server.wire.formats import decoder
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.forms import FORMS
from herdpy_sql.values.moments import DAYS_TO_2000, US_TO_2000

Array = Any
Numbers = np.ndarray[Any, np.dtype[Any]]
pc: Any = lazy_module("pyarrow.compute")

_NUMBERS = {base: f">{forms.fixed.format[1:]}" for base, forms in FORMS.items() if forms.fixed is not None}
"""numpy's form of values that are one number, as they are sent."""
_OF_TIMESTAMPS = (">i8", US_TO_2000, TIMESTAMP_NEGATIVE_INFINITY, TIMESTAMP_INFINITY)
_SINCE_2000 = {
    Base.DATE: (">i4", DAYS_TO_2000, DATE_NEGATIVE_INFINITY, DATE_INFINITY),
    Base.TIMESTAMP: _OF_TIMESTAMPS,
    Base.TIMESTAMPTZ: _OF_TIMESTAMPS,
}
_STRINGS = frozenset({Base.TEXT, Base.VARCHAR, Base.BYTEA})
_SHORT_BYTES = 48
"""Strings of no more, on average, are gathered byte by byte: an index of eight bytes for each of theirs."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a column in the bytes of rows.

    Attributes:
        data: those bytes.
        starts: where each field's value begins (int64).
        lengths: how long each is (int64); -1 for NULL.
    """

    data: bytes
    starts: Numbers
    lengths: Numbers

    @property
    def nulls(self) -> Numbers | None:
        """Which are NULL; None when none is."""
        nulls: Numbers = self.lengths < 0
        return nulls if nulls.any() else None

    def validity(self) -> pa.Buffer | None:
        """An Arrow array's bits of what is not NULL."""
        nulls = self.nulls
        return None if nulls is None else pa.array(~nulls).buffers()[1]

    def windows(self, width: int) -> Numbers:
        """The first ``width`` bytes of each field, a row for each; undefined for NULL."""
        if len(self.data) < width:  # nothing but NULLs
            return np.zeros((len(self.starts), width), np.uint8)
        values = np.frombuffer(self.data, np.uint8)
        starts = np.minimum(self.starts, len(values) - width)
        found: Numbers = np.lib.stride_tricks.sliding_window_view(values, width)[starts]
        return found


def binary_width(sql_type: SqlType) -> int:
    """The bytes of each value of the type in binary form; 0 when they differ or are not those of Arrow."""
    base = sql_type.base
    kept = storage_type(arrow_type(sql_type.field, sql_type.precision))
    if sql_type.element is not None or sql_type.enum is not None or sql_type.precision is not None:
        return 0
    if pa.types.is_boolean(kept):
        return 1
    if pa.types.is_fixed_size_binary(kept):
        return kept.byte_width
    form = _NUMBERS.get(base) or _SINCE_2000.get(base, ("",))[0]
    width = np.dtype(form).itemsize if form else 0
    return width if width and kept.bit_width == 8 * width else 0


def column_from_binary(fields: Fields, sql_type: SqlType) -> Array:
    """The column whose values are in these fields.

    Raises:
        SqlError: a value is none of the type; see ``formats.decoder``.
        ValueError: as SqlError, or a value does not fit Arrow's array.
    """
    width = binary_width(sql_type)
    if width and np.isin(fields.lengths, (width, -1)).all():
        return _of_numbers(fields, sql_type, width)
    if sql_type.base in _STRINGS and sql_type.element is None and sql_type.enum is None:
        return _of_strings(fields, sql_type)
    return _one_by_one(fields, sql_type)


def _of_numbers(fields: Fields, sql_type: SqlType, width: int) -> Array:
    base, raw = sql_type.base, fields.windows(width)
    kind = arrow_type(sql_type.field, sql_type.precision)
    kept = storage_type(kind)
    if pa.types.is_boolean(kept):
        return pa.array(raw[:, 0] != 0, mask=fields.nulls)
    if pa.types.is_fixed_size_binary(kept):
        return dress(_from_buffer(fields, kept, raw), kind)
    since = _SINCE_2000.get(base)
    form = _NUMBERS[base] if since is None else since[0]
    values = raw.view(form)[:, 0]
    if (nulls := fields.nulls) is not None:
        values = np.where(nulls, 0, values)
    if since is None:
        _check_ends(values, sql_type, form)
    else:
        values = _since_1970(values, sql_type, *since)
    return _from_buffer(fields, kept, values.astype(values.dtype.newbyteorder("=")))


def _since_1970(values: Numbers, sql_type: SqlType, form: str, by: int, least: int, greatest: int) -> Numbers:
    """Days or microseconds since 1970 of those since 2000; infinity stays, as Arrow has it."""
    infinite = (values == least) | (values == greatest)
    _check_ends(values[~infinite], sql_type, form)
    moved = np.where(infinite, values, values.astype(np.int64) + by)
    return hide_negative_infinity(moved.astype(np.dtype(form).newbyteorder("=")), sql_type.field.kind)


def _check_ends(values: Numbers, sql_type: SqlType, form: str) -> None:
    """SqlError when the least or the greatest is none of the type: what a type has is without gaps."""
    if len(values):
        read = decoder(sql_type, True)
        for end in (values.min(), values.max()):
            read(np.asarray(end).astype(form).tobytes())


def _from_buffer(fields: Fields, kind: pa.DataType, values: Numbers) -> Array:
    data = buffer_of(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(fields.starts), [fields.validity(), data])


def _of_strings(fields: Fields, sql_type: SqlType) -> Array:
    """SqlError or ValueError for what is not UTF-8, has a zero, or is too long."""
    lengths = np.maximum(fields.lengths, 0)
    ends = np.cumsum(lengths)
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    joined = _joined(fields, lengths, ends)
    buffers = [fields.validity(), buffer_of(offsets), joined]
    found = pa.Array.from_buffers(arrow_type(sql_type.field), len(lengths), buffers)
    if sql_type.base is Base.BYTEA:
        return found
    found.validate(full=True)
    if (np.frombuffer(joined, np.uint8) == 0).any():
        raise ValueError("a zero in text")
    longest = pc.max(pc.utf8_length(found)).as_py() or 0
    if sql_type.length is not None and longest > sql_type.length:
        return _one_by_one(fields, sql_type)  # blanks may be all that is too much
    return found


def _joined(fields: Fields, lengths: Numbers, ends: Numbers) -> Any:
    """The bytes of all values, one after the other."""
    total = int(ends[-1]) if len(ends) else 0
    if total > _SHORT_BYTES * len(lengths):
        places = zip(fields.starts.tolist(), lengths.tolist(), strict=True)
        return pa.py_buffer(b"".join([fields.data[at : at + size] for at, size in places]))
    index = np.repeat(fields.starts - (ends - lengths), lengths) + np.arange(total)
    return buffer_of(np.frombuffer(fields.data, np.uint8)[index])


def _one_by_one(fields: Fields, sql_type: SqlType) -> Array:
    read, data = decoder(sql_type, True), fields.data
    places = zip(fields.starts.tolist(), fields.lengths.tolist(), strict=True)
    datums = [None if size < 0 else read(data[at : at + size]) for at, size in places]
    return datums_to_array(sql_type.field, datums, sql_type.precision)
