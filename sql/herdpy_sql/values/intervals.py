"""INTERVAL: PostgreSQL's text forms in and out, the binary form, and arithmetic that both engines share.

In: ``interval_input``. Out: the four styles of IntervalStyle. Arithmetic as in PostgreSQL 15: what
a fraction of a month or a day leaves goes on to days (30 a month) and to microseconds (24 hours a day).
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from typing import Any, NamedTuple

from herdpy.codec.kinds import MAX_INTERVAL_US, Interval, plain
from herdpy_sql.errors import SqlError
from herdpy_sql.types import SqlType
from herdpy_sql.values.form import Bytes, DuckForms, Reader, TypeForms, always, mismatch, wrong_length
from herdpy_sql.values.interval_input import read_interval
from herdpy_sql.values.precision import fitted
from herdpy_sql.values.strings import check_text
from herdpy_sql.values.styles import PLAIN, Style

DAY_US = 86_400_000_000
_SECOND = 1_000_000
_INT32 = 2**31


def parse_interval(text: str, style: Style = PLAIN, mask: int | None = None) -> Interval:
    """Read an INTERVAL. SqlError 22007 for what is none, 22015 and 22008 out of range.

    Args:
        mask: the fields of the type (``SqlType.length``), which say what a number without a unit counts.
    """
    return checked(*read_interval(text, style, mask))


def interval_text(value: Interval) -> str:
    """PostgreSQL's text: ``1 year 2 mons 3 days 04:05:06.5``."""
    months, days, us = value
    parts: list[str] = []
    years = abs(months) // 12 * (1 if months >= 0 else -1)
    negative_before = False
    for count, unit in ((years, "year"), (months - years * 12, "mon"), (days, "day")):
        if count:
            plus = "+" if negative_before and count > 0 else ""
            parts.append(f"{plus}{count} {unit}{'' if count == 1 else 's'}")
            negative_before = count < 0
    if us or not parts:
        sign = "-" if us < 0 else ("+" if negative_before else "")
        seconds, fraction = divmod(abs(us), _SECOND)
        text = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        parts.append(f"{text}.{fraction:06d}".rstrip("0") if fraction else text)
    return " ".join(parts)


def styled_interval(value: Interval, style: Style) -> str:
    """PostgreSQL's text of an INTERVAL in a session with that IntervalStyle."""
    if style.intervals == "postgres":
        return interval_text(value)
    years, months = _quotient(value[0], 12), value[0] - _quotient(value[0], 12) * 12
    sign = -1 if value[2] < 0 else 1
    seconds, us = divmod(abs(value[2]), _SECOND)
    parts = _Parts(
        years,
        months,
        value[1],
        sign * (seconds // 3_600),
        sign * (seconds // 60 % 60),
        seconds % 60,
        us,
        sign,
    )
    if style.intervals == "iso_8601":
        return _iso_text(parts)
    return _verbose_text(parts) if style.intervals == "postgres_verbose" else _standard_text(parts)


class _Parts(NamedTuple):
    """An interval's fields; ``seconds`` and ``us`` have no sign but ``sign``."""

    years: int
    months: int
    days: int
    hours: int
    minutes: int
    seconds: int
    us: int
    sign: int


def _seconds_text(parts: _Parts, *, padded: bool) -> str:
    text = f"{parts.seconds:02d}" if padded else f"{parts.seconds}"
    return f"{text}.{parts.us:06d}".rstrip("0") if parts.us else text


def _iso_text(parts: _Parts) -> str:
    """``P1Y2M3DT4H5M6.5S``"""
    date = [
        f"{count}{unit}"
        for count, unit in ((parts.years, "Y"), (parts.months, "M"), (parts.days, "D"))
        if count
    ]
    time = [f"{count}{unit}" for count, unit in ((parts.hours, "H"), (parts.minutes, "M")) if count]
    if parts.seconds or parts.us:
        time.append(f"{'-' if parts.sign < 0 else ''}{_seconds_text(parts, padded=False)}S")
    if not date and not time:
        return "PT0S"
    return f"P{''.join(date)}{'T' if time else ''}{''.join(time)}"


def _verbose_text(parts: _Parts) -> str:
    """``@ 1 year 2 mons -3 days``, whose first sign is turned by "ago"."""
    shown, is_before = ["@"], None
    for count, unit in (
        (parts.years, "year"),
        (parts.months, "mon"),
        (parts.days, "day"),
        (parts.hours, "hour"),
        (parts.minutes, "min"),
    ):
        if not count:
            continue
        if is_before is None:
            is_before = count < 0
        value = -count if is_before else count
        shown.append(f"{value} {unit}{'' if value == 1 else 's'}")
    if parts.seconds or parts.us:
        if is_before is None:
            is_before = parts.sign < 0
        sign = "-" if (parts.sign < 0) != is_before else ""
        plural = "" if parts.seconds == 1 and not parts.us else "s"
        shown.append(f"{sign}{_seconds_text(parts, padded=False)} sec{plural}")
    if is_before is None:
        shown.append("0")
    return " ".join([*shown, "ago"] if is_before else shown)


def _standard_text(parts: _Parts) -> str:
    """``1-2``, ``3 4:05:06`` or, where the standard has no such interval, ``+1-2 -3 +4:05:06``."""
    time_sign = parts.sign if parts.hours or parts.minutes or parts.seconds or parts.us else 0
    signs = [*parts[:3], time_sign]
    is_negative, is_positive = any(one < 0 for one in signs), any(one > 0 for one in signs)
    has_months = bool(parts.years or parts.months)
    has_time = bool(parts.days or time_sign)
    years, months, days, hours, minutes = (abs(one) for one in parts[:5])
    clock = f"{hours}:{minutes:02d}:{_seconds_text(parts, padded=True)}"
    if not is_negative and not is_positive:
        return "0"
    if (is_negative and is_positive) or (has_months and has_time):
        year_sign = "-" if parts.years < 0 or parts.months < 0 else "+"
        return (
            f"{year_sign}{years}-{months} {'-' if parts.days < 0 else '+'}{days} "
            f"{'-' if time_sign < 0 else '+'}{clock}"
        )
    text = f"{years}-{months}" if has_months else f"{days} {clock}" if days else clock
    return f"-{text}" if is_negative else text


def checked(months: int, days: int, us: int) -> Interval:
    """The interval. SqlError 22008 when a part is out of range."""
    if -_INT32 <= months < _INT32 and -_INT32 <= days < _INT32 and -MAX_INTERVAL_US <= us <= MAX_INTERVAL_US:
        return Interval(months, days, us)
    raise SqlError("22008", "interval out of range")


def add(left: Interval, right: Interval) -> Interval:
    """The sum, part by part."""
    return checked(left[0] + right[0], left[1] + right[1], left[2] + right[2])


def subtract(left: Interval, right: Interval) -> Interval:
    """The difference, part by part."""
    return checked(left[0] - right[0], left[1] - right[1], left[2] - right[2])


def negate(value: Interval) -> Interval:
    """With the sign of every part turned."""
    return checked(-value[0], -value[1], -value[2])


def multiply(value: Interval, factor: float) -> Interval:
    """interval_mul: fractions of months become days, those of days microseconds."""
    return _scaled(value, factor, lambda part: part * factor)


def divide(value: Interval, factor: float) -> Interval:
    """interval_div. SqlError 22012."""
    if factor == 0:
        raise SqlError("22012", "division by zero")
    return _scaled(value, factor, lambda part: part / factor)


def _scaled(value: Interval, factor: float, scale: object) -> Interval:
    if not math.isfinite(factor):
        raise SqlError("22008", "interval out of range")
    apply = scale
    assert callable(apply)
    wide_months, wide_days = apply(value[0]), apply(value[1])
    if abs(wide_months) >= _INT32 or abs(wide_days) >= _INT32:
        raise SqlError("22008", "interval out of range")
    months, days = math.trunc(wide_months), math.trunc(wide_days)
    rest_days = _to_us((wide_months - months) * 30)
    seconds = _to_us((wide_days - days + rest_days - math.trunc(rest_days)) * 86_400)
    if abs(seconds) >= 86_400:
        days += math.trunc(seconds / 86_400)
        seconds -= math.trunc(seconds / 86_400) * 86_400
    days += math.trunc(rest_days)
    return checked(months, days, round(apply(value[2]) + seconds * _SECOND))


def _to_us(value: float) -> float:
    """To a millionth, as PostgreSQL's TSROUND has it."""
    return round(value * 1e6) / 1e6


def justify_hours(value: Interval) -> Interval:
    """Whole days of time as days."""
    months, days, us = value
    days += _quotient(us, DAY_US)
    us -= _quotient(us, DAY_US) * DAY_US
    if days > 0 > us:
        days, us = days - 1, us + DAY_US
    elif days < 0 < us:
        days, us = days + 1, us - DAY_US
    return checked(months, days, us)


def justify_days(value: Interval) -> Interval:
    """Whole months of days as months."""
    months, days, us = value
    months += _quotient(days, 30)
    days -= _quotient(days, 30) * 30
    if months > 0 > days:
        months, days = months - 1, days + 30
    elif months < 0 < days:
        months, days = months + 1, days - 30
    return checked(months, days, us)


def justify_interval(value: Interval) -> Interval:
    """Both, and all parts of one sign."""
    months, days, us = value
    days += _quotient(us, DAY_US)
    us -= _quotient(us, DAY_US) * DAY_US
    months += _quotient(days, 30)
    days -= _quotient(days, 30) * 30
    if months > 0 and (days < 0 or (days == 0 and us < 0)):
        months, days = months - 1, days + 30
    elif months < 0 and (days > 0 or (days == 0 and us > 0)):
        months, days = months + 1, days - 30
    if days > 0 > us:
        days, us = days - 1, us + DAY_US
    elif days < 0 < us:
        days, us = days + 1, us - DAY_US
    return checked(months, days, us)


def _quotient(value: int, by: int) -> int:
    """Truncated, as C has it."""
    return abs(value) // by * (1 if value >= 0 else -1)


def _take(value: object, read: Reader = parse_interval) -> Any:
    if value is None:
        return None
    if isinstance(value, Interval):
        return checked(*value)
    value = plain(value)
    if isinstance(value, dt.timedelta):
        return checked(0, value.days, value.seconds * 1_000_000 + value.microseconds)
    if isinstance(value, str):
        return read(check_text(value))
    raise mismatch(value, "interval")


def _reader(sql_type: SqlType) -> Reader:
    """What reads an INTERVAL's text: its fields say what a number without a unit counts."""
    mask = sql_type.length
    return fitted(lambda text: parse_interval(text, mask=mask))(sql_type)


def _taker(sql_type: SqlType) -> Reader:
    read = _reader(sql_type)
    return fitted(lambda value: _take(value, read))(sql_type)


def _give(value: Interval | None) -> object:
    """A timedelta; the Interval itself where it has months, or more days than a timedelta."""
    if value is None or value.months:
        return value
    try:
        return dt.timedelta(value.days, 0, value.us)
    except OverflowError:
        return value


def _unpack(data: Bytes) -> Interval:
    if len(data) != _FORM.size:
        raise wrong_length(len(data), _FORM.size)
    us, days, months = _FORM.unpack(data)
    return checked(months, days, us)


def interval_constant(value: Interval) -> str:
    """DuckDB text of an interval."""
    months, days, microseconds = value
    parts = [
        f"to_months({months})" if months else "",
        f"to_days({days})" if days else "",
        f"to_microseconds(CAST({microseconds} AS BIGINT))" if microseconds else "",
    ]
    return f"({' + '.join(part for part in parts if part) or 'to_days(0)'})"


_FORM = struct.Struct("!qii")
FORMS: TypeForms = TypeForms(
    write=always(interval_text),
    read=_reader,
    take=_taker,
    give=always(_give),
    pack=always(lambda value: _FORM.pack(value[2], value[1], value[0])),
    unpack=fitted(_unpack),
    duck=DuckForms(
        "INTERVAL",
        text="pg_intervaltext({})",
        constant=interval_constant,
        parameter=(
            "(to_months(CAST(CAST({0} AS BIGINT[])[1] AS INTEGER))"
            " + to_days(CAST(CAST({0} AS BIGINT[])[2] AS INTEGER))"
            " + to_microseconds(CAST({0} AS BIGINT[])[3]))"
        ),
        held="BIGINT[]",
        element="to_months(CAST(e[1] AS INTEGER)) + to_days(CAST(e[2] AS INTEGER)) + to_microseconds(e[3])",
        client=list,
    ),
    guessed=(Interval, dt.timedelta),
)
