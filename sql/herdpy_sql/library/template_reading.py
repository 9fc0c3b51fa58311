"""to_date and to_timestamp: texts read by the templates that ``templates`` shows times with."""

from __future__ import annotations

import re

from herdpy_sql import types as t
from herdpy_sql.errors import SqlError
from herdpy_sql.expr import zones
from herdpy_sql.library.routine import add
from herdpy_sql.library.templates import DAYS, MONTHS, parts_of
from herdpy_sql.storage import Clock
from herdpy_sql.values.moments import (
    DAY_US,
    check_date,
    check_timestamp,
    days_from_civil,
    days_in_month,
)

_WIDTHS = {
    "YYYY": 4, "IYYY": 4, "YYY": 3, "YY": 2, "Y": 1, "MM": 2, "DD": 2, "DDD": 3, "HH": 2, "HH12": 2,
    "HH24": 2, "MI": 2, "SS": 2, "MS": 3, "US": 6, "J": 7, "SSSS": 5, "SSSSS": 5, "D": 1, "ID": 1, "WW": 2,
    "IW": 2, "W": 1, "Q": 1, "CC": 2, "FF1": 1, "FF2": 2, "FF3": 3, "FF4": 4, "FF5": 5, "FF6": 6, "TZH": 2,
    "TZM": 2,
}  # fmt: skip
_NAMES = {
    "MONTH": MONTHS,
    "MON": [one[:3] for one in MONTHS],
    "DAY": DAYS,
    "DY": [one[:3] for one in DAYS],
}


def _read(text: str, form: str) -> dict[str, int]:
    """The numbers that a template finds in a text. SqlError 22007."""
    parts = parts_of(form)
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
