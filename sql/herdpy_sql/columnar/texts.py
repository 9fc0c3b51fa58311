"""Text functions that DuckDB has not, or has with another meaning, one value at a time."""

from __future__ import annotations

from typing import Any

from herdpy.codec.kinds import Interval
from herdpy_sql.errors import SqlError
from herdpy_sql.values.intervals import interval_text


def translate(text: str, source: str, target: str) -> str:
    """Characters of ``source`` become those of ``target``, or vanish where it is shorter."""
    table: dict[int, int | None] = {}
    for i, char in enumerate(source):
        table.setdefault(ord(char), ord(target[i]) if i < len(target) else None)
    return text.translate(table)


def split_part(text: str, separator: str, place: int) -> str:
    """The field at ``place``, from the end when negative; SqlError 22023 for zero."""
    if place == 0:
        raise SqlError("22023", "field position must not be zero")
    parts = text.split(separator) if separator else [text]
    at = place - 1 if place > 0 else len(parts) + place
    return parts[at] if 0 <= at < len(parts) and text else ""


def interval(value: Any) -> str:
    """An interval in PostgreSQL's style, from (months, days, nanoseconds)."""
    months, days, nanos = value
    return interval_text(Interval(int(months), int(days), int(nanos) // 1000))


def similar(pattern: str) -> str:
    """A SIMILAR TO pattern as a regular expression."""
    out, at, bracket = [], 0, False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            at += 1
            out.append("\\" + pattern[at] if not pattern[at].isalnum() else pattern[at])
        elif bracket:
            bracket = char != "]"
            out.append(char)
        elif char == "[":
            bracket = True
            out.append(char)
        elif char in "%_":
            out.append(".*" if char == "%" else ".")
        elif char in ".^$":
            out.append("\\" + char)
        elif char == "(":
            out.append("(?:")
        else:
            out.append(char)
        at += 1
    return "^(?:" + "".join(out) + ")$"


def replacement(text: str) -> str:
    """A replacement of regexp_replace as DuckDB reads it: the whole match is \\0 rather than \\&."""
    out, at = [], 0
    while at < len(text):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            at += 1
            following = text[at]
            if following == "&":
                out.append("\\0")
            elif following.isdigit() or following == "\\":
                out.append("\\" + following)
            else:
                out.append("\\\\" + following)
        else:
            out.append("\\\\" if char == "\\" else char)
        at += 1
    return "".join(out)


def unicode_string(text: str, escape: str = "\\") -> str:
    """U&'...' decoded; SqlError 22023 or 42601."""
    out, at = [], 0
    while at < len(text):
        if text[at] != escape:
            out.append(text[at])
            at += 1
            continue
        if text[at + 1 : at + 2] == escape:
            out.append(escape)
            at += 2
            continue
        start, width = (at + 2, 6) if text[at + 1 : at + 2] == "+" else (at + 1, 4)
        try:
            out.append(chr(int(text[start : start + width], 16)))
        except (ValueError, OverflowError):
            raise SqlError("42601", "invalid Unicode escape") from None
        at = start + width
    return "".join(out)
