"""Texts of dates and moments in the four looks of DateStyle, and of a zone at a moment. Above ``moments``.

ISO is ``2001-02-03 04:05:06+01``, SQL ``02/03/2001 04:05:06 CET``, Postgres ``Sat Feb 03 04:05:06 2001 CET``,
German ``03.02.2001 04:05:06 CET``; with DMY the day of SQL and Postgres is before the month.
"""

from __future__ import annotations

from herdpy.codec.kinds import (
    DATE_INFINITY,
    DATE_NEGATIVE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY,
)
from herdpy_sql.values import time_zones
from herdpy_sql.values.civil import DAY_US, civil_from_days
from herdpy_sql.values.moments import date_text, time_text, timestamp_text
from herdpy_sql.values.styles import Style

_WEEKDAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")  # 1970-01-01 was a Thursday
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LONGEST_ABBREVIATION = 10


def styled_date(days: int, style: Style) -> str:
    """PostgreSQL's text of a DATE in a session with that style."""
    if style.dates == "ISO" or days in {DATE_INFINITY, DATE_NEGATIVE_INFINITY}:
        return date_text(days)
    year, month, day = civil_from_days(days)
    return f"{_day_of(year, month, day, style)}{'' if year > 0 else ' BC'}"


def _day_of(year: int, month: int, day: int, style: Style) -> str:
    """The fields of a date in their order."""
    shown = f"{year if year > 0 else 1 - year:04d}"
    if style.dates == "German":
        return f"{day:02d}.{month:02d}.{shown}"
    mark = "/" if style.dates == "SQL" else "-"
    first, second = (day, month) if style.order == "DMY" else (month, day)
    return f"{first:02d}{mark}{second:02d}{mark}{shown}"


def styled_timestamp(us: int, style: Style) -> str:
    """PostgreSQL's text of a TIMESTAMP in a session with that style."""
    return _styled(us, style, "", "")


def styled_timestamptz(us: int, style: Style) -> str:
    """PostgreSQL's text of a TIMESTAMPTZ in a session with that style, in its zone."""
    if us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return timestamp_text(us)
    offset = time_zones.offset_at_utc(us, style.zone)
    if style.dates == "ISO":
        return timestamp_text(us + offset, offset_text(offset))
    name = time_zones.abbreviation(us, style.zone)[:_LONGEST_ABBREVIATION]
    return _styled(us + offset, style, f" {name}" if name else "", offset_text(offset))


def _styled(us: int, style: Style, zone: str, offset: str) -> str:
    """A local time with the name of its zone, or else with its offset."""
    if style.dates == "ISO" or us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return timestamp_text(us)
    days, rest = divmod(us, DAY_US)
    year, month, day = civil_from_days(days)
    era = "" if year > 0 else " BC"
    if style.dates != "Postgres":
        return f"{_day_of(year, month, day, style)} {time_text(rest)}{zone or offset}{era}"
    name, number = _MONTHS[month - 1], f"{day:02d}"
    in_order = f"{number} {name}" if style.order == "DMY" else f"{name} {number}"
    shown = f"{year if year > 0 else 1 - year:04d}"
    after = zone or (f" {offset}" if offset else "")
    return f"{_WEEKDAYS[days % 7]} {in_order} {time_text(rest)} {shown}{after}{era}"


def offset_text(offset_us: int) -> str:
    """``+02``, ``-07:30``"""
    minutes, seconds = divmod(abs(offset_us) // 1_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{'-' if offset_us < 0 else '+'}{hours:02d}"
    if minutes or seconds:
        text += f":{minutes:02d}"
    return f"{text}:{seconds:02d}" if seconds else text
