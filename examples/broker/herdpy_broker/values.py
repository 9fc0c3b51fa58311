"""Limits of what comes from outside, and its JSON.

Layer 0 of the broker: submissions, results and settings are checked here before a statement runs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from herdpy_broker.errors import InvalidValueError

T = TypeVar("T")

NAME_MOST = 200
"""Characters of a name: of a type, a group, a slot, a batch, a schedule, a worker."""
JSON_MOST_BYTES = 1 << 20
"""Bytes of a payload or a result, as JSON."""
PART_CHARACTERS = 4 << 20
"""Of JSON in one statement: a character is 12 bytes of a message at most, and a server takes 64 MiB."""
ERROR_MOST = 4000
"""Characters of an error that are kept."""
SECONDS_MOST = 10 * 366 * 86400.0
"""Ten years: the longest delay, dead-line, backoff, lease and period."""
INT_LEAST, INT_MOST = -(2**31), 2**31 - 1

_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def name(what: str, value: str) -> str:
    """``value``, when it is a name of 1 to ``NAME_MOST`` characters that can be stored."""
    if not isinstance(value, str) or not 0 < len(value) <= NAME_MOST:
        raise InvalidValueError(f"{what} is a text of 1 to {NAME_MOST} characters, not {_short(value)}")
    if not _is_storable(value):
        raise InvalidValueError(f"{what} has characters that cannot be stored: {_short(value)}")
    return value


def integer(what: str, value: int, least: int = INT_LEAST, most: int = INT_MOST) -> int:
    """``value``, when it is an integer from ``least`` to ``most``."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidValueError(f"{what} is an integer from {least} to {most}, not {_short(value)}")
    return value


def seconds(what: str, value: float, least: float = 0.0) -> float:
    """``value``, when it is a number of seconds from ``least`` to ten years."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidValueError(f"{what} is a number of seconds, not {_short(value)}")
    if not least <= value <= SECONDS_MOST:
        raise InvalidValueError(f"{what} is from {least} to {SECONDS_MOST} seconds, not {value}")
    return float(value)


def encode(what: str, value: Any) -> str | None:
    """``value`` as JSON text that JSONB takes; None stays None (NULL).

    Raises:
        InvalidValueError: it is no JSON (NaN, a set, a lone surrogate, the character NUL), or too large.
    """
    if value is None:
        return None
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValueError(f"{what} cannot be stored as JSON: {error}") from error
    if size > JSON_MOST_BYTES:
        raise InvalidValueError(f"{what} is at most {JSON_MOST_BYTES} bytes of JSON, not {size}")
    if _NUL.search(text):
        raise InvalidValueError(f"{what} has the character NUL, which cannot be stored")
    return text


def parts(rows: Iterable[T], text: Callable[[T], str | None]) -> Iterator[list[T]]:
    """Rows in their order, as many together as fit in one message to the server.

    Args:
        text: a row's JSON, of at most ``JSON_MOST_BYTES``.
    """
    part: list[T] = []
    characters = 0
    for row in rows:
        own = len(text(row) or "")
        if part and characters + own > PART_CHARACTERS:
            yield part
            part, characters = [], 0
        part.append(row)
        characters += own
    if part:
        yield part


def error_text(value: str) -> str:
    """An error as it is kept: at most ``ERROR_MOST`` characters, without what cannot be stored."""
    text = value.replace("\0", "").encode("utf-8", "replace").decode()
    return text if len(text) <= ERROR_MOST else text[: ERROR_MOST - 4] + " ..."


def _is_storable(text: str) -> bool:
    return "\0" not in text and text.isprintable()


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:76] + " ..."
