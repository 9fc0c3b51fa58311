"""Tokens that sqlglot reads otherwise or not at all: changed before it parses, or put back at its tree.

``::`` binds closer to a string than the type before it does: parentheses say what is meant. The options of
REFERENCES and of GENERATED ... AS IDENTITY, OVERRIDING and ON COMMIT are taken out, read here, and put back
at the tree's nodes in the order of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import TokenType
from sqlglot import expressions as exp
from sqlglot.errors import ParseError
from sqlglot.expressions import Expr, GeneratedAsIdentityColumnConstraint
from sqlglot.tokenizer_core import Token

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.lexer import TokenCursor, split
from herdpy_sql.parse.object_commands import Option, sequence_options
from herdpy_sql.types import FACTS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlglot.expressions import Expression

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


_AFTER_LIMIT = frozenset(
    {
        TokenType.OFFSET,
        TokenType.FOR,
        TokenType.FETCH,
        TokenType.UNION,
        TokenType.EXCEPT,
        TokenType.INTERSECT,
        TokenType.ON,  # CONFLICT
        TokenType.RETURNING,
    }
)


def refuse_limit_pairs(tokens: Sequence[Token]) -> None:
    """SqlError 42601 for LIMIT #,#, of which sqlglot would make LIMIT and OFFSET."""
    depth = 0
    open_limits: set[int] = set()  # the depths at which a LIMIT's number is read
    for token in tokens:
        kind = token.token_type
        if kind == TokenType.L_PAREN:
            depth += 1
        elif kind == TokenType.R_PAREN:
            open_limits.discard(depth)
            depth -= 1
        elif kind == TokenType.LIMIT:
            open_limits.add(depth)
        elif kind in _AFTER_LIMIT:
            open_limits.discard(depth)
        elif kind == TokenType.COMMA and depth in open_limits:
            hint = "Use separate LIMIT and OFFSET clauses."
            raise SqlError("42601", "LIMIT #,# syntax is not supported", hint=hint)


def refuse_search_and_cycle(tokens: Sequence[Token]) -> None:
    """SqlError 0A000 for SEARCH and CYCLE behind a WITH query, whose lists of columns sqlglot cannot read."""
    for one, two, three in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if one.token_type != TokenType.R_PAREN or two.token_type != TokenType.VAR:
            continue
        word, names = two.text.upper(), three.token_type in {TokenType.VAR, TokenType.IDENTIFIER}
        if (word == "SEARCH" and three.text.upper() in {"BREADTH", "DEPTH"}) or (word == "CYCLE" and names):
            raise SqlError("0A000", f"{word} of a recursive query is not supported")


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
    """The tree so that its text means the same: subscripts from 1, vectors' operators as functions.

    ``_oid`` and its like, the names that pg_type has for arrays, become arrays' types.
    """
    found = list(tree.find_all(exp.Bracket, exp.DataType, *_DISTANCES))
    for node in found:
        if isinstance(node, exp.DataType):
            _name_array(node)
            continue
        if isinstance(node, exp.Bracket):
            node.set("offset", 1)
            continue
        call = exp.Anonymous(this=_DISTANCES[type(node)], expressions=[node.this, node.expression])
        if node is tree:
            return call
        node.replace(call)
    return tree


_ARRAYS = frozenset(
    f"_{facts.catalog_name or base.value}" for base, facts in FACTS.items() if facts.array_oid
)


def _name_array(node: exp.DataType) -> None:
    kind = node.args.get("kind")
    if isinstance(kind, exp.Dot) and isinstance(kind.this, exp.Identifier) and kind.this.name == "pg_catalog":
        kind = kind.expression
    if isinstance(kind, exp.Identifier) and kind.name in _ARRAYS:
        name = exp.Dot(this=exp.to_identifier("pg_catalog"), expression=exp.to_identifier(kind.name[1:]))
        element = exp.DataType(this=exp.DataType.Type.USERDEFINED, kind=name)
        node.replace(exp.DataType(this=exp.DataType.Type.ARRAY, expressions=[element], nested=True))


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


_TYPES_OF_OURS = frozenset({"cidr", "macaddr", "macaddr8"})
TYPED_LITERAL = re.compile(rf"(?i)\b(?:bit|{'|'.join(sorted(_TYPES_OF_OURS))})\s*'")
"""What a text has where :func:`typed_literals` may change something."""


def typed_literals(tokens: list[Token]) -> list[Token]:
    """``cidr '...'`` as a cast: sqlglot knows no type of that name. ``bit '...'`` is ``B'...'``."""
    found: list[Token] = []
    for token in tokens:
        before = found[-1] if found else None
        if (
            token.token_type == TokenType.STRING
            and before is not None
            and before.token_type == TokenType.VAR
            and before.text.lower() in _TYPES_OF_OURS
        ):
            colons = _like(token, TokenType.DCOLON, "::")
            found[-1:] = [_mark("(", token), token, colons, before, _mark(")", token)]
        elif (
            token.token_type == TokenType.STRING and before is not None and before.token_type == TokenType.BIT
        ):
            found[-1] = _like(token, TokenType.BIT_STRING, token.text)
        else:
            found.append(token)
    return found


NEGATIVE_SCALE = re.compile(r"(?:numeric|dec|decimal)\s*\(\s*\d+\s*,\s*-", re.IGNORECASE)
"""What a text has that :func:`negative_scales` may change."""
_NUMERIC = frozenset({"numeric", "decimal", "dec"})


def negative_scales(tokens: list[Token]) -> list[Token]:
    """``numeric(5, -2)`` with its scale as one number: sqlglot reads no sign there."""
    found = list(tokens)
    for at in range(len(found) - 7, -1, -1):
        kinds = tuple(one.token_type for one in found[at + 1 : at + 7])
        if kinds == _NEGATIVE_SCALE and found[at].text.lower() in _NUMERIC:
            number = found[at + 5]
            found[at + 4 : at + 6] = [_like(number, TokenType.NUMBER, f"-{number.text}")]
    return found


_NEGATIVE_SCALE = (
    TokenType.L_PAREN, TokenType.NUMBER, TokenType.COMMA, TokenType.DASH, TokenType.NUMBER, TokenType.R_PAREN,
)  # fmt: skip
_PATTERNS = frozenset({"~", "~*", "!~", "!~*", "~~", "~~*", "!~~", "!~~*"})


def without_catalog(tokens: list[Token]) -> list[Token]:
    """The tokens without ``pg_catalog.`` before functions, types and collations, which are found there first.

    ``OPERATOR(pg_catalog.~)`` is ``~``, and so of its like; other operators bind closer when they are written
    so, and stay.
    """
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        texts = [one.text.lower() for one in tokens[at : at + 7]]
        if texts[:4] == ["operator", "(", "pg_catalog", "."] and ")" in texts:
            end = at + texts.index(")")
            if "".join(one.text for one in tokens[at + 4 : end]) in _PATTERNS:
                found += tokens[at + 4 : end]
                at = end + 1
                continue
        elif texts[:2] == ["information_schema", "."] and texts[3:4] == ["("]:
            at += 2
            continue
        elif len(texts) > 2 and texts[:2] == ["pg_catalog", "."]:
            before = found[-1].text.upper() if found else ""
            if before in ("::", "AS", "COLLATE") or (len(texts) > 3 and texts[3] == "(" and before != "TYPE"):
                at += 2
                continue
        found.append(token)
        at += 1
    return found


_UNITS = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"})


def whole_intervals(tokens: list[Token]) -> list[Token]:
    """``INTERVAL '...'`` as a cast, with what stands behind it: sqlglot would keep the first unit in it only.

    ``INTERVAL '1 2:03' DAY TO SECOND(3)`` becomes ``('1 2:03'::INTERVAL DAY TO SECOND(3))``, and so does
    ``INTERVAL(3) '...'``. The ``SECOND(3)`` of a type is one word, for sqlglot knows no digits there.
    """
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.token_type != TokenType.INTERVAL:
            found.append(token)
            at += 1
            continue
        digits = _digits(tokens, at + 1)
        literal = at + 1 + len(digits)
        is_literal = literal < len(tokens) and tokens[literal].token_type == TokenType.STRING
        fields, end = _fields(tokens, literal + 1 if is_literal else at + 1)
        if is_literal:
            given = tokens[literal]
            colons = _like(given, TokenType.DCOLON, "::")
            found += [_mark("(", given), given, colons, token, *digits, *fields, _mark(")", given)]
        else:
            found += [token, *fields]
        at = end
    return found


def _digits(tokens: list[Token], at: int) -> list[Token]:
    """``(3)`` where it stands at ``at``."""
    given = tokens[at : at + 3]
    texts = [token.text for token in given]
    is_digits = len(given) == 3 and texts[::2] == ["(", ")"] and texts[1].isdigit()
    return given if is_digits else []


def _fields(tokens: list[Token], at: int) -> tuple[list[Token], int]:
    """The fields of an interval at ``at``, if any, with SECOND(3) as one word, and where they end."""
    if at >= len(tokens) or tokens[at].text.upper() not in _UNITS:
        return [], at
    found, end = [tokens[at]], at + 1
    if end + 1 < len(tokens) and tokens[end].text.upper() == "TO" and tokens[end + 1].text.upper() in _UNITS:
        found += tokens[end : end + 2]
        end += 2
    digits = _digits(tokens, end) if found[-1].text.upper() == "SECOND" else []
    if digits:
        found[-1] = _like(found[-1], TokenType.VAR, f"SECOND({min(int(digits[1].text), 6)})")
    return found, end + len(digits)


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
