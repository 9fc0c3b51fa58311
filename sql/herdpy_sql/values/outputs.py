"""From datums to the Python objects that a driver's user gets, the same that psycopg gives."""

from __future__ import annotations

import datetime as dt
import functools
import json
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from herdpy.codec.grids import nested
from herdpy_sql.errors import SqlError
from herdpy_sql.types import Base, SqlType
from herdpy_sql.values import floats
from herdpy_sql.values.labels import label_writer
from herdpy_sql.values.moments import DAY_US, date_text, timestamp_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from herdpy.codec.kinds import Interval

_EPOCH_ORDINAL = 719_163
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DATETIME_MIN = -62_135_596_800_000_000
_DATETIME_END = 253_402_300_800_000_000
_timedelta = dt.timedelta


@functools.lru_cache(maxsize=512)
def output_converter(sql_type: SqlType) -> Callable[[Any], object] | None:
    """The function from datums of ``sql_type`` to Python objects; None when a datum is the object.

    The function takes None and gives None. Dates and timestamps that ``datetime`` cannot hold
    (infinity, years after 9999 or before 1) raise SqlError 22008, as psycopg does.
    """
    if sql_type.base is Base.CHAR:
        length = sql_type.length
        return None if length is None else lambda value: None if value is None else value.ljust(length)
    if sql_type.base is Base.ARRAY:
        return _array_converter(output_converter(sql_type.element_type))
    if sql_type.base is Base.ENUM:
        write = label_writer(sql_type)
        return lambda value: None if value is None else write(value)
    return _CONVERTERS.get(sql_type.base)


def _array_converter(convert: Callable[[Any], object] | None) -> Callable[[Any], object]:
    return lambda value: None if value is None else nested(value, convert)


def _date(days: int | None) -> object:
    if days is None:
        return None
    try:
        return dt.date.fromordinal(days + _EPOCH_ORDINAL)
    except (ValueError, OverflowError):
        raise SqlError("22008", f"{date_text(days)} is out of range for Python's date") from None


def _time(us: int | None) -> object:
    if us is None:
        return None
    if us >= DAY_US:
        raise SqlError("22008", "24:00:00 is out of range for Python's time")
    seconds, microsecond = divmod(us, 1_000_000)
    minutes, second = divmod(seconds, 60)
    return dt.time(minutes // 60, minutes % 60, second, microsecond)


def _timestamp(us: int | None) -> object:
    if us is None:
        return None
    if _DATETIME_MIN <= us < _DATETIME_END:
        return _EPOCH + _timedelta(0, 0, us)
    raise SqlError("22008", f"{timestamp_text(us)} is out of range for Python's datetime")


def _timestamptz(us: int | None) -> object:
    if us is None:
        return None
    if _DATETIME_MIN <= us < _DATETIME_END:
        return _EPOCH_UTC + _timedelta(0, 0, us)
    raise SqlError("22008", f"{timestamp_text(us)} is out of range for Python's datetime")


def _uuid(value: bytes | None) -> object:
    return None if value is None else uuid.UUID(bytes=value)


def _real(value: float | None) -> object:
    return None if value is None else floats.shortest32(value)


def _json(value: str | None) -> object:
    if value is None:
        return None
    try:
        return json.loads(value)
    except ValueError:  # an integer longer than Python reads from text
        return json.loads(value, parse_int=Decimal)


def _interval(value: Interval | None) -> object:
    """A timedelta; the Interval itself where it has months, or more days than a timedelta."""
    if value is None or value.months:
        return value
    try:
        return _timedelta(value.days, 0, value.us)
    except OverflowError:
        return value


def _vector(value: tuple[float, ...] | None) -> object:
    return None if value is None else [floats.shortest32(one) for one in value]


_CONVERTERS: dict[Base, Callable[[Any], object]] = {
    Base.DATE: _date,
    Base.TIME: _time,
    Base.TIMESTAMP: _timestamp,
    Base.TIMESTAMPTZ: _timestamptz,
    Base.UUID: _uuid,
    Base.REAL: _real,
    Base.JSON: _json,
    Base.JSONB: _json,
    Base.INTERVAL: _interval,
    Base.VECTOR: _vector,
}
