"""INTERVAL: PostgreSQL's text forms in and out, the binary form, and arithmetic that both engines share.

In: units ("1 year 2 days 3:04:05 ago"), the SQL standard ("1-2", "1-2 3 4:05:06"), ISO 8601 ("P1Y2DT3H",
"P0001-02-03T04:05:06"). Out: PostgreSQL's own style. Arithmetic as in PostgreSQL 15, timestamp.c: what a
fraction of a month or a day leaves goes on to days (30 a month) and to microseconds (24 hours a day).
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

from herdpy.codec.kinds import MAX_INTERVAL_US, Interval, plain
from herdpy_sql.errors import SqlError
from herdpy_sql.types import INTERVAL_FIELDS, SqlType
from herdpy_sql.values.form import Bytes, DuckForms, Reader, TypeForms, always, mismatch, wrong_length
from herdpy_sql.values.precision import fitted, last_field
from herdpy_sql.values.strings import check_text

DAY_US = 86_400_000_000
_SECOND = 1_000_000
_INT32 = 2**31
_EXACT = Context(prec=400, rounding=ROUND_HALF_EVEN)

# What a unit is: months, days or microseconds.
_UNITS: dict[str, tuple[int, int, int]] = {}
for _names, _value in (
    ("us usec usecs usecond useconds microsecon microsecond microseconds", (0, 0, 1)),
    ("ms msec msecs mseconds millisecon millisecond milliseconds", (0, 0, 1_000)),
    ("s sec secs second seconds", (0, 0, _SECOND)),
    ("m min mins minute minutes", (0, 0, 60 * _SECOND)),
    ("h hr hrs hour hours", (0, 0, 3_600 * _SECOND)),
    ("d day days", (0, 1, 0)),
    ("w week weeks", (0, 7, 0)),
    ("mon mons month months", (1, 0, 0)),
    ("y yr yrs year years", (12, 0, 0)),
    ("dec decs decade decades", (120, 0, 0)),
    ("c cent century centuries", (1_200, 0, 0)),
    ("mil mils millennia millennium", (12_000, 0, 0)),
):
    for _name in _names.split():
        _UNITS[_name] = _value
_ISO_DATE = {"Y": (12, 0, 0), "M": (1, 0, 0), "W": (0, 7, 0), "D": (0, 1, 0)}
_ISO_TIME = {"H": (0, 0, 3_600 * _SECOND), "M": (0, 0, 60 * _SECOND), "S": (0, 0, _SECOND)}

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)"
_ISO_PART = re.compile(rf"({_NUMBER})([A-Z])", re.ASCII)
_ISO_SECOND = re.compile(r"P(\d+)-(\d+)-(\d+)(?:T(\d+):(\d+):(\d+(?:\.\d*)?))?$", re.ASCII)
_TOKEN = re.compile(
    rf"\s*(?:(?P<clock>[+-]?\d+:\d+(?::\d+)?(?:\.\d*)?)|(?P<pair>[+-]?\d+-\d+)(?!\d)|(?P<number>{_NUMBER})|"
    r"(?P<word>[a-z]+)|(?P<mark>@))",
    re.ASCII | re.IGNORECASE,
)


def parse_interval(text: str) -> Interval:
    """Read an INTERVAL. SqlError 22007 for what is none, 22008 out of range."""
    stripped = text.strip()
    total = _Sum(text)
    if stripped[:1] in {"P", "-"} and stripped.lstrip("-")[:1] == "P":
        _read_iso(stripped, total)
    else:
        _read_units(stripped, total)
    return total.interval()


class _Sum:
    """Adds up the parts of a text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.months = self.days = self.us = 0

    def add(self, count: Decimal, unit: tuple[int, int, int]) -> None:
        """``count`` units; the fraction of a month goes on to days, that of a day to time."""
        months, days, us = unit
        whole = int(count)
        rest = _EXACT.subtract(count, Decimal(whole))
        if months:
            self.months += whole * months
            more = _EXACT.multiply(rest, Decimal(months))
            if months > 1:  # a fraction of a year is months, rounded
                self.months += _rounded(more)
                return
            self.add(_EXACT.multiply(more, Decimal(30)), (0, 1, 0))
        elif days:
            self.days += whole * days
            more = _EXACT.multiply(rest, Decimal(days))
            self.days += int(more)
            left = _EXACT.subtract(more, Decimal(int(more)))
            self.us += _rounded(_EXACT.multiply(left, Decimal(DAY_US)))
        else:
            self.us += whole * us + _rounded(_EXACT.multiply(rest, Decimal(us)))

    def interval(self) -> Interval:
        """What they come to. SqlError 22008."""
        if not (-_INT32 <= self.months < _INT32 and -_INT32 <= self.days < _INT32):
            raise SqlError("22008", f'interval field value out of range: "{self.text}"')
        if not -MAX_INTERVAL_US <= self.us <= MAX_INTERVAL_US:
            raise SqlError("22008", f'interval field value out of range: "{self.text}"')
        return Interval(self.months, self.days, self.us)

    def wrong(self) -> SqlError:
        """The error for a text that is no interval."""
        return SqlError("22007", f'invalid input syntax for type interval: "{self.text}"')


def _rounded(value: Decimal) -> int:
    return int(value.to_integral_value(ROUND_HALF_EVEN, _EXACT))


def _read_iso(text: str, total: _Sum) -> None:
    second = _ISO_SECOND.match(text)
    if second:
        years, months, days, hours, minutes, seconds = (part or "0" for part in second.groups())
        total.months = int(years) * 12 + int(months)
        total.days = int(days)
        total.us = (int(hours) * 3_600 + int(minutes) * 60) * _SECOND + _rounded(Decimal(seconds) * _SECOND)
        return
    if text[:1] == "-" or len(text) < 3:
        raise total.wrong()
    date, mark, time = text[1:].partition("T")
    if mark and not time:
        raise total.wrong()
    for part, units in ((date, _ISO_DATE), (time, _ISO_TIME)):
        at = 0
        while at < len(part):
            match = _ISO_PART.match(part, at)
            if match is None or match[2] not in units or len(match[1]) > 40:
                raise total.wrong()
            total.add(Decimal(match[1]), units[match[2]])
            at = match.end()


def _read_units(text: str, total: _Sum) -> None:
    """Numbers with units, clock times and year-month pairs, in any order; "ago" turns all signs."""
    at, seen, waiting = 0, False, None
    ago = False
    found: list[tuple[str, str]] = []
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise total.wrong()
        found.append((str(match.lastgroup), match[str(match.lastgroup)]))
        at = match.end()
        if at < len(text) and text[at : at + 1].isspace() and not text[at:].strip():
            break
    clocks = 0
    for i, (kind, token) in enumerate(found):
        if kind == "word":
            word = token.lower()
            if word == "ago" and i == len(found) - 1 and seen and waiting is None:
                ago = True
                continue
            unit = _UNITS.get(word)
            if unit is None or waiting is None:
                raise total.wrong()
            total.add(waiting, unit)
            waiting, seen = None, True
            continue
        if kind == "mark":
            if i:
                raise total.wrong()
            continue
        if waiting is not None:  # a bare number before a clock time is days
            if kind != "clock" or waiting != int(waiting):
                raise total.wrong()
            total.add(waiting, (0, 1, 0))
            waiting = None
        if len(token) > 60:
            raise SqlError("22008", f'interval field value out of range: "{total.text}"')
        if kind == "clock":
            clocks += 1
            total.us += _clock(token, total)
            seen = True
        elif kind == "pair":
            sign = -1 if token[0] == "-" else 1
            years, months = token.lstrip("+-").split("-")
            if int(months) > 11:
                raise SqlError("22008", f'interval field value out of range: "{total.text}"')
            total.months += sign * (int(years) * 12 + int(months))
            seen = True
        else:
            waiting = Decimal(token)
    if waiting is not None:  # the last number may have no unit: seconds
        total.add(waiting, (0, 0, _SECOND))
        seen = True
    if not seen or clocks > 1:
        raise total.wrong()
    if ago:
        total.months, total.days, total.us = -total.months, -total.days, -total.us


def _clock(token: str, total: _Sum) -> int:
    sign = -1 if token[0] == "-" else 1
    parts = token.lstrip("+-").split(":")
    if len(parts) == 2 and "." in parts[1]:  # minutes and seconds
        parts = ["0", *parts]
    hours, minutes = int(parts[0]), int(parts[1])
    seconds = Decimal(parts[2]) if len(parts) > 2 else Decimal(0)
    if minutes > 59 or seconds > 60:
        raise SqlError("22008", f'interval field value out of range: "{total.text}"')
    return sign * ((hours * 3_600 + minutes * 60) * _SECOND + _rounded(seconds * _SECOND))


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


_LAST_NUMBER = re.compile(r"(?:^|\s)[+-]?(?:\d+\.?\d*|\.\d+)\s*\Z", re.ASCII)
_OF_MINUTES = re.compile(r"((?:.*\s)?)([+-]?)(\d+:\d+(?:\.\d*)?)\s*\Z", re.ASCII | re.DOTALL)


def _reader(sql_type: SqlType) -> Reader:
    """What reads an INTERVAL's text: its fields say what a number without a unit counts."""
    last = last_field(sql_type)
    if not last:
        return fitted(parse_interval)(sql_type)
    of_minutes = sql_type.length == INTERVAL_FIELDS["minute to second"]

    def read(text: str) -> Interval:
        if _LAST_NUMBER.search(text):
            return parse_interval(f"{text} {last}")
        found = _OF_MINUTES.match(text) if of_minutes else None
        return parse_interval(text if found is None else f"{found[1]}{found[2]}00:{found[3]}")

    return fitted(read)(sql_type)


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
