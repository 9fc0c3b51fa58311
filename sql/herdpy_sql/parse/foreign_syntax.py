"""Syntax of other databases that sqlglot reads and PostgreSQL does not: the syntax error where it is.

sqlglot makes a tree of it all the same, and the statement would do something that its text does not say: a
join without ON would give all pairs of rows, INSERT ... SET a row of other values. PostgreSQL stops at the
token that cannot come next, and so does this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot import TokenType

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

_Rule = Callable[[Sequence["Token"]], Iterator[int]]
"""Gives the indexes of the tokens that cannot stand where they do."""


def foreign_stop(tokens: Sequence[Token]) -> int | None:
    """The index of the first token that PostgreSQL would not read; their number where it wants more."""
    kinds = {token.token_type for token in tokens}
    return min(
        (stop for needed, rule in _RULES if needed in kinds for stop in rule(tokens) if stop <= len(tokens)),
        default=None,
    )


def _followed_by(kind: TokenType, allowed: frozenset[TokenType], *, within: TokenType | None = None) -> _Rule:
    """A rule: after a token of ``kind`` one of ``allowed`` comes; ``within``, after this one between them."""

    def rule(tokens: Sequence[Token]) -> Iterator[int]:
        for i, token in enumerate(tokens):
            if token.token_type != kind:
                continue
            after = i + 1
            if within is not None:
                if after >= len(tokens) or tokens[after].token_type != within:
                    continue
                after += 1
            if after < len(tokens) and tokens[after].token_type not in allowed:
                yield after

    return rule


def _never_followed_by(kind: TokenType, *refused: TokenType) -> _Rule:
    """A rule: what comes after a token of ``kind`` is none of ``refused``, one after the other."""

    def rule(tokens: Sequence[Token]) -> Iterator[int]:
        for i, token in enumerate(tokens):
            behind = [one.token_type for one in tokens[i + 1 : i + 1 + len(refused)]]
            if token.token_type == kind and behind == list(refused):
                yield i + len(refused)

    return rule


_QUERIES = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.VALUES, TokenType.L_PAREN, TokenType.TABLE})
_ENDS = frozenset(
    {
        TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT,
        TokenType.OFFSET, TokenType.FETCH, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT,
        TokenType.WINDOW, TokenType.RETURNING, TokenType.COMMA, TokenType.R_PAREN, TokenType.FOR,
    }
)  # fmt: skip
"""What ends the joins of one item of FROM."""


def _joins_without_condition(tokens: Sequence[Token]) -> Iterator[int]:
    """JOIN without ON or USING, unless it is CROSS or NATURAL."""
    waiting = [0]
    for i, token in enumerate(tokens):
        kind = token.token_type
        if kind in _ENDS and waiting[-1]:
            yield i
            return
        if kind == TokenType.L_PAREN:
            waiting.append(0)
        elif kind == TokenType.R_PAREN and len(waiting) > 1:
            waiting.pop()
        elif kind == TokenType.JOIN:
            before = {one.token_type for one in tokens[max(i - 3, 0) : i]}
            beside = tokens[i - 1].token_type if i else None
            waiting[-1] += beside != TokenType.CROSS and TokenType.NATURAL not in before
        elif kind in {TokenType.ON, TokenType.USING} and waiting[-1]:
            waiting[-1] -= 1
    if waiting[-1]:
        yield len(tokens)


def _inserts(tokens: Sequence[Token]) -> Iterator[int]:
    """INSERT without INTO, with SET, or with VALUES that are no rows in parentheses."""
    depth = 0
    for i, token in enumerate(tokens):
        kind, before = token.token_type, tokens[i - 1].token_type if i else None
        depth += (kind == TokenType.L_PAREN) - (kind == TokenType.R_PAREN)
        if kind == TokenType.INSERT and before in {None, TokenType.L_PAREN, TokenType.R_PAREN}:
            if i + 1 < len(tokens) and tokens[i + 1].token_type != TokenType.INTO:
                yield i + 1
        elif depth or tokens[0].token_type != TokenType.INSERT:
            continue
        elif kind == TokenType.SET and before != TokenType.UPDATE:
            yield i
        elif (
            kind == TokenType.VALUES
            and before not in {TokenType.DEFAULT, TokenType.INTO}
            and i + 1 < len(tokens)
            and tokens[i + 1].token_type != TokenType.L_PAREN
        ):
            yield i + 1


def _creates(tokens: Sequence[Token]) -> Iterator[int]:
    """A column with IDENTITY alone, and CREATE INDEX without ON."""
    words = [token.text.upper() for token in tokens]
    if words[0] != "CREATE":
        return
    for i, word in enumerate(words[1:-1], 1):
        if word == "IDENTITY" and words[i + 1] == "(" and words[i - 1] not in {"AS", "(", ",", "."}:
            yield i
    head = words[: words.index("(")] if "(" in words else words
    if "INDEX" in head[1:3] and "ON" not in head and len(head) > 3:
        yield len(head) - 1


def _behind_columns(tokens: Sequence[Token]) -> Iterator[int]:
    """DEFAULT, NO and a bare WITH behind the columns of CREATE TABLE, words that sqlglot passes over."""
    words = [token.text.upper() for token in tokens]
    if words[0] != "CREATE" or "TABLE" not in words[1:4] or "OF" in words[: words.index("TABLE") + 5]:
        return
    depth = 0
    for i, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth or not i:
            continue
        if word == "AS":
            return
        if words[i - 1] == ")" and word in {"DEFAULT", "NO"}:
            yield i
        if word == "WITH" and words[i + 1 : i + 2] != ["("]:
            yield i + 1


def _over_nothing(tokens: Sequence[Token]) -> Iterator[int]:
    """A call's OVER without a window."""
    for i, token in enumerate(tokens[1:-1], 1):
        is_of_call = token.token_type == TokenType.OVER and tokens[i - 1].token_type == TokenType.R_PAREN
        if is_of_call and tokens[i + 1].token_type == TokenType.FROM:
            yield i + 1


def _with_offset(tokens: Sequence[Token]) -> Iterator[int]:
    """BigQuery's WITH OFFSET, of which sqlglot would make WITH ORDINALITY."""
    for i, (one, two) in enumerate(pairwise(tokens)):
        if one.token_type == TokenType.WITH and two.token_type == TokenType.OFFSET:
            yield i


def _not_operators(tokens: Sequence[Token]) -> Iterator[int]:
    """``!``, which is no NOT."""
    for i, token in enumerate(tokens):
        if token.token_type != TokenType.NOT or token.text != "!":
            continue
        before, after = tokens[i - 1 : i], tokens[i + 1 : i + 2]  # of !~ and !!, the other half
        halves = [*(one for one in before if one.end + 1 == token.start)]
        halves += [one for one in after if one.start == token.end + 1]
        if not any(one.text[:1] in "!~" for one in halves):
            yield i


_WHERE = frozenset({TokenType.WHERE})
_OPEN = frozenset({TokenType.L_PAREN})
_RULES: tuple[tuple[TokenType, _Rule], ...] = (
    (TokenType.JOIN, _joins_without_condition),
    (TokenType.FILTER, _followed_by(TokenType.FILTER, _WHERE, within=TokenType.L_PAREN)),
    (TokenType.OVER, _over_nothing),
    (TokenType.DISTINCT, _followed_by(TokenType.DISTINCT, _OPEN, within=TokenType.ON)),
    (TokenType.DISTINCT, _never_followed_by(TokenType.DISTINCT, TokenType.R_PAREN)),
    (TokenType.FROM, _never_followed_by(TokenType.FROM, TokenType.FROM)),
    (TokenType.IN, _never_followed_by(TokenType.IN, TokenType.L_PAREN, TokenType.R_PAREN)),
    (TokenType.INTERVAL, _never_followed_by(TokenType.INTERVAL, TokenType.NUMBER)),
    (TokenType.ARRAY, _followed_by(TokenType.ARRAY, _QUERIES, within=TokenType.L_PAREN)),
    (TokenType.INSERT, _inserts),
    (TokenType.CREATE, _creates),
    (TokenType.CREATE, _behind_columns),
    (TokenType.OFFSET, _with_offset),
    (TokenType.NOT, _not_operators),
)
"""Each rule, and a token without which it has nothing to look at."""
