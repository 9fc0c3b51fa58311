"""Arrow batches to DataRow and CopyData messages, column by column, without a Python object for a value.

Beside ``rows``, which has the same bytes row by row and is what tests hold this to. A column becomes the
bytes of its fields, each with its length; columns of fixed width are laid side by side in one matrix, and
what there is of columns is joined to rows. Format: PostgreSQL 15 manual, 55.7 "Message Formats": a
type byte, the length, the body.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import array_to_datums, arrow_type
from herdpy.codec.arrow_bytes import slots_of
from herdpy.imports import lazy_module
from herdpy_server.wire.formats import encoder
from herdpy_server.wire.rows import rows_encoder
from herdpy_sql.types import SqlType
from herdpy_sql.values.form import TypeForms
from herdpy_sql.values.forms import FORMS
from herdpy_sql.values.precision import fit_column
from herdpy_sql.values.styles import PLAIN, Style

Array = Any
Matrix = np.ndarray[Any, np.dtype[np.uint8]]
pc: Any = lazy_module("pyarrow.compute")

_MESSAGE_HEAD = struct.Struct("!ci")
_LENGTH = struct.Struct("!i")


def _packer(forms: TypeForms) -> Callable[[Any], Any] | None:
    if forms.columns.pack is not None or forms.fixed is None:
        return forms.columns.pack
    form = f">{forms.fixed.format[1:]}"
    return lambda numbers: numbers.astype(form)


_PACKERS = {base: _packer(forms) for base, forms in FORMS.items()}
"""From what slots hold to the binary form, of types whose values all have as many bytes."""
_LARGE_BYTES = 256 << 20
"""Rows of more than that are joined in parts, since Arrow's offsets have 31 bits."""


class DataRowForm:
    """Makes DataRow messages of batches; a form as the sessions have them, so it travels as a pickle."""

    def __init__(self, types: Sequence[SqlType], formats: Sequence[bool], style: Style) -> None:
        """As ``rows_encoder``."""
        self._types, self._formats, self._style = tuple(types), tuple(formats), style

    def start(self, schema: pa.Schema) -> bytes:
        """Nothing."""
        del schema
        return b""

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """A message for each row."""
        count = batch.num_rows
        if count > 1 and batch.nbytes > _LARGE_BYTES:
            half = count // 2
            return self.batch(batch.slice(0, half)) + self.batch(batch.slice(half))
        if count < 8:  # laying out columns has its own cost
            return self._row_by_row(batch)
        return messages(b"D", row_bodies(batch.columns, count, self._types, self._formats, self._style))

    def end(self) -> bytes:
        """Nothing."""
        return b""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataRowForm) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return self._types, self._formats, self._style

    def skip(self, data: bytes, at: int, rows: int) -> int:
        """Where the messages end of so many rows that begin at ``at``."""
        length_of = _LENGTH.unpack_from
        for _ in range(rows):
            at += 1 + length_of(data, at + 1)[0]
        return at

    def _row_by_row(self, batch: pa.RecordBatch) -> bytes:
        columns = [
            array_to_datums(sql_type.field, array)
            for sql_type, array in zip(self._types, batch.columns, strict=True)
        ]
        rows = zip(*columns, strict=True) if columns else [()] * batch.num_rows
        return rows_encoder(self._types, self._formats, self._style)(rows)


def row_bodies(
    arrays: Sequence[Array],
    count: int,
    types: Sequence[SqlType],
    formats: Sequence[bool],
    style: Style = PLAIN,
) -> Array:
    """The bodies of the DataRow messages of ``count`` rows, as an Arrow array of type binary."""
    fixed: list[Matrix] = [_repeated(len(types).to_bytes(2, "big"), count)]  # not joined yet
    parts: list[Array] = []
    for array, sql_type, binary in zip(arrays, types, formats, strict=True):
        matrix = _fixed_width(array, sql_type) if binary and not array.null_count else None
        if matrix is not None:
            fixed += [_repeated(matrix.shape[1].to_bytes(4, "big"), count), matrix]
            continue
        field = _binary(array, sql_type) if binary else column_to_text(array, sql_type, style)
        lengths = pc.fill_null(pc.binary_length(field), -1).to_numpy(zero_copy_only=False)
        fixed.append(_bytes_of(lengths.astype(">i4")))
        parts += [_as_array(fixed), field.view(pa.binary())]
        fixed = []
    if fixed:
        parts.append(_as_array(fixed))
    if len(parts) == 1:
        return parts[0]
    empty = pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(*parts, empty, null_handling="replace", null_replacement=b"")


def _repeated(value: bytes, count: int) -> Matrix:
    return np.broadcast_to(np.frombuffer(value, np.uint8), (count, len(value)))


def _bytes_of(values: Any) -> Matrix:
    """The bytes of numbers, a row for each."""
    found: Matrix = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)
    return found


def _as_array(matrices: Sequence[Matrix]) -> Array:
    """The rows of matrices side by side, each row a value."""
    whole = np.ascontiguousarray(matrices[0] if len(matrices) == 1 else np.concatenate(matrices, axis=1))
    count, width = whole.shape
    offsets: Any = np.arange(0, count * width + 1, width, dtype=np.int32)
    data: Any = whole
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _fixed_width(array: Array, sql_type: SqlType) -> Matrix | None:
    """The binary form of a column's values, all of the same width; None for types that are not so."""
    pack = _PACKERS.get(sql_type.base)
    return None if pack is None else _bytes_of(pack(slots_of(sql_type.field, array)))


def _binary(array: Array, sql_type: SqlType) -> Array:
    """The binary form of a column as an Arrow array of type binary; NULL stays NULL."""
    if sql_type.element is None and FORMS[sql_type.base].columns.is_packed:
        return array.view(pa.binary())
    write: Callable[[Any], bytes] = encoder(sql_type, True)
    datums = array_to_datums(sql_type.field, array)
    return pa.array([None if datum is None else write(datum) for datum in datums], pa.binary())


def column_to_text(array: Array, sql_type: SqlType, style: Style) -> Array:
    """The PostgreSQL text of every value, as an Arrow array of strings; NULL stays NULL."""
    write = None if sql_type.element is not None else FORMS[sql_type.base].columns.write
    found = None if write is None else write(array, sql_type, style)
    return _written(array, sql_type, style) if found is None else found


def _written(array: Array, sql_type: SqlType, style: Style) -> Array:
    """The same, value by value."""
    encode = encoder(sql_type, False, style)
    datums = array_to_datums(sql_type.field, array)
    texts = [None if datum is None else encode(datum) for datum in datums]
    return pa.array(texts, pa.binary()).view(pa.string())


def column_from_text(strings: Array, sql_type: SqlType, style: Style) -> Array | None:
    """The values that an Arrow array of strings stands for; None when they must be read one by one.

    ArrowInvalid means the same.
    """
    read = None if sql_type.element is not None else FORMS[sql_type.base].columns.read
    if read is None:
        return None
    values = read(strings, arrow_type(sql_type.field, sql_type.precision), sql_type, style)
    return fit_column(values, sql_type) if values is not None and sql_type.is_rounded_time else values


def copy_data_messages(pieces: Any) -> bytes:
    """CopyData messages, one for each piece of a list of bytes or of an Arrow array of type binary."""
    if isinstance(pieces, pa.Array):
        return messages(b"d", pieces)
    return b"".join([part for piece in pieces for part in (_MESSAGE_HEAD.pack(b"d", len(piece) + 4), piece)])


def messages(kind: bytes, pieces: Any) -> bytes:
    """The messages of a type whose bodies are in an Arrow array of type binary."""
    count = len(pieces)
    if not count:
        return b""
    heads = np.empty((count, 5), np.uint8)
    heads[:, 0] = kind[0]
    lengths = pc.binary_length(pieces).to_numpy(zero_copy_only=False) + 4
    heads[:, 1:] = lengths.astype(">i4").view(np.uint8).reshape(count, 4)
    offsets = np.arange(0, 5 * count + 1, 5, dtype=np.int32)
    buffer: Any = pa.py_buffer
    starts = pa.Array.from_buffers(pa.binary(), count, [None, buffer(offsets), buffer(heads)])
    joined = pc.binary_join_element_wise(starts, pieces, pa.scalar(b"", pa.binary()))
    _, places, data = joined.buffers()
    ends = np.frombuffer(places, np.int32, count + 1, joined.offset * 4)
    whole: bytes = data.slice(int(ends[0]), int(ends[-1] - ends[0])).to_pybytes()
    return whole
