"""What TIME(p), TIMESTAMP(p), TIMESTAMPTZ(p) and INTERVAL with a precision or fields make of values.

Of single datums (``fitting``) and of Arrow columns (``fit_column``). Both are PostgreSQL's
AdjustTimestampForTypmod, AdjustTimeForTypmod and AdjustIntervalForTypmod: halves go away from zero, which is
2000-01-01 for moments, and what is smaller than the last field of an interval is cut off. Beside ``form``,
below ``moments`` and ``intervals``.
"""

from __future__ import annotations

from typing import Any

from herdpy.codec.kinds import TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY, Interval
from herdpy_sql.errors import SqlError
from herdpy_sql.types import INTERVAL_FIELDS, Base, SqlType
from herdpy_sql.values.form import Array, Reader, ReaderOf
from herdpy_sql.values.string_columns import np, pa, pc

MAX_DIGITS = 6
"""Digits after the point of a second that there are."""
_FROM_2000_US = 946_684_800_000_000
_INFINITIES = (TIMESTAMP_NEGATIVE_INFINITY, TIMESTAMP_INFINITY)
_HOUR_US, _MINUTE_US = 3_600_000_000, 60_000_000
_CUT_US = {"hour": _HOUR_US, "minute": _MINUTE_US}
_LAST_FIELDS = {mask: words.rpartition(" ")[2] for words, mask in INTERVAL_FIELDS.items()}


def fitting(sql_type: SqlType) -> Reader | None:
    """The function that makes any datum of the base type one of this type; None where it is one already.

    The function raises SqlError 22008 where rounding leaves the range of timestamps.
    """
    if not sql_type.is_rounded_time or sql_type.element is not None:
        return None
    digits = MAX_DIGITS if sql_type.precision is None else sql_type.precision
    step = 10 ** (MAX_DIGITS - digits)
    if sql_type.base is Base.INTERVAL:
        last = "" if sql_type.length is None else _LAST_FIELDS[sql_type.length]
        return lambda value: _fit_interval(value, last, step)
    if digits == MAX_DIGITS:
        return None
    if sql_type.base is Base.TIME:
        return lambda us: _rounded(us, step)
    return lambda us: us if us in _INFINITIES else _fit_moment(us, step)


def fitted(read: Reader) -> ReaderOf:
    """Readers that give values as their type's modifiers leave them, of one that gives any."""

    def reader(sql_type: SqlType) -> Reader:
        fit = fitting(sql_type)
        return read if fit is None else lambda given: None if (one := read(given)) is None else fit(one)

    return reader


def last_field(sql_type: SqlType) -> str:
    """The smallest field that values of an INTERVAL have, as "minute"; "" of one without fields."""
    return "" if sql_type.length is None else _LAST_FIELDS[sql_type.length]


def _rounded(us: int, step: int) -> int:
    away = (abs(us) + step // 2) // step * step
    return away if us >= 0 else -away


def _fit_moment(us: int, step: int) -> int:
    found = _FROM_2000_US + _rounded(us - _FROM_2000_US, step)
    if found >= TIMESTAMP_INFINITY:
        raise SqlError("22008", "timestamp out of range")
    return found


def _fit_interval(value: Interval, last: str, step: int) -> Interval:
    months, days, us = value
    if last == "year":
        return Interval(_cut(months, 12))
    if last == "month":
        return Interval(months)
    if last == "day":
        return Interval(months, days)
    if last in _CUT_US:
        return Interval(months, days, _cut(us, _CUT_US[last]))
    return Interval(months, days, _rounded(us, step))


def _cut(value: int, step: int) -> int:
    """Towards zero, as C divides."""
    return abs(value) // step * step * (1 if value >= 0 else -1)


def fit_column(array: Array, sql_type: SqlType) -> Array:
    """An Arrow array of the type's Arrow type with every value as :func:`fitting` leaves it; NULLs stay.

    Args:
        sql_type: no array's.

    Raises:
        SqlError: 22008 as :func:`fitting`.
    """
    fit = fitting(sql_type)
    if fit is None or len(array) == array.null_count:
        return array
    if sql_type.base is Base.INTERVAL:
        return pa.array(
            [None if one is None else _fit_spans(one, fit) for one in array.to_pylist()], array.type
        )
    us = array.view(pa.int64())
    fitted_us = _fit_numbers(us.fill_null(0).to_numpy(zero_copy_only=False), sql_type, fit)
    return pa.array(fitted_us, mask=pc.is_null(us).to_numpy(zero_copy_only=False)).view(array.type)


def _fit_spans(span: Any, fit: Reader) -> tuple[int, int, int]:
    """Months, days and nanoseconds of Arrow's object for an interval."""
    months, days, us = fit(Interval(span.months, span.days, span.nanoseconds // 1000))
    return months, days, us * 1000


def _fit_numbers(numbers: Array, sql_type: SqlType, fit: Reader) -> Array:
    assert sql_type.precision is not None
    step = 10 ** (MAX_DIGITS - sql_type.precision)
    if not (numbers % step).any():
        return numbers
    for end in {int(numbers.min()), int(numbers.max())}:
        fit(end)
    finite = ~np.isin(numbers, _INFINITIES)
    origin = 0 if sql_type.base is Base.TIME else _FROM_2000_US
    moved = np.where(finite, numbers, origin) - origin
    rounded = (np.abs(moved) + step // 2) // step * step
    return np.where(finite, np.where(moved >= 0, rounded, -rounded) + origin, numbers)
