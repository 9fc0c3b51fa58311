"""Literals with a type before them: ``DATE '2024-01-31'::text`` is the text of a date.

Between the tokenizer and the parser. sqlglot lets ``::`` and ``->`` bind closer to the string than
the type before it does, PostgreSQL the other way round: parentheses, put around type and string
where such an operator follows, say what is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

if TYPE_CHECKING:
    from collections.abc import Collection

_OPERATORS = frozenset(
    {
        TokenType.DCOLON,
        TokenType.ARROW,
        TokenType.DARROW,
        TokenType.HASH_ARROW,
        TokenType.DHASH_ARROW,
    }
)
_ZONED = frozenset({"TIMESTAMP", "TIME"})


def grouped(tokens: list[Token], types: Collection[TokenType]) -> list[Token]:
    """The tokens with a typed literal in parentheses wherever an operator follows it.

    Args:
        types: the kinds of token that name a type.
    """
    ends = [
        at
        for at in range(1, len(tokens) - 1)
        if tokens[at].token_type == TokenType.STRING and tokens[at + 1].token_type in _OPERATORS
    ]
    result = list(tokens)
    for end in reversed(ends):
        start = _type_start(tokens, end, types)
        if start is not None:
            result.insert(end + 1, _like(tokens[end], TokenType.R_PAREN, ")"))
            result.insert(start, _like(tokens[start], TokenType.L_PAREN, "("))
    return result


def _type_start(tokens: list[Token], end: int, types: Collection[TokenType]) -> int | None:
    """Where the type before the string at ``end`` begins; None when there is none."""
    at = end - 1
    if tokens[at].text.upper() == "ZONE":  # TIMESTAMP [(6)] WITH TIME ZONE '...'
        at -= 3
        if at < 0 or tokens[at + 1].text.upper() not in {"WITH", "WITHOUT"}:
            return None
        at = _before_modifiers(tokens, at)
        return at if at >= 0 and tokens[at].text.upper() in _ZONED else None
    at = _before_modifiers(tokens, at)
    if at < 0 or tokens[at].token_type not in types or tokens[at].token_type == TokenType.INTERVAL:
        return None
    return at


def _before_modifiers(tokens: list[Token], at: int) -> int:
    """Step from a closing parenthesis, as in NUMERIC(5, 2), to the token before its opening one."""
    if tokens[at].token_type == TokenType.R_PAREN:
        while at >= 0 and tokens[at].token_type != TokenType.L_PAREN:
            at -= 1
        at -= 1
    return at


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end)
