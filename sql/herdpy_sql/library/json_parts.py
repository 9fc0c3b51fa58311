"""Functions that take JSON and JSONB apart: kinds, lengths, elements and members as rows, indented text."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from herdpy.codec.jsonb import quoted, read_json
from herdpy_sql.errors import SqlError
from herdpy_sql.library import json_texts
from herdpy_sql.library.json_values import as_text, written
from herdpy_sql.library.routine import add, routine
from herdpy_sql.types import INTEGER, JSON, JSONB, TEXT

_KINDS = {
    bool: "boolean",
    Decimal: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def _typeof(text: str) -> str:
    return _KINDS[type(read_json(text))]


def _length(text: str) -> int:
    value = read_json(text)
    if isinstance(value, dict):
        raise SqlError("22023", "cannot get array length of a non-array")
    if not isinstance(value, list):
        raise SqlError("22023", "cannot get array length of a scalar")
    return len(value)


def _elements(word: str, show: Callable[[Any], Any]) -> Callable[[str], Any]:
    def elements(text: str) -> Any:
        written_so = json_texts.elements(text) if word == "json" else None
        if written_so is not None:
            return tuple([show(one) for one in written_so])
        value = read_json(text)
        if not isinstance(value, list):
            kind = "an object" if isinstance(value, dict) else "a scalar"
            raise SqlError("22023", f"cannot extract elements from {kind}")
        return tuple([show(one) for one in value])

    return elements


def _members(what: str, show: Callable[[Any], Any]) -> Callable[[str], Any]:
    def members(text: str) -> Any:
        written_so = None if what.startswith("jsonb") else json_texts.members(text)
        if written_so is not None:
            return tuple([(key, show(one)) for key, one in written_so])
        value = read_json(text)
        if not isinstance(value, dict):
            raise SqlError("22023", f"cannot call {what} on a non-object")
        return tuple([(key, show(one)) for key, one in value.items()])

    return members


def _keys(word: str) -> Callable[[str], Any]:
    def keys(text: str) -> Any:
        value = read_json(text)
        if not isinstance(value, dict):
            kind = "an array" if isinstance(value, list) else "a scalar"
            raise SqlError("22023", f"cannot call {word}_object_keys on {kind}")
        return tuple([key for key, _ in json_texts.members(text) or ()]) if word == "json" else tuple(value)

    return keys


for _type in (JSONB, JSON):
    _word = "jsonb" if _type is JSONB else "json"
    _whole: Callable[[Any], Any] = written if _type is JSONB else str
    _text: Callable[[Any], Any] = as_text if _type is JSONB else json_texts.shown
    add(f"{_word}_typeof", (_type,), TEXT, _typeof)
    add(f"{_word}_array_length", (_type,), INTEGER, _length)
    add(f"{_word}_array_elements", (_type,), _type, _elements(_word, _whole), setof=True)
    add(f"{_word}_array_elements_text", (_type,), TEXT, _elements(_word, _text), setof=True)
    add(f"{_word}_object_keys", (_type,), TEXT, _keys(_word), setof=True)
    for _ending, _show, _result in (("", _whole, _type), ("_text", _text, TEXT)):
        _full = f"{_word}_each{_ending}"
        add(
            _full,
            (_type,),
            TEXT,
            _members(_full, _show),
            setof=True,
            columns=(("key", TEXT), ("value", _result)),
        )


@routine("jsonb_pretty", (JSONB,), TEXT)
def _pretty(text: str) -> str:
    return "".join(_indented(read_json(text), 0))


def _indented(value: Any, depth: int) -> list[str]:
    inner, outer = "\n" + "    " * (depth + 1), "\n" + "    " * depth
    if isinstance(value, dict | list):
        opened, closed = "{}" if isinstance(value, dict) else "[]"
        out: list[str] = [opened]
        items: Any = value.items() if isinstance(value, dict) else [(None, one) for one in value]
        for i, (key, one) in enumerate(items):
            out += ["," if i else "", inner, "" if key is None else f"{quoted(key)}: "]
            out += _indented(one, depth + 1)
        return [*out, outer, closed]
    return [written(value)]
