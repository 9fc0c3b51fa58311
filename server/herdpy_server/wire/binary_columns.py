"""Fields in binary form to Arrow arrays, column by column: the other way than ``columns``.

Beside ``columns``, above ``formats``. A column comes in as the places of its fields in the bytes of many
rows. Values of a fixed width and strings become an array without a Python object for a value; those of other
types go through the function that reads one (``formats.decoder``), which is also what tests hold this to.
A value that its type does not have is refused here without its place: who has the rows reads them one by
one then, and finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import arrow_type, datums_to_array, dress, storage_type, validity
from herdpy.codec.arrow_bytes import binary_of_spans, column_of_slots, overlapping
from herdpy.imports import lazy_module
from herdpy_server.wire.formats import decoder
from herdpy_sql.types import SqlType
from herdpy_sql.values.form import TypeForms
from herdpy_sql.values.forms import FORMS
from herdpy_sql.values.precision import fit_column
from herdpy_sql.values.strings import text_of

Array = Any
Numbers = np.ndarray[Any, np.dtype[Any]]
pc: Any = lazy_module("pyarrow.compute")


def _unpacker(forms: TypeForms) -> Callable[[Any], Any] | None:
    if forms.columns.unpack is not None or forms.fixed is None:
        return forms.columns.unpack
    form = f">{forms.fixed.format[1:]}"
    return lambda raw: raw.view(form)[:, 0]


_UNPACKERS = {base: _unpacker(forms) for base, forms in FORMS.items()}
"""From binary forms to what slots hold, of types whose values all have as many bytes."""


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
    def nulls(self) -> Numbers:
        """Which are NULL."""
        nulls: Numbers = self.lengths < 0
        return nulls

    def windows(self, width: int) -> Numbers:
        """The first ``width`` bytes of each field, a row for each; zeros for NULL."""
        if len(self.data) < width:  # nothing but NULLs
            return np.zeros((len(self.starts), width), np.uint8)
        starts = np.minimum(self.starts, len(self.data) - width)
        taken = overlapping(pa.py_buffer(self.data), f"V{width}")[starts]
        found: Numbers = taken.view(np.uint8).reshape(-1, width)
        found[self.nulls] = 0
        return found


def binary_width(sql_type: SqlType) -> int:
    """The bytes of each value of the type in binary form; 0 when they differ or are not those of Arrow."""
    if sql_type.element is not None or sql_type.enum is not None:
        return 0
    if _UNPACKERS[sql_type.base] is None:
        return 0
    return -(-storage_type(arrow_type(sql_type.field)).bit_width // 8)


def column_from_binary(fields: Fields, sql_type: SqlType) -> Array:
    """The column whose values are in these fields.

    Raises:
        SqlError: a value is none of the type; see ``formats.decoder``.
        ValueError: as SqlError, or a value does not fit Arrow's array.
    """
    width = binary_width(sql_type)
    if width and np.isin(fields.lengths, (width, -1)).all():
        return _of_slots(fields, sql_type, width)
    if sql_type.element is None and sql_type.enum is None:
        held = FORMS[sql_type.base].unpack(replace(sql_type, length=None))
        if held is text_of or held is bytes:
            return _of_strings(fields, sql_type)
    return _one_by_one(fields, sql_type)


def _of_slots(fields: Fields, sql_type: SqlType, width: int) -> Array:
    unpack = _UNPACKERS[sql_type.base]
    assert unpack is not None  # its width is known
    slots = unpack(fields.windows(width))
    native = slots.astype(slots.dtype.newbyteorder("="))
    array = column_of_slots(sql_type.field, native, fields.nulls)
    return fit_column(dress(array, arrow_type(sql_type.field)), sql_type)


def _of_strings(fields: Fields, sql_type: SqlType) -> Array:
    """SqlError or ValueError for what is not UTF-8, has a zero, or is too long."""
    ends = fields.starts + np.maximum(fields.lengths, 0)
    joined = binary_of_spans(pa.py_buffer(fields.data), fields.starts, ends)
    buffers = [validity(fields.nulls), *joined.buffers()[1:]]
    found = pa.Array.from_buffers(arrow_type(sql_type.field), len(ends), buffers, -1, joined.offset)
    if not pa.types.is_string(found.type):
        return found
    found.validate(full=True)
    data: Any = found.buffers()[2]
    if data is not None and (np.frombuffer(data, np.uint8) == 0).any():
        raise ValueError("a zero in text")
    longest = pc.max(pc.utf8_length(found)).as_py() or 0
    if sql_type.length is not None and longest > sql_type.length:
        return _one_by_one(fields, sql_type)  # blanks may be all that is too much
    return found


def _one_by_one(fields: Fields, sql_type: SqlType) -> Array:
    read, data = decoder(sql_type, True), fields.data
    places = zip(fields.starts.tolist(), fields.lengths.tolist(), strict=True)
    datums = [None if size < 0 else read(data[at : at + size]) for at, size in places]
    return datums_to_array(sql_type.field, datums, sql_type.precision)
