"""Text of a script or of the prompt -> statements and backslash commands.

Only what ends a statement is known here: quotes, dollar quotes and comments, in which a semicolon
means nothing. The lexical rules are PostgreSQL's (manual, section 4.1). The engine parses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Everything in which a semicolon does not count, and the semicolon itself. A string that is not
# closed matches as far as the text goes, without its closing quote.
_TOKEN = re.compile(
    r"""
      (?P<escape> (?<![\w$])[eE]'(?:[^'\\]|''|\\.)*(?P<escape_end>')? )
    | (?P<string> '(?:[^']|'')*(?P<string_end>')? )
    | (?P<name>   "(?:[^"]|"")*(?P<name_end>")? )
    | (?<![\w$])\$(?P<tag>[^\W\d]\w*)?\$
    | (?P<line>   --[^\n]* )
    | (?P<block>  /\* )
    | (?P<end>    ; )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_BLANK = re.compile(r"(?:\s+|--[^\n]*(?:\n|$))*")


@dataclass(frozen=True, slots=True)
class StatementText:
    """A statement without its semicolon, or a backslash command; ``line`` is where it begins, from 1."""

    text: str
    line: int
    meta: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """Whole pieces, then what was begun and not ended.

    Attributes:
        rest: the text after the last whole piece, without blanks and comments before it.
        rest_line: the line on which it begins, from 1.
        inside: what the end of the text is in: a quote ``'`` or ``"``, ``$`` for a dollar quote, ``*``
            for a comment, or "" for none.
    """

    pieces: tuple[StatementText, ...]
    rest: str
    rest_line: int
    inside: str = ""

    @property
    def complete(self) -> bool:
        """Whether nothing is left open, so that the whole text can be run."""
        return not self.rest and not self.inside


def split(text: str) -> Script:
    """Split ``text`` into pieces; never fails."""
    pieces: list[StatementText] = []
    at = 0
    while True:
        begin = _after_blanks(text, at)
        line = text.count("\n", 0, begin) + 1
        if begin == len(text):
            return Script(tuple(pieces), "", line)
        if text[begin] == "\\":
            stop = text.find("\n", begin)
            stop = len(text) if stop < 0 else stop
            pieces.append(StatementText(text[begin:stop].strip(), line, meta=True))
            at = stop
            continue
        end, inside = _end_of_statement(text, begin)
        if end is None:
            return Script(tuple(pieces), text[begin:].rstrip(), line, inside)
        if end > begin:
            pieces.append(StatementText(text[begin:end].rstrip(), line))
        at = end + 1


def _after_blanks(text: str, at: int) -> int:
    """Return where the next thing begins that is neither blank nor a whole comment."""
    while True:
        found = _BLANK.match(text, at)
        at = found.end() if found else at
        if not text.startswith("/*", at):
            return at
        after = _end_of_comment(text, at + 2)
        if after is None:
            return at
        at = after


def _end_of_statement(text: str, at: int) -> tuple[int | None, str]:
    """Return where the semicolon stands, or None and what the end of the text is inside of."""
    while True:
        token = _TOKEN.search(text, at)
        if token is None:
            return None, ""
        at = token.end()
        if token["end"]:
            return token.start(), ""
        if (token["escape"] and not token["escape_end"]) or (token["string"] and not token["string_end"]):
            return None, "'"
        if token["name"] and not token["name_end"]:
            return None, '"'
        if token["block"]:
            after = _end_of_comment(text, at)
            if after is None:
                return None, "*"
            at = after
        elif token.group().startswith("$"):
            close = text.find(token.group(), at)
            if close < 0:
                return None, "$"
            at = close + len(token.group())


def _end_of_comment(text: str, at: int) -> int | None:
    depth = 1
    for edge in _COMMENT_EDGE.finditer(text, at):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return None
