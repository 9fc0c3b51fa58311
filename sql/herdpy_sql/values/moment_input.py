"""Texts of dates, times and moments in all forms that PostgreSQL 15 reads (DecodeDateTime, DecodeTimeOnly).

``read_moment`` and ``read_time`` take the fields of ``moment_fields`` one by one; each says which parts of a
moment it gives (:class:`MomentPart`), and none may be given twice. The session's
:class:`~herdpy_sql.values.styles.Style` says in which order dates are, and in which zone times without one.
"now" and its like are the moment that is passed in. Usual texts are read without this module, by ``moments``.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from typing import NamedTuple

from herdpy_sql.errors import SqlError
from herdpy_sql.values import time_zones
from herdpy_sql.values.civil import DAY_US, civil_from_days, days_from_civil, days_in_month
from herdpy_sql.values.moment_fields import (
    FieldKind,
    TextFault,
    TextField,
    Wrong,
    fields_of,
    fraction_us,
    whole_at,
)
from herdpy_sql.values.styles import Style

_HOUR_US, _MINUTE_US, _SECOND_US = 3_600_000_000, 60_000_000, 1_000_000
_JULIAN_OF_1970 = 2_440_588


class MomentPart(enum.Flag):
    """What a field gives of a moment."""

    NONE = 0
    YEAR = enum.auto()
    MONTH = enum.auto()
    DAY = enum.auto()
    DAY_OF_YEAR = enum.auto()
    HOUR = enum.auto()
    MINUTE = enum.auto()
    SECOND = enum.auto()
    FRACTION = enum.auto()
    ZONE = enum.auto()
    DAYLIGHT = enum.auto()
    DAYLIGHT_WORD = enum.auto()
    HALF = enum.auto()
    ERA = enum.auto()
    WEEKDAY = enum.auto()


_DATE = MomentPart.YEAR | MomentPart.MONTH | MomentPart.DAY
_SECONDS = MomentPart.SECOND | MomentPart.FRACTION
_TIME = MomentPart.HOUR | MomentPart.MINUTE | _SECONDS


class Special(enum.Enum):
    """Moments that are no moments of a calendar."""

    EPOCH = "epoch"
    INFINITY = "infinity"
    NEGATIVE_INFINITY = "-infinity"


class ReadMoment(NamedTuple):
    """What a text says.

    Attributes:
        days: since 1970-01-01. us: of the day. offset_us: of the zone it names; None for none.
        special: instead of all this.
    """

    days: int
    us: int
    offset_us: int | None
    special: Special | None = None


class ClockWordError(Exception):
    """A text depends on the time at which it is read, and that is not known here."""


class _Label(enum.Enum):
    """What a word says that the next number is."""

    YEAR = enum.auto()
    MONTH = enum.auto()
    DAY = enum.auto()
    HOUR = enum.auto()
    MINUTE = enum.auto()
    SECOND = enum.auto()
    JULIAN = enum.auto()
    TIME = enum.auto()
    OTHER = enum.auto()


_MONTHS = {
    word: number
    for number, words in enumerate(
        (
            "jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july",
            "aug august", "sep sept september", "oct october", "nov november", "dec december",
        ),
        1,
    )
    for word in words.split()
}  # fmt: skip
_WEEKDAYS = frozenset(
    [
        "sun",
        "sunday",
        "mon",
        "monday",
        "tue",
        "tues",
        "tuesday",
        "wed",
        "wednesday",
        "weds",
        "thu",
        "thur",
        "thurs",
        "thursday",
        "fri",
        "friday",
        "sat",
        "saturday",
    ]
)
_LABELS = {
    "y": _Label.YEAR, "m": _Label.MONTH, "d": _Label.DAY, "h": _Label.HOUR, "mm": _Label.MINUTE,
    "s": _Label.SECOND, "j": _Label.JULIAN, "jd": _Label.JULIAN, "julian": _Label.JULIAN,
    "dow": _Label.OTHER, "doy": _Label.OTHER, "isodow": _Label.OTHER, "isoyear": _Label.OTHER,
}  # fmt: skip
_SPECIAL = {one.value: one for one in Special}
_CLOCK_WORDS = {"now": 0, "today": 0, "yesterday": -1, "tomorrow": 1}
WORDS = frozenset({
    *_MONTHS, *_WEEKDAYS, *_LABELS, *_SPECIAL, *_CLOCK_WORDS, "allballs", "ad", "bc", "am", "pm", "at", "on",
    "dst", "t",
})  # fmt: skip
"""What words of a text mean by themselves; others may be zones."""
_PARTS_OF_LABELS = {
    _Label.YEAR: MomentPart.YEAR,
    _Label.DAY: MomentPart.DAY,
    _Label.HOUR: MomentPart.HOUR,
    _Label.MINUTE: MomentPart.MINUTE,
}


class _Reading:
    """One text that is read, field by field."""

    def __init__(self, fields: list[TextField], style: Style, now_us: int | None, *, is_time: bool) -> None:
        self.fields = fields
        self.style, self.now_us, self.is_time = style, now_us, is_time
        self.seen = MomentPart.NONE
        self.year = self.month = self.day = self.day_of_year = 0
        self.hour = self.minute = self.second = self.fraction = 0
        self.label: _Label | None = None
        self.has_month_word = self.is_julian = self.has_short_year = self.is_bc = False
        self.half: str | None = None
        self.offset: int | None = None  # seconds
        self.zone: str | None = None
        self.abbreviation: str | None = None
        self.special: Special | None = None

    @property
    def assumed(self) -> MomentPart:
        """The parts that need no looking for: a time alone has no date."""
        return self.seen | _DATE if self.is_time else self.seen

    def take_all(self) -> None:
        """Every field."""
        readers: dict[FieldKind, Callable[[int, str], MomentPart]] = {
            FieldKind.DATE: self._time_alone_date if self.is_time else self._date_field,
            FieldKind.TIME: self._time_field,
            FieldKind.SIGNED: self._signed,
            FieldKind.NUMBER: self._number_field,
            FieldKind.WORD: self._word,
            FieldKind.SIGNED_WORD: self._word,
        }
        for nth, (kind, text) in enumerate(self.fields):
            parts = readers[kind](nth, text)
            if parts & self.seen:
                raise Wrong
            self.seen |= parts

    # Fields by their looks.

    def _date_field(self, _nth: int, text: str) -> MomentPart:
        if self.label is _Label.JULIAN:  # a day and a zone: J2451187+8
            value, at = whole_at(text)
            self._set_julian(value)
            self.hour = self.minute = self.second = self.fraction = 0
            self._set_offset(text[at:])
            self.label = None
            return _DATE | _TIME | MomentPart.ZONE
        if self.label is not None or (self.seen & (MomentPart.MONTH | MomentPart.DAY)) == (
            MomentPart.MONTH | MomentPart.DAY
        ):
            if not (text[0].isdigit() or self.label is not None):
                return self._named_zone(text)
            if self.label is not None:
                if self.label is not _Label.TIME:
                    raise Wrong
                self.label = None
            return self._time_and_zone(text)
        return self._date(text)

    def _time_alone_date(self, nth: int, text: str) -> MomentPart:
        kinds = [one.kind for one in self.fields]
        if nth == 0 and len(kinds) >= 2 and (kinds[-1] is FieldKind.DATE or kinds[1] is FieldKind.TIME):
            return self._date(text)
        return self._time_and_zone(text) if text[0].isdigit() else self._named_zone(text)

    def _time_and_zone(self, text: str) -> MomentPart:
        """``hhmmss-zz``"""
        at = text.find("-")
        if (self.seen & _TIME) == _TIME or at < 0:
            raise Wrong
        self._set_offset(text[at:])
        return self._run_together(text[:at], self.assumed) | MomentPart.ZONE

    def _named_zone(self, text: str) -> MomentPart:
        if not time_zones.is_zone(text):
            raise SqlError("22023", f'time zone "{text}" not recognized')
        self.zone = text
        return MomentPart.ZONE

    def _time_field(self, _nth: int, text: str) -> MomentPart:
        if self.label is not None and not self.is_time:
            if self.label is not _Label.TIME:
                raise Wrong
            self.label = None
        self.hour, self.minute, self.second, self.fraction = clock_of(text)
        if not self.is_time:
            self._check_time()
        return _TIME

    def _signed(self, _nth: int, text: str) -> MomentPart:
        self._set_offset(text)
        return MomentPart.ZONE

    def _number_field(self, nth: int, text: str) -> MomentPart:
        if self.label is not None:
            return self._labelled(text)
        before, point, _ = text.partition(".")
        if self.is_time:
            return self._number_of_time(nth, text)
        if point and not self.seen & _DATE:
            return self._date(text)
        if point and len(before) > 2:
            return self._run_together(text, self.seen)
        if len(text) >= 6 and not (self.seen & _DATE and self.seen & _TIME):
            return self._run_together(text, self.seen)
        return self._number(text, self.seen, has_month_word=self.has_month_word)

    def _number_of_time(self, nth: int, text: str) -> MomentPart:
        before, point, _ = text.partition(".")
        if point:
            if nth == 0 and len(self.fields) >= 2 and self.fields[-1].kind is FieldKind.DATE:
                return self._date(text)
            if len(before) > 2:
                return self._run_together(text, self.assumed)
            raise Wrong
        if len(text) > 4:
            return self._run_together(text, self.assumed)
        return self._number(text, self.assumed, has_month_word=False)

    def _labelled(self, text: str) -> MomentPart:
        """A number after a word that says what it is."""
        label, self.label = self.label, None
        value, at = whole_at(text)
        rest = text[at:]
        if rest and (rest[0] != "." or label not in {_Label.JULIAN, _Label.TIME, _Label.SECOND}):
            raise Wrong
        if label is _Label.TIME:
            parts = self._run_together(text, self.seen | _DATE)
            if parts != _TIME:
                raise Wrong
            return parts
        if label is _Label.JULIAN:
            return self._julian(value, rest)
        if label is _Label.SECOND:
            self.second = value
            if rest:
                self.fraction = fraction_us(rest)
            return _SECONDS if rest else MomentPart.SECOND
        if label is _Label.MONTH:
            # After a month and an hour it is minutes.
            is_minute = MomentPart.MONTH in self.seen and MomentPart.HOUR in self.seen
            setattr(self, "minute" if is_minute else "month", value)
            return MomentPart.MINUTE if is_minute else MomentPart.MONTH
        if label not in _PARTS_OF_LABELS or label is None:
            raise Wrong
        setattr(self, label.name.lower(), value)
        return _PARTS_OF_LABELS[label]

    def _julian(self, value: int, rest: str) -> MomentPart:
        if value < 0:
            raise Wrong(TextFault.RANGE)
        self._set_julian(value)
        if not rest:
            return _DATE
        us = int(float(rest if rest != "." else ".0") * DAY_US)
        self.hour, us = divmod(us, _HOUR_US)
        self.minute, us = divmod(us, _MINUTE_US)
        self.second, self.fraction = divmod(us, _SECOND_US)
        return _DATE | _TIME

    # Words.

    def _word(self, nth: int, text: str) -> MomentPart:
        short = text[:10]
        if time_zones.abbreviated(text):
            return self._abbreviation(short)
        if short in {"at", "on"}:
            return MomentPart.NONE
        if short in _CLOCK_WORDS:
            return self._clock_word(short)
        if short == "allballs":
            self.hour = self.minute = self.second = 0
            self.offset = 0
            self.special = None
            return _TIME | MomentPart.ZONE
        if short in _SPECIAL:
            if self.is_time:
                raise Wrong
            self.special = _SPECIAL[short]
            return MomentPart.NONE  # whatever else is said
        if short in _LABELS:
            self.label = _LABELS[short]
            return MomentPart.NONE
        if short == "t":
            return self._t(nth)
        return self._other_word(text, short)

    def _other_word(self, text: str, short: str) -> MomentPart:
        if short in _MONTHS and not self.is_time:
            return self._month(_MONTHS[short])
        if short == "dst":
            self.offset = (self.offset or 0) + 3_600
            return MomentPart.DAYLIGHT_WORD | MomentPart.DAYLIGHT
        if short in {"am", "pm"}:
            self.half = short
            return MomentPart.HALF
        if short in {"bc", "ad"}:
            self.is_bc = short == "bc"
            return MomentPart.ERA
        if short in _WEEKDAYS and not self.is_time:
            return MomentPart.WEEKDAY
        if short in WORDS or not time_zones.is_zone(text):
            raise Wrong
        self.zone = text
        return MomentPart.ZONE

    def _abbreviation(self, word: str) -> MomentPart:
        if word in time_zones.FIXED_OFFSETS:
            self.offset = time_zones.FIXED_OFFSETS[word]
            return MomentPart.ZONE | (MomentPart.DAYLIGHT if word in time_zones.DAYLIGHT else MomentPart.NONE)
        self.abbreviation = word
        return MomentPart.ZONE

    def _clock_word(self, word: str) -> MomentPart:
        if self.is_time and word != "now":
            raise Wrong
        if self.now_us is None:
            raise ClockWordError
        offset = time_zones.offset_at_utc(self.now_us, self.style.zone)
        days, us = divmod(self.now_us + offset, DAY_US)
        if not self.is_time:
            self.year, self.month, self.day = civil_from_days(days + _CLOCK_WORDS[word])
        if word != "now":
            return _DATE
        self.hour, us = divmod(us, _HOUR_US)
        self.minute, us = divmod(us, _MINUTE_US)
        self.second, self.fraction = divmod(us, _SECOND_US)
        self.offset = offset // _SECOND_US
        return _TIME if self.is_time else _DATE | _TIME | MomentPart.ZONE

    def _t(self, nth: int) -> MomentPart:
        """Before a time, as ISO 8601 has it."""
        following = self.fields[nth + 1].kind if nth + 1 < len(self.fields) else None
        if (not self.is_time and (self.seen & _DATE) != _DATE) or following not in {
            FieldKind.NUMBER,
            FieldKind.TIME,
            FieldKind.DATE,
        }:
            raise Wrong
        self.label = _Label.TIME
        return MomentPart.NONE

    def _month(self, number: int) -> MomentPart:
        parts = MomentPart.MONTH
        if (
            MomentPart.MONTH in self.seen
            and not self.has_month_word
            and MomentPart.DAY not in self.seen
            and 1 <= self.month <= 31
        ):  # the number before was the day
            self.day = self.month
            parts = MomentPart.DAY
        self.has_month_word = True
        self.month = number
        return parts

    # Dates.

    def _date(self, text: str) -> MomentPart:
        """Fields of a date that one separator each lies between."""
        pieces = _pieces(text)
        parts, within = MomentPart.NONE, self.seen
        has_month_word, numbers = False, []
        for piece in pieces:
            if not piece[0].isalpha():
                numbers.append(piece)
                continue
            short = piece[:10]
            if short in {"at", "on"}:
                continue
            if short not in _MONTHS or MomentPart.MONTH in within:
                raise Wrong
            self.month, has_month_word = _MONTHS[short], True
            parts, within = parts | MomentPart.MONTH, within | MomentPart.MONTH
        for piece in numbers:
            found = self._number(piece, within, has_month_word=has_month_word)
            if within & found:
                raise Wrong
            parts, within = parts | found, within | found
        if within & ~(MomentPart.DAY_OF_YEAR | MomentPart.ZONE) != _DATE:
            raise Wrong
        return parts

    def _number(self, text: str, within: MomentPart, *, has_month_word: bool) -> MomentPart:
        """A number alone: which part it is depends on those that are there, and on the order of dates."""
        value, at = whole_at(text)
        if at == 0:
            raise Wrong
        if text[at : at + 1] == ".":
            if at > 2:
                return self._run_together(text, within | _DATE)
            self.fraction = fraction_us(text[at:])
        elif at < len(text):
            raise Wrong
        there, length = within & _DATE, len(text)
        if length == 3 and there == MomentPart.YEAR and 1 <= value <= 366:
            self.day_of_year = value
            return MomentPart.DAY_OF_YEAR | MomentPart.MONTH | MomentPart.DAY
        if there == _DATE:
            return self._run_together(text, within)
        part = self._part_of(value, there, length, has_month_word=has_month_word)
        if part is MomentPart.YEAR:
            self.has_short_year = length <= 2
        return part

    def _part_of(self, value: int, there: MomentPart, length: int, *, has_month_word: bool) -> MomentPart:
        order = self.style.order
        if there == MomentPart.NONE:
            is_year = length >= 3 or order == "YMD"
            part = MomentPart.YEAR if is_year else MomentPart.DAY if order == "DMY" else MomentPart.MONTH
        elif there in {MomentPart.YEAR, MomentPart.DAY}:
            part = MomentPart.MONTH
        elif there == MomentPart.MONTH:
            part = MomentPart.YEAR if has_month_word and (length >= 3 or order == "YMD") else MomentPart.DAY
        elif there == MomentPart.YEAR | MomentPart.MONTH:
            if has_month_word and length >= 3 and self.has_short_year:
                self.day, self.year, self.has_short_year = self.year, value, False
                return MomentPart.DAY
            part = MomentPart.DAY
        elif there == MomentPart.MONTH | MomentPart.DAY:
            part = MomentPart.YEAR
        else:
            raise Wrong
        assert part.name is not None
        setattr(self, part.name.lower(), value)
        return part

    def _run_together(self, text: str, within: MomentPart) -> MomentPart:
        """``20011225``, ``040506.789`` or ``0405``."""
        digits, point, fraction = text.partition(".")
        if point:
            self.fraction = fraction_us(f".{fraction}")
        elif (within & _DATE) != _DATE and len(digits) >= 6:
            self.day, self.month = whole_at(digits[-2:])[0], whole_at(digits[-4:-2])[0]
            self.year = whole_at(digits[:-4])[0]
            if len(digits) == 6:
                self.has_short_year = True
            return _DATE
        if (within & _TIME) == _TIME or len(digits) not in {4, 6}:
            raise Wrong
        self.hour, self.minute = int(digits[:2]), int(digits[2:4])
        self.second = int(digits[4:] or 0)
        return _TIME

    def _set_julian(self, value: int) -> None:
        self.year, self.month, self.day = civil_from_days(value - _JULIAN_OF_1970)
        self.is_julian = True

    def _set_offset(self, text: str) -> None:
        self.offset = offset_of(text)

    # What they come to.

    def finish_date(self) -> None:
        """Check the date, of which parts may be missing."""
        if MomentPart.YEAR in self.seen and not self.is_julian:
            if self.is_bc:
                if self.year <= 0:
                    raise Wrong(TextFault.RANGE)
                self.year = 1 - self.year
            elif self.has_short_year:
                self.year += 2000 if self.year < 70 else 1900 if self.year < 100 else 0
            elif self.year <= 0:
                raise Wrong(TextFault.RANGE)
        if MomentPart.DAY_OF_YEAR in self.seen:
            days = days_from_civil(self.year, 1, 1) + self.day_of_year - 1
            self.year, self.month, self.day = civil_from_days(days)
        if MomentPart.MONTH in self.seen and not 1 <= self.month <= 12:
            raise Wrong(TextFault.ORDER)
        if MomentPart.DAY in self.seen and not 1 <= self.day <= 31:
            raise Wrong(TextFault.ORDER)
        if (self.seen & _DATE) == _DATE and self.day > days_in_month(self.year, self.month):
            raise Wrong(TextFault.RANGE)

    def finish_time(self) -> None:
        """Bring in "am" and "pm"."""
        if self.half is not None and self.hour > 12:
            raise Wrong(TextFault.RANGE)
        if self.half == "am" and self.hour == 12:
            self.hour = 0
        elif self.half == "pm" and self.hour != 12:
            self.hour += 12

    def _check_time(self) -> None:
        if not (0 <= self.hour <= 24 and 0 <= self.minute <= 59 and 0 <= self.second <= 60):
            raise Wrong(TextFault.RANGE)
        if self.time_us > DAY_US:
            raise Wrong(TextFault.RANGE)

    @property
    def time_us(self) -> int:
        """Microseconds of the day."""
        return self.hour * _HOUR_US + self.minute * _MINUTE_US + self.second * _SECOND_US + self.fraction

    def finish_zone(self, local_us: int) -> int | None:
        """Microseconds east of UTC, by the zone that was named; None where none was."""
        if MomentPart.DAYLIGHT_WORD in self.seen and (
            self.zone is not None or self.abbreviation is not None or MomentPart.ZONE not in self.seen
        ):
            raise Wrong
        if self.zone is not None:
            return time_zones.offset_at_local(local_us, self.zone)
        if self.abbreviation is not None:
            return time_zones.abbreviation_offset(self.abbreviation, local_us)
        if MomentPart.ZONE in self.seen and self.offset is not None:
            return self.offset * _SECOND_US
        return None

    def check_time_alone(self) -> None:
        """What a time must have and may not have."""
        self.finish_date()
        self.finish_time()
        self._check_time()
        if (self.seen & _TIME) != _TIME:
            raise Wrong
        has_date = (self.seen & _DATE) == _DATE
        if self.zone is not None and not has_date and not _is_always_the_same(self.zone):
            raise Wrong
        self.finish_zone(0)


_FIXED_PROBES = tuple(day * DAY_US for day in (-20_000, 0, 100, 200, 300, 10_000, 10_100, 10_200, 10_300))


def _is_always_the_same(zone: str) -> bool:
    """Whether a zone has one offset."""
    return len({time_zones.offset_at_utc(us, zone) for us in _FIXED_PROBES}) == 1


_PIECE = re.compile(r"[0-9]+|[a-z]+", re.ASCII)


def _pieces(text: str) -> list[str]:
    """Numbers and words of a date. Wrong: nothing follows a separator."""
    found, at = [], 0
    while at < len(text):
        while at < len(text) and not text[at].isalnum():
            at += 1
        match = _PIECE.match(text, at)
        if match is None:
            raise Wrong
        found.append(match[0])
        at = match.end() + 1  # and the separator
    return found


def clock_of(text: str) -> tuple[int, int, int, int]:
    """Hour, minute, second and microseconds of ``h:m``, ``h:m:s`` or ``h:m:s.f``; ``m:s.f`` has no hour."""
    hour, at = whole_at(text)
    if text[at : at + 1] != ":":
        raise Wrong
    minute, at = whole_at(text, at + 1)
    second = fraction = 0
    if text[at : at + 1] == ".":
        hour, minute, second, fraction = 0, hour, minute, fraction_us(text[at:])
    elif text[at : at + 1] == ":":
        second, at = whole_at(text, at + 1)
        if text[at : at + 1] == ".":
            fraction = fraction_us(text[at:])
        elif at < len(text):
            raise Wrong
    elif at < len(text):
        raise Wrong
    if hour < 0 or not 0 <= minute <= 59 or not 0 <= second <= 60:
        raise Wrong(TextFault.RANGE)
    return hour, minute, second, fraction


def offset_of(text: str) -> int:
    """Seconds east of UTC of ``+8``, ``-07:30`` or ``+0530``."""
    if text[:1] not in {"+", "-"}:
        raise Wrong
    try:
        hours, at = whole_at(text, 1)
        minutes = seconds = 0
        if text[at : at + 1] == ":":
            minutes, at = whole_at(text, at + 1)
            if text[at : at + 1] == ":":
                seconds, at = whole_at(text, at + 1)
        elif at == len(text) and len(text) > 3:
            hours, minutes = divmod(hours, 100)
    except Wrong:
        raise Wrong(TextFault.ZONE) from None
    if not 0 <= hours <= 15 or not 0 <= minutes < 60 or not 0 <= seconds < 60:
        raise Wrong(TextFault.ZONE)
    if at < len(text):
        raise Wrong
    total = (hours * 60 + minutes) * 60 + seconds
    return -total if text[0] == "-" else total


def read_moment(text: str, style: Style, now_us: int | None) -> ReadMoment:
    """Read a date, with or without a time and a zone.

    Raises:
        Wrong: it is none. ClockWordError: it says "now" or the like, and ``now_us`` is None.
        SqlError: 22023 it names a zone that is not there.
    """
    reading = _Reading(fields_of(text, WORDS), style, now_us, is_time=False)
    reading.take_all()
    reading.finish_date()
    reading.finish_time()
    if reading.special is not None:
        return ReadMoment(0, 0, 0, reading.special)
    if (reading.seen & _DATE) != _DATE:
        raise Wrong
    days = days_from_civil(reading.year, reading.month, reading.day)
    return ReadMoment(days, reading.time_us, reading.finish_zone(days * DAY_US + reading.time_us))


def read_time(text: str, style: Style, now_us: int | None) -> int:
    """Read a time; a date and a zone that it has count for nothing. Raises what read_moment does."""
    reading = _Reading(fields_of(text, WORDS), style, now_us, is_time=True)
    reading.take_all()
    reading.check_time_alone()
    return reading.time_us
