"""Templates of times: the fields that to_char, to_date and to_timestamp share, as PostgreSQL 15 cuts them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

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
