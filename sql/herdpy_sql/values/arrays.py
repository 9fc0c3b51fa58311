"""Arrays as values: PostgreSQL's text form to and from elements.

A datum of an array is a tuple of datums, NULLs among them; arrays have one dimension here. Format:
PostgreSQL 15 manual, 8.15.6 "Array Input and Output Syntax".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from herdpy_sql.errors import SqlError

_SPACE = " \t\n\r\v\f"
_PLAIN = re.compile(r'[^{}",\\\s]+\Z')
_BOUNDS = re.compile(r"\s*\[")


def split_array(text: str) -> list[str | None]:
    """The texts of an array's elements, None for NULL.

    SqlError 22P02 for what is no array, 0A000 for one of several dimensions or with bounds.
    """
    if _BOUNDS.match(text):
        raise SqlError("0A000", "arrays with bounds are not supported")
    body = text.strip(_SPACE)
    if body[:1] != "{":
        raise _malformed(text, 'Array value must start with "{" or dimension information.')
    if body[1:].strip(_SPACE) == "}":
        return []
    found: list[str | None] = []
    at = 1
    while True:
        value, at = _element(text, body, at)
        found.append(value)
        if at >= len(body):
            raise _malformed(text, "Unexpected end of input.")
        end = body[at]
        at += 1
        if end == "}":
            break
    if at != len(body):
        raise _malformed(text, "Junk after closing right brace.")
    return found


def _element(text: str, body: str, at: int) -> tuple[str | None, int]:
    """One element from ``at`` on, and where its comma or brace is."""
    while at < len(body) and body[at] in _SPACE:
        at += 1
    if body[at : at + 1] == "{":
        raise SqlError("0A000", "arrays of several dimensions are not supported")
    quoted = body[at : at + 1] == '"'
    parts: list[str] = []
    if quoted:
        at += 1
        while body[at : at + 1] != '"':
            if body[at : at + 1] == "\\":
                at += 1
            if at >= len(body):
                raise _malformed(text, "Unexpected end of input.")
            parts.append(body[at])
            at += 1
        at += 1
        while at < len(body) and body[at] in _SPACE:
            at += 1
        if at < len(body) and body[at] not in ",}":
            raise _malformed(text, "Unexpected array element.")
        return "".join(parts), at
    escaped = False
    while at < len(body) and body[at] not in ",}":
        if body[at] in '{"':
            raise _malformed(text, f'Unexpected "{body[at]}" character.')
        if body[at] == "\\":
            escaped = True
            at += 1
            if at >= len(body):
                break
        parts.append(body[at])
        at += 1
    value = "".join(parts) if escaped else "".join(parts).rstrip(_SPACE)
    if not value:
        raise _malformed(text, f'Unexpected "{body[at : at + 1]}" character.')
    return (None if value.upper() == "NULL" and not escaped else value), at


def _malformed(text: str, detail: str) -> SqlError:
    return SqlError("22P02", f'malformed array literal: "{text}"', detail=detail)


def join_array(elements: Iterable[str | None]) -> str:
    """The text of an array, of the texts of its elements."""
    return "{" + ",".join("NULL" if one is None else _shown(one) for one in elements) + "}"


def _shown(text: str) -> str:
    if _PLAIN.match(text) and text.upper() != "NULL":
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def parse_array(text: str, parse: Callable[[str], Any]) -> tuple[Any, ...]:
    """The datum of an array's text; ``parse`` reads an element. SqlError of ``split_array`` and ``parse``."""
    return tuple([None if one is None else parse(one) for one in split_array(text)])
