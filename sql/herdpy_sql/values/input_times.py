"""From Python objects to datums of dates, times and intervals. Below ``inputs``, which names the errors."""

from __future__ import annotations

import datetime as dt
from typing import Any

from herdpy.codec.kinds import Interval, is_no_time, plain
from herdpy_sql.values import intervals, moments
from herdpy_sql.values.refusals import lossy, mismatch
from herdpy_sql.values.texts import check_text

_EPOCH_ORDINAL = 719_163
_MICROSECOND = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def interval(value: object) -> Any:
    """To INTERVAL."""
    if value is None:
        return None
    if isinstance(value, Interval):
        return intervals.checked(*value)
    value = plain(value)
    if isinstance(value, dt.timedelta):
        return intervals.checked(0, value.days, value.seconds * 1_000_000 + value.microseconds)
    if isinstance(value, str):
        return intervals.parse_interval(check_text(value))
    raise mismatch(value, "interval")


def date(value: object) -> Any:
    """To DATE: days since 1970."""
    if value is None:
        return None
    if type(value) is dt.date:
        return value.toordinal() - _EPOCH_ORDINAL
    value = plain(value)
    if isinstance(value, str):
        return moments.parse_date(check_text(value))
    if isinstance(value, dt.datetime):
        us = timestamp(value)
        assert isinstance(us, int)
        if us % moments.DAY_US:
            raise lossy(value, "date")
        return us // moments.DAY_US
    if isinstance(value, dt.date):
        return value.toordinal() - _EPOCH_ORDINAL
    raise mismatch(value, "date")


def time(value: object) -> Any:
    """To TIME: microseconds since midnight."""
    if value is None:
        return None
    value = plain(value)
    if isinstance(value, dt.time):
        if value.tzinfo is not None:
            raise mismatch(value, "time without time zone")
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if isinstance(value, str):
        return moments.parse_time(check_text(value))
    raise mismatch(value, "time without time zone")


def timestamp(value: object) -> Any:
    """A datetime with a zone becomes its time in UTC, the session's zone."""
    if value is None:
        return None
    value = plain(value)
    if isinstance(value, dt.datetime) and not is_no_time(value):
        return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND
    if isinstance(value, str):
        return moments.parse_timestamp(check_text(value))
    if type(value) is dt.date:
        return (value.toordinal() - _EPOCH_ORDINAL) * moments.DAY_US
    raise mismatch(value, "timestamp without time zone")


def timestamptz(value: object) -> Any:
    """A datetime without a zone is in UTC, the session's zone."""
    if isinstance(value, str):
        return moments.parse_timestamptz(check_text(plain(value)))
    return timestamp(value)
