"""The words of one statement, taken one after another: what the small parser of ``commands`` reads with.

A ``Statement`` comes in; words, names and values go out, or the syntax error (42601) where it is.
"""

from __future__ import annotations

import re

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.lexer import Statement

_TOKEN = re.compile(
    r"""\s*(?: (?P<word>[^\W\d][\w$]*) | "(?P<ident>[^"]*(?:""[^"]*)*)" | '(?P<string>[^']*(?:''[^']*)*)'
        | (?P<number>[-+]?\d[\w.]*) | (?P<symbol>\S) )""",
    re.VERBOSE,
)


class TokenCursor:
    """Walks over the tokens of a statement."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.tokens = list(_TOKEN.finditer(statement.clean))
        self.at = 1  # the first word is known

    def peek(self) -> str:
        """The next token in capitals; "" at the end; a quoted one keeps its quotes."""
        return self.tokens[self.at].group().strip().upper() if self.at < len(self.tokens) else ""

    def accept(self, *words: str) -> bool:
        """Step over ``words`` if they come next."""
        mark = self.at
        for word in words:
            if self.peek() != word:
                self.at = mark
                return False
            self.at += 1
        return True

    def position(self) -> int:
        """The 1-based position of the next token in the whole text; at the end, of the end."""
        if self.at >= len(self.tokens):
            return self.statement.position(len(self.statement.clean))
        token = self.tokens[self.at]
        return self.statement.position(token.end() - len(token.group().lstrip()))

    def fail(self) -> SqlError:
        """The syntax error at the next token."""
        if self.at >= len(self.tokens):
            clean = self.statement.clean
            return SqlError(
                "42601", "syntax error at end of input", position=self.statement.position(len(clean))
            )
        token = self.tokens[self.at]
        text = token.group().strip()
        if self.at and self.tokens[self.at - 1].group().strip().upper() == "PASSWORD":
            text = "<hidden>"  # it was meant to be one
        return SqlError(
            "42601",
            f'syntax error at or near "{text}"',
            position=self.statement.position(token.end() - len(token.group().lstrip())),
        )

    def done(self) -> None:
        """Raise unless everything was read."""
        if self.at < len(self.tokens):
            raise self.fail()

    def name(self) -> str:
        """An identifier, folded unless quoted."""
        if self.at >= len(self.tokens):
            raise self.fail()
        token = self.tokens[self.at]
        if token["ident"] is not None:
            found = str(token["ident"]).replace('""', '"')
        elif token["word"] is not None:
            found = str(token["word"]).lower()
        else:
            raise self.fail()
        self.at += 1
        return found

    def value(self) -> str:
        """A word, number or string, as text."""
        if self.at < len(self.tokens):
            token = self.tokens[self.at]
            if token["string"] is not None:
                self.at += 1
                return str(token["string"]).replace("''", "'")
            if token["number"] is not None:
                self.at += 1
                return str(token["number"])
        return self.name()
