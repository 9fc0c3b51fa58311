"""Columns of Python's objects as Arrow arrays, and back: what converters make of each value, many at once.

Above ``forms``. executemany brings rows of parameters; an INSERT of them takes whole columns. Where all
values of a column are of the one Python type that goes with the column's type, Arrow makes the array;
anything else goes through the type's own function, value by value. Both come to the same datums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import (
    NUMBERS,
    array_to_datums,
    arrow_type,
    datums_to_array,
    has_type,
    nulls_of,
    numbers_of,
    pc,
)
from herdpy_sql.types import SqlType
from herdpy_sql.values.forms import FORMS, input_converter, output_converter
from herdpy_sql.values.precision import fit_column

Array = Any  # pyarrow's stubs know arrays by element type, and these functions take any
Column = Sequence[object]
_NONE = type(None)


def column_from_python(values: Column, sql_type: SqlType) -> Array | None:
    """The values (None: NULL) as an array of the type's Arrow type.

    Returns:
        None where they had better be taken one by one.

    Raises:
        SqlError: as the type's ``input_converter`` raises it, though perhaps not of the first wrong value.
        ValueError, OverflowError: a value does not fit Arrow.
    """
    if sql_type.element is not None or sql_type.enum is not None:
        return None
    made = _at_once(values, sql_type)
    if made is None:
        convert = input_converter(sql_type)
        datums = [None if value is None else convert(value) for value in values]
        made = datums_to_array(sql_type.field, datums, sql_type.precision)
    return made if isinstance(made, pa.Array) else None  # of more than 2 GiB Arrow makes several


def _at_once(values: Column, sql_type: SqlType) -> Array | None:
    """The array as Arrow makes it of values that are all of the type's own Python type; None of others."""
    columns = FORMS[sql_type.base].columns
    if columns.take is None:
        return None
    kinds: set[type] = set(map(type, values))
    kinds.discard(_NONE)
    if kinds != {columns.python}:
        return None
    try:
        made = columns.take(values, arrow_type(sql_type.field, sql_type.precision))
    except (ValueError, TypeError, OverflowError):
        return None
    if sql_type.is_rounded_time:
        return fit_column(made, sql_type)
    is_long = sql_type.length is not None and (pc.max(pc.utf8_length(made)).as_py() or 0) > sql_type.length
    return None if is_long else made


def column_to_python(array: Array, sql_type: SqlType) -> list[Any]:
    """The values of an array of the type's Arrow type as a driver's user gets them.

    Raises:
        SqlError: 22008, Python has no such date.
    """
    given = _given_at_once(array, sql_type)
    if given is not None:
        return given
    datums, convert = array_to_datums(sql_type.field, array), output_converter(sql_type)
    return datums if convert is None else [None if one is None else convert(one) for one in datums]


def _given_at_once(array: Array, sql_type: SqlType) -> list[Any] | None:
    """The objects as numpy makes them; None of types that have no such way, and where Python has no such."""
    if sql_type.element is not None or not has_type(array, sql_type.field) or not len(array):
        return None
    give = FORMS[sql_type.base].columns.give
    if give is None:
        return None
    filled = array.fill_null(0) if array.null_count else array
    listed = give(numbers_of(filled, NUMBERS[sql_type.kind]))
    nulls = nulls_of(array)
    if listed is not None and nulls is not None:
        for at in np.flatnonzero(nulls).tolist():
            listed[at] = None
    return listed
