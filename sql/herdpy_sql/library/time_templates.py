"""Templates of times, as PostgreSQL 15 cuts them: to_char, to_date and to_timestamp.

First the fields that all three share; then to_char of times and intervals, what each field of a template
shows; then a text read by a template, field by field, and what its fields make.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

from herdpy.codec.kinds import (
    DATE_INFINITY,
    DATE_NEGATIVE_INFINITY,
    TIMESTAMP_INFINITY,
    TIMESTAMP_NEGATIVE_INFINITY,
    Interval,
)
from herdpy_sql import types as t
from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import zones
from herdpy_sql.library.routine import add
from herdpy_sql.values.civil import DAY_US, civil_from_days, days_in_month
from herdpy_sql.values.moments import check_date, check_timestamp

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
ROMAN = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"]

_NUMBERS = [
    "CC", "DDD", "DD", "D", "FX", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J",
    "MI", "MM", "MS", "Q", "SSSSS", "SSSS", "SS", "TZM", "US", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y",
]  # fmt: skip
_WORDS = [
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "DAY", "DY", "MONTH", "MON", "P.M.", "PM", "RM", "TZH", "TZ",
    "OF", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6",
]  # fmt: skip
_MIXED = ["Day", "Dy", "Month", "Mon"]
_FIELDS = sorted(
    [*_NUMBERS, *_WORDS, *_MIXED, *(one.lower() for one in (*_NUMBERS, *_WORDS))], key=len, reverse=True
)
_DIGITS = frozenset({*_NUMBERS, *(one for one in _WORDS if one[:2] == "FF")}) - {"FX"}
_PREFIXES = ("FM", "fm", "TM", "tm")
_SUFFIXES = ("TH", "th", "SP")


@dataclass(frozen=True, slots=True)
class Part:
    """A field of a template, or a character between fields.

    Attributes:
        field: its name in capitals; "" for a character.
        text: as it is written, which is the character itself.
        kind: "field"; "separator" (outside of quotes), "space" or "char".
        fill: after FM; a name after TM, too, which are those of C's locale.
        ending: TH or th, after it.
    """

    field: str
    text: str
    kind: str
    fill: bool = False
    ending: str = ""

    @property
    def is_number(self) -> bool:
        """Whether a number stands in its place."""
        return self.field in _DIGITS if self.field else "0" <= self.text <= "9"


def is_separator(char: str) -> bool:
    """Whether a character is printable ASCII, and no letter, digit or blank."""
    return "!" <= char <= "~" and not char.isalnum()


@functools.lru_cache(maxsize=256)
def parts_of(form: str) -> list[Part]:
    """A template's fields and characters, in order."""
    parts: list[Part] = []
    at = 0
    while at < len(form):
        prefix = next((one for one in _PREFIXES if form.startswith(one, at)), "")
        at += len(prefix)
        field = next((one for one in _FIELDS if form.startswith(one, at)), "")
        if field:
            at += len(field)
            suffix = next((one for one in _SUFFIXES if form.startswith(one, at)), "")
            at += len(suffix)
            ending = suffix if suffix != "SP" else ""
            name = field.upper()
            fill = prefix in {"FM", "fm"} or (prefix != "" and name in {"MONTH", "DAY"})
            parts.append(Part(name, field, "field", fill, ending))
        elif at < len(form) and form[at] == '"':
            at = _quoted(form, at + 1, parts)
        elif at < len(form):
            at += form.startswith('\\"', at)
            char = form[at]
            kind = "separator" if is_separator(char) else "space" if char in " \t\n\v\f\r" else "char"
            parts.append(Part("", char, kind))
            at += 1
    return parts


def _quoted(form: str, at: int, parts: list[Part]) -> int:
    """Take the characters of a quoted text; where it ends."""
    while at < len(form):
        if form[at] == '"':
            return at + 1
        at += form[at] == "\\" and at + 1 < len(form)
        parts.append(Part("", form[at], "char"))
        at += 1
    return at


def ordinal(number: str, ending: str) -> str:
    """A number with what makes an ordinal of it; ``ending``: TH or th, as the template has it."""
    teen = len(number) > 1 and number[-2] == "1"
    word = "th" if teen else {"1": "st", "2": "nd", "3": "rd"}.get(number[-1:], "th")
    return number + (word.upper() if ending == "TH" else word)


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


_BLANKS = " \t\n\v\f\r"
_INTEGER = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_WIDTHS = {"HH24": 2, "HH12": 2, "FX": 0, "SSSSS": 5, "SSSS": 4, "TZH": 2, "TZM": 2, "ID": 1, "IDDD": 3,
           "MS": 3, "US": 6, "IYYY": 4, "Y,YYY": 4}  # fmt: skip
_ISO = frozenset({"IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I"})
_CALENDAR = frozenset(
    {"DDD", "DD", "D", "MM", "MONTH", "MON", "RM", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y"}
)
_PLACES = {
    "MI": "minute", "SS": "second", "SSSS": "seconds", "SSSSS": "seconds", "HH": "hour", "HH12": "hour",
    "HH24": "hour", "MM": "month", "DD": "day", "DDD": "day_of_year", "IDDD": "day_of_year",
    "D": "weekday", "ID": "weekday", "WW": "week", "IW": "week", "W": "week_of_month", "CC": "century",
    "J": "julian", "TZM": "zone_minute", "MS": "ms", "US": "us",
}  # fmt: skip
_MAX_ZONE_HOURS = 15
_FIXED = 'If your source string is not fixed-width, try using the "FM" modifier.'


def _unread(value: str, part: Part, detail: str, hint: str | None = None) -> SqlError:
    return SqlError("22007", f'invalid value "{value}" for "{part.text}"', detail=detail, hint=hint)


@dataclass
class _Found:
    """What a text says, a field each; 0 is what was not said, as PostgreSQL takes it."""

    values: dict[str, int] = field(default_factory=dict)
    mode: frozenset[str] | None = None
    year_digits: int = 0
    twelve_hours: bool = False
    digits: int = 6  # of the fraction of a second

    def get(self, name: str) -> int:
        return self.values.get(name, 0)

    def put(self, name: str, value: int, part: Part) -> None:
        """SqlError 22007 where the field has another value already."""
        if self.get(name) not in (0, value):
            raise SqlError(
                "22007",
                f'conflicting values for "{part.text}" field in formatting string',
                detail="This value contradicts a previous setting for the same field type.",
            )
        self.values[name] = value

    def use(self, name: str) -> None:
        """Note which calendar a field is of. SqlError 22007 for fields of both."""
        for mode in (_ISO, _CALENDAR):
            if name in mode:
                if self.mode not in (None, mode):
                    raise SqlError(
                        "22007",
                        "invalid combination of date conventions",
                        hint="Do not mix Gregorian and ISO week date conventions in a formatting template.",
                    )
                self.mode = mode


class _Reader:
    """A text on its way through a template.

    Attributes:
        at: the next character.
        skipped: characters passed over that the template has nothing for.
        exact: after FX, where nothing is passed over.
    """

    def __init__(self, text: str, form: str) -> None:
        self.text, self.parts = text, parts_of(form)
        self.at = self.skipped = 0
        self.exact = False
        self.found = _Found()

    def char(self) -> str:
        return self.text[self.at : self.at + 1]

    def read(self) -> _Found:
        for place, part in enumerate(self.parts):
            if self.at >= len(self.text):
                break
            if not self.exact and (not place or part.field):
                self._skip_blanks()
            if not part.field:
                self._between(part)
                continue
            self.found.use(part.field)
            self._field(place, part)
            if not self.exact:
                self.skipped = 0
                self._skip_blanks()
        return self.found

    def _skip_blanks(self) -> None:
        while self.char() and self.char() in _BLANKS:
            self.at += 1
            self.skipped += 1

    def _between(self, part: Part) -> None:
        """A character of the template: one of the text, or none where some were passed over."""
        if self.exact:
            self.at += 1
        elif part.kind == "char":
            if self.skipped > 0:
                self.skipped -= 1
            else:
                self.at += 1
        else:
            self.skipped -= 1
            char = self.char()
            if char and (char in _BLANKS or is_separator(char)):
                self.at += 1
                self.skipped += 1

    def _field(self, place: int, part: Part) -> None:
        name, found = part.field, self.found
        match name:
            case "FX":
                self.exact = True
            case "TZ" | "OF":
                raise SqlError("0A000", f'formatting field "{part.text}" is only supported in to_char')
            case "MONTH" | "MON":
                names = MONTHS if name == "MONTH" else [one[:3] for one in MONTHS]
                found.put("month", self._one_of(names, part) + 1, part)
            case "DAY" | "DY":
                names = DAYS if name == "DAY" else [one[:3] for one in DAYS]
                found.put("weekday", self._one_of(names, part) + 1, part)
            case "RM":
                found.put("month", 12 - self._one_of(ROMAN[::-1], part), part)
            case "Y,YYY":
                self._thousands(part)
            case "TZH":
                self._zone(place, part)
            case _ if "M" in name and name[0] in "AP":
                found.put("pm", self._one_of(["a.m.", "p.m."] if "." in name else ["am", "pm"], part), part)
                found.twelve_hours = True
            case _ if name in {"AD", "BC", "A.D.", "B.C."}:
                found.put("bc", self._one_of(["a.d.", "b.c."] if "." in name else ["ad", "bc"], part), part)
            case _:
                self._number(place, part)

    def _one_of(self, names: list[str], part: Part) -> int:
        """Which of the names comes next, in letters of any case."""
        rest = self.text[self.at :]
        for place, name in enumerate(names):
            if rest[: len(name)].lower() == name.lower():
                self.at += len(name)
                return place
        word = re.split(f"[{_BLANKS}]", rest, maxsplit=1)[0]
        raise _unread(word, part, "The given value did not match any of the allowed values for this field.")

    def _integer(self, place: int, part: Part, width: int) -> tuple[int, int]:
        """(the number that comes next, the characters that it took)."""
        begin = self.at
        text = self.text[begin:].lstrip(_BLANKS)
        copy = text[:width]
        if part.fill or self._ends(place):
            number = _INTEGER.match(self.text, begin)
            self.at = number.end() if number else begin
        else:
            if len(text) < width:
                raise SqlError(
                    "22007",
                    f'source string too short for "{part.text}" formatting field',
                    detail=f"Field requires {width} characters, but only {len(text)} remain.",
                    hint=_FIXED,
                )
            number = _INTEGER.match(copy)
            if number and number.end() < width:
                raise _unread(
                    copy,
                    part,
                    f"Field requires {width} characters, but only {number.end()} could be parsed.",
                    _FIXED,
                )
            self.at += len(self.text) - begin - len(text) + (number.end() if number else 0)
        if number is None:
            raise _unread(copy, part, "Value must be an integer.")
        value = int(number[1])
        if not -(2**31) <= value < 2**31:
            raise SqlError(
                "22008",
                f'value for "{part.text}" in source string is out of range',
                detail="Value must be in the range -2147483648 to 2147483647.",
            )
        return value, self.at - begin

    def _ends(self, place: int) -> bool:
        """Whether what follows in the template is no digit, so that a number ends by itself."""
        if self.parts[place].ending or place + 1 == len(self.parts):
            return True
        return not self.parts[place + 1].is_number

    def _number(self, place: int, part: Part) -> None:
        name, found = part.field, self.found
        fraction = int(name[2]) if name[:2] == "FF" else 0
        value, length = self._integer(place, part, fraction or _WIDTHS.get(name, len(name)))
        if fraction or name in {"US", "MS"}:
            found.digits = fraction or found.digits
            found.put("ms" if name == "MS" else "us", value, part)
            digits = 3 if name == "MS" else 6
            found.values["ms" if name == "MS" else "us"] *= 10 ** max(0, digits - length)
        elif name.lstrip("I")[:1] in {"Y", ""}:
            self._year(len(name), value, length, part)
        elif name == "ID":
            found.put("weekday", value, part)
            found.values["weekday"] = value + 1 if value < 7 else 1
        elif name != "Q":  # which day of a quarter is meant cannot be known
            found.twelve_hours |= name in {"HH", "HH12"}
            found.put(_PLACES[name], value, part)
        if part.ending:
            self.at += 2

    def _year(self, digits: int, value: int, length: int, part: Part) -> None:
        self.found.put("year", value, part)
        if digits < 4 and (digits < 3 or length < 4):
            self.found.values["year"] = _full_year(value)
        self.found.year_digits = digits

    def _thousands(self, part: Part) -> None:
        number = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+),[ \t\n\v\f\r]*([+-]?[0-9]{1,3})").match(
            self.text, self.at
        )
        if number is None:
            raise SqlError("22007", 'invalid input string for "Y,YYY"')
        self.found.put("year", int(number[1]) * 1000 + int(number[2]), part)
        self.found.year_digits = 4
        self.at = number.end()
        if part.ending:
            self.at += 2

    def _zone(self, place: int, part: Part) -> None:
        """The hours of an offset; a minus may have been passed over as a separator."""
        sign = 1
        if self.char() in {"+", "-", " "}:
            sign = -1 if self.char() == "-" else 1
            self.at += 1
        elif self.skipped > 0 and self.text[self.at - 1] == "-":
            sign = -1
        self.found.values["zone_sign"] = sign
        self.found.put("zone_hour", self._integer(place, part, 2)[0], part)


def _full_year(year: int) -> int:
    """The one nearest to 2020 of those that end so."""
    if year < 70:
        return year + 2000
    if year < 100:
        return year + 1900
    if year < 520:
        return year + 2000
    return year + 1000 if year < 1000 else year


@dataclass
class _Date:
    """A date as PostgreSQL puts it together; ``said``: which of its parts are checked."""

    year: int = 0
    month: int = 1
    day: int = 1
    said: set[str] = field(default_factory=set)

    def set_julian(self, julian: int) -> None:
        self.year, self.month, self.day = civil_from_days(julian - _JULIAN_OF_1970)
        self.said |= {"year", "month", "day"}


def _date_of(found: _Found, text: str) -> int:
    """Days from 1970. SqlError 22007, 22008."""
    date = _Date()
    day_of_year = found.get("day_of_year")
    _set_year(date, found)
    if found.get("julian"):
        date.set_julian(found.get("julian"))
    if found.get("week"):
        if found.mode is _ISO:
            monday = iso_start(date.year) + (found.get("week") - 1) * 7
            weekday = found.get("weekday")
            date.set_julian(monday + (0 if not weekday else weekday - 2 if weekday > 1 else 6))
        else:
            day_of_year = (found.get("week") - 1) * 7 + 1
    day = (found.get("week_of_month") - 1) * 7 + 1 if found.get("week_of_month") else found.get("day")
    if day:
        date.day = day
        date.said.add("day")
    if found.get("month"):
        date.month = found.get("month")
        date.said.add("month")
    if day_of_year and (date.month <= 1 or date.day <= 1):
        _set_day_of_year(date, day_of_year, found)
    _check(date, text)
    return julian_day(date.year, date.month, date.day) - _JULIAN_OF_1970


def _set_year(date: _Date, found: _Found) -> None:
    year, century = found.get("year"), found.get("century")
    if year or century:
        date.said.add("year")
    if found.get("bc"):
        century = -century
    if year and century and found.year_digits <= 2:
        last = year % 100 if year >= 0 else -(-year % 100)
        if not last:
            date.year = century * 100 + (century < 0)
        elif century >= 0:
            date.year = last + (century - 1) * 100
        else:
            date.year = (century + 1) * 100 - last + 1
    elif year:
        signed = -year if found.get("bc") else year
        date.year = signed + (signed < 0)
    elif century:
        date.year = (century - 1 if century > 0 else century) * 100 + 1


def _set_day_of_year(date: _Date, day: int, found: _Found) -> None:
    if not date.year and not found.get("bc"):
        raise SqlError("22007", "cannot calculate day of year without year information")
    if found.mode is _ISO:
        date.set_julian(iso_start(date.year) - 1 + day)
        return
    passed, month = 0, 1
    while month <= 12 and day > passed + days_in_month(date.year, month):
        passed += days_in_month(date.year, month)
        month += 1
    if date.month <= 1:
        date.month = month
    if date.day <= 1:
        if month > 12:
            passed -= 31
        date.day = day - passed
    date.said |= {"month", "day"}


def _out_of_range(text: str) -> SqlError:
    return SqlError("22008", f'date/time field value out of range: "{text}"')


def _check(date: _Date, text: str) -> None:
    if ("month" in date.said and not 1 <= date.month <= 12) or (
        "day" in date.said and not 1 <= date.day <= 31
    ):
        raise _out_of_range(text)
    if len(date.said) == 3 and date.day > days_in_month(date.year, date.month):
        raise _out_of_range(text)


def _time_of(found: _Found, text: str) -> int:
    """Microseconds of the day. SqlError 22007, 22008."""
    hour, rest = divmod(found.get("seconds"), 3600)
    minute, second = divmod(rest, 60)
    second, minute = found.get("second") or second, found.get("minute") or minute
    hour = found.get("hour") or hour
    if found.twelve_hours:
        if not 1 <= hour <= 12:
            raise SqlError(
                "22007",
                f'hour "{hour}" is invalid for the 12-hour clock',
                hint="Use the 24-hour clock, or give an hour between 1 and 12.",
            )
        hour = hour % 12 + 12 * found.get("pm")
    us = found.get("ms") * 1000 + found.get("us")
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60 and 0 <= us < 1_000_000):
        raise _out_of_range(text)
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + us


def _offset_of(found: _Found, text: str) -> int | None:
    """Seconds east; None where the text has no zone."""
    sign = found.get("zone_sign") or (1 if "zone_minute" in found.values else 0)
    if not sign:
        return None
    hours, minutes = found.get("zone_hour"), found.get("zone_minute")
    if not (0 <= hours <= _MAX_ZONE_HOURS and 0 <= minutes < 60):
        raise SqlError("22009", f'time zone displacement out of range: "{text}"')
    return sign * (hours * 3600 + minutes * 60)


def _to_date(text: str, form: str) -> int:
    found = _Reader(text, form).read()
    _time_of(found, text)
    days = _date_of(found, text)
    _offset_of(found, text)
    try:
        return check_date(days)
    except SqlError as error:
        raise SqlError(error.sqlstate, f'date out of range: "{text}"') from None


_FROM_2000_US = 946_684_800_000_000


def _rounded(us: int, digits: int) -> int:
    """With so many digits of its seconds; away from 2000, from which PostgreSQL counts."""
    step: int = 10 ** (6 - digits)
    from_2000 = us - _FROM_2000_US
    away: int = (abs(from_2000) + step // 2) // step * step
    return _FROM_2000_US + (away if from_2000 >= 0 else -away)


def _to_timestamp(clock: Clock, text: str, form: str) -> int:
    found = _Reader(text, form).read()
    us = _time_of(found, text)
    local = check_timestamp(_date_of(found, text) * DAY_US + us)
    offset_s = _offset_of(found, text)
    moment = zones.to_utc(local, clock.zone) if offset_s is None else local - offset_s * 1_000_000
    return check_timestamp(_rounded(moment, found.digits))


add("to_date", (t.TEXT, t.TEXT), t.DATE, _to_date)
add("to_timestamp", (t.TEXT, t.TEXT), t.TIMESTAMPTZ, _to_timestamp, clocked=True)
