"""to_char, to_date, to_timestamp and to_number: PostgreSQL's templates (its adt/formatting.c)."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from herdpy.codec.kinds import TIMESTAMP_INFINITY, TIMESTAMP_NEGATIVE_INFINITY, Interval
from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import zones
from herdpy_sql.library.routine import add
from herdpy_sql.storage import Clock
from herdpy_sql.values.moments import (
    DAY_US,
    check_date,
    check_timestamp,
    civil_from_days,
    days_from_civil,
    days_in_month,
)
from herdpy_sql.values.numeric import EXACT

_MONTHS = [
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
_DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
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


def _parts(form: str) -> list[tuple[str, str, bool, str]]:
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


def _ordinal(number: str, ending: str) -> str:
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
            name = _MONTHS[self.month - 1] if self.month else ""
            return _cased(name[:3] if upper == "MON" else name, word, 0 if fill or upper == "MON" else 9)
        if upper in {"DAY", "DY"}:
            name = _DAYS[(days + 4) % 7]
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
    for word, literal, fill, ending in _parts(form):
        text = fields.show(word, fill) if word else literal
        out.append(_ordinal(text, ending) if ending and text[-1:].isdigit() else text)
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


# ---------------------------------------------------------------------------- reading

_WIDTHS = {
    "YYYY": 4, "IYYY": 4, "YYY": 3, "YY": 2, "Y": 1, "MM": 2, "DD": 2, "DDD": 3, "HH": 2, "HH12": 2,
    "HH24": 2, "MI": 2, "SS": 2, "MS": 3, "US": 6, "J": 7, "SSSS": 5, "SSSSS": 5, "D": 1, "ID": 1, "WW": 2,
    "IW": 2, "W": 1, "Q": 1, "CC": 2, "FF1": 1, "FF2": 2, "FF3": 3, "FF4": 4, "FF5": 5, "FF6": 6, "TZH": 2,
    "TZM": 2,
}  # fmt: skip
_NAMES = {
    "MONTH": _MONTHS,
    "MON": [one[:3] for one in _MONTHS],
    "DAY": _DAYS,
    "DY": [one[:3] for one in _DAYS],
}


def _read(text: str, form: str) -> dict[str, int]:
    """The numbers that a template finds in a text. SqlError 22007."""
    parts = _parts(form)
    found: dict[str, int] = {}
    at = 0
    for place, (word, literal, fill, _) in enumerate(parts):
        if not word:
            if not literal.isalnum():
                if (
                    at < len(text)
                    and not text[at].isalnum()
                    and (text[at] not in "+-" or not literal.isspace())
                ):
                    at += 1
                while at < len(text) and text[at].isspace():
                    at += 1
            else:
                at += len(literal)
            continue
        while at < len(text) and text[at].isspace():
            at += 1
        upper = word.upper()
        if upper in _NAMES:
            names = _NAMES[upper]
            match = next(
                (i for i, n in enumerate(names) if text[at : at + len(n)].lower() == n.lower()), None
            )
            if match is None:
                raise SqlError(
                    "22007",
                    f'invalid value "{text[at:]}" for "{word}"',
                    detail="The given value did not match any of the allowed values for this field.",
                )
            found["month" if upper in {"MONTH", "MON"} else "weekday"] = match + 1
            at += len(names[match])
            continue
        if upper in {"AM", "PM", "A.M.", "P.M.", "AD", "BC", "A.D.", "B.C."}:
            width = 4 if "." in upper else 2
            said = text[at : at + width].upper().replace(".", "")
            if said not in {"AM", "PM", "AD", "BC"}:
                raise SqlError(
                    "22007",
                    f'invalid value "{text[at:]}" for "{word}"',
                    detail="The given value did not match any of the allowed values for this field.",
                )
            found["pm" if said in {"AM", "PM"} else "bc"] = int(said in {"PM", "BC"})
            at += width
            continue
        if upper not in _WIDTHS:
            raise SqlError("0A000", f'formatting field "{word}" is only supported in to_char')
        follows = place + 1 < len(parts) and parts[place + 1][0] != ""
        width = _WIDTHS[upper] if follows and not fill else 10
        number = re.compile(rf"[+-]?\d{{1,{width}}}").match(text, at)
        if number is None:
            if at >= len(text):
                break
            raise SqlError(
                "22007",
                f'invalid value "{text[at : at + _WIDTHS[upper]]}" for "{word}"',
                detail="Value must be an integer.",
            )
        digits = number[0]
        value = int(digits)
        if upper in {"MS", "US"} or upper[:2] == "FF":
            scale = 3 if upper == "MS" else 6 if upper == "US" else int(upper[2])
            found["us"] = int(digits[:6].ljust(scale, "0")[:scale].ljust(6, "0"))
        else:
            _note(found, upper, value, digits)
        at = number.end()
    return found


def _note(found: dict[str, int], word: str, value: int, digits: str) -> None:
    keys = {
        "MM": "month", "DD": "day", "DDD": "doy", "HH24": "hour", "HH": "hour12", "HH12": "hour12",
        "MI": "minute", "SS": "second", "J": "julian", "SSSS": "seconds", "SSSSS": "seconds",
        "IYYY": "isoyear",
        "IW": "isoweek", "ID": "isoday", "TZH": "tzh", "TZM": "tzm", "Q": "ignored", "CC": "century",
        "WW": "week", "W": "monthweek", "D": "weekday",
    }  # fmt: skip
    if word[0] == "Y":
        size = len(digits)
        if word != "YYYY" and size < 4 and value < 1000:  # the nearest to 2020
            value += 2000 if value < 70 or (size == 3 and value < 520) else 1900 if size < 3 else 1000
        found["year"] = value
    else:
        found[keys[word]] = value


def _days_of(found: dict[str, int], text: str) -> int:
    if "julian" in found:
        return found["julian"] - 2_440_588
    if "isoyear" in found:
        fourth = days_from_civil(found["isoyear"], 1, 4)
        start = fourth - (fourth + 3) % 7
        return start + (found.get("isoweek", 1) - 1) * 7 + found.get("isoday", 1) - 1
    year = found.get("year", 0 if "century" not in found else found["century"] * 100 - 99)
    shown = (1 - year if found.get("bc") else year) if year else 0
    year = shown
    if "doy" in found:
        return days_from_civil(year, 1, 1) + found["doy"] - 1
    month, day = found.get("month", 1), found.get("day", 1)
    if not 1 <= month <= 12 or not 1 <= day <= days_in_month(year, month):
        raise SqlError("22008", f'date/time field value out of range: "{text}"')
    return days_from_civil(year, month, day)


def _to_date(text: str, form: str) -> int:
    return check_date(_days_of(_read(text, form), text))


def _to_timestamp(clock: Clock, text: str, form: str) -> int:
    found = _read(text, form)
    hour = found.get("hour", 0)
    if "hour12" in found:
        hour = found["hour12"]
        if not 1 <= hour <= 12:
            raise SqlError(
                "22007",
                f'hour "{hour}" is invalid for the 12-hour clock',
                hint="Use the 24-hour clock, or give an hour between 1 and 12.",
            )
        hour = hour % 12 + 12 * found.get("pm", 0)
    minute, second = found.get("minute", 0), found.get("second", 0)
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        raise SqlError("22008", f'date/time field value out of range: "{text}"')
    us = ((hour * 60 + minute) * 60 + second + found.get("seconds", 0)) * 1_000_000 + found.get("us", 0)
    local = check_timestamp(_days_of(found, text) * DAY_US + us)
    if "tzh" in found:
        sign = -1 if found["tzh"] < 0 else 1
        return local - (found["tzh"] * 3_600 + sign * found.get("tzm", 0) * 60) * 1_000_000
    return zones.to_utc(local, clock.zone)


add("to_date", (t.TEXT, t.TEXT), t.DATE, _to_date)
add("to_timestamp", (t.TEXT, t.TEXT), t.TIMESTAMPTZ, _to_timestamp, clocked=True)


# ---------------------------------------------------------------------------- numbers

_NUMBER_WORDS = re.compile(
    r'"((?:[^"\\]|\\.)*)"|FM|fm|MI|mi|PL|pl|SG|sg|PR|pr|RN|rn|TH|th|V|v|EEEE|eeee|.', re.DOTALL
)


def _number_text(value: Any, form: str) -> str:
    """A number by a template of digits. SqlError 0A000 for RN, V and EEEE."""
    words = list(_NUMBER_WORDS.finditer(form))
    names = [m[0].upper() if m[1] is None else "" for m in words]
    if {"RN", "V", "EEEE"} & set(names):
        raise SqlError("0A000", "RN, V and EEEE in templates of numbers are not supported")
    fill = "FM" in names
    point = next((i for i, n in enumerate(names) if n in {".", "D"}), len(names))
    before = sum(n in {"9", "0"} for n in names[:point])
    after = sum(n in {"9", "0"} for n in names[point:])
    number = Decimal(value) if not isinstance(value, float) else Decimal(repr(value))
    rounded = EXACT.quantize(number, Decimal(1).scaleb(-after))
    negative = rounded < 0
    whole, _, fraction = format(abs(rounded), "f").partition(".")
    overflow = len(whole) > before and whole != "0"
    zero_from = next(
        (sum(n in {"9", "0"} for n in names[:i]) for i, n in enumerate(names[:point]) if n == "0"), before
    )
    digits = whole if whole != "0" or before == 0 else ("" if zero_from >= before else "0")
    if whole == "0" and before and after == 0 and zero_from >= before:
        digits = "0"
    padded = digits.rjust(before)
    last_nine = max((i for i, n in enumerate(names) if n == "0" and i > point), default=point)
    out: list[str] = []
    seen = place = fplace = 0
    signed = bool({"S", "MI", "PL", "SG", "PR"} & set(names))
    started = False
    sign_at: int | None = None
    for i, (match, name) in enumerate(zip(words, names, strict=True)):
        if match[1] is not None:
            out.append(match[1].replace("\\", ""))
        elif name in {"9", "0"} and i < point:
            char = padded[place] if not overflow else "#"
            if char == " " and place >= zero_from:
                char = "0"
            if char != " " and not started:
                started, sign_at = True, len(out)
            out.append(char if char != " " or not fill else "")
            place += 1
            seen += 1
        elif name in {"9", "0"}:
            char = "#" if overflow else fraction[fplace]
            if fill and not overflow and i > last_nine and not fraction[fplace:].strip("0"):
                char = ""
            out.append(char)
            fplace += 1
        elif name in {".", "D"}:
            if not started:
                started, sign_at = True, len(out)
            out.append(".")
        elif name in {",", "G"}:
            out.append("," if started else ("" if fill else " "))
        elif name == "MI":
            out.append("-" if negative else ("" if fill else " "))
        elif name == "PL":
            out.append("+" if not negative else ("" if fill else " "))
        elif name == "SG":
            out.append("-" if negative else "+")
        elif name == "S":
            out.append("\0")
        elif name == "TH":
            ending = _ordinal(whole, match[0])[len(whole) :]
            out.append("" if negative or after else ending)
        elif name in {"FM", "PR"}:
            continue
        else:
            out.append(match[0])
    sign_at = len(out) if sign_at is None else sign_at
    mark = "-" if negative else "+"
    if "PR" in names:
        body = "".join(out[sign_at:])
        return "".join(out[:sign_at]) + (f"<{body}>" if negative else (body if fill else f" {body} "))
    if "\0" in out:
        if out[0] == "\0":
            rest = out[1:]
            return "".join([*rest[: sign_at - 1], mark, *rest[sign_at - 1 :]])
        return "".join(out).replace("\0", mark)
    text = "".join(out[:sign_at]) + ("-" if negative and not signed else "") + "".join(out[sign_at:])
    return text if fill or signed or negative else " " + text


for _type in (t.INTEGER, t.BIGINT, t.NUMERIC, t.DOUBLE):
    add("to_char", (_type, t.TEXT), t.TEXT, _number_text)


def _to_number(text: str, form: str) -> Decimal:
    names = [m[0].upper() for m in _NUMBER_WORDS.finditer(form)]
    point = next((i for i, n in enumerate(names) if n in {".", "D"}), len(names))
    after = sum(n in {"9", "0"} for n in names[point:])
    kept = re.sub(r"[^0-9.+\-<]", "", text)
    negative = "-" in kept or "<" in kept
    whole, _, fraction = re.sub(r"[^0-9.]", "", kept).partition(".")
    if not whole and not fraction:
        raise SqlError("22P02", f'invalid input syntax for type numeric: "{text}"')
    number = Decimal(f"{whole or '0'}.{fraction[:after]}" if after else whole or "0")
    return -number if negative else number


add("to_number", (t.TEXT, t.TEXT), t.NUMERIC, _to_number)
