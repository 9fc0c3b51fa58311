"""Codec layer: the one text that a JSONB value has, as PostgreSQL writes it.

Members are in the order of their keys (shorter first, then by bytes), the last of several with one key is
kept, numbers have no exponent, and nothing but a blank after each comma and colon is between them.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

_MAX_DIGITS = 131_072


class JsonError(ValueError):
    """Not JSON, or nothing that JSONB holds; ``kind`` is "syntax", "nul", "range" or "depth"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not a JSON number")


_DECODER = json.JSONDecoder(parse_int=Decimal, parse_float=Decimal, parse_constant=_refuse_constant)


def read_json(text: str) -> Any:
    """The value of a JSON text: dict, list, str, Decimal, bool or None. JsonError."""
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise JsonError("depth", "The JSON is nested too deeply.") from None
    except (ValueError, ArithmeticError) as error:
        raise JsonError("syntax", f"The input is not JSON: {error}.") from None


def canonical_jsonb(text: str) -> str:
    """The text of the JSONB value that a JSON text stands for. JsonError."""
    return jsonb_text(read_json(text))


def jsonb_text(value: Any) -> str:
    """The text of a value as ``read_json`` gives it. JsonError "range", "nul", "syntax" or "depth"."""
    parts: list[str] = []
    try:
        _write(value, parts.append)
    except RecursionError:
        raise JsonError("depth", "The JSON is nested too deeply.") from None
    return "".join(parts)


def _write(value: Any, put: Any) -> None:
    match value:
        case None:
            put("null")
        case bool():
            put("true" if value else "false")
        case str():
            put(quoted(value))
        case int():
            put(str(value))
        case Decimal():
            put(_number(value))
        case dict():
            separator = "{"
            for key in sorted(value, key=_key_order):
                put(separator)
                put(quoted(key))
                put(": ")
                _write(value[key], put)
                separator = ", "
            put("}" if value else "{}")
        case _:
            separator = "["
            for one in value:
                put(separator)
                _write(one, put)
                separator = ", "
            put("]" if value else "[]")


def _key_order(key: str) -> tuple[int, bytes]:
    content = key.encode("utf-8", "surrogatepass")
    return len(content), content


def quoted(text: str) -> str:
    """A string as JSON; JsonError for what no TEXT can hold."""
    if "\0" in text:
        raise JsonError("nul", "\\u0000 cannot be converted to text.")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise JsonError("syntax", "Unicode low surrogate must follow a high surrogate.") from None
    return json.dumps(text, ensure_ascii=False)


def _number(value: Decimal) -> str:
    if not value.is_finite():
        raise JsonError("syntax", f"{value} is not a JSON number.")
    if abs(value.adjusted()) > _MAX_DIGITS:
        raise JsonError("range", "value overflows numeric format")
    return format(value if value else value.copy_abs(), "f")
