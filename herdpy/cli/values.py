"""One value of a result -> text, and -> JSON: PostgreSQL's forms, so that other tools read them.

Text is what CSV and the tables on the screen show; JSON is what PostgreSQL's ``row_to_json`` gives:
numbers exactly, everything without a JSON form as its text. Both are also what ``herdpy import``
reads back.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

ToText = Callable[[Any], str]


class JsonText(str):
    """The text of a JSON value, which stands in JSON as it is."""

    __slots__ = ()


def to_text(value: object) -> str:
    """Return a value that is not None as PostgreSQL's text (booleans spelled out)."""
    return _TEXT.get(type(value), _other_text)(value)


def to_json(value: object) -> str:
    """Return a value, None too, as JSON text on one line."""
    return _JSON.get(type(value), _other_json)(value)


def json_object(names: Sequence[str], values: Sequence[object]) -> str:
    """Return ``{"name": value, ...}``; ``names`` are JSON strings already (see :func:`json_names`)."""
    pairs = [f"{name}{to_json(value)}" for name, value in zip(names, values, strict=True)]
    return "{" + ", ".join(pairs) + "}"


def json_names(names: Sequence[str]) -> list[str]:
    """Return the keys of :func:`json_object`: quoted, with their colon."""
    return [f"{json.dumps(name, ensure_ascii=False)}: " for name in names]


def shortest_real(value: float) -> str:
    """Return the fewest digits that read back as the same 32-bit float."""
    if not math.isfinite(value):
        return _float_text(value)
    for digits in range(6, 9):
        text = f"{value:.{digits}g}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == value:
            return text
    return f"{value:.9g}"


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value).removesuffix(".0")


def _float_json(value: float) -> str:
    return repr(value) if math.isfinite(value) else f'"{_float_text(value)}"'


def _decimal_json(value: Decimal) -> str:
    return format(value, "f") if value.is_finite() else f'"{value}"'


def _timestamp_text(value: datetime) -> str:
    text = value.isoformat(sep=" ")
    return text.removesuffix(":00") if value.tzinfo is not None else text


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _string_json(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _bytes_text(value: bytes) -> str:
    return "\\x" + bytes(value).hex()


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=to_text)


def _other_text(value: object) -> str:
    if isinstance(value, datetime):
        return _timestamp_text(value)
    if isinstance(value, (dict, list, tuple)):
        return _compact(value)
    return str(value)


def _other_json(value: object) -> str:
    if isinstance(value, (dict, list, tuple)):
        return _compact(value)
    return _string_json(to_text(value))


_TEXT: dict[type, ToText] = {
    str: str,
    JsonText: str,
    int: str,
    bool: _bool_text,
    float: _float_text,
    Decimal: lambda value: format(value, "f"),
    bytes: _bytes_text,
    bytearray: _bytes_text,
    memoryview: _bytes_text,
    datetime: _timestamp_text,
    date: date.isoformat,
    time: time.isoformat,
}
_JSON: dict[type, ToText] = {
    type(None): lambda value: "null",
    str: _string_json,
    JsonText: str,
    int: str,
    bool: _bool_text,
    float: _float_json,
    Decimal: _decimal_json,
}
