"""Codec layer, inside: the columns of many keys as Arrow arrays, as ``KeyCodec.decode`` gives them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from herdpy.codec._arrowtypes import (
    NUMBERS,
    Array,
    NumpyArray,
    arrow_type,
    buffer_of,
    datums_to_array,
    dress,
    hide_negative_infinity,
    storage_type,
)
from herdpy.codec.keys import KeyCodec
from herdpy.codec.kinds import Field, KeyField, Kind

#: The kinds whose bytes are an integer's, or stand as they are, and how many there are.
_WIDTHS = {
    Kind.BOOL: 1,
    Kind.INT16: 2,
    Kind.INT32: 4,
    Kind.INT64: 8,
    Kind.DATE: 4,
    Kind.TIME: 8,
    Kind.TIMESTAMP: 8,
    Kind.TIMESTAMPTZ: 8,
    Kind.DECIMAL64: 8,
    Kind.UUID: 16,
}


def keys_to_arrays(
    key_fields: Sequence[KeyField], keys: Sequence[bytes], precisions: Sequence[int | None] | None = None
) -> list[Array]:
    """Return one Arrow array for each column of the keys, of the types that images' columns have.

    ``precisions``: of the decimals, where they are known. ValueError: one is not a key of these fields.
    """
    digits = precisions or [None] * len(key_fields)
    if keys and all(not one.nullable and one.kind in _WIDTHS for one in key_fields):
        return _fixed(key_fields, keys, digits)
    decode = KeyCodec(key_fields).decode
    rows = [decode(key) for key in keys]
    return [
        datums_to_array(
            Field(one.kind, one.scale, element=one.element), [row[at] for row in rows], digits[at]
        )
        for at, one in enumerate(key_fields)
    ]


def _fixed(
    key_fields: Sequence[KeyField], keys: Sequence[bytes], digits: Sequence[int | None]
) -> list[Array]:
    """As ``keys_to_arrays``, where every key has the same bytes in the same places."""
    widths = [_WIDTHS[one.kind] for one in key_fields]
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
