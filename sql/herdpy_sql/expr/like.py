"""LIKE and ILIKE: patterns as regular expressions, made once for each pattern and escape."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from herdpy_sql.errors import SqlError
from herdpy_sql.values.letter_case import lower


@functools.lru_cache(maxsize=1024)
def matcher(pattern: str, escape: str, *, insensitive: bool) -> Callable[[str], bool]:
    """Whether a text matches ``pattern``; ``escape`` is one character or empty for none.

    Case is that of ``values.letter_case``. SqlError 22025 for an escape of
    more than one character; 22025 for a pattern that ends with it.
    """
    if len(escape) > 1:
        raise SqlError("22025", "invalid escape string", hint="Escape string must be empty or one character.")
    if insensitive:
        fold = matcher(lower(pattern), lower(escape), insensitive=False)
        return lambda text: fold(lower(text))
    pieces = _pieces(pattern, escape)
    if "_" not in (kind for kind, _ in pieces):
        plain = _plain(pieces)
        if plain is not None:
            return plain
    return _general(pieces)


def _pieces(pattern: str, escape: str) -> list[tuple[str, str]]:
    """The pattern as ("%", ""), ("_", "") and ("text", characters)."""
    pieces: list[tuple[str, str]] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == escape:
            at += 1
            if at == len(pattern):
                raise SqlError("22025", "LIKE pattern must not end with escape character")
            letter, kind = pattern[at], "text"
        else:
            kind = letter if letter in "%_" else "text"
        at += 1
        if kind == "text" and pieces and pieces[-1][0] == "text":
            pieces[-1] = ("text", pieces[-1][1] + letter)
        elif kind != "%" or not pieces or pieces[-1][0] != "%":
            pieces.append((kind, letter if kind == "text" else ""))
    return pieces


def _plain(pieces: list[tuple[str, str]]) -> Callable[[str], bool] | None:
    kinds = [kind for kind, _ in pieces]
    texts = [text for kind, text in pieces if kind == "text"]
    if not kinds:
        return lambda text: not text
    if kinds == ["%"]:
        return lambda text: True
    if len(texts) != 1:
        return None
    wanted = texts[0]
    if kinds == ["text"]:
        return lambda text: text == wanted
    if kinds == ["text", "%"]:
        return lambda text: text.startswith(wanted)
    if kinds == ["%", "text"]:
        return lambda text: text.endswith(wanted)
    return lambda text: wanted in text


def _general(pieces: list[tuple[str, str]]) -> Callable[[str], bool]:
    """Greedy matching between the ``%``: linear in text times pattern, where backtracking is not.

    The atomic group keeps each stretch at its first place, which for LIKE never loses a match except
    in the last stretch, and that one is anchored at the end.
    """
    stretches: list[str] = [""]
    for kind, text in pieces:
        if kind == "%":
            stretches.append("")
        else:
            stretches[-1] += "." if kind == "_" else re.escape(text)
    first, *rest = stretches
    source = first
    if rest:
        source += "".join(f"(?>.*?{middle})" for middle in rest[:-1] if middle) + ".*" + rest[-1]
    compiled = re.compile(source, re.DOTALL)
    return lambda text: compiled.fullmatch(text) is not None
