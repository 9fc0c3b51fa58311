"""Codec layer, inside: the keys of many rows from Arrow columns, and back, as ``KeyCodec`` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec._arrowconform import conform
from herdpy.codec._arrowtypes import (
    NUMBERS,
    Array,
    NumpyArray,
    array_to_datums,
    arrow_type,
    buffer_of,
    datums_to_array,
    dress,
    hide_negative_infinity,
    integers_of,
    nulls_of,
    pc,
    spans_of,
    storage,
    storage_type,
    words_of,
)
from herdpy.codec.keys import KeyCodec
from herdpy.codec.kinds import Field, KeyField, Kind
from herdpy.codec.rows import FIXED_WIDTHS

_VALUE, _NULL_FIRST, _NULL_LAST = b"\x01", b"\x00", b"\x02"


def batch_to_keys(key_fields: Sequence[KeyField], columns: Sequence[Any]) -> list[bytes]:
    """Return the key of each row, given the key's columns as Arrow arrays of the same length.

    Columns of other Arrow types are conformed first. ValueError names the key column and the first
    row (both from 0) whose value does not fit or may not be NULL.
    """
    if len(columns) != len(key_fields):
        raise ValueError(f"{len(columns)} columns for a key of {len(key_fields)}")
    pieces: list[NumpyArray | Array] = []
    for i, (one, column) in enumerate(zip(key_fields, columns, strict=True)):
        try:
            pieces += _pieces(one, conform(column, one))
        except ValueError as error:
            raise ValueError(f"key column {i}: {error}") from error
    return _joined(pieces) if pieces else []


def _pieces(one: KeyField, array: Array) -> list[NumpyArray | Array]:
    """Return what a column adds to each key: (n, width) bytes where all are as wide, or a binary array."""
    nulls = nulls_of(array)
    if nulls is not None and not one.nullable:
        raise ValueError(f"row {int(np.argmax(nulls))}: NULL is not allowed")
    piece = _values(one, array)
    if not one.nullable:
        return [piece]
    if nulls is None:
        return [np.full((len(array), 1), _VALUE[0], np.uint8), piece]
    tagged = pc.binary_join_element_wise(_VALUE, _binary(piece), b"")
    null = _NULL_FIRST if one.nulls_first else _NULL_LAST
    return [pc.if_else(pa.array(nulls), pa.scalar(null, pa.binary()), tagged)]


def _values(one: KeyField, array: Array) -> NumpyArray | Array:
    match one.kind:
        case Kind.TEXT | Kind.BYTES:
            return _terminated(one, array)
        case Kind.DECIMAL | Kind.JSONB | Kind.ARRAY | Kind.VECTOR | Kind.INTERVAL:
            # Their bytes have no fixed places, so they go row by row.
            own = KeyField(one.kind, one.scale, one.descending, element=one.element)
            encode = KeyCodec([own]).encode
            datums = array_to_datums(Field(one.kind, one.scale, element=one.element), array)
            return pa.array([b"" if datum is None else encode((datum,)) for datum in datums], pa.binary())
        case _:
            matrix = _fixed(one, array)
            return ~matrix if one.descending else matrix


def _terminated(one: KeyField, array: Array) -> Array:
    """Return text or bytes with their terminator; conform() has seen to it that text has no 0x00."""
    filled = array.view(pa.binary())
    filled = pc.fill_null(filled, b"") if filled.null_count else filled
    if one.kind == Kind.BYTES:
        filled = pc.replace_substring(filled, pattern=b"\0", replacement=b"\0\xff")
    ended = pc.binary_join_element_wise(filled, b"\0" if one.kind == Kind.TEXT else b"\0\0", b"")
    if not one.descending or not len(ended):
        return ended
    offsets, data = spans_of(ended)
    return pa.Array.from_buffers(
        pa.binary(), len(ended), [None, buffer_of(offsets), buffer_of(~np.frombuffer(data, np.uint8))]
    )


def _fixed(one: KeyField, array: Array) -> NumpyArray:
    """Return the ascending bytes of a fixed-width column as an (n, width) matrix; undefined where NULL."""
    kind = one.kind
    width = FIXED_WIDTHS[kind]
    numbers: NumpyArray
    if not len(array):
        return np.empty((0, width), np.uint8)
    if kind == Kind.UUID:
        inner = storage(array)
        raw = np.frombuffer(inner.buffers()[1], np.uint8, len(array) * 16, inner.offset * 16)
        return raw.reshape(-1, 16)
    if kind == Kind.BOOL:
        filled = pc.fill_null(array, False)
        numbers = filled.to_numpy(zero_copy_only=False).astype(np.uint8)
        return numbers.reshape(-1, 1)
    if kind == Kind.DECIMAL128:
        words = words_of(array)[:, ::-1].astype(">u8")
        words[:, 0] ^= np.uint64(1 << 63)
        return words.view(np.uint8).reshape(-1, 16)
    if kind in {Kind.FLOAT32, Kind.FLOAT64}:
        numbers = _float_bits(integers_of(array, kind), width)
    else:
        numbers = words_of(array)[:, 0] if kind == Kind.DECIMAL64 else integers_of(array, kind)
        numbers = numbers.view(f"<u{width}") ^ np.array(1 << 8 * width - 1, f"<u{width}")
    return numbers.astype(f">u{width}").view(np.uint8).reshape(-1, width)


def _float_bits(values: NumpyArray, width: int) -> NumpyArray:
    """Return the integers of ``float32_bits`` or ``float64_bits``."""
    unsigned = f"<u{width}"
    top = np.array(1 << 8 * width - 1, unsigned)
    bits = (values + values.dtype.type(0)).view(unsigned)
    ordered = np.where(bits & top, ~bits, bits | top)
    nan = np.array([np.nan], f"<f{width}").view(unsigned) | top
    result: NumpyArray = np.where(np.isnan(values), nan, ordered)
    return result


def _binary(piece: NumpyArray | Array) -> Array:
    """Return a piece as a binary array."""
    if not isinstance(piece, np.ndarray):
        return piece
    count, width = piece.shape
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    data = buffer_of(np.ascontiguousarray(piece))
    return pa.Array.from_buffers(pa.binary(), count, [None, buffer_of(offsets), data])


def _joined(pieces: list[NumpyArray | Array]) -> list[bytes]:
    """Return the pieces of each row end to end."""
    runs: list[NumpyArray | Array] = []
    for piece in pieces:
        if runs and isinstance(piece, np.ndarray) and isinstance(runs[-1], np.ndarray):
            runs[-1] = np.concatenate([runs[-1], piece], axis=1)
        else:
            runs.append(piece)
    if len(runs) == 1 and isinstance(runs[0], np.ndarray):
        matrix = np.ascontiguousarray(runs[0])
        keys: list[bytes] = matrix.view(f"V{matrix.shape[1]}").ravel().tolist()
        return keys
    arrays = [_binary(run) for run in runs]
    joined = arrays[0] if len(arrays) == 1 else pc.binary_join_element_wise(*arrays, b"")
    listed: list[bytes] = joined.to_pylist()
    return listed


# Back.

#: The kinds whose bytes are an integer's, or stand as they are, and how many there are.
_DECODED_WIDTHS: dict[Kind, int] = {
    kind: width
    for kind, width in FIXED_WIDTHS.items()
    if kind not in {Kind.FLOAT32, Kind.FLOAT64, Kind.DECIMAL128}
}


def keys_to_arrays(
    key_fields: Sequence[KeyField], keys: Sequence[bytes], precisions: Sequence[int | None] | None = None
) -> list[Array]:
    """Return one Arrow array for each column of the keys, of the types that images' columns have.

    ``precisions``: of the decimals, where they are known. ValueError: one is not a key of these fields.
    """
    digits = precisions or [None] * len(key_fields)
    if keys and all(not one.nullable and one.kind in _DECODED_WIDTHS for one in key_fields):
        return _decode_fixed(key_fields, keys, digits)
    decode = KeyCodec(key_fields).decode
    rows = [decode(key) for key in keys]
    return [
        datums_to_array(
            Field(one.kind, one.scale, element=one.element), [row[at] for row in rows], digits[at]
        )
        for at, one in enumerate(key_fields)
    ]


def _decode_fixed(
    key_fields: Sequence[KeyField], keys: Sequence[bytes], digits: Sequence[int | None]
) -> list[Array]:
    """As ``keys_to_arrays``, where every key has the same bytes in the same places."""
    widths = [_DECODED_WIDTHS[one.kind] for one in key_fields]
    whole = sum(widths)
    for key in keys:
        if len(key) != whole:
            raise ValueError(f"not a key of this index: {key[:32]!r}: it has {len(key)} bytes, not {whole}")
    matrix = np.frombuffer(b"".join(keys), np.uint8).reshape(len(keys), whole)
    arrays: list[Array] = []
    at = 0
    for one, width, precision in zip(key_fields, widths, digits, strict=True):
        piece = np.ascontiguousarray(matrix[:, at : at + width])
        arrays.append(_column(one, ~piece if one.descending else piece, precision))
        at += width
    return arrays


def _column(one: KeyField, piece: NumpyArray, precision: int | None) -> Array:
    """Return a column's array from its ascending bytes, an (n, width) matrix."""
    count, width = piece.shape
    kind = arrow_type(one, precision)
    values: NumpyArray
    if one.kind == Kind.BOOL:
        values = np.packbits(piece[:, 0], bitorder="little")
    elif one.kind == Kind.UUID:
        values = piece
    else:
        bits = piece.view(f">u{width}").ravel().astype(f"<u{width}")
        signed = (bits ^ np.array(1 << 8 * width - 1, f"<u{width}")).view(f"<i{width}")
        if one.kind == Kind.DECIMAL64:
            values = np.empty((count, 2), "<i8")
            values[:, 0], values[:, 1] = signed, signed >> 63
        else:
            assert one.kind in NUMBERS
            values = hide_negative_infinity(signed, one.kind)
    buffers = [None, buffer_of(np.ascontiguousarray(values).view(np.uint8))]
    return dress(pa.Array.from_buffers(storage_type(kind), count, buffers, 0), kind)
