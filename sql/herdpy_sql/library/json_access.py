"""Operators of JSON and JSONB that look inside by a key, an index or a path, and ask what is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from herdpy.codec.jsonb import read_json
from herdpy_sql.library import json_texts
from herdpy_sql.library.json_values import as_text, written
from herdpy_sql.library.routine import add
from herdpy_sql.types import BOOLEAN, INTEGER, JSON, JSONB, TEXT, Base, array_of

_PATH = array_of(Base.TEXT)
_MISSING = object()


def _step(value: Any, step: str) -> Any:
    """What is under a key or an index that is written as text."""
    if isinstance(value, dict):
        return value.get(step, _MISSING)
    if isinstance(value, list):
        try:
            at = int(step)
        except ValueError:
            return _MISSING
        return value[at] if -len(value) <= at < len(value) else _MISSING
    return _MISSING


def _member(text: str, key: str) -> Any:
    value = read_json(text)
    return value.get(key, _MISSING) if isinstance(value, dict) else _MISSING


def _element(text: str, at: int) -> Any:
    value = read_json(text)
    return value[at] if isinstance(value, list) and -len(value) <= at < len(value) else _MISSING


def _at(text: str, path: Any) -> Any:
    value = read_json(text)
    for step in path:
        if step is None:
            return _MISSING
        value = _step(value, step)
        if value is _MISSING:
            return _MISSING
    return value


def _found(get: Callable[..., Any], show: Callable[[Any], Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        value = get(*args)
        return None if value is _MISSING else show(value)

    return run


def _shown(get: Callable[..., str | None]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        found = get(*args)
        return None if found is None else json_texts.shown(found)

    return run


add("->", (JSONB, INTEGER), JSONB, _found(_element, written))
add("->", (JSONB, TEXT), JSONB, _found(_member, written))
add("->>", (JSONB, INTEGER), TEXT, _found(_element, as_text))
add("->>", (JSONB, TEXT), TEXT, _found(_member, as_text))
add("#>", (JSONB, _PATH), JSONB, _found(_at, written))
add("#>>", (JSONB, _PATH), TEXT, _found(_at, as_text))
add("jsonb_extract_path", (JSONB,), JSONB, _found(lambda t, *p: _at(t, p), written), rest=TEXT)
add("jsonb_extract_path_text", (JSONB,), TEXT, _found(lambda t, *p: _at(t, p), as_text), rest=TEXT)
# A part of JSON is as it was written.
add("->", (JSON, INTEGER), JSON, json_texts.element)
add("->", (JSON, TEXT), JSON, json_texts.member)
add("->>", (JSON, INTEGER), TEXT, _shown(json_texts.element))
add("->>", (JSON, TEXT), TEXT, _shown(json_texts.member))
add("#>", (JSON, _PATH), JSON, json_texts.at_path)
add("#>>", (JSON, _PATH), TEXT, _shown(json_texts.at_path))
add("json_extract_path", (JSON,), JSON, lambda t, *p: json_texts.at_path(t, p), rest=TEXT)
add("json_extract_path_text", (JSON,), TEXT, _shown(lambda t, *p: json_texts.at_path(t, p)), rest=TEXT)
add("subscript", (JSONB, INTEGER), JSONB, _found(_element, written))
add("subscript", (JSONB, TEXT), JSONB, _found(lambda t, k: _step(read_json(t), k), written))


# Containment, keys.


def _contains(whole: Any, part: Any, *, top: bool = True) -> bool:
    if isinstance(whole, dict) and isinstance(part, dict):
        return all(key in whole and _contains(whole[key], one, top=False) for key, one in part.items())
    if isinstance(whole, list):
        if isinstance(part, list):
            return all(any(_contains(one, wanted, top=False) for one in whole) for wanted in part)
        return top and not isinstance(part, dict) and any(_same(one, part) for one in whole)
    return not isinstance(part, list | dict) and _same(whole, part)


def _same(one: Any, other: Any) -> bool:
    return (
        isinstance(one, bool) == isinstance(other, bool) and type(one) is type(other) and bool(one == other)
    )


def _has(text: str, key: str) -> bool:
    value = read_json(text)
    return key in value if isinstance(value, dict | list) else value == key


add("@>", (JSONB, JSONB), BOOLEAN, lambda a, b: _contains(read_json(a), read_json(b)))
add("<@", (JSONB, JSONB), BOOLEAN, lambda a, b: _contains(read_json(b), read_json(a)))
add("?", (JSONB, TEXT), BOOLEAN, _has)
add("?|", (JSONB, _PATH), BOOLEAN, lambda t, keys: any(k is not None and _has(t, k) for k in keys))
add("?&", (JSONB, _PATH), BOOLEAN, lambda t, keys: all(k is None or _has(t, k) for k in keys))
