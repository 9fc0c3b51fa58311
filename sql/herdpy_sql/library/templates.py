"""to_char of times: PostgreSQL's templates (its adt/formatting.c), their words, and what each shows."""

from __future__ import annotations

import re

from herdpy.codec.kinds import TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY, Interval
from herdpy_sql import types as t
from herdpy_sql.expr import zones
from herdpy_sql.library.routine import add
from herdpy_sql.storage import Clock
from herdpy_sql.values.moments import (
    DAY_US,
    civil_from_days,
    days_from_civil,
)

MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
_ROMAN = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"]
_WORDS = [
    "SSSSS",
    "SSSS",
    "YYYY",
    "IYYY",
    "HH24",
    "HH12",
    "MONTH",
    "Month",
    "month",
    "IDDD",
    "TZH",
    "TZM",
    "Y,YYY",
    "YYY",
    "IYY",
    "DDD",
    "DAY",
    "Day",
    "day",
    "MON",
    "Mon",
    "mon",
    "A.D.",
    "B.C.",
    "A.M.",
    "P.M.",
    "a.d.",
    "b.c.",
    "a.m.",
    "p.m.",
    "FF1",
    "FF2",
    "FF3",
    "FF4",
    "FF5",
    "FF6",
    "HH",
    "MI",
    "SS",
    "MS",
    "US",
    "YY",
    "IY",
    "DD",
    "DY",
    "Dy",
    "dy",
    "MM",
    "WW",
    "IW",
    "CC",
    "AM",
    "PM",
    "am",
    "pm",
    "AD",
    "BC",
    "ad",
    "bc",
    "RM",
    "rm",
    "TZ",
    "tz",
    "OF",
    "ID",
    "FM",
    "fm",
    "TH",
    "th",
    "Q",
    "J",
    "D",
    "W",
    "Y",
    "I",
]
_TOKENS = re.compile(
    "|".join([r'"((?:[^"\\]|\\.)*)"', *(re.escape(word) for word in sorted(_WORDS, key=len, reverse=True))])
    + "|.",
    re.DOTALL,
)


def parts_of(form: str) -> list[tuple[str, str, bool, str]]:
    """(word or "", literal text, FM before it, TH after it) of a template."""
    found: list[tuple[str, str, bool, str]] = []
    fill = False
    for match in _TOKENS.finditer(form):
        text = match[0]
        if match[1] is not None:
            found.append(("", match[1].replace("\\", ""), False, ""))
        elif text in {"FM", "fm"}:
            fill = True
        elif text in {"TH", "th"} and found and found[-1][0]:
            found[-1] = (*found[-1][:3], text)
        elif text in _WORDS and len(text) > 0:
            found.append((text, text, fill, ""))
            fill = False
        elif text.upper() in _WORDS:
            found.append((text.upper(), text, fill, ""))
            fill = False
        else:
            found.append(("", text, False, ""))
    return found


def ordinal(number: str, ending: str) -> str:
    """A number with what makes an ordinal of it; ``ending``: TH or th, as the template has it."""
    last = number[-1:]
    teen = len(number) > 1 and number[-2] == "1"
    word = "th" if teen else {"1": "st", "2": "nd", "3": "rd"}.get(last, "th")
    return number + (word.upper() if ending == "TH" else word)


class _Fields:
    """What a template may show of a moment."""

    def __init__(
        self, year: int, month: int, day: int, us: int, days: int | None, zone: str, offset: int
    ) -> None:
        self.year, self.month, self.day, self.us, self.days = year, month, day, us, days
        self.zone, self.offset = zone, offset

    def show(self, word: str, fill: bool) -> str:
        """The text of a word of a template."""
        hour = self.us // 3_600_000_000
        clock = (hour - 1) % 12 + 1
        second = self.us // 1_000_000 % 60
        fraction = self.us % 1_000_000
        year = self.year if self.year > 0 else 1 - self.year
        days = self.days or 0
        first = days_from_civil(self.year, 1, 1) if self.days is not None else 0
        thursday = days - (days + 3) % 7 + 3
        iso = civil_from_days(thursday)[0] if self.days is not None else self.year
        week = (thursday - days_from_civil(iso, 1, 1)) // 7 + 1 if self.days is not None else 0
        sign = "-" if self.offset < 0 else "+"
        minutes = abs(self.offset) // 60
        numbers: dict[str, tuple[int, int]] = {
            "HH": (clock, 2), "HH12": (clock, 2), "HH24": (hour, 2), "MI": (self.us // 60_000_000 % 60, 2),
            "SS": (second, 2), "MS": (fraction // 1000, 3), "US": (fraction, 6),
            "SSSS": (self.us // 1_000_000, 0), "SSSSS": (self.us // 1_000_000, 0),
            "YYYY": (year, 4), "YYY": (year % 1000, 3), "YY": (year % 100, 2), "Y": (year % 10, 1),
            "IYYY": (iso, 4), "IYY": (iso % 1000, 3), "IY": (iso % 100, 2), "I": (iso % 10, 1),
            "MM": (self.month, 2), "DD": (self.day, 2), "DDD": (days - first + 1, 3),
            "IDDD": (days - (thursday - 3 - (week - 1) * 7) + 1, 3),
            "D": ((days + 4) % 7 + 1, 1), "ID": ((days + 3) % 7 + 1, 1),
            "WW": ((days - first) // 7 + 1, 2), "IW": (week, 2), "W": ((self.day - 1) // 7 + 1, 1),
            "Q": ((self.month + 2) // 3, 1), "CC": ((year + 99) // 100, 2), "J": (days + 2_440_588, 0),
        }  # fmt: skip
        if word in numbers:
            number, width = numbers[word]
            return str(number) if fill else str(number).zfill(width)
        if word[:2] == "FF":
            return f"{fraction:06d}"[: int(word[2])]
        if word == "Y,YYY":
            return f"{year // 1000},{year % 1000:03d}"
        upper = word.upper()
        if upper in {"MONTH", "MON"}:
            name = MONTHS[self.month - 1] if self.month else ""
            return _cased(name[:3] if upper == "MON" else name, word, 0 if fill or upper == "MON" else 9)
        if upper in {"DAY", "DY"}:
            name = DAYS[(days + 4) % 7]
            return _cased(name[:3] if upper == "DY" else name, word, 0 if fill or upper == "DY" else 9)
        if upper in {"AM", "PM", "A.M.", "P.M."}:
            letter = "P" if hour % 24 >= 12 else "A"
            return _cased(f"{letter}.M." if "." in word else f"{letter}M", word, 0)
        if upper in {"AD", "BC", "A.D.", "B.C."}:
            era = "AD" if self.year > 0 else "BC"
            return _cased(f"{era[0]}.{era[1]}." if "." in word else era, word, 0)
        if upper == "RM":
            name = _ROMAN[self.month - 1] if self.month else ""
            return _cased(name, word, 0 if fill else 4)
        match upper:
            case "TZ":
                return self.zone if word == "TZ" else self.zone.lower()
            case "TZH":
                return f"{sign}{minutes // 60:02d}"
            case "TZM":
                return f"{minutes % 60:02d}"
            case _:  # OF
                return f"{sign}{minutes // 60:02d}" + (f":{minutes % 60:02d}" if minutes % 60 else "")


def _cased(name: str, word: str, width: int) -> str:
    if word.isupper() or word.replace(".", "").isupper():
        name = name.upper()
    elif word.replace(".", "").islower():
        name = name.lower()
    return name.ljust(width)


def _shown(fields: _Fields, form: str) -> str:
    out = []
    for word, literal, fill, ending in parts_of(form):
        text = fields.show(word, fill) if word else literal
        out.append(ordinal(text, ending) if ending and text[-1:].isdigit() else text)
    return "".join(out)


def _timestamp_text(us: int, form: str, zone: str = "", offset: int = 0) -> str | None:
    if us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY} or not form:
        return None
    days, rest = divmod(us, DAY_US)
    year, month, day = civil_from_days(days)
    return _shown(_Fields(year, month, day, rest, days, zone, offset), form)


def zoned_text(clock: Clock, us: int, form: str) -> str | None:
    """to_char of a moment in the session's zone; None of an infinite one."""
    if us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return None
    local = zones.to_local(us, clock.zone)
    offset = (local - us) // 1_000_000
    return _timestamp_text(local, form, zones.abbreviation(us, clock.zone), offset)


def _interval_text(value: Interval, form: str) -> str | None:
    if not form:
        return None
    months, days, us = value
    years = abs(months) // 12 * (1 if months >= 0 else -1)
    fields = _Fields(years or 1, months - years * 12, days, abs(us), None, "", 0)
    if not years:
        fields.year = 0
    return _shown(fields, form) if us >= 0 else "-" + _shown(fields, form)


add("to_char", (t.TIMESTAMP, t.TEXT), t.TEXT, _timestamp_text)
add("to_char", (t.TIMESTAMPTZ, t.TEXT), t.TEXT, zoned_text, clocked=True)
add("to_char", (t.INTERVAL, t.TEXT), t.TEXT, _interval_text)
