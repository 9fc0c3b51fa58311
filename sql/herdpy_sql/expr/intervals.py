"""Intervals, as far as own plans go: constants added to and taken from dates and times.

An interval is months, days and microseconds, added in that order (PostgreSQL's timestamp_pl_interval):
months keep the day where the month has it and take its last day where not; days are days of the
session's zone for TIMESTAMPTZ; microseconds are exact.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from herdpy.codec.kinds import TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY
from herdpy_sql.expr import zones
from herdpy_sql.expr.casts import date_to_timestamp
from herdpy_sql.expr.nodes import NotOwn
from herdpy_sql.storage import Clock
from herdpy_sql.values.moments import DAY_US, check_timestamp, civil_from_days, days_from_civil, days_in_month


class IntervalValue(NamedTuple):
    """The datum of an interval constant; it never leaves an expression."""

    months: int = 0
    days: int = 0
    us: int = 0


_PART = re.compile(r"\s*([+-]?\d+)\s*([a-z]+)\s*", re.ASCII | re.IGNORECASE)
_UNITS: dict[str, IntervalValue] = {}
for _names, _value in (
    (("us", "usec", "usecs", "microsecond", "microseconds"), IntervalValue(us=1)),
    (("ms", "msec", "msecs", "millisecond", "milliseconds"), IntervalValue(us=1_000)),
    (("s", "sec", "secs", "second", "seconds"), IntervalValue(us=1_000_000)),
    (("m", "min", "mins", "minute", "minutes"), IntervalValue(us=60_000_000)),
    (("h", "hr", "hrs", "hour", "hours"), IntervalValue(us=3_600_000_000)),
    (("d", "day", "days"), IntervalValue(days=1)),
    (("w", "week", "weeks"), IntervalValue(days=7)),
    (("mon", "mons", "month", "months"), IntervalValue(months=1)),
    (("y", "yr", "yrs", "year", "years"), IntervalValue(months=12)),
    (("dec", "decade", "decades"), IntervalValue(months=120)),
    (("c", "cent", "century", "centuries"), IntervalValue(months=1200)),
):
    for _name in _names:
        _UNITS[_name] = _value


def parse_interval(text: str) -> IntervalValue:
    """Read whole numbers with units ("1 day 2 hours"); NotOwn for every other form."""
    months = days = us = 0
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        unit = _UNITS.get(match[2].lower()) if match else None
        if match is None or unit is None or len(match[1]) > 9:
            raise NotOwn(f"interval {text!r}")
        count = int(match[1])
        months += count * unit.months
        days += count * unit.days
        us += count * unit.us
        at = match.end()
    if at == 0 or max(abs(months), abs(days)) >= 2**31 or abs(us) >= 2**63:
        raise NotOwn(f"interval {text!r}")
    return IntervalValue(months, days, us)


def add(timestamp: int, interval: IntervalValue) -> int:
    """TIMESTAMP + interval. SqlError 22008 out of range."""
    if timestamp in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return timestamp
    return check_timestamp(_add_days(timestamp, interval) + interval.us)


def take(timestamp: int, interval: IntervalValue) -> int:
    """TIMESTAMP - interval."""
    return add(timestamp, _negated(interval))


def add_zoned(clock: Clock, timestamp: int, interval: IntervalValue) -> int:
    """TIMESTAMPTZ + interval, its days in the session's zone."""
    if timestamp in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return timestamp
    if interval.months or interval.days:
        local = zones.to_local(timestamp, clock.zone)
        timestamp = zones.to_utc(_add_days(local, interval), clock.zone)
    return check_timestamp(timestamp + interval.us)


def take_zoned(clock: Clock, timestamp: int, interval: IntervalValue) -> int:
    """TIMESTAMPTZ - interval."""
    return add_zoned(clock, timestamp, _negated(interval))


def add_to_date(days: int, interval: IntervalValue) -> int:
    """DATE + interval: a TIMESTAMP."""
    return add(date_to_timestamp(days), interval)


def take_from_date(days: int, interval: IntervalValue) -> int:
    """DATE - interval: a TIMESTAMP."""
    return take(date_to_timestamp(days), interval)


def add_to_time(time: int, interval: IntervalValue) -> int:
    """TIME + interval, round the clock; months and days do not count."""
    return (time + interval.us) % DAY_US


def take_from_time(time: int, interval: IntervalValue) -> int:
    """TIME - interval."""
    return (time - interval.us) % DAY_US


def _negated(interval: IntervalValue) -> IntervalValue:
    return IntervalValue(-interval.months, -interval.days, -interval.us)


def _add_days(timestamp: int, interval: IntervalValue) -> int:
    days, rest = divmod(timestamp, DAY_US)
    if interval.months:
        year, month, day = civil_from_days(days)
        whole, month_index = divmod(year * 12 + month - 1 + interval.months, 12)
        days = days_from_civil(whole, month_index + 1, min(day, days_in_month(whole, month_index + 1)))
    return check_timestamp((days + interval.days) * DAY_US + rest)
