"""Names as texts have them ('Foo', '"Foo".bar', 'int[]'), read as PostgreSQL's regclass and its like do.

Below ``meant_names``, which says what they mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from herdpy_sql.errors import SqlError
from herdpy_sql.quoting import RESERVED

MAX_NAME = 63
_SPACE = " \t\n\r\f\v"
_TOKEN = re.compile(
    r'\s*(?:(?P<quoted>"(?:[^"]|"")*")|(?P<open>".*)|(?P<word>[A-Za-z_\u0080-\U0010ffff][\w$]*)'
    r"|(?P<number>[0-9]+)|(?P<mark>\S))",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class TypeText:
    """A type's name in pieces.

    Attributes:
        schema: "" for none.
        name: folded; several words with one space between, as "double precision".
        quoted: the name was, so it is no word of SQL's own.
        dimensions: how often ``[]`` follows.
    """

    schema: str
    name: str
    quoted: bool
    dimensions: int


def parts_of(text: str) -> list[str]:
    """The parts of a name with dots between. SqlError 42602."""
    parts: list[str] = []
    rest = text.lstrip(_SPACE)
    while True:
        part, rest = _part(rest)
        parts.append(part)
        rest = rest.lstrip(_SPACE)
        if not rest:
            return parts
        if rest[0] != ".":
            raise _invalid()
        rest = rest[1:].lstrip(_SPACE)


def _part(text: str) -> tuple[str, str]:
    """The first part of a name, and what follows it."""
    if text.startswith('"'):
        found = re.match(r'"((?:[^"]|"")*)"', text)
        if found is None:
            raise _invalid()
        return cut(found[1].replace('""', '"')), text[found.end() :]
    found = re.match(rf"[^.{_SPACE}]+", text)
    if found is None:
        raise _invalid()
    return cut(found[0].lower()), text[found.end() :]


def single_part(text: str) -> str:
    """A name without dots. SqlError 42602."""
    parts = parts_of(text)
    if len(parts) != 1:
        raise _invalid()
    return parts[0]


def cut(name: str) -> str:
    """A name as long as names can be."""
    return name.encode()[:MAX_NAME].decode(errors="ignore")


def _invalid() -> SqlError:
    return SqlError("42602", "invalid name syntax")


def type_text(text: str) -> TypeText:
    """A type's name. SqlError 42601."""
    tokens = list(_tokens(text))
    if not tokens:
        raise SqlError("42601", f'invalid type name "{text}"')
    kind, first = tokens[0]
    if kind not in ("word", "quoted") or (kind == "word" and first.lower() in RESERVED - _TYPE_WORDS):
        raise _misplaced(first)
    names, at = [_folded(kind, first)], 1
    schema, quoted = "", kind == "quoted"
    while at + 1 < len(tokens) and tokens[at][1] == ".":
        kind, word = tokens[at + 1]
        if kind not in ("word", "quoted"):
            raise _misplaced(word)
        schema, quoted = names[0], True
        names, at = [_folded(kind, word)], at + 2
    dimensions = 0
    while at < len(tokens):
        kind, word = tokens[at]
        if kind == "word" and not quoted and not dimensions and word.lower() in _LATER_WORDS:
            names.append(word.lower())
        elif word == "(" and not dimensions:
            at = _closing(tokens, at, ")")
        elif word == "[":
            at = _closing(tokens, at, "]")
            dimensions += 1
        elif kind == "word" and word.lower() == "array":
            dimensions += 1
        else:
            raise _misplaced(word)
        at += 1
    return TypeText(schema, " ".join(names), quoted, dimensions)


_TYPE_WORDS = frozenset(
    {
        "bigint", "bit", "boolean", "char", "character", "dec", "decimal", "float", "int", "integer",
        "interval", "national", "nchar", "numeric", "real", "smallint", "time", "timestamp", "varchar",
    }
)  # fmt: skip
"""Key words that types are called by."""
_LATER_WORDS = frozenset({"precision", "varying", "with", "without", "time", "zone", "character", "char"})
"""Words that go on with a type's name of several words."""


def _tokens(text: str) -> list[tuple[str, str]]:
    found = []
    for match in _TOKEN.finditer(text.rstrip(_SPACE)):
        kind = str(match.lastgroup)
        if kind == "open":
            raise SqlError("42601", f'unterminated quoted identifier at or near "{match[kind]}"')
        found.append((kind, match[kind]))
    return found


def _folded(kind: str, word: str) -> str:
    return cut(word[1:-1].replace('""', '"') if kind == "quoted" else word.lower())


def _closing(tokens: list[tuple[str, str]], at: int, mark: str) -> int:
    """Where the parenthesis closes that opens at ``at``: numbers are within it, or nothing is."""
    at += 1
    while at < len(tokens) and tokens[at][1] != mark:
        if tokens[at][0] != "number" and tokens[at][1] not in ",-":
            raise _misplaced(tokens[at][1])
        at += 1
    if at == len(tokens):
        raise SqlError("42601", "syntax error at end of input")
    return at


def _misplaced(word: str) -> SqlError:
    return SqlError("42601", f'syntax error at or near "{word}"')


def arguments_of(text: str) -> tuple[str, list[str]]:
    """The name of ``name(type, ...)``, and the texts of its types. SqlError 22P02."""
    quoted, opening = False, -1
    for at, letter in enumerate(text):
        if letter == '"':
            quoted = not quoted
        elif letter == "(" and not quoted:
            opening = at
            break
    if opening < 0:
        raise SqlError("22P02", "expected a left parenthesis")
    inner = text[opening + 1 :].rstrip(_SPACE)
    if not inner.endswith(")"):
        raise SqlError("22P02", "expected a right parenthesis")
    inner = inner[:-1]
    if not inner.strip(_SPACE):
        return text[:opening], []
    found, depth, start, quoted = [], 0, 0, False
    for at, letter in enumerate(inner):
        if letter == '"':
            quoted = not quoted
        elif letter in "([" and not quoted:
            depth += 1
        elif letter in ")]" and not quoted:
            depth -= 1
        elif letter == "," and not quoted and not depth:
            found.append(inner[start:at])
            start = at + 1
    found.append(inner[start:])
    if any(not one.strip(_SPACE) for one in found):
        raise SqlError("22P02", "expected a type name")
    return text[:opening], found
