"""What stands behind REFERENCES, read from sqlglot's tokens before sqlglot sees them.

sqlglot keeps these options as texts, drops some and refuses ``SET NULL (column)``. So they are cut out of the
tokens here, and put back as :class:`ReferenceOptions` at the tree's references, in the order of the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import TokenType
from sqlglot import expressions as exp
from sqlglot.errors import ParseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot.tokenizer_core import Token

OPTIONS = "reference_options"
"""Where a Reference of the tree has its :class:`ReferenceOptions`, in its ``meta``."""

_ACTIONS = (("NO", "ACTION"), ("RESTRICT",), ("CASCADE",), ("SET", "NULL"), ("SET", "DEFAULT"))


@dataclass(slots=True)
class ReferenceOptions:
    """What a REFERENCES clause says besides table and columns; None where it does not say.

    Attributes:
        match: "SIMPLE", "FULL" or "PARTIAL".
        on_delete, on_update: the actions.
        set_columns: the list after SET NULL or SET DEFAULT of ON DELETE.
        set_on_update: such a list stands after ON UPDATE, which PostgreSQL refuses.
        deferrable, deferred: [NOT] DEFERRABLE, INITIALLY DEFERRED or IMMEDIATE.
        not_valid: NOT VALID.
    """

    match: str | None = None
    on_delete: str | None = None
    on_update: str | None = None
    set_columns: tuple[str, ...] = ()
    set_on_update: bool = False
    deferrable: bool | None = None
    deferred: bool | None = None
    not_valid: bool = False


def lift_references(tokens: Sequence[Token]) -> tuple[list[Token], list[ReferenceOptions]]:
    """The tokens without the options of references, and those. sqlglot's ParseError where they are wrong."""
    kept: list[Token] = []
    found: list[ReferenceOptions] = []
    at = 0
    while at < len(tokens):
        kept.append(tokens[at])
        at += 1
        if not _is(tokens[at - 1], "REFERENCES"):
            continue
        end = _after_target(tokens, at)
        kept += tokens[at:end]
        reader = _Reader(tokens, end)
        found.append(reader.read())
        at = reader.at
    return kept, found


def attach_references(tree: exp.Expression, options: Sequence[ReferenceOptions]) -> None:
    """Give the references of the tree their options."""
    nodes = [node for node in tree.dfs() if isinstance(node, exp.Reference)]
    for node, one in zip(nodes, options, strict=True):
        node.meta[OPTIONS] = one


def _is(token: Token, word: str) -> bool:
    return token.token_type != TokenType.IDENTIFIER and token.text.upper() == word


def _after_target(tokens: Sequence[Token], at: int) -> int:
    """Where the table's name and the list of columns behind REFERENCES end."""
    at += 1
    while at + 1 < len(tokens) and tokens[at].token_type == TokenType.DOT:
        at += 2
    if at < len(tokens) and tokens[at].token_type == TokenType.L_PAREN:
        while at < len(tokens) and tokens[at].token_type != TokenType.R_PAREN:
            at += 1
        at += 1
    return min(at, len(tokens))


class _Reader:
    """Reads options from ``at`` on."""

    def __init__(self, tokens: Sequence[Token], at: int) -> None:
        self.tokens = tokens
        self.at = at

    def read(self) -> ReferenceOptions:
        """All that follow one another."""
        found = ReferenceOptions()
        while True:
            if self._accept("MATCH"):
                found.match = self._one_of(("SIMPLE",), ("FULL",), ("PARTIAL",))
            elif self._accept("ON", "DELETE"):
                found.on_delete = self._one_of(*_ACTIONS)
                found.set_columns = self._columns(found.on_delete)
            elif self._accept("ON", "UPDATE"):
                found.on_update = self._one_of(*_ACTIONS)
                found.set_on_update = bool(self._columns(found.on_update))
            elif self._accept("NOT", "DEFERRABLE"):
                found.deferrable = False
            elif self._accept("DEFERRABLE"):
                found.deferrable = True
            elif self._accept("INITIALLY"):
                found.deferred = self._one_of(("DEFERRED",), ("IMMEDIATE",)) == "DEFERRED"
            elif self._accept("NOT", "VALID"):
                found.not_valid = True
            else:
                return found

    def _accept(self, *words: str) -> bool:
        following = self.tokens[self.at : self.at + len(words)]
        if len(following) < len(words):
            return False
        if not all(_is(token, word) for token, word in zip(following, words, strict=True)):
            return False
        self.at += len(words)
        return True

    def _one_of(self, *choices: tuple[str, ...]) -> str:
        for words in choices:
            if self._accept(*words):
                return " ".join(words)
        raise self._error()

    def _columns(self, action: str) -> tuple[str, ...]:
        """The list after SET NULL or SET DEFAULT."""
        if not action.startswith("SET") or not self._accept("("):
            return ()
        found = [self._name()]
        while self._accept(","):
            found.append(self._name())
        if not self._accept(")"):
            raise self._error()
        return tuple(found)

    def _name(self) -> str:
        if self.at >= len(self.tokens):
            raise self._error()
        token = self.tokens[self.at]
        self.at += 1
        return token.text if token.token_type == TokenType.IDENTIFIER else token.text.lower()

    def _error(self) -> ParseError:
        if self.at >= len(self.tokens):
            return ParseError.new("unexpected end")
        token = self.tokens[self.at]
        return ParseError.new("unexpected", line=token.line, col=token.col, highlight=token.text)
