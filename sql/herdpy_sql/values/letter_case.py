"""Upper and lower case of text, one character for one: what both engines call, and every door.

Below expressions and the columnar engine. The meaning is that of PostgreSQL with LC_CTYPE C.UTF-8: each
character has its simple case mapping of Unicode, so a text keeps its length in characters, and no language
has rules of its own: ``upper('ß')`` is ``ß``, and ``lower('Σ')`` is ``σ`` at the end of a word, too. The
tables are Python's; Unicode never changes the mapping of a character that has one.
"""

from __future__ import annotations

import functools

_DOTTED_I = "\u0130"  # the one character whose lower case Python writes with two


@functools.lru_cache(8192)
def _lower(char: str) -> str:
    found = char.lower()
    if len(found) == 1:
        return found
    return "i" if char == _DOTTED_I else char


@functools.lru_cache(8192)
def _upper(char: str) -> str:
    found = char.upper()
    if len(found) > 1:  # such as ᾳ, whose simple upper case is its title case; ß has none
        found = char.title()
    return found if len(found) == 1 else char


def lower(text: str) -> str:
    """The text in lower case."""
    return text.lower() if text.isascii() else "".join(map(_lower, text))


def upper(text: str) -> str:
    """The text in upper case."""
    return text.upper() if text.isascii() else "".join(map(_upper, text))


def initcap(text: str) -> str:
    """The first character of each word in upper case, the others in lower; words are letters and digits."""
    out, inside = [], False
    for char in text:
        out.append(_lower(char) if inside else _upper(char))
        inside = char.isalnum()
    return "".join(out)
