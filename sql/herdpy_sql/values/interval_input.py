"""Texts of intervals in all forms that PostgreSQL 15 reads (DecodeInterval, DecodeISO8601Interval).

Units ("1 year 2 days 3:04:05 ago", "@ 1 minute"), the SQL standard ("1-2 3 4:05:06"), ISO 8601 ("P1Y2DT3H",
"P0001-02-03T04:05:06", "P00010203T040506"). Fields are read from the last to the first, since a unit stands
after its number. What a fraction of a month or a day leaves goes on to days (30 a month) and to microseconds,
in doubles. Above ``moment_input``, below ``intervals``.
"""

from __future__ import annotations

import enum
import math
import re

from herdpy.codec.kinds import Interval
from herdpy_sql.errors import SqlError
from herdpy_sql.types import INTERVAL_FIELDS
from herdpy_sql.values.moment_fields import (
    FieldKind,
    TextFault,
    TextField,
    Wrong,
    error_of,
    fields_of,
    whole_at,
)
from herdpy_sql.values.moment_input import WORDS
from herdpy_sql.values.styles import Style

_SECOND_US = 1_000_000
_MINUTE_US, _HOUR_US, _DAY_US = 60 * _SECOND_US, 3_600 * _SECOND_US, 86_400 * _SECOND_US
_INT32, _INT64 = 2**31, 2**63


class _Unit(enum.Enum):
    """What a number counts: its name, and how many microseconds, days or months it is."""

    MICROSECOND = ("us", 1)
    MILLISECOND = ("us", 1_000)
    SECOND = ("us", _SECOND_US)
    MINUTE = ("us", _MINUTE_US)
    HOUR = ("us", _HOUR_US)
    DAY = ("days", 1)
    WEEK = ("days", 7)
    MONTH = ("months", 1)
    YEAR = ("years", 1)
    DECADE = ("years", 10)
    CENTURY = ("years", 100)
    MILLENNIUM = ("years", 1_000)


_MARKS = {unit: 1 << place for place, unit in enumerate((*_Unit, "milli"))}
_TIME_MARKS = _MARKS[_Unit.HOUR] | _MARKS[_Unit.MINUTE] | _MARKS[_Unit.SECOND]
_PARTS_OF_SECONDS = _MARKS[_Unit.SECOND] | _MARKS[_Unit.MILLISECOND] | _MARKS[_Unit.MICROSECOND]
_TIME_MARKS |= _PARTS_OF_SECONDS

_WORDS: dict[str, _Unit] = {
    word: unit
    for unit, words in (
        (_Unit.MICROSECOND, "us usec usecs usecond useconds microsecon"),
        (_Unit.MILLISECOND, "ms msec msecs mseconds millisecon"),
        (_Unit.SECOND, "s sec secs second seconds"),
        (_Unit.MINUTE, "m min mins minute minutes"),
        (_Unit.HOUR, "h hr hrs hour hours"),
        (_Unit.DAY, "d day days"),
        (_Unit.WEEK, "w week weeks"),
        (_Unit.MONTH, "mon mons month months"),
        (_Unit.YEAR, "y yr yrs year years"),
        (_Unit.DECADE, "dec decs decade decades"),
        (_Unit.CENTURY, "c cent century centuries"),
        (_Unit.MILLENNIUM, "mil mils millennia millennium"),
    )
    for word in words.split()
}
_LAST_UNITS = {mask: _Unit[words.rpartition(" ")[2].upper()] for words, mask in INTERVAL_FIELDS.items()}
_MINUTE_TO_SECOND = INTERVAL_FIELDS["minute to second"]


class _Sum:
    """Adds up the parts of a text."""

    def __init__(self) -> None:
        self.years = self.months = self.days = self.us = 0

    def add(self, count: int, fraction: float, unit: _Unit) -> None:
        """So many units. Wrong: out of range."""
        name, size = unit.value
        if name == "us":
            self.us = _within(self.us + count * size, _INT64)
            self._add_fraction(fraction, size)
        elif name == "days":
            self.days = _within(self.days + _within(_within(count, _INT32) * size, _INT32), _INT32)
            if unit is _Unit.DAY:
                self._add_fraction(fraction, _DAY_US)
            else:
                self._add_days(fraction, size)
        elif name == "months":
            self.months = _within(self.months + _within(count, _INT32), _INT32)
            self._add_days(fraction, 30)
        else:
            self.years = _within(self.years + _within(_within(count, _INT32) * size, _INT32), _INT32)
            if fraction:
                self.months = _within(self.months + round(fraction * size * 12), _INT32)

    def _add_days(self, fraction: float, scale: int) -> None:
        if fraction:
            fraction *= scale
            whole = math.trunc(fraction)
            self.days = _within(self.days + whole, _INT32)
            self._add_fraction(fraction - whole, _DAY_US)

    def _add_fraction(self, fraction: float, scale: int) -> None:
        """A part of that many microseconds, rounded half towards zero."""
        if fraction:
            fraction *= scale
            whole = math.trunc(fraction)
            rest = fraction - whole
            self.us = _within(self.us + whole + (rest > 0.5) - (rest < -0.5), _INT64)

    def add_time(self, us: int) -> None:
        """A clock time."""
        self.us = us  # which stands alone: no other field gives time

    def negate(self) -> None:
        """Turn all signs."""
        if -_INT32 in (self.years, self.months, self.days) or self.us == -_INT64:
            raise Wrong(TextFault.RANGE)
        self.years, self.months, self.days, self.us = -self.years, -self.months, -self.days, -self.us

    def interval(self) -> Interval:
        """What they come to. SqlError 22008."""
        months = self.years * 12 + self.months
        if not -_INT32 <= months < _INT32:
            raise SqlError("22008", "interval out of range")
        return Interval(months, self.days, self.us)


def _within(value: int, limit: int) -> int:
    if not -limit <= value < limit:
        raise Wrong(TextFault.RANGE)
    return value


_FRACTION = re.compile(r"\.\d*", re.ASCII)


class _Reading:
    """The fields of one text, from the last to the first."""

    def __init__(self, fields: list[TextField], style: Style, mask: int | None) -> None:
        self.fields, self.mask = fields, mask
        self.total = _Sum()
        self.unit: _Unit | None = None
        self.seen = 0
        self.is_ago = False
        # The sign before all is the sign of all, unless another has one.
        self.is_negative = (
            style.intervals == "sql_standard"
            and bool(fields)
            and fields[0].text[0] == "-"
            and not any(one.text[0] in "+-" for one in fields[1:])
        )

    def run(self) -> Interval:
        """Read all of them."""
        for kind, text in reversed(self.fields):
            marks = self._take(kind, text)
            if marks & self.seen:
                raise Wrong
            self.seen |= marks
        if not self.seen:
            raise Wrong
        if self.is_ago:
            self.total.negate()
        return self.total.interval()

    def _take(self, kind: FieldKind, text: str) -> int:
        if kind in {FieldKind.WORD, FieldKind.SIGNED_WORD}:
            return self._word(text)
        if kind is FieldKind.TIME:
            return self._clock(text, 1)
        if kind is FieldKind.SIGNED and ":" in text[1:]:
            try:
                return self._clock(text[1:], -1 if text[0] == "-" else 1)
            except Wrong:
                pass
        return self._number(text)

    def _clock(self, text: str, sign: int) -> int:
        us = sign * _clock_us(text, is_of_minutes=self.mask == _MINUTE_TO_SECOND)
        self.total.add_time(-us if self.is_negative and us > 0 else us)
        self.unit = _Unit.DAY
        return _TIME_MARKS

    def _number(self, text: str) -> int:
        value, at = whole_at(text, 0, _INT64)
        fraction, rest = 0.0, text[at:]
        if self.unit is None:
            if self.is_ago and not self.seen and rest[:1] != "-":  # "1 ago"
                raise Wrong
            self.unit = _LAST_UNITS.get(self.mask or 0, _Unit.SECOND)
        if rest[:1] == "-":
            value = _years_and_months(text, value, at)
            self.unit = _Unit.MONTH
        elif rest[:1] == ".":
            if _FRACTION.fullmatch(rest) is None:
                raise Wrong
            fraction = float(rest) if len(rest) > 1 else 0.0
            fraction = -fraction if text[0] == "-" else fraction
        elif rest:
            raise Wrong
        if self.is_negative:
            value, fraction = -abs(value), -abs(fraction)
        unit = self.unit
        self.total.add(value, fraction, unit)
        if unit is _Unit.HOUR:
            self.unit = _Unit.DAY
        return _PARTS_OF_SECONDS if unit is _Unit.SECOND and fraction else _MARKS[unit]

    def _word(self, text: str) -> int:
        short = text[:10]
        if short in {"at", "on"}:
            return 0
        if short == "ago":
            self.is_ago = True
            self.unit = None
            return 0
        if short not in _WORDS:
            raise Wrong
        self.unit = _WORDS[short]
        return 0


def _years_and_months(text: str, years: int, at: int) -> int:
    """Of ``1-2``, which a sign before it holds for."""
    months, end = whole_at(text, at + 1)
    if not 0 <= months < 12:
        raise Wrong(TextFault.RANGE)
    if end < len(text):
        raise Wrong
    return _within(years * 12 + (-months if text[0] == "-" else months), _INT64)


def _clock_us(text: str, *, is_of_minutes: bool) -> int:
    """Microseconds of ``h:m``, ``h:m:s``, ``h:m:s.f`` or ``m:s.f``."""
    hours, at = whole_at(text, 0, _INT64)
    if text[at : at + 1] != ":":
        raise Wrong
    minutes, at = whole_at(text, at + 1)
    seconds, fraction, rest = 0, 0, text[at:]
    if rest[:1] == ".":
        hours, minutes, seconds, fraction = 0, hours, minutes, _fraction_us(rest)
    elif rest[:1] == ":":
        seconds, at = whole_at(text, at + 1)
        fraction = _fraction_us(text[at:]) if at < len(text) else 0
    elif rest:
        raise Wrong
    elif is_of_minutes:
        hours, minutes, seconds = 0, hours, minutes
    if hours < 0 or not 0 <= minutes <= 59 or not 0 <= seconds <= 60:
        raise Wrong(TextFault.RANGE)
    return _within(hours * _HOUR_US + minutes * _MINUTE_US + seconds * _SECOND_US + fraction, _INT64)


def _fraction_us(text: str) -> int:
    if _FRACTION.fullmatch(text) is None:
        raise Wrong
    return round(float(text) * _SECOND_US) if len(text) > 1 else 0


_ISO_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_ISO_DATE_UNITS = {"Y": _Unit.YEAR, "M": _Unit.MONTH, "W": _Unit.WEEK, "D": _Unit.DAY}
_ISO_TIME_UNITS = {"H": _Unit.HOUR, "M": _Unit.MINUTE, "S": _Unit.SECOND}
_ISO_WIDTH = re.compile(r"-?(\d*)", re.ASCII)


class _IsoReading:
    """One text in a form of ISO 8601."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 1
        self.total = _Sum()
        self.is_date, self.has_field = True, False

    def run(self) -> Interval:
        """Read all of it."""
        if len(self.text) < 2 or self.text[0] != "P":
            raise Wrong
        while self.at < len(self.text):
            if self.text[self.at] == "T":
                self._to_time(1)
            elif self._take():
                break
        return self.total.interval()

    def _take(self) -> bool:
        """A number and what follows; whether that was all."""
        begin = self.at
        value, fraction = self._number()
        unit = self.text[self.at : self.at + 1]
        width = _ISO_WIDTH.match(self.text, begin)
        assert width is not None
        units = _ISO_DATE_UNITS if self.is_date else _ISO_TIME_UNITS
        if unit in units:
            self.total.add(value, fraction, units[unit])
            self.at += 1
            self.has_field = True
            return False
        if self.is_date and unit in {"T", "", "-"}:
            if unit != "-" and len(width[1]) == 8 and not self.has_field:
                self._add_whole(value, _Unit.YEAR, _Unit.MONTH, _Unit.DAY, fraction, _DAY_US)
                return self._ends_date()
            return self._parts(value, fraction, "-", (_Unit.YEAR, _Unit.MONTH, _Unit.DAY))
        if not self.is_date and unit in {"", ":"}:
            if not unit and len(width[1]) == 6 and not self.has_field:
                self._add_whole(value, _Unit.HOUR, _Unit.MINUTE, _Unit.SECOND, fraction, 1)
                return True
            return self._parts(value, fraction, ":", (_Unit.HOUR, _Unit.MINUTE, _Unit.SECOND))
        raise Wrong

    def _add_whole(
        self, value: int, first: _Unit, second: _Unit, third: _Unit, fraction: float, scale: int
    ) -> None:
        """``YYYYMMDD`` or ``HHMMSS``."""
        rest = abs(value)
        sign = -1 if value < 0 else 1
        self.total.add(sign * (rest // 10_000), 0, first)
        self.total.add(sign * (rest // 100 % 100), 0, second)
        self.total.add(sign * (rest % 100), 0, third)
        self.total._add_fraction(fraction, scale)

    def _parts(self, value: int, fraction: float, mark: str, units: tuple[_Unit, ...]) -> bool:
        """``Y-M-D`` or ``H:M:S``, whose end may be missing."""
        if self.has_field:
            raise Wrong
        for unit in units:
            self.total.add(value, fraction, unit)
            following = self.text[self.at : self.at + 1]
            if not following or (self.is_date and following == "T"):
                return self._ends_date()
            if following != mark or unit is units[-1]:
                raise Wrong
            self.at += 1
            value, fraction = self._number()
        raise AssertionError

    def _ends_date(self) -> bool:
        if self.at >= len(self.text):
            return True
        self._to_time(1)
        return False

    def _to_time(self, by: int) -> None:
        self.at += by
        self.is_date, self.has_field = False, False

    def _number(self) -> tuple[int, float]:
        match = _ISO_NUMBER.match(self.text, self.at)
        if match is None or match[0][0] == "+":
            raise Wrong
        self.at = match.end()
        value = float(match[0])
        if not -1e15 <= value <= 1e15:
            raise Wrong(TextFault.RANGE)
        whole = math.trunc(value)
        return whole, value - whole


def read_interval(text: str, style: Style, mask: int | None) -> Interval:
    """Read an INTERVAL.

    Args:
        mask: the fields of the type, which say what a number without a unit counts.

    Raises:
        SqlError: 22007 for what is none, 22015 and 22008 out of range.
    """
    try:
        try:
            return _Reading(fields_of(text, WORDS), style, mask).run()
        except Wrong as wrong:
            if wrong.fault is not TextFault.FORM:
                raise
        return _IsoReading(text).run()
    except Wrong as wrong:
        fault = TextFault.INTERVAL if wrong.fault is TextFault.RANGE else wrong.fault
        raise error_of(fault, text, "interval") from None
