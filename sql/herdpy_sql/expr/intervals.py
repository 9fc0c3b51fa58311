"""Intervals added to and taken from dates and times, and what lies between two moments.

An interval is months, days and microseconds, added in that order (PostgreSQL's timestamp_pl_interval):
months keep the day where the month has it and take its last day where not; days are days of the
session's zone for TIMESTAMPTZ; microseconds are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy.codec.kinds import TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY, Interval
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import zones
from herdpy_sql.expr.casts import date_to_timestamp
from herdpy_sql.values.civil import DAY_US, civil_from_days, days_from_civil, days_in_month
from herdpy_sql.values.intervals import checked, negate
from herdpy_sql.values.moments import check_timestamp

if TYPE_CHECKING:
    from herdpy_sql.clock import Clock


def add(timestamp: int, interval: Interval) -> int:
    """TIMESTAMP + interval. SqlError 22008 out of range."""
    if timestamp in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return timestamp
    return check_timestamp(_add_days(timestamp, interval) + interval[2])


def take(timestamp: int, interval: Interval) -> int:
    """TIMESTAMP - interval."""
    return add(timestamp, negate(interval))


def add_zoned(clock: Clock, timestamp: int, interval: Interval) -> int:
    """TIMESTAMPTZ + interval, its days in the session's zone."""
    if timestamp in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return timestamp
    if interval[0] or interval[1]:
        local = zones.to_local(timestamp, clock.zone)
        timestamp = zones.to_utc(_add_days(local, interval), clock.zone)
    return check_timestamp(timestamp + interval[2])


def take_zoned(clock: Clock, timestamp: int, interval: Interval) -> int:
    """TIMESTAMPTZ - interval."""
    return add_zoned(clock, timestamp, negate(interval))


def add_to_date(days: int, interval: Interval) -> int:
    """DATE + interval: a TIMESTAMP."""
    return add(date_to_timestamp(days), interval)


def take_from_date(days: int, interval: Interval) -> int:
    """DATE - interval: a TIMESTAMP."""
    return take(date_to_timestamp(days), interval)


def add_to_time(time: int, interval: Interval) -> int:
    """TIME + interval, round the clock; months and days do not count."""
    return (time + interval[2]) % DAY_US


def take_from_time(time: int, interval: Interval) -> int:
    """TIME - interval."""
    return (time - interval[2]) % DAY_US


def _add_days(timestamp: int, interval: Interval) -> int:
    days, rest = divmod(timestamp, DAY_US)
    if interval[0]:
        year, month, day = civil_from_days(days)
        whole, month_index = divmod(year * 12 + month - 1 + interval[0], 12)
        days = days_from_civil(whole, month_index + 1, min(day, days_in_month(whole, month_index + 1)))
    return check_timestamp((days + interval[1]) * DAY_US + rest)


def between(left: int, right: int) -> Interval:
    """TIMESTAMP - TIMESTAMP: days and time. SqlError 22008 of infinities."""
    if {left, right} & {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        raise SqlError("22008", "cannot subtract infinite timestamps")
    days, rest = divmod(abs(left - right), DAY_US)
    return checked(0, days, rest) if left >= right else checked(0, -days, -rest)


def between_times(left: int, right: int) -> Interval:
    """TIME - TIME."""
    return Interval(0, 0, left - right)
