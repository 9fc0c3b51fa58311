"""Clauses that sqlglot does not read, or not wholly: taken out of its tokens, and put back at the tree.

Of REFERENCES sqlglot keeps the options as texts, drops some and refuses ``SET NULL (column)``: they become
:class:`ReferenceOptions` at the tree's references, in the order of the text. The options of GENERATED ... AS
IDENTITY (...) it reads in one order only: they are read as a sequence's options, which have any order, and
go back to the columns that they stood at. OVERRIDING of INSERT and ON COMMIT of CREATE it does not know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import TokenType
from sqlglot import expressions as exp
from sqlglot.errors import ParseError
from sqlglot.expressions import GeneratedAsIdentityColumnConstraint
from sqlglot.tokenizer_core import Token

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.lexer import TokenCursor, split
from herdpy_sql.parse.object_commands import Option, sequence_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot.expressions import Expression


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


IdentityOptions = tuple[tuple[str, Option], ...]

_NOT_OF_COLUMNS = {"as", "owned", "restart"}  # the column says its type and whose it is


def lift_identity_options(tokens: list[Token], text: str) -> tuple[list[Token], list[IdentityOptions]]:
    """The tokens without the options, and those of each identity column in turn; () where there are none.

    SqlError 42601 for what is no option of a sequence.
    """
    kept: list[Token] = []
    found: list[IdentityOptions] = []
    at = 0
    while at < len(tokens):
        kept.append(tokens[at])
        at += 1
        if [token.text.upper() for token in kept[-2:]] != ["AS", "IDENTITY"] or len(kept) < 3:
            continue
        if kept[-3].text.upper() not in {"ALWAYS", "DEFAULT"}:
            continue
        if at == len(tokens) or tokens[at].token_type != TokenType.L_PAREN:
            found.append(())
            continue
        end = next((i for i in range(at + 1, len(tokens)) if tokens[i].token_type == TokenType.R_PAREN), None)
        if end is None:
            break
        found.append(_read_identity_options(text[tokens[at].end + 1 : tokens[end].start]))
        at = end + 1
    return kept, found


def attach_identity_options(tree: Expression, found: list[IdentityOptions]) -> None:
    """Give each identity column its options, as the argument ``options`` of its constraint."""
    columns = [
        one
        for one in tree.find_all(GeneratedAsIdentityColumnConstraint, bfs=False)
        if one.args.get("expression") is None
    ]
    for column, options in zip(columns, found, strict=True):
        column.set("options", options)


def _read_identity_options(text: str) -> IdentityOptions:
    statements = split(text)
    if len(statements) != 1:
        raise SqlError("42601", "syntax error in the options of GENERATED AS IDENTITY")
    cursor = TokenCursor(statements[0])
    cursor.at = 0
    try:
        options = sequence_options(cursor)
        cursor.done()
    except SqlError as error:
        error.position = None  # it would be one in the options' text
        raise
    if {name for name, _ in options} & _NOT_OF_COLUMNS:
        raise SqlError("42601", "conflicting or redundant options")
    return options


_WORDS = ("SYSTEM", "USER")


def lift_overriding(tokens: list[Token]) -> tuple[list[Token], str]:
    """The tokens without it, and which of the two words it has; "" when it is not there."""
    for at in range(len(tokens) - 2):
        if (
            tokens[at].text.upper() == "OVERRIDING"
            and tokens[at + 1].text.upper() in _WORDS
            and tokens[at + 2].text.upper() == "VALUE"
        ):
            return tokens[:at] + tokens[at + 3 :], tokens[at + 1].text.upper()
    return tokens, ""


def lift_on_commit(tokens: list[Token]) -> tuple[list[Token], str]:
    """The tokens without ON COMMIT of a temporary table, and its next word: DROP, DELETE, PRESERVE or ""."""
    for at in range(len(tokens) - 2):
        words = [token.text.upper() for token in tokens[at : at + 4]]
        if words[:3] == ["ON", "COMMIT", "DROP"]:
            return tokens[:at] + tokens[at + 3 :], "DROP"
        if words[:2] == ["ON", "COMMIT"] and words[2:] in (["DELETE", "ROWS"], ["PRESERVE", "ROWS"]):
            return tokens[:at] + tokens[at + 4 :], words[2]
    return tokens, ""
