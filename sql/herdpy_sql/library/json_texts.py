"""JSON (not JSONB) documents: texts, whose parts are cut out as they were written.

Below ``json_access`` and ``json_parts``, which register the functions. Texts were checked when they became
JSON, so what is read here is well formed.
"""

from __future__ import annotations

import json
import re
from typing import Any

_BLANKS = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)


def members(text: str) -> list[tuple[str, str]] | None:
    """The members of an object as they come, several under one key, too; None of all else."""
    at = _after_blanks(text, 0)
    if text[at] != "{":
        return None
    found: list[tuple[str, str]] = []
    at = _after_blanks(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _after_blanks(text, _after_blanks(text, at) + 1)
        end = _DECODER.raw_decode(text, start)[1]
        found.append((key, text[start:end]))
        at = _after_blanks(text, end)
        if text[at] == ",":
            at = _after_blanks(text, at + 1)
    return found


def elements(text: str) -> list[str] | None:
    """The elements of an array; None of all else."""
    at = _after_blanks(text, 0)
    if text[at] != "[":
        return None
    found: list[str] = []
    at = _after_blanks(text, at + 1)
    while text[at] != "]":
        end = _DECODER.raw_decode(text, at)[1]
        found.append(text[at:end])
        at = _after_blanks(text, end)
        if text[at] == ",":
            at = _after_blanks(text, at + 1)
    return found


def member(text: str, key: str) -> str | None:
    """The last member under a key; None where there is none."""
    return dict(members(text) or ()).get(key)


def element(text: str, at: int) -> str | None:
    """The element at an index, from the end when it is negative; None where there is none."""
    found = elements(text) or []
    return found[at] if -len(found) <= at < len(found) else None


def at_path(text: str, path: Any) -> str | None:
    """What is under keys and indexes, one in another; None where there is nothing."""
    found: str | None = text
    for step in path:
        if found is None or step is None:
            return None
        try:
            found = element(found, int(step)) if elements(found) is not None else member(found, step)
        except ValueError:
            return None
    return found


def shown(text: str) -> str | None:
    """What ->> gives of a value: a string's characters, NULL of null, else its text."""
    at = _after_blanks(text, 0)
    if text[at] == '"':
        return str(_DECODER.raw_decode(text, at)[0])
    return None if text.strip() == "null" else text


def _after_blanks(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    assert match is not None
    return match.end()
