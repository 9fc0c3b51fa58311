"""A statement's words: what is code in a text, without comments, and with quoted text as one piece."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from herdpy.dbapi import scanner

_CODE = re.compile(
    r"(?P<word>[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_$\u0080-\U0010ffff]*)"
    r"|(?P<number>[0-9][0-9A-Za-z_.]*)|(?P<mark>\S)"
)


_HEAD = 1024
"""Characters in which the first words are, mostly; texts of statements may be long."""


class Token(NamedTuple):
    """One piece of code.

    Attributes:
        word: in capitals; "" for what is none, such as a quoted name.
        name: as PostgreSQL folds it: of a word or of a quoted name; "" for neither.
        text: as it is written; of a quoted string, what it says.
        start, end: where it is.
    """

    word: str
    name: str
    text: str
    start: int
    end: int

    @property
    def is_mark(self) -> bool:
        """Whether it is punctuation, an operator's letter or a number."""
        return not (self.word or self.name or self.is_string)

    @property
    def is_string(self) -> bool:
        """Whether it is a quoted string."""
        return self.end - self.start != len(self.text)


@functools.lru_cache(16)
def tokens_of(sql: str) -> tuple[Token, ...]:
    """The tokens of a text, in order."""
    return tuple(_tokens(sql))


def first_tokens(sql: str, count: int) -> tuple[Token, ...]:
    """The first tokens, without parentheses that come before them: what follows is not looked at."""
    found = _first(sql[:_HEAD], count)
    if len(sql) > _HEAD and (len(found) < count or found[-1].end == _HEAD):
        found = _first(sql, count)
    return found


def _first(sql: str, count: int) -> tuple[Token, ...]:
    return tuple(itertools.islice(itertools.dropwhile(lambda token: token.text == "(", _tokens(sql)), count))


def statements_of(text: str) -> list[tuple[Token, ...]]:
    """The tokens of each statement of a text, without the ``;`` between them; none of empty ones."""
    found: list[list[Token]] = [[]]
    for token in tokens_of(text):
        if token.is_mark and token.text == ";":
            found.append([])
        else:
            found[-1].append(token)
    return [tuple(one) for one in found if one]


def without_end(sql: str) -> str:
    """A statement without the ``;`` that ends it, and comments after that."""
    tokens = tokens_of(sql)
    end = len(tokens)
    while end and tokens[end - 1].is_mark and tokens[end - 1].text == ";":
        end -= 1
    return sql if end == len(tokens) else sql[: tokens[end].start]


def starts(tokens: Sequence[Token], *words: str) -> bool:
    """Whether these words come first."""
    return tuple(token.word for token in tokens[: len(words)]) == words


def calls(tokens: Sequence[Token], names: frozenset[str]) -> bool:
    """Whether a function of one of these names is called, with or without a schema, quoted or not."""
    return any(
        token.name in names and after.is_mark and after.text == "("
        for token, after in itertools.pairwise(tokens)
    )


def _tokens(sql: str) -> Iterator[Token]:
    position = 0
    for kind, start, end, _match in scanner.tokens(sql, placeholders=False):
        if kind not in (scanner.TEXT, scanner.COMMENT):
            continue
        yield from _code(sql, position, start)
        if kind == scanner.TEXT:
            yield _quoted(sql, start, end)
        position = end
    yield from _code(sql, position, len(sql))


def _code(sql: str, start: int, end: int) -> Iterator[Token]:
    for match in _CODE.finditer(sql, start, end):
        text = match.group()
        if match.lastgroup == "word":
            yield Token(text.upper(), text.lower(), text, *match.span())
        else:
            yield Token("", "", text, *match.span())


def _quoted(sql: str, start: int, end: int) -> Token:
    text = sql[start:end]
    if text[0] == '"':
        return Token("", text[1:-1].replace('""', '"'), text, start, end)
    if text[0] == "$":
        tag = text.index("$", 1) + 1
        return Token("", "", text[tag : max(tag, len(text) - tag)], start, end)
    opening = text.index("'") + 1
    return Token("", "", text[opening:-1].replace("''", "'"), start, end)
