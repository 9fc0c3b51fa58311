"""Placeholders as psycopg's users write them, made into PostgreSQL's ``$1``.

``%s`` takes the next of a sequence, ``%(name)s`` that name of a mapping, ``%%`` is a per cent sign; ``%b``
and ``%t`` mean what ``%s`` does. A text without any of these may use ``$1`` itself. In quotes and comments,
which ``tokens`` finds, nothing is a placeholder; ``%%`` there is one sign too, as in psycopg. Texts are
translated once.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence

from herdpy.dbapi.errors import DataError, ProgrammingError

_WORD = r"[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_$\u0080-\U0010ffff]*"
_TAG = r"(?:[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_\u0080-\U0010ffff]*)?"

# Words come before quotes so that in date'...' only a lone E makes an escape string. Of the code
# only what the driver looks for is a token; the rest is skipped by search().
_CODE = rf"""
      (?P<text>
          [eE]'(?:[^'\\]|\\.|'')*(?:'|\\?\Z)    # escape string
        | '(?:[^']|'')*(?:'|\Z)                 # string
        | "(?:[^"]|"")*(?:"|\Z)                 # quoted identifier
        | \$(?P<tag>{_TAG})\$.*?(?:\$(?P=tag)\$|\Z)
      )
    | (?P<comment> --[^\n]* )
    | (?P<block> /\* )
    | (?P<word> {_WORD} )
    | (?P<dollar> \$[0-9]+ )
    | (?P<number> [0-9]+ )
"""
_PLACEHOLDERS = r"| (?P<percent> %(?: \((?P<name>[^)]*)\)(?P<kind>.?) | . | \Z ) )"
_FLAGS = re.VERBOSE | re.DOTALL
_TOKENS = re.compile(_CODE + _PLACEHOLDERS, _FLAGS)
_TRANSLATED = re.compile(_CODE, _FLAGS)
_BLOCK_EDGE = re.compile(r"/\*|\*/")

Match = re.Match[str]

TEXT, COMMENT, DOLLAR, PERCENT = "text", "comment", "dollar", "percent"


def tokens(text: str, *, placeholders: bool = True) -> Iterator[tuple[str, int, int, Match]]:
    """Kind, start, end and match of each piece that is quoted, comment, ``$n`` or ``%``.

    Args:
        placeholders: whether a ``%`` may begin one; where they were translated, it is an operator.
    """
    pattern = _TOKENS if placeholders else _TRANSLATED
    position = 0
    while match := pattern.search(text, position):
        kind = match.lastgroup or ""  # the outermost group, since it closes last
        start, position = match.span()
        if kind in ("word", "number"):
            continue
        if kind == "block":
            kind, position = COMMENT, _end_of_block(text, position)
        yield kind, start, position, match


def _end_of_block(text: str, position: int) -> int:
    depth = 1  # they nest
    while depth:
        edge = _BLOCK_EDGE.search(text, position)
        if edge is None:
            return len(text)
        depth += 1 if edge.group() == "/*" else -1
        position = edge.end()
    return position


REMEMBERED = 2048
"""How many translations are kept, the least recently used forgotten first."""

LONGEST_REMEMBERED = 16384
"""Characters: longer texts are translated each time, so that they do not fill the memory."""

MOST = 65535
"""Parameters of one statement, PostgreSQL's limit."""

Parameters = Sequence[object] | Mapping[str, object]


class Translation:
    """A text with ``$1`` placeholders, and where its parameters come from.

    Attributes:
        sql: the text for the engine.
        count: how many parameters it takes.
        names: the name of each, when they come from a mapping.
    """

    __slots__ = ("_edits", "_quoted", "count", "names", "sql")

    def __init__(
        self,
        sql: str,
        count: int,
        names: tuple[str, ...] | None = None,
        edits: tuple[tuple[int, int], ...] = (),
        quoted: bool = False,
    ) -> None:
        self.sql = sql
        self.count = count
        self.names = names
        self._edits = edits
        self._quoted = quoted

    def bind(self, params: Parameters) -> Sequence[object]:
        """The parameters in order. ProgrammingError when they do not fit the placeholders."""
        kind = type(params)
        if kind is tuple or kind is list:
            if self.names is None and len(params) == self.count:
                return params  # type: ignore[return-value]
        elif isinstance(params, Mapping):
            return self._bind_names(params)
        elif isinstance(params, str | bytes | bytearray | memoryview) or not isinstance(params, Sequence):
            raise ProgrammingError(
                f"parameters are a sequence or a mapping, not {kind.__name__}",
                hint="A single parameter is written (value,).",
            )
        if self.names is not None:
            raise ProgrammingError(f"named placeholders take a mapping of parameters, not {kind.__name__}")
        if len(params) != self.count:
            raise ProgrammingError(
                f"the statement has {_plural(self.count, 'placeholder')}"
                f" but {_plural(len(params), 'parameter')} came with it",
                sqlstate="08P01",
                hint="A placeholder in quotes or in a comment is text." if self._quoted else None,
            )
        return tuple(params)

    def _bind_names(self, params: Mapping[str, object]) -> Sequence[object]:
        if self.names is None:
            if self.count:
                raise ProgrammingError("positional placeholders take a sequence of parameters, not a mapping")
            return ()
        try:
            return [params[name] for name in self.names]
        except KeyError:
            missing = ", ".join(name for name in self.names if name not in params)
            raise ProgrammingError(f"parameters missing: {missing}", sqlstate="08P01") from None

    def position(self, position: int | None) -> int | None:
        """Where in the caller's text a 1-based position of the engine's text is."""
        if position is None:
            return None
        shift = 0
        for start, change in self._edits:  # start: 0-based, in the engine's text
            if start >= position - 1:
                break
            shift = change
        return position + shift


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def translate(text: str) -> Translation:
    """The translation of ``text``, remembered. ProgrammingError for placeholders that are wrong."""
    if len(text) > LONGEST_REMEMBERED:
        return _translate(text)
    return _remembered(text)


def check(text: str) -> None:
    """Refuse text that could not be sent to any PostgreSQL: NUL, lone surrogates.

    Raises:
        DataError: with SQLSTATE 22021.
    """
    if "\0" in text:
        raise DataError("a statement cannot contain NUL", sqlstate="22021", position=text.index("\0") + 1)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                "a statement cannot contain lone surrogates", sqlstate="22021", position=error.start + 1
            ) from None


def as_text(query: object) -> str:
    """A statement as text. DataError 22021 for bytes that are not UTF-8, ProgrammingError for what is no
    text.
    """
    if isinstance(query, str):
        return str(query)
    if isinstance(query, bytes | bytearray):
        try:
            return query.decode()
        except UnicodeDecodeError as error:
            raise DataError(
                "a statement must be UTF-8", sqlstate="22021", detail=f"Byte {error.start} is not."
            ) from None
    raise ProgrammingError(f"a statement is text, not {type(query).__name__}")


def _translate(text: str) -> Translation:
    check(text)
    if "%" not in text and "$" not in text:
        return Translation(text, 0)
    pieces = list(tokens(text))
    percents = [piece[3] for piece in pieces if piece[0] == PERCENT]
    dollars = [int(piece[3][0][1:]) for piece in pieces if piece[0] == DOLLAR]
    placed = any(match[0] != "%%" and _is_placeholder(match[0]) for match in percents)
    if dollars and not placed:
        highest = max(dollars)
        if not 1 <= min(dollars) <= highest <= MOST:
            wrong = highest if highest > MOST else 0
            raise ProgrammingError(f"there is no parameter ${wrong}", sqlstate="42P02")
        return Translation(text, highest)
    if dollars:
        raise ProgrammingError("placeholders %s and $1 cannot be mixed in one statement", sqlstate="42601")
    return _Rewriting(text).run(pieces)


_remembered = functools.lru_cache(REMEMBERED)(_translate)


def _is_placeholder(token: str) -> bool:
    return (token[1:2] == "(" and token[-1] in "sbt") or token[1:] in ("s", "b", "t")


class _Rewriting:
    """One pass over a text with per cent signs."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.out: list[str] = []
        self.taken = 0  # of the text, so far
        self.given = 0  # to the output, so far
        self.edits: list[tuple[int, int]] = []
        self.numbers: dict[str, int] = {}
        self.positional = 0
        self.quoted = False

    def run(self, pieces: list[tuple[str, int, int, Match]]) -> Translation:
        for kind, start, end, match in pieces:
            if kind == PERCENT:
                self._replace(start, end, self._placeholder(match))
            elif kind in (TEXT, COMMENT) and "%" in (inner := self.text[start:end]):
                self.quoted = self.quoted or "%s" in inner or "%(" in inner
                at = inner.find("%%")
                while at >= 0:
                    self._replace(start + at, start + at + 2, "%")
                    at = inner.find("%%", at + 2)
        self.out.append(self.text[self.taken :])
        names = tuple(self.numbers) if self.numbers else None
        count = len(self.numbers) or self.positional
        if count > MOST:
            raise ProgrammingError(f"a statement takes at most {MOST} parameters", sqlstate="54023")
        return Translation("".join(self.out), count, names, tuple(self.edits), self.quoted)

    def _replace(self, start: int, end: int, new: str) -> None:
        same = self.text[self.taken : start]
        self.out += (same, new)
        self.taken = end
        self.given += len(same) + len(new)
        if end - self.given != (self.edits[-1][1] if self.edits else 0):
            self.edits.append((self.given - len(new), end - self.given))

    def _placeholder(self, match: Match) -> str:
        token = match[0]
        if token == "%%":
            return "%"
        if not _is_placeholder(token):
            raise ProgrammingError(
                f"placeholders are %s, %(name)s and $1, not {token!r}",
                sqlstate="42601",
                position=match.start() + 1,
                hint="A per cent sign is written %% when parameters are passed.",
            )
        name = match["name"]
        if (name is None and self.numbers) or (name is not None and self.positional):
            raise ProgrammingError(
                "positional and named placeholders cannot be mixed in one statement",
                sqlstate="42601",
                position=match.start() + 1,
            )
        if name is None:
            self.positional += 1
            return f"${self.positional}"
        return f"${self.numbers.setdefault(name, len(self.numbers) + 1)}"
