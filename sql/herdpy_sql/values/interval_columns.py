"""INTERVALs as Arrow columns of text and back, for files of formats that have no intervals, such as Parquet.

Beside ``intervals``; needs pyarrow. The text is SQL's, which says months, days and microseconds exactly.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from herdpy.codec.arrow import array_to_datums, changed_lists, datums_to_array
from herdpy.codec.kinds import Field, Kind
from herdpy_sql.values.intervals import interval_text, parse_interval

Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any

_FIELD = Field(Kind.INTERVAL)


def has_intervals(kind: Any) -> bool:
    """Whether values of the type are intervals, or lists of them of any depth."""
    while pa.types.is_list(kind):
        kind = kind.value_type
    return bool(pa.types.is_interval(kind))


def texts_of(array: Array) -> Array:
    """Intervals, or lists of them, as text."""
    if pa.types.is_list(array.type):
        return changed_lists(array, texts_of)
    datums: list[Any] = array_to_datums(_FIELD, array)
    return pa.array([None if one is None else interval_text(one) for one in datums], pa.string())


def intervals_of(array: Array) -> Array:
    """What :func:`texts_of` made, as intervals."""
    if pa.types.is_list(array.type):
        return changed_lists(array, intervals_of)
    return datums_to_array(
        _FIELD, [None if one is None else parse_interval(one) for one in array.to_pylist()]
    )
