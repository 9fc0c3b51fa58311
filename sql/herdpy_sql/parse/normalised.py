"""A statement's text with ``$n`` in the place of its constants: what statements are counted by.

Above ``lexer``, whose words these are. One pass of one regular expression: comments go, blanks become single
ones, numbers and strings become parameters that are numbered after those that the text has. Definitions keep
their constants, as PostgreSQL's pg_stat_statements leaves utility statements as they are.
"""

from __future__ import annotations

import re
from typing import NamedTuple

LONGEST_TEXT = 65_536
"""Of a longer text so many characters are looked at, and stand for the whole."""

_LEX = re.compile(
    r"""
      (?P<blank> \s+ | --[^\r\n]* )
    | (?P<block> /\* )
    | (?P<string> (?:[eE]'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'?) | (?:[bBxXnN]|[uU]&)?'[^']*(?:''[^']*)*'? )
    | (?P<word> [^\W\d][\w$]* )
    | (?P<ident> (?:[uU]&)?"[^"]*(?:""[^"]*)*"? )
    | (?P<number> (?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)? )
    | (?P<param> \$\d+ )
    | (?P<dollar> \$(?:[^\W\d]\w*)?\$ )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_EDGE = re.compile(r"/\*|\*/")
_PARAMETER = re.compile(r"\$(\d+)")
_DEFINES = frozenset({
    "CREATE", "ALTER", "DROP", "COMMENT", "GRANT", "REVOKE", "REASSIGN", "REINDEX", "TRUNCATE", "UNDROP",
    "VACUUM", "ANALYZE", "LOCK", "CHECKPOINT",
})  # fmt: skip
_BEFORE_SIGN = frozenset({
    "SELECT", "WHERE", "AND", "OR", "NOT", "IN", "THEN", "ELSE", "WHEN", "BETWEEN", "LIMIT", "OFFSET", "BY",
    "RETURNING", "SET", "LIKE", "ILIKE", "ON", "HAVING", "VALUES", "CASE", "DISTINCT", "FETCH", "TO", "IS",
})  # fmt: skip
"""Words after which a sign is the number's own."""


class Normalised(NamedTuple):
    """What was made of a text.

    Attributes:
        text: with parameters for constants.
        names: words and quoted names in it, folded as SQL folds them: candidates for names of relations.
        likeness: ``text`` with unquoted words in lower case: equal where only the writing differs.
    """

    text: str
    names: frozenset[str]
    likeness: str


def normalised(sql: str) -> Normalised:
    """Put parameters for the constants of one statement. Raises nothing, whatever the text is."""
    return _Reader(sql[:LONGEST_TEXT]).run(cut=len(sql) > LONGEST_TEXT)


class _Reader:
    """One pass over a text."""

    def __init__(self, sql: str) -> None:
        self._sql = sql
        self._pieces: list[str] = []
        self._likeness: list[str] = []
        self._names: set[str] = set()
        self._next = max((int(n) for n in _PARAMETER.findall(sql) if len(n) < 6), default=0) + 1
        self._before = ""  # the token before, in capitals; "" at the beginning
        self._keeps = False
        self._depth = 0
        self._by_depth = -1  # of the parentheses around GROUP BY or ORDER BY; -1: outside of their lists

    def run(self, *, cut: bool) -> Normalised:
        sql, at, blank = self._sql, 0, False
        while found := _LEX.match(sql, at):
            kind, text, at = found.lastgroup, found.group(), found.end()
            if kind == "blank":
                blank = True
                continue
            if kind == "block":
                at, blank = self._comment_end(at), True
                continue
            if kind == "dollar":
                end = sql.find(text, at)
                at = len(sql) if end < 0 else end + len(text)
                text, kind = sql[found.start() : at], "string"
            if blank and self._pieces:
                self._put(" ", " ")
            blank = False
            self._take(kind or "", text)
        if self._pieces and self._pieces[-1] == ";":
            del self._pieces[-1], self._likeness[-1]
        end_mark = "..." if cut else ""
        text = "".join(self._pieces).rstrip() + end_mark
        return Normalised(text, frozenset(self._names), "".join(self._likeness).rstrip() + end_mark)

    def _take(self, kind: str, text: str) -> None:
        if kind == "word":
            upper = text.upper()
            if not self._before:
                self._keeps = upper in _DEFINES
            self._names.add(text.lower())
            self._put(text, text.lower())
            self._before = upper
            if upper == "BY":
                self._by_depth = self._depth
        elif kind == "ident":
            self._names.add(text.strip('"').replace('""', '"'))
            self._put(text, text)
            self._before = '"'
        elif kind in ("number", "string"):
            self._constant(text, signs=kind == "number")
        else:
            self._put(text, text)
            self._before = text
            self._depth += (text in "([") - (text in ")]")
            if self._depth < self._by_depth:
                self._by_depth = -1

    def _constant(self, text: str, *, signs: bool) -> None:
        if self._keeps or (signs and self._is_place()):
            self._put(text, text)
        else:
            if signs and self._pieces and self._pieces[-1] == "-" and self._is_sign():
                del self._pieces[-1], self._likeness[-1]
            shown = f"${self._next}"
            self._next += 1
            self._put(shown, shown)
        self._before = "0"

    def _is_place(self) -> bool:
        """Whether a number is that of an output, in GROUP BY 1 or ORDER BY 1, 2."""
        return self._before == "BY" or (self._before == "," and self._depth == self._by_depth)

    def _is_sign(self) -> bool:
        """Whether the "-" that comes last stands where no value is before it."""
        before = "".join(self._pieces[-3:-1]).rstrip()
        if not before:
            return True
        last = before[-1]
        if last in "(,[=<>+-*/%|&^~!":
            return True
        return self._pieces[-3 if before != self._pieces[-2] else -2].upper() in _BEFORE_SIGN

    def _put(self, text: str, likeness: str) -> None:
        self._pieces.append(text)
        self._likeness.append(likeness)

    def _comment_end(self, at: int) -> int:
        """Where a block comment ends whose beginning is before ``at``; they nest."""
        depth = 1
        while depth and (found := _EDGE.search(self._sql, at)):
            depth += 1 if found.group() == "/*" else -1
            at = found.end()
        return at if not depth else len(self._sql)
