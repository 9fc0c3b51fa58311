"""Literals with a type before them: ``DATE '2024-01-31'::text`` is the text of a date.

Between the tokenizer and the parser. sqlglot lets ``::`` and ``->`` bind closer to the string than
the type before it does, PostgreSQL the other way round: parentheses, put around type and string
where such an operator follows, say what is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import TokenType
from sqlglot import expressions as exp
from sqlglot.expressions import Expr
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


def bracketed(tokens: list[Token]) -> list[Token]:
    """Parentheses around a key or index after -> and ->>, which sqlglot would take for a JSON path."""
    found: list[Token] = []
    for token in tokens:
        after = found and found[-1].token_type in _ARROWS and token.token_type in _LITERALS
        found += [_mark("(", token), token, _mark(")", token)] if after else [token]
    return found


def signed_counts(tokens: list[Token]) -> list[Token]:
    """Parentheses around the number of FETCH FIRST -1, whose sign sqlglot does not read."""
    found: list[Token] = []
    for token in tokens:
        signed = (
            token.token_type == TokenType.NUMBER
            and len(found) > 2
            and found[-1].token_type in (TokenType.DASH, TokenType.PLUS)
            and found[-2].text.upper() in ("FIRST", "NEXT")
            and found[-3].token_type == TokenType.FETCH
        )
        if signed:
            found[-1:] = [_mark("(", token), found[-1], token, _mark(")", token)]
        else:
            found.append(token)
    return found


def _mark(text: str, by: Token) -> Token:
    kind = TokenType.L_PAREN if text == "(" else TokenType.R_PAREN
    return Token(kind, text, by.line, by.col, by.start, by.end)


_ARROWS = frozenset({TokenType.ARROW, TokenType.DARROW})
_LITERALS = frozenset({TokenType.STRING, TokenType.NUMBER})


_DISTANCES: dict[type[Expr], str] = {
    exp.DistanceNd: "negative_inner_product",
    exp.Adjacent: "l1_distance",
    exp.ExtendsLeft: "cosine_distance",
}


def with_plain_operators(tree: Expr) -> Expr:
    """The tree so that its text means the same: subscripts from 1, vectors' operators as functions."""
    found = list(tree.find_all(exp.Bracket, *_DISTANCES))
    for node in found:
        if isinstance(node, exp.Bracket):
            node.set("offset", 1)
            continue
        call = exp.Anonymous(this=_DISTANCES[type(node)], expressions=[node.this, node.expression])
        if node is tree:
            return call
        node.replace(call)
    return tree


def arrays_of_ids(tokens: list[Token]) -> list[Token]:
    """``oid[]`` and its like by their own names (``_oid``): sqlglot takes the brackets for a subscript."""
    found = list(tokens)
    for at in range(len(found) - 3, -1, -1):
        if (
            found[at].token_type == TokenType.OBJECT_IDENTIFIER
            and found[at + 1].token_type == TokenType.L_BRACKET
            and found[at + 2].token_type == TokenType.R_BRACKET
        ):
            found[at : at + 3] = [_like(found[at], TokenType.VAR, f"_{found[at].text.lower()}")]
    return found


_UNITS = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"})


def whole_intervals(tokens: list[Token]) -> list[Token]:
    """``INTERVAL '...'`` without a unit behind it as a cast: sqlglot would keep the first unit in it only.

    With fields behind it, as in ``INTERVAL '1 2:03' DAY TO HOUR``, it is a call of ``interval``, which takes
    the text, the fields and the digits.
    """
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        if (
            token.token_type == TokenType.INTERVAL
            and following is not None
            and following.token_type == TokenType.STRING
            and (at + 2 >= len(tokens) or tokens[at + 2].text.upper() not in _UNITS)
        ):
            colons = Token(
                TokenType.DCOLON, "::", following.line, following.col, following.start, following.end
            )
            found += [_mark("(", following), following, colons, token, _mark(")", following)]
            at += 2
        elif token.token_type == TokenType.INTERVAL and (fields := _fields(tokens, at)) is not None:
            words, digits, end = fields
            call = [_like(token, TokenType.VAR, "interval"), _mark("(", token), tokens[at + 1]]
            for kind, text in ((TokenType.STRING, words), (TokenType.NUMBER, digits)):
                call += [_like(token, TokenType.COMMA, ","), _like(token, kind, text)]
            found += [*call, _mark(")", token)]
            at = end
        else:
            found.append(token)
            at += 1
    return found


def _fields(tokens: list[Token], at: int) -> tuple[str, str, int] | None:
    """Fields and digits behind the literal at ``at``, and where they end; None for a number with one unit."""
    if at + 2 >= len(tokens) or tokens[at + 1].token_type != TokenType.STRING:
        return None
    words, digits, end = [tokens[at + 2].text.lower()], "6", at + 3
    if end + 1 < len(tokens) and tokens[end].text.upper() == "TO" and tokens[end + 1].text.upper() in _UNITS:
        words.append(tokens[end + 1].text.lower())
        end += 2
    given = [token.text for token in tokens[end : end + 3]]
    if words[-1] == "second" and len(given) == 3 and given[::2] == ["(", ")"] and given[1].isdigit():
        digits, end = given[1], end + 3
    elif len(words) == 1 and tokens[at + 1].text.strip().lstrip("+-").isdigit():
        return None
    return " ".join(words), digits, end
