"""AS OF SYSTEM TIME: which moment of the past a query reads. Beside ``tokens``, below ``parser``.

It stands after a FROM clause, of any query in the statement, and counts for the whole of it. sqlglot knows
nothing of it: the tokens are taken out before it parses, and the tree has the moment in its ``meta``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import TokenType

from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot import expressions as exp
    from sqlglot.tokenizer_core import Token

    from herdpy_sql.parse.lexer import Statement

_META = "herdpy_as_of"
_WORDS = re.compile(r"\bAS\s+OF\s+SYSTEM\s+TIME\b", re.IGNORECASE)
_TYPES = {
    "TIMESTAMP": "timestamp",
    "TIMESTAMPTZ": "timestamptz",
    "INTERVAL": "interval",
    "TEXT": "",
    "VARCHAR": "",
    "STRING": "",
}
_ENDS_FROM = frozenset(
    {
        *(TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT),
        *(TokenType.OFFSET, TokenType.FETCH, TokenType.WINDOW, TokenType.UNION, TokenType.EXCEPT),
        *(TokenType.INTERSECT, TokenType.R_PAREN, TokenType.SEMICOLON, TokenType.FOR, TokenType.RETURNING),
        TokenType.WITH,
    }
)
"""What may come after it, beside ON CONFLICT. WITH is that of CREATE TABLE AS ... WITH NO DATA."""
_BEGINS_CLAUSE = frozenset(
    {
        *(TokenType.SELECT, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY),
        *(TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH, TokenType.WINDOW, TokenType.UNION),
        *(TokenType.EXCEPT, TokenType.INTERSECT, TokenType.INTO, TokenType.SET, TokenType.VALUES),
    }
)


@dataclass(frozen=True, slots=True)
class AsOf:
    """The moment as it is written.

    Attributes:
        text: the literal.
        type: "timestamp", "timestamptz" or "interval" where that is written with it; "" where it is not.
    """

    text: str
    type: str = ""


def may_read_past(text: str) -> bool:
    """Whether a text may have AS OF SYSTEM TIME; where it does not, nothing of it costs anything."""
    return _WORDS.search(text) is not None


def as_of(tree: exp.Expression) -> AsOf | None:
    """The moment that a parsed statement reads; None: the present."""
    found: AsOf | None = tree.meta.get(_META)
    return found


def mark(tree: exp.Expression, moment: AsOf) -> None:
    """Note with a tree which moment it reads."""
    tree.meta[_META] = moment


def lift_as_of(tokens: list[Token], statement: Statement) -> tuple[list[Token], AsOf | None]:
    """The tokens without AS OF SYSTEM TIME, and the moment.

    Raises:
        SqlError: 42601 it stands where it may not; 0A000 two different moments, or one that is no constant.
    """
    kept: list[Token] = []
    found: AsOf | None = None
    at = 0
    while at < len(tokens):
        if not _begins(tokens, at):
            kept.append(tokens[at])
            at += 1
            continue
        if not _is_in_from(kept):
            raise _syntax_error(statement, tokens, at)
        moment, stop = _moment(tokens, at + 4, statement)
        if stop < len(tokens) and not _ends_from(tokens, stop):
            raise _syntax_error(statement, tokens, stop)
        if found is not None and moment != found:
            raise SqlError(
                "0A000",
                "a statement reads one moment: AS OF SYSTEM TIME names two",
                position=_position(statement, tokens, at),
            )
        found, at = moment, stop
    return kept, found


def _begins(tokens: Sequence[Token], at: int) -> bool:
    return tokens[at].token_type == TokenType.ALIAS and [
        token.text.upper() for token in tokens[at : at + 4]
    ] == ["AS", "OF", "SYSTEM", "TIME"]


def _is_in_from(before: Sequence[Token]) -> bool:
    """Whether the clause that the tokens end in is a FROM."""
    depth = 0
    for token in reversed(before):
        kind = token.token_type
        if kind == TokenType.R_PAREN:
            depth += 1
        elif kind == TokenType.L_PAREN:
            if not depth:
                return False
            depth -= 1
        elif not depth and kind == TokenType.FROM:
            return True
        elif not depth and kind in _BEGINS_CLAUSE:
            return False
    return False


def _ends_from(tokens: Sequence[Token], at: int) -> bool:
    if tokens[at].token_type == TokenType.ON:
        return at + 1 < len(tokens) and tokens[at + 1].text.upper() == "CONFLICT"
    return tokens[at].token_type in _ENDS_FROM


def _moment(tokens: Sequence[Token], at: int, statement: Statement) -> tuple[AsOf, int]:
    """The moment that is written from ``at`` on, and where it ends."""
    kind = ""
    first = tokens[at] if at < len(tokens) else None
    if first is not None and first.token_type != TokenType.STRING:
        kind, at = _type(tokens, at)
        if not kind:
            raise _not_constant(statement, tokens, at)
    if at >= len(tokens):
        raise SqlError("42601", "syntax error at end of input", position=_position(statement, tokens, at))
    if tokens[at].token_type != TokenType.STRING:
        raise _not_constant(statement, tokens, at)
    text = tokens[at].text
    at += 1
    while not kind and at + 1 < len(tokens) and tokens[at].token_type == TokenType.DCOLON:
        named = tokens[at + 1].text.upper()
        kind, stop = _type(tokens, at + 1)
        if not kind and named not in _TYPES:
            raise _not_constant(statement, tokens, at)
        at = stop
    if at < len(tokens) and tokens[at].token_type in (TokenType.DASH, TokenType.PLUS, TokenType.DPIPE):
        raise _not_constant(statement, tokens, at)
    return AsOf(text, kind), at


def _type(tokens: Sequence[Token], at: int) -> tuple[str, int]:
    """The type that is named at ``at``, "" where it is none of those known, and where its name ends."""
    words = [token.text.upper() for token in tokens[at : at + 4]]
    kind = _TYPES.get(words[0], "") if words else ""
    if words[1:4] == ["WITH", "TIME", "ZONE"] and kind == "timestamp":
        return "timestamptz", at + 4
    if words[1:4] == ["WITHOUT", "TIME", "ZONE"] and kind == "timestamp":
        return kind, at + 4
    known = bool(words) and words[0] in _TYPES
    return kind, at + 1 if known else at


def _not_constant(statement: Statement, tokens: Sequence[Token], at: int) -> SqlError:
    return SqlError(
        "0A000",
        "AS OF SYSTEM TIME takes a constant: a time, an interval before now, or a position of the log",
        hint="Write it as a string: '-5 min', '2026-01-31 12:00+00' or 'ledger:entry'. It is no parameter.",
        position=_position(statement, tokens, at),
    )


def _syntax_error(statement: Statement, tokens: Sequence[Token], at: int) -> SqlError:
    return SqlError(
        "42601",
        f'syntax error at or near "{tokens[at].text}"',
        position=_position(statement, tokens, at),
    )


def _position(statement: Statement, tokens: Sequence[Token], at: int) -> int:
    offset = tokens[at].start if at < len(tokens) else len(statement.clean)
    return statement.position(offset)
