"""to_char of times and intervals: what each field of a template shows."""

from __future__ import annotations

from dataclasses import dataclass

from herdpy.codec.kinds import (
    DATE_INFINITY,
    DATE_NEGATIVE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY,
    Interval,
)
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import zones
from herdpy_sql.library.routine import add
from herdpy_sql.library.time_templates import DAYS, MONTHS, ROMAN, Part, ordinal, parts_of
from herdpy_sql.storage import Clock
from herdpy_sql.values.moments import DAY_US, check_timestamp, civil_from_days

_JULIAN_OF_1970 = 2_440_588
_OF_MOMENTS = frozenset(
    "A.D. AD B.C. BC MONTH MON DAY DY D ID TZ TZH TZM OF".split()  # noqa: SIM905 - a list of words
)


def _quotient(value: int, by: int) -> int:
    """Cut off towards zero, as C divides."""
    return value // by if value >= 0 else -(-value // by)


def _remainder(value: int, by: int) -> int:
    return value - _quotient(value, by) * by


def julian_day(year: int, month: int, day: int) -> int:
    """The Julian day of a date, whose fields need not be those of a calendar: an interval's are not."""
    month, year = (month + 1, year + 4800) if month > 2 else (month + 13, year + 4799)
    century = _quotient(year, 100)
    days = year * 365 - 32167 + _quotient(year, 4) - century + _quotient(century, 4)
    return days + _quotient(7834 * month, 256) + day


def iso_start(year: int) -> int:
    """The Julian day of the Monday that begins an ISO year."""
    fourth = julian_day(year, 1, 4)
    return fourth - fourth % 7


@dataclass(slots=True)
class _Fields:
    """What a template may show of a moment or an interval; the year is astronomical: 0 is 1 BC."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    us: int
    day_of_year: int
    zone: str = ""
    offset_s: int = 0
    of_interval: bool = False

    @property
    def julian(self) -> int:
        return julian_day(self.year, self.month, self.day)

    def iso(self) -> tuple[int, int]:
        """The ISO year, and the first day of its first week."""
        for year in (self.year + 1, self.year):
            if self.julian >= iso_start(year):
                return year, iso_start(year)
        return self.year - 1, iso_start(self.year - 1)


def _shown_year(fields: _Fields, year: int) -> int:
    return year if fields.of_interval or year > 0 else 1 - year


def _padded(number: int, width: int, fill: bool) -> str:
    """With zeros to a width, beside which a sign has its own place."""
    return str(number) if fill else f"{number:0{width + (number < 0)}d}"


def _fraction(us: int, digits: int) -> str:
    return f"{_quotient(us, 10 ** (6 - digits)):0{digits}d}"


def _number(fields: _Fields, name: str, fill: bool) -> str | None:
    """A field that is a number; None for one that is not."""
    f = fields
    match name:
        case "HH" | "HH12":
            return _padded(_remainder(f.hour, 12) or 12, 2 + (f.hour < 0 and f.hour % 12 == 0), fill)
        case "HH24":
            return _padded(f.hour, 2, fill)
        case "MI":
            return _padded(f.minute, 2, fill)
        case "SS":
            return _padded(f.second, 2, fill)
        case "MS":
            return _fraction(f.us, 3)
        case "US":
            return _fraction(f.us, 6)
        case "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6":
            return _fraction(f.us, int(name[2]))
        case "SSSS" | "SSSSS":
            return str(f.hour * 3600 + f.minute * 60 + f.second)
        case "MM":
            return _padded(f.month, 2, fill)
        case "DD":
            return str(f.day) if fill else f"{f.day:02d}"
        case "DDD":
            return str(f.day_of_year) if fill else f"{f.day_of_year:03d}"
        case "D":
            return str((f.julian + 1) % 7 + 1)
        case "ID":
            return str(f.julian % 7 + 1)
        case "W":
            return str(_quotient(f.day - 1, 7) + 1)
        case "WW":
            week = _quotient(f.day_of_year - 1, 7) + 1
            return str(week) if fill else f"{week:02d}"
        case "Q":
            return str(_quotient(f.month - 1, 3) + 1) if f.month else ""
        case "J":
            return str(f.julian)
    return _iso_number(fields, name, fill) if name[0] == "I" else _year(fields, name, fill)


def _iso_number(fields: _Fields, name: str, fill: bool) -> str:
    year, start = fields.iso()
    days = fields.julian - start
    if name == "IDDD":
        return str(days + 1) if fill else f"{days + 1:03d}"
    if name == "IW":
        return str(days // 7 + 1) if fill else f"{days // 7 + 1:02d}"
    shown = _shown_year(fields, year)
    return _digits_of_year(shown, len(name), fill, _shown_year(fields, fields.year) < 0)


def _digits_of_year(year: int, digits: int, fill: bool, signed: bool) -> str:
    """``signed``: with a place for a sign, which an ISO year takes from the year, as PostgreSQL does."""
    if digits == 1:
        return str(_remainder(year, 10))
    number = _remainder(year, 10**digits) if digits < 4 else year
    return str(number) if fill else f"{number:0{digits + signed}d}"


def _year(fields: _Fields, name: str, fill: bool) -> str | None:
    year = _shown_year(fields, fields.year)
    if name == "Y,YYY":
        thousands = _quotient(year, 1000)
        return f"{thousands},{year - thousands * 1000:03d}"
    if name[0] == "Y":
        return _digits_of_year(year, len(name), fill, year < 0)
    if name != "CC":
        return None
    if fields.of_interval:
        century = _quotient(fields.year, 100)
    elif fields.year > 0:
        century = (fields.year - 1) // 100 + 1
    else:
        century = _quotient(fields.year, 100) - 1
    return _padded(century, 2, fill) if abs(century) <= 99 else str(century)


def _cased(name: str, written: str) -> str:
    letters = written.replace(".", "")
    return name.upper() if letters.isupper() else name.lower() if letters.islower() else name


def _word(fields: _Fields, part: Part) -> str:
    """A field that is a word."""
    name, written = part.field, part.text
    if name in {"MONTH", "MON"}:
        text = MONTHS[fields.month - 1] if fields.month else ""
        return _name(text, written, part.fill, name == "MON")
    if name in {"DAY", "DY"}:
        return _name(DAYS[(fields.julian + 1) % 7], written, part.fill, name == "DY")
    if name == "RM":
        return _roman(fields, part)
    if name == "TZ":
        return fields.zone if written == "TZ" else fields.zone.lower()
    if name in {"TZH", "TZM", "OF"}:
        return _offset(fields.offset_s, name, part.fill)
    if name in {"FX"}:
        return ""
    if name[0] in "AP" and "M" in name:
        letter = "P" if _remainder(fields.hour, 24) >= 12 else "A"
        return _cased(f"{letter}.M." if "." in name else f"{letter}M", written)
    era = "BC" if fields.year <= 0 else "AD"
    return _cased(f"{era[0]}.{era[1]}." if "." in name else era, written)


def _name(name: str, written: str, fill: bool, short: bool) -> str:
    text = _cased(name[:3] if short else name, written)
    return text if fill or short or not text else text.ljust(9)


def _roman(fields: _Fields, part: Part) -> str:
    if not fields.month and not fields.year:
        return ""
    place = fields.month - 1  # of an interval that goes backwards: from December on
    if not fields.month:
        place = 11 if fields.year >= 0 else 0
    elif fields.month < 0:
        place = 12 + fields.month
    text = _cased(ROMAN[place], part.text)
    return text if part.fill else text.ljust(4)


def _offset(seconds: int, name: str, fill: bool) -> str:
    sign = "-" if seconds < 0 else "+"
    hours, rest = divmod(abs(seconds), 3600)
    if name == "TZM":
        return f"{rest // 60:02d}"
    if name == "TZH":
        return f"{sign}{hours:02d}"
    return f"{sign}{hours if fill else f'{hours:02d}'}" + (f":{rest // 60:02d}" if rest else "")


def _shown(fields: _Fields, form: str) -> str:
    out = []
    for part in parts_of(form):
        if not part.field:
            out.append(part.text)
            continue
        if fields.of_interval and part.field in _OF_MOMENTS:
            raise SqlError(
                "22007",
                "invalid format specification for an interval value",
                hint="Intervals are not tied to specific calendar dates.",
            )
        number = _number(fields, part.field, part.fill)
        if number is None:
            out.append(_word(fields, part))
        else:
            out.append(ordinal(number, part.ending) if part.ending and number else number)
    return "".join(out)


def _timestamp_text(us: int, form: str, zone: str = "", offset_s: int = 0) -> str | None:
    if us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY} or not form:
        return None
    days, rest = divmod(us, DAY_US)
    year, month, day = civil_from_days(days)
    seconds, fraction = divmod(rest, 1_000_000)
    passed = days + _JULIAN_OF_1970 - julian_day(year, 1, 1) + 1
    minutes = seconds // 60
    return _shown(
        _Fields(
            year, month, day, minutes // 60, minutes % 60, seconds % 60, fraction, passed, zone, offset_s
        ),
        form,
    )


def zoned_text(clock: Clock, us: int, form: str) -> str | None:
    """to_char of a moment in the session's zone; None of an infinite one."""
    if us in {TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY}:
        return None
    local = zones.to_local(us, clock.zone)
    return _timestamp_text(local, form, zones.abbreviation(us, clock.zone), (local - us) // 1_000_000)


def _interval_text(value: Interval, form: str) -> str | None:
    if not form:
        return None
    months, days, us = value
    year, month = _quotient(months, 12), _remainder(months, 12)
    seconds = _quotient(us, 1_000_000)
    minutes = _quotient(seconds, 60)
    fields = _Fields(
        year, month, days, _quotient(minutes, 60), _remainder(minutes, 60), _remainder(seconds, 60),
        _remainder(us, 1_000_000), (year * 12 + month) * 30 + days, of_interval=True,
    )  # fmt: skip
    return _shown(fields, form)


def _date_text(clock: Clock, days: int, form: str) -> str | None:
    """As the moment at which the day begins in the session's zone."""
    if days in {DATE_INFINITY, DATE_NEGATIVE_INFINITY}:
        return None
    return zoned_text(clock, zones.to_utc(check_timestamp(days * DAY_US), clock.zone), form)


add("to_char", (t.DATE, t.TEXT), t.TEXT, _date_text, clocked=True)
add("to_char", (t.TIMESTAMP, t.TEXT), t.TEXT, _timestamp_text)
add("to_char", (t.TIMESTAMPTZ, t.TEXT), t.TEXT, zoned_text, clocked=True)
add("to_char", (t.INTERVAL, t.TEXT), t.TEXT, _interval_text)
