"""The fields of a text that is a date, a time or an interval: what it is cut into before it means anything.

``fields_of`` cuts as PostgreSQL 15 does (ParseDateTime); ``moment_input`` and ``interval_input`` say what the
pieces mean. Below both, with the errors that all of them raise: a :class:`Wrong` says what is wrong with
a text, and becomes a SqlError where it is known of which type.
"""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from herdpy_sql.errors import SqlError

MAX_FIELDS = 25
_BLANKS = " \t\n\r\f\v"
_LONGEST = 128
"""Bytes of a text that PostgreSQL's functions have room for."""


class FieldKind(enum.Enum):
    """What a field looks like."""

    NUMBER = enum.auto()
    DATE = enum.auto()
    TIME = enum.auto()
    SIGNED = enum.auto()
    WORD = enum.auto()
    SIGNED_WORD = enum.auto()


class TextField(NamedTuple):
    """A piece of a text, in lower case."""

    kind: FieldKind
    text: str


class TextFault(enum.Enum):
    """What can be wrong with a text."""

    FORM = "form"
    RANGE = "range"
    ORDER = "order"
    INTERVAL = "interval"
    ZONE = "zone"


class Wrong(Exception):  # noqa: N818 - raised and caught within the readers
    """A text is not what it should be."""

    def __init__(self, fault: TextFault = TextFault.FORM) -> None:
        super().__init__(fault.value)
        self.fault = fault


def error_of(fault: TextFault, text: str, name: str) -> SqlError:
    """The error for a text that should be a value of the type with that name."""
    if fault is TextFault.FORM:
        return SqlError("22007", f'invalid input syntax for type {name}: "{text}"')
    if fault is TextFault.INTERVAL:
        return SqlError("22015", f'interval field value out of range: "{text}"')
    if fault is TextFault.ZONE:
        return SqlError("22009", f'time zone displacement out of range: "{text}"')
    hint = 'Perhaps you need a different "datestyle" setting.' if fault is TextFault.ORDER else None
    return SqlError("22008", f'date/time field value out of range: "{text}"', hint=hint)


_CLOCK = re.compile(r"\d+:[\d:.]*", re.ASCII)
_NUMBER = re.compile(r"\d+", re.ASCII)
_FRACTION = re.compile(r"\.[\d.]*", re.ASCII)
_LETTERS = re.compile(r"[a-z]+", re.ASCII)
_MORE = re.compile(r"[-+/_.:a-z0-9]*", re.ASCII)
_DIGITS_OF_ZONE = re.compile(r"[0-9:.\-]+", re.ASCII)
_PUNCTUATION = frozenset("!\"#$%&'()*,-./:;<=>?@[\\]^_`{|}~")


def fields_of(text: str, words: frozenset[str]) -> list[TextField]:
    """Cut a text into fields. Wrong: it has what no field begins with.

    Args:
        words: those that a digit or a plus may follow without being part of them.
    """
    text = text.lower() if text.isascii() else "".join(c.lower() if c.isascii() else c for c in text)
    if len(text.encode()) > _LONGEST:
        raise Wrong
    found: list[TextField] = []
    at, end = 0, len(text)
    while at < end:
        char = text[at]
        if char in _BLANKS:
            at += 1
            continue
        if "0" <= char <= "9":
            kind, after = _at_digit(text, at)
        elif char == ".":
            match = _FRACTION.match(text, at)
            assert match is not None
            kind, after = FieldKind.NUMBER, match.end()
        elif "a" <= char <= "z":
            kind, after = _at_letter(text, at, words)
        elif char in "+-":
            at, piece = _at_sign(text, at)
            found.append(piece)
            continue
        elif char in _PUNCTUATION:
            at += 1
            continue
        else:
            raise Wrong
        found.append(TextField(kind, text[at:after]))
        at = after
    if len(found) > MAX_FIELDS:
        raise Wrong
    return found


def _at_digit(text: str, at: int) -> tuple[FieldKind, int]:
    """A time, a date with separators, or a number; and where it ends."""
    clock = _CLOCK.match(text, at)
    if clock is not None:
        return FieldKind.TIME, clock.end()
    number = _NUMBER.match(text, at)
    assert number is not None
    after = number.end()
    separator = text[after : after + 1]
    if separator not in {"-", "/", "."}:
        return FieldKind.NUMBER, after
    second = _NUMBER.match(text, after + 1)
    if second is None:
        rest = re.compile(rf"[a-z0-9{re.escape(separator)}]*", re.ASCII).match(text, after + 1)
        assert rest is not None
        return FieldKind.DATE, rest.end()
    after = second.end()
    if text[after : after + 1] == separator:
        rest = re.compile(rf"[0-9{re.escape(separator)}]*", re.ASCII).match(text, after)
        assert rest is not None
        return FieldKind.DATE, rest.end()
    return (FieldKind.NUMBER if separator == "." else FieldKind.DATE), after


def _at_letter(text: str, at: int, words: frozenset[str]) -> tuple[FieldKind, int]:
    """A word, or a date or zone that begins with one; and where it ends."""
    letters = _LETTERS.match(text, at)
    assert letters is not None
    after = letters.end()
    following = text[after : after + 1]
    goes_on = following in {"-", "/", "."} and following != ""
    if not goes_on and following and (following == "+" or following in "0123456789"):
        goes_on = letters[0][:10] not in words
    if not goes_on:
        return FieldKind.WORD, after
    more = _MORE.match(text, after)
    assert more is not None
    return FieldKind.DATE, more.end()


def _at_sign(text: str, at: int) -> tuple[int, TextField]:
    """A number or a word with its sign, which blanks may follow."""
    sign, at = text[at], at + 1
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    number = _DIGITS_OF_ZONE.match(text, at) if text[at : at + 1].isdigit() else None
    if number is not None:
        return number.end(), TextField(FieldKind.SIGNED, sign + number[0])
    word = _LETTERS.match(text, at)
    if word is None:
        raise Wrong
    return word.end(), TextField(FieldKind.SIGNED_WORD, sign + word[0])


_WHOLE = re.compile(r"[ \t\n\r\f\v]*([+-]?\d+)", re.ASCII)
_INT32 = 2**31


def whole_at(text: str, at: int = 0, limit: int = _INT32) -> tuple[int, int]:
    """The whole number that begins there, 0 where none does, and where it ends. Wrong: it is too large."""
    match = _WHOLE.match(text, at)
    if match is None:
        return 0, at
    value = int(match[1]) if len(match[1]) < 40 else limit
    if not -limit <= value < limit:
        raise Wrong(TextFault.RANGE)
    return value, match.end()


_FRACTION_ONLY = re.compile(r"\.\d*", re.ASCII)


def fraction_us(text: str) -> int:
    """The microseconds of ``.5``, as a double rounded. Wrong: it is no fraction."""
    if _FRACTION_ONLY.fullmatch(text) is None:
        raise Wrong
    return 0 if text == "." else round(float(text) * 1_000_000)
