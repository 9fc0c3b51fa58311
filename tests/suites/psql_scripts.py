"""Scripts for psql, read as psql reads them: statements, backslash commands, and data of COPY.

psql decides by what the server answers whether the lines behind a statement are data of COPY, so a script is
read piece by piece: :meth:`Script.next` gives the next piece, :meth:`Script.copy_data` takes such lines.
The rules are those of psql's own scanner (src/fe_utils/psqlscan.l): quotes, dollar quotes, nested comments,
parentheses, bodies of ``BEGIN ATOMIC``, variables outside of quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

SENDING = frozenset(("g", "gx", "gset", "gexec", "gdesc", "crosstabview", "watch"))
"""Commands that send the statement before them."""
_WHOLE_LINE = frozenset(("copy", "sf", "sv", "ef", "ev", "h", "help", "!", "d"))
_TOKEN = re.compile(
    r"""
    (?P<space>\s+|--[^\n]*)
  | (?P<comment>/\*)
  | (?P<escaped>[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z))
  | (?P<quoted>'(?:[^']|'')*(?:'|\Z) | "(?:[^"]|"")*(?:"|\Z))
  | (?P<dollar>\$(?:[A-Za-z_\u0080-\uffff][A-Za-z0-9_\u0080-\uffff]*)?\$)
  | (?P<word>[A-Za-z_\u0080-\uffff][A-Za-z0-9_$\u0080-\uffff]*)
  | (?P<variable>::|:=|:'[A-Za-z0-9_]+'|:"[A-Za-z0-9_]+"|:\{\?[A-Za-z0-9_]+\}|:[A-Za-z0-9_]+)
  | (?P<join>\\;)
  | (?P<command>\\(?P<name>[^\s\\]+))
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_BACKSLASHED = re.compile(r"'(?:[^'\\]|\\.|'')*(?:'|\Z)", re.DOTALL)
_ARGUMENTS = re.compile(r"""(?:'(?:[^'\\\n]|\\.|'')*'|"[^"\n]*"|[^\\\n])*""")
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True)
class Variable:
    """A reference to a variable of psql, as ``:name``, ``:'name'``, ``:"name"`` or ``:{?name}``."""

    text: str

    def value(self, variables: Mapping[str, str]) -> str:
        """What stands in its place; the reference itself when there is no such variable."""
        name = self.text.strip(":'\"{?}")
        if self.text.startswith(":{?"):
            return "TRUE" if name in variables else "FALSE"
        if name not in variables:
            return self.text
        quote = self.text[1] if self.text[1] in "'\"" else ""
        return f"{quote}{variables[name].replace(quote, quote * 2) if quote else variables[name]}{quote}"


@dataclass(frozen=True)
class Statement:
    """A statement, and the command that sends it (empty: a semicolon)."""

    parts: tuple[str | Variable, ...]
    line: int
    sent_by: str = ""
    arguments: str = ""

    def text(self, variables: Mapping[str, str]) -> str:
        """The statement as it is sent."""
        return "".join(part if isinstance(part, str) else part.value(variables) for part in self.parts)


@dataclass(frozen=True)
class Command:
    """A backslash command that sends nothing from the script."""

    name: str
    arguments: str


@dataclass
class _Buffer:
    """The statement that is being read."""

    parts: list[str | Variable] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    parentheses: int = 0
    bodies: int = 0
    line: int = 0

    def word(self, word: str) -> None:
        """Count the bodies that a word opens or closes."""
        lower = word.lower()
        if self.parentheses:
            return
        self.words.append(lower)
        head = [one for one in self.words[:4] if one not in ("or", "replace")]
        if head[:1] != ["create"] or head[1:2] not in (["function"], ["procedure"]):
            return
        if lower == "begin" or (lower == "case" and self.bodies):
            self.bodies += 1
        elif lower == "end" and self.bodies:
            self.bodies -= 1

    @property
    def complete(self) -> bool:
        """Whether a semicolon ends the statement here."""
        return self.parentheses <= 0 and self.bodies == 0


class Script:
    """A script that is being read.

    Attributes:
        backslashes: backslashes are special in '...', as with standard_conforming_strings = off.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._buffer = _Buffer()
        self.backslashes = False

    def next(self) -> Statement | Command | None:
        """The next piece; None at the end."""
        while self._at < len(self._text):
            found = _TOKEN.match(self._text, self._at)
            assert found is not None, "every character is a token"
            if (piece := self._take(found)) is not None:
                return piece
        return self._statement() if self._buffer.parts else None

    def copy_data(self) -> str:
        """The lines of data behind the statement that was read last, without the mark of their end."""
        begin = self._text.find("\n", self._at) + 1 or len(self._text)
        end = re.compile(r"^\\\.\r?$\n?", re.MULTILINE).search(self._text, begin)
        self._at = end.end() if end else len(self._text)
        return self._text[begin : end.start() if end else len(self._text)]

    def skip_line(self) -> None:
        """Leave out what stands in this line yet."""
        self._at = self._text.find("\n", self._at) + 1 or len(self._text)

    def _take(self, found: re.Match[str]) -> Statement | Command | None:
        kind, text = found.lastgroup, found.group()
        if kind == "name":
            kind = "command"
        self._at = found.end()
        if kind == "command":
            return self._command(found["name"])
        if kind in ("space", "comment"):
            self._space(kind, text)
        elif kind == "other" and text == ";" and self._buffer.complete:
            return self._statement() if self._buffer.parts else None
        else:
            self._add(kind, text, found.start())
        return None

    def _space(self, kind: str, text: str) -> None:
        if kind == "comment":
            self._skip_comment()
        if self._buffer.parts:
            self._buffer.parts.append(text if text.isspace() else " ")

    def _skip_comment(self) -> None:
        depth = 1
        while depth:
            edge = _COMMENT_EDGE.search(self._text, self._at)
            if edge is None:
                self._at = len(self._text)
                return
            depth += 1 if edge.group() == "/*" else -1
            self._at = edge.end()

    def _add(self, kind: str | None, text: str, start: int) -> None:
        buffer = self._buffer
        if not buffer.parts:
            buffer.line = self._text.count("\n", 0, start) + 1
        if kind == "word":
            buffer.word(text)
        elif kind == "dollar":
            end = self._text.find(text, self._at)
            self._at = end + len(text) if end >= 0 else len(self._text)
            text = self._text[start : self._at]
        elif kind == "quoted" and text[0] == "'" and self.backslashes:
            quoted = _BACKSLASHED.match(self._text, start)
            assert quoted is not None
            self._at, text = quoted.end(), quoted.group()
        elif kind == "join":
            text = ";"
        elif text in "()":
            buffer.parentheses += 1 if text == "(" else -1
        variable = kind == "variable" and text not in ("::", ":=")
        buffer.parts.append(Variable(text) if variable else text)

    def _statement(self, sent_by: str = "", arguments: str = "") -> Statement:
        done, self._buffer = self._buffer, _Buffer()
        return Statement(tuple(done.parts), done.line, sent_by, arguments)

    def _command(self, name: str) -> Statement | Command | None:
        whole = name in _WHOLE_LINE or name.startswith("d")
        found = re.compile(r"[^\n]*").match(self._text, self._at) if whole else None
        found = found or _ARGUMENTS.match(self._text, self._at)
        assert found is not None
        self._at = found.end()
        if self._text.startswith("\\\\", self._at):
            self._at += 2
        arguments = found.group().strip()
        if name in SENDING:
            return self._statement(name, arguments) if self._buffer.parts else None
        if name in ("r", "reset"):
            self._buffer = _Buffer()
        return Command(name, arguments)


def split_arguments(text: str, variables: Mapping[str, str]) -> Sequence[str]:
    """The arguments of a backslash command: quotes are taken away, variables outside of quotes replaced."""
    found = re.findall(r"""(?:'(?:[^'\\]|\\.|'')*'|:'\w+'|:"\w+"|:\{\?\w+\}|:\w+|"[^"]*"|\S)+""", text)
    return [_argument(one, variables) for one in found]


def _argument(text: str, variables: Mapping[str, str]) -> str:
    parts = re.findall(r"""'(?:[^'\\]|\\.|'')*'|:'\w+'|:"\w+"|:\{\?\w+\}|:\w+|"[^"]*"|.""", text, re.DOTALL)
    return "".join(_part(part, variables) for part in parts)


def _part(part: str, variables: Mapping[str, str]) -> str:
    if part.startswith(":") and len(part) > 1:
        return Variable(part).value(variables)
    if len(part) > 1 and part[0] == "'":
        unquoted = part[1:-1].replace("''", "'")
        return unquoted.replace("\\n", "\n").replace("\\t", "\t").replace("\\'", "'").replace("\\\\", "\\")
    return part
