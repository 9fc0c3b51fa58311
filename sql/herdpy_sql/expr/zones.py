"""Between UTC and the session's time zone, for casts and functions that PostgreSQL calls stable.

A local time that a clock skips is read with the offset that held before the change, one that it shows twice
with the offset after it, as PostgreSQL reads them (DetermineTimeZoneOffset). That is the lesser of both.
"""

from __future__ import annotations

import datetime as dt
from typing import Any
from zoneinfo import ZoneInfo

from herdpy.codec.kinds import TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY, mapped
from herdpy_sql.errors import SqlError
from herdpy_sql.values import arrays
from herdpy_sql.values.moments import check_timestamp, parse_zoned, timestamp_text

_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)
_LEAST = (dt.datetime(1, 1, 3) - _EPOCH) // _MICROSECOND
_GREATEST = (dt.datetime(9999, 12, 29) - _EPOCH) // _MICROSECOND
_UTC_NAMES = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Etc/Zulu"})


def offset_at_utc(us: int, zone: str) -> int:
    """The zone's offset in microseconds at a moment of UTC. SqlError 22023 for an unknown zone."""
    if zone in _UTC_NAMES:
        return 0
    moment = _EPOCH + dt.timedelta(microseconds=min(max(us, _LEAST), _GREATEST))
    offset = moment.replace(tzinfo=dt.UTC).astimezone(_zone(zone)).utcoffset()
    assert offset is not None
    return offset // _MICROSECOND


def to_local(us: int, zone: str) -> int:
    """The TIMESTAMP that a clock in ``zone`` shows at a TIMESTAMPTZ."""
    if us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return us
    return us + offset_at_utc(us, zone)


def to_utc(us: int, zone: str) -> int:
    """The TIMESTAMPTZ at which a clock in ``zone`` shows a TIMESTAMP."""
    if zone in _UTC_NAMES or us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return us
    local = _EPOCH + dt.timedelta(microseconds=min(max(us, _LEAST), _GREATEST))
    there = _zone(zone)
    before, after = (local.replace(tzinfo=there, fold=fold).utcoffset() for fold in (0, 1))
    assert before is not None
    assert after is not None
    return check_timestamp(us - min(before, after) // _MICROSECOND)


def from_text(text: str, zone: str) -> int:
    """A TIMESTAMPTZ from its text, which is of that zone where it names none. SqlError 22007, 22008."""
    us, named = parse_zoned(text)
    return us if named else to_utc(us, zone)


def array_from_text(text: str, zone: str) -> tuple[Any, ...]:
    """The same of an array."""
    return arrays.parse_array(text, lambda one: from_text(one, zone))


def array_text(value: tuple[Any, ...], zone: str) -> str:
    """PostgreSQL's text of an array of TIMESTAMPTZ in a session of that zone."""
    return arrays.join_array(mapped(value, lambda us: local_text(us, zone)))


def local_text(us: int, zone: str) -> str:
    """PostgreSQL's text of a TIMESTAMPTZ in a session of that zone."""
    if us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return timestamp_text(us)
    offset = offset_at_utc(us, zone)
    minutes, seconds = divmod(abs(offset) // 1_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    suffix = f"{'-' if offset < 0 else '+'}{hours:02d}"
    if minutes or seconds:
        suffix += f":{minutes:02d}"
    if seconds:
        suffix += f":{seconds:02d}"
    return timestamp_text(us + offset, suffix)


def abbreviation(us: int, zone: str) -> str:
    """What a zone calls itself at a moment: "UTC", "CET"."""
    if zone in _UTC_NAMES:
        return "GMT" if zone.endswith("GMT") else "UTC"
    moment = _EPOCH + dt.timedelta(microseconds=min(max(us, _LEAST), _GREATEST))
    return moment.replace(tzinfo=dt.UTC).astimezone(_zone(zone)).tzname() or ""


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise SqlError("22023", f'time zone "{name}" not recognized') from None
