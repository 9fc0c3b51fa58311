"""The options of GENERATED ... AS IDENTITY (...), which sqlglot reads in one order only.

They are taken out of the tokens, read as a sequence's options, which have any order, and go back to the
columns that they stood at once the tree is there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import TokenType
from sqlglot.expressions import GeneratedAsIdentityColumnConstraint

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.cursor import TokenCursor
from herdpy_sql.parse.lexer import split
from herdpy_sql.parse.object_commands import Option, sequence_options

if TYPE_CHECKING:
    from sqlglot.expressions import Expression
    from sqlglot.tokenizer_core import Token

Options = tuple[tuple[str, Option], ...]

_NOT_OF_COLUMNS = {"as", "owned", "restart"}  # the column says its type and whose it is


def lift_identity_options(tokens: list[Token], text: str) -> tuple[list[Token], list[Options]]:
    """The tokens without the options, and those of each identity column in turn; () where there are none.

    SqlError 42601 for what is no option of a sequence.
    """
    kept: list[Token] = []
    found: list[Options] = []
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
        found.append(_read(text[tokens[at].end + 1 : tokens[end].start]))
        at = end + 1
    return kept, found


def attach_identity_options(tree: Expression, found: list[Options]) -> None:
    """Give each identity column its options, as the argument ``options`` of its constraint."""
    columns = [
        one
        for one in tree.find_all(GeneratedAsIdentityColumnConstraint, bfs=False)
        if one.args.get("expression") is None
    ]
    for column, options in zip(columns, found, strict=True):
        column.set("options", options)


def _read(text: str) -> Options:
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
