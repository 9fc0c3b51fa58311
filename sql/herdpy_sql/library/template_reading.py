"""to_date and to_timestamp: a text read by a template, field by field, and what its fields make."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import zones
from herdpy_sql.library.routine import add
from herdpy_sql.library.templates import iso_start, julian_day
from herdpy_sql.library.time_templates import DAYS, MONTHS, ROMAN, Part, is_separator, parts_of
from herdpy_sql.storage import Clock
from herdpy_sql.values.moments import DAY_US, check_date, check_timestamp, civil_from_days, days_in_month

_JULIAN_OF_1970 = 2_440_588
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
