"""Columns of Python's objects as Arrow arrays, and back: what converters make of each value, many at once.

Above ``forms``. executemany brings rows of parameters; an INSERT of them takes whole columns. Where all
values of a column are of the one Python type that goes with the column's type, Arrow makes the array;
anything else goes through the type's own function, value by value. Both come to the same datums.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import (
    array_to_datums,
    arrow_type,
    datums_to_array,
    has_type,
    nulls_of,
    numbers_of,
    pc,
)
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values.forms import input_converter, output_converter

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
    found = _PLAIN.get(sql_type.base)
    if found is None:
        return None
    kind, make = found
    kinds: set[type] = set(map(type, values))
    kinds.discard(_NONE)
    if kinds != {kind}:
        return None
    try:
        made = make(values, arrow_type(sql_type.field, sql_type.precision))
    except (ValueError, TypeError, OverflowError):
        return None
    is_long = sql_type.length is not None and (pc.max(pc.utf8_length(made)).as_py() or 0) > sql_type.length
    return None if is_long else made


def _as_they_are(values: Column, target: Any) -> Any:
    """ValueError for a lone surrogate; a NUL is refused where arrays become rows."""
    return pa.array(values, target)


def _without_zone(values: Column, target: Any) -> Any:
    """Datetimes or times; ValueError where one has a zone."""
    present = [value for value in values if value is not None]
    if any(map(_ZONE_OF, present)):
        raise ValueError("a value has a time zone")
    return pa.array(values, target)


def _decimals(values: Column, target: Any) -> Any:
    """ValueError where there is no number, or one with more digits than the type has."""
    if not pa.types.is_decimal128(target):
        raise ValueError("numbers of any scale")
    return pa.array(values, target)


_ZONE_OF = attrgetter("tzinfo")
_PLAIN: dict[Base, tuple[type, Callable[[Column, Any], Any]]] = {
    Base.BOOLEAN: (bool, _as_they_are),
    Base.SMALLINT: (int, _as_they_are),
    Base.INTEGER: (int, _as_they_are),
    Base.BIGINT: (int, _as_they_are),
    Base.DOUBLE: (float, _as_they_are),
    Base.NUMERIC: (Decimal, _decimals),
    Base.TEXT: (str, _as_they_are),
    Base.VARCHAR: (str, _as_they_are),
    Base.BYTEA: (bytes, _as_they_are),
    Base.DATE: (dt.date, _as_they_are),
    Base.TIME: (dt.time, _without_zone),
    Base.TIMESTAMP: (dt.datetime, _without_zone),
    Base.TIMESTAMPTZ: (dt.datetime, _as_they_are),
}
"""The Python type of each type whose values Arrow takes as they are, and what makes the array; it raises
ValueError where the type's own function has to look at them."""


def column_to_python(array: Array, sql_type: SqlType) -> list[Any]:
    """The values of an array of the type's Arrow type as a driver's user gets them.

    Raises:
        SqlError: 22008, Python has no such date.
    """
    if sql_type.element is None and has_type(array, sql_type.field):
        found = _moments(array, sql_type.base)
        if found is not None:
            return found
    datums, convert = array_to_datums(sql_type.field, array), output_converter(sql_type)
    return datums if convert is None else [None if one is None else convert(one) for one in datums]


def _moments(array: Array, base: Base) -> list[Any] | None:
    """Dates and timestamps as numpy makes them; None of others, and where Python does not have one."""
    kinds = _MOMENTS.get(base)
    if kinds is None or not len(array):
        return None
    numbers, unit, least, most = kinds
    filled = array.fill_null(0) if array.null_count else array
    values = numbers_of(filled, numbers)
    if values.min() < least or values.max() > most:
        return None
    listed: list[Any] = values.astype("<i8", copy=False).view(unit).tolist()
    if base is Base.TIMESTAMPTZ:
        listed = [one.replace(tzinfo=dt.UTC) for one in listed]
    nulls = nulls_of(array)
    if nulls is not None:
        for at in np.flatnonzero(nulls).tolist():
            listed[at] = None
    return listed


_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_TIMESTAMPS = (
    "<i8",
    "<M8[us]",
    (dt.datetime.min - _EPOCH) // _MICROSECOND,
    (dt.datetime.max - _EPOCH) // _MICROSECOND,
)
_DATES = ("<i4", "<M8[D]", (dt.date.min - _EPOCH.date()).days, (dt.date.max - _EPOCH.date()).days)
_MOMENTS: dict[Base, tuple[str, str, int, int]] = {
    Base.DATE: _DATES,
    Base.TIMESTAMP: _TIMESTAMPS,
    Base.TIMESTAMPTZ: _TIMESTAMPS,
}
"""As what numpy sees the values, what it calls their unit, and the first and the last that Python has."""
