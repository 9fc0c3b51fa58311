"""Codec layer, inside: intervals, arrays and vectors as Arrow arrays.

An INTERVAL is Arrow's month-day-nano interval. An ARRAY is a list of its element's type (of a UUID's storage,
for Arrow makes no lists of extension types), of several dimensions a list of lists; a VECTOR is a list of
float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec._contents import array_decoder, array_encoder, read_vector, vector_bytes
from herdpy.codec.kinds import MAX_INTERVAL_US, Datum, Field, Interval, KeyField, Kind

Array = Any
NumpyArray = np.ndarray[Any, Any]

INTERVAL = pa.month_day_nano_interval()
_SLOT = np.dtype([("months", "<i4"), ("days", "<i4"), ("us", "<i8")])
LISTS = frozenset({Kind.ARRAY, Kind.VECTOR})


def element_of(field: Field | KeyField) -> Field:
    """Return the field of what an Arrow list of an ARRAY or VECTOR is of: arrays, of several dimensions."""
    if field.kind == Kind.VECTOR:
        return Field(Kind.FLOAT32)
    assert field.element is not None
    if field.scale > 1:
        return Field(Kind.ARRAY, field.scale - 1, element=field.element)
    return field.element


def intervals_from_slots(slots: NumpyArray, nulls: NumpyArray | None) -> NumpyArray:
    """Return Arrow's values of the 16-byte slots of images."""
    values = np.ascontiguousarray(slots).view(_SLOT).copy()
    values["us"] *= 1000
    if nulls is not None:
        values[nulls] = np.zeros(1, _SLOT)[0]
    return values


def slots_from_intervals(array: Array) -> NumpyArray:
    """Return the 16-byte slots of an array of intervals; undefined where NULL."""
    values = interval_words(array).copy()
    values["us"] //= 1000
    return values.view("V16")


def interval_words(array: Array) -> NumpyArray:
    """Return the buffer of an array of intervals; its ``us`` are nanoseconds still."""
    if not len(array):
        return np.empty(0, _SLOT)
    return np.frombuffer(array.buffers()[1], _SLOT, len(array), array.offset * 16)


def intervals_to_array(datums: Sequence[Any]) -> Array:
    """Return the Arrow array of intervals; OverflowError if one has more time than Arrow can count."""
    for one in datums:
        if one is not None and abs(one[2]) > MAX_INTERVAL_US:
            raise OverflowError("an interval's time is out of range")
    return pa.array([None if d is None else (d[0], d[1], d[2] * 1000) for d in datums], INTERVAL)


def array_to_intervals(array: Array) -> list[Interval]:
    """Return the intervals of an array, those of NULLs undefined."""
    words = interval_words(array)
    columns = (words["months"].tolist(), words["days"].tolist(), (words["us"] // 1000).tolist())
    return list(map(Interval, *columns))


def lists_to_array(target: Any, values: Array, lengths: Sequence[int | None]) -> Array:
    """Return lists of those lengths (None: NULL) over the values end to end, of type ``target``."""
    ends = np.cumsum([0, *(length or 0 for length in lengths)])
    mask = pa.array([length is None for length in lengths], pa.bool_()) if None in lengths else None
    offsets = pa.array(ends, pa.int32())
    return pa.ListArray.from_arrays(offsets, values.cast(target.value_type), type=target, mask=mask)


def contents_reader(field: Field) -> Callable[[bytes], tuple[Datum, ...]]:
    """Return what reads an image's bytes of an ARRAY or VECTOR."""
    if field.kind == Kind.VECTOR:
        return read_vector
    assert field.element is not None
    return array_decoder(field.element)


def contents_writer(field: Field) -> Callable[[Any], bytes]:
    """Return what makes them."""
    if field.kind == Kind.VECTOR:
        return vector_bytes
    assert field.element is not None
    return array_encoder(field.element)


def list_spans(array: Array) -> tuple[list[int], Array]:
    """Return the n + 1 offsets of a list array and the values that they point into."""
    return array.offsets.to_pylist(), array.values
