"""INTERVALs as Arrow columns of text and back, for files of formats that have no intervals, such as Parquet.

Beside ``intervals``; needs pyarrow. The text is SQL's, which says months, days and microseconds exactly.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from herdpy.codec.arrow import array_to_datums, datums_to_array
from herdpy.codec.kinds import Field, Kind
from herdpy_sql.values.intervals import interval_text, parse_interval

Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any

_FIELD = Field(Kind.INTERVAL)


def has_intervals(kind: pa.DataType) -> bool:
    """Whether values of the type are intervals or lists of them."""
    return pa.types.is_interval(kind) or (pa.types.is_list(kind) and pa.types.is_interval(kind.value_type))


def texts_of(array: Array) -> Array:
    """Intervals, or lists of them, as text."""
    if pa.types.is_list(array.type):
        return _within(array, texts_of)
    datums: list[Any] = array_to_datums(_FIELD, array)
    return pa.array([None if one is None else interval_text(one) for one in datums], pa.string())


def intervals_of(array: Array) -> Array:
    """What :func:`texts_of` made, as intervals."""
    if pa.types.is_list(array.type):
        return _within(array, intervals_of)
    return datums_to_array(
        _FIELD, [None if one is None else parse_interval(one) for one in array.to_pylist()]
    )


def _within(array: Array, change: Any) -> Array:
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    offsets = pa.array([one - first for one in array.offsets.to_pylist()], pa.int32())
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(offsets, change(array.values.slice(first, last - first)), mask=mask)
