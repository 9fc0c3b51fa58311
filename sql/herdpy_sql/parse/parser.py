"""One statement to a syntax tree, by sqlglot's postgres dialect, with PostgreSQL's errors.

sqlglot is liberal: it accepts other dialects' syntax too, and turns what it does not know into a
"Command". Statements are therefore told apart by their first words before it is asked, and a Command
that comes back is a syntax error. Parsers are kept and used again: making one costs as much as parsing
a point SELECT.
"""

from __future__ import annotations

import functools
import logging
import re
from typing import TYPE_CHECKING

from sqlglot import TokenType
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError, TokenError
from sqlglot.expressions import Command as UnknownSyntax
from sqlglot.expressions import (
    Create,
    Delete,
    Expr,
    Expression,
    Insert,
    OnConflict,
    Placeholder,
    Returning,
    Select,
    Table,
    TemporaryProperty,
    Update,
    Var,
)
from sqlglot.tokenizer_core import Token

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.commands import COMMANDS, Command, parse_command
from herdpy_sql.parse.copy_statement import CopyStatement, parse_copy
from herdpy_sql.parse.lexer import TokenCursor
from herdpy_sql.parse.lifted_clauses import (
    IdentityOptions,
    ReferenceOptions,
    attach_identity_options,
    attach_references,
    lift_identity_options,
    lift_on_commit,
    lift_overriding,
    lift_references,
)
from herdpy_sql.parse.maintenance import MAINTENANCE, parse_maintenance
from herdpy_sql.parse.object_commands import (
    OBJECT_COMMANDS,
    TYPE_COMMANDS,
    parse_object_command,
    parse_type_command,
)
from herdpy_sql.parse.role_commands import (
    RIGHT_COMMANDS,
    ROLE_COMMANDS,
    parse_right_command,
    parse_role_command,
)
from herdpy_sql.parse.tablespace_commands import TABLESPACE_COMMANDS, parse_tablespace_command
from herdpy_sql.parse.typed_literals import (
    arrays_of_ids,
    bracketed,
    grouped,
    signed_counts,
    whole_intervals,
    with_plain_operators,
)
from herdpy_sql.parse.understood import refuse_lost, refuse_unread

if TYPE_CHECKING:
    from sqlglot.parser import Parser
    from sqlglot.tokens import Tokenizer

    from herdpy_sql.parse.lexer import Statement

_QUERIES = frozenset(
    {"SELECT", "VALUES", "WITH", "(", "TABLE", "INSERT", "UPDATE", "DELETE", "MERGE", "UPSERT"}
)
_OF_RIGHTS = frozenset({"GRANT", "REVOKE", "ALTER", "REASSIGN", "DROP"})
_DEFINITIONS = re.compile(
    r"CREATE\s+(?:(?:UNLOGGED\s+|(?:GLOBAL\s+|LOCAL\s+)?TEMP(?:ORARY)?\s+)?TABLE|(?:UNIQUE\s+)?INDEX)\b",
    re.IGNORECASE,
)
_DROPS = re.compile(r"DROP\s+(?:TABLE|INDEX)\b", re.IGNORECASE)
_STATEMENT_NAME = re.compile(
    r"(?:CREATE|ALTER|DROP)(?:\s+OR\s+REPLACE)?(?:\s+(?:TEMP|TEMPORARY|UNLOGGED|MATERIALIZED|FOREIGN|EVENT"
    r"|ACCESS|TEXT\s+SEARCH))?\s+[A-Z]+|[A-Z]+",
    re.IGNORECASE,
)
# What PostgreSQL 15 has as a statement: known, though not all are ours.
_KNOWN = frozenset(
    [
        "ALTER",
        "ANALYZE",
        "CALL",
        "COMMENT",
        "CREATE",
        "DO",
        "DROP",
        "GRANT",
        "IMPORT",
        "LISTEN",
        "LOAD",
        "LOCK",
        "NOTIFY",
        "REASSIGN",
        "REFRESH",
        "REINDEX",
        "REVOKE",
        "SECURITY",
        "VACUUM",
    ]
)

logging.getLogger("sqlglot").addFilter(
    lambda record: "contains unsupported syntax" not in record.getMessage()
)


class HerdPostgres(Postgres):
    """PostgreSQL's dialect without dollar quotes, which the lexer has made plain strings already."""

    INDEX_OFFSET = 0  # subscripts stay as they are written

    class Tokenizer(Postgres.Tokenizer):
        HEREDOC_STRINGS = []  # noqa: RUF012 - sqlglot's way of declaring it
        # pgvector's operators, as tokens that nothing else needs.
        KEYWORDS = {  # noqa: RUF012
            **{
                word: token
                for word, token in Postgres.Tokenizer.KEYWORDS.items()
                if word not in {"<<->>", "-|-", "&<"}
            },
            "<#>": TokenType.LLRR_ARROW,
            "<+>": TokenType.ADJACENT,
            "<=>": TokenType.AMP_LT,
        }
        SINGLE_TOKENS = {**Postgres.Tokenizer.SINGLE_TOKENS, "$": TokenType.PARAMETER}  # noqa: RUF012


# Templates and strides are to stay text, and log10 is no log of two numbers, nor is there a log2.
# sqlglot's parsers are compiled and cannot be derived from.
for _name in ("TO_CHAR", "TO_DATE", "TO_TIMESTAMP", "DATE_BIN", "LOG10", "LOG2"):
    Postgres.Parser.FUNCTIONS.pop(_name, None)
# date_part is a function of a text, which may be any expression, and gives a float: no EXTRACT.
Postgres.Parser.FUNCTION_PARSERS.pop("DATE_PART", None)

_NOT_AFTER_COMMA = frozenset(
    {
        TokenType.COMMA,
        TokenType.R_PAREN,
        TokenType.FROM,
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.ORDER_BY,
        TokenType.LIMIT,
        TokenType.UNION,
    }
)
_CHANGES = (Insert, Update, Delete)
_DIALECT = HerdPostgres()
_TYPE_TOKENS = frozenset(_DIALECT.parser().TYPE_TOKENS)
# Free parsers: popped while in use, so that threads never share one.
_FREE: list[tuple[Tokenizer, Parser]] = []


def parse(statement: Statement) -> Expression | Command | CopyStatement:
    """The syntax tree of a statement. SqlError 42601 or 0A000, with a position where one is known."""
    keyword = statement.keyword
    if keyword in COMMANDS or (keyword == "DROP" and _DROPS.match(statement.clean)):
        return parse_command(statement)
    if keyword in _OF_RIGHTS and RIGHT_COMMANDS.match(statement.clean):
        return parse_right_command(statement)
    if keyword in {"CREATE", "ALTER", "DROP"} and TYPE_COMMANDS.match(statement.clean):
        return parse_type_command(statement)
    if keyword in {"CREATE", "ALTER", "DROP", "COMMENT"} and OBJECT_COMMANDS.match(statement.clean):
        return parse_object_command(statement)
    if keyword in {"CREATE", "ALTER", "DROP", "CHECK"}:
        if ROLE_COMMANDS.match(statement.clean):
            return parse_role_command(statement)
        if TABLESPACE_COMMANDS.match(statement.clean):
            return parse_tablespace_command(statement)
    if keyword in MAINTENANCE:
        return parse_maintenance(TokenCursor(statement))
    if keyword == "COPY":
        return parse_copy(statement)
    if keyword in _QUERIES or _DEFINITIONS.match(statement.clean):
        return _by_sqlglot(statement)
    if keyword in _KNOWN:
        raise SqlError(
            "0A000", f"{statement_name(statement)} is not supported", position=statement.offset + 1
        )
    shown = re.match(r"\w+|.", statement.text)
    near = shown.group() if shown else keyword
    raise SqlError("42601", f'syntax error at or near "{near}"', position=statement.offset + 1)


def makes_temporary(statement: Statement) -> bool:
    """Whether it makes something temporary, as its syntax says. It is asked at every run."""
    if statement.keyword not in {"CREATE", "SELECT", "WITH"} or "temp" not in statement.clean.lower():
        return False
    return _makes_temporary(statement)


@functools.lru_cache(512)
def _makes_temporary(statement: Statement) -> bool:
    try:
        tree = parse(statement)
    except SqlError:
        return False  # which its planning raises again
    if not isinstance(tree, Create | Select):
        return False
    into = tree.args.get("into")
    if into is not None:
        return bool(into.args.get("temporary")) or _is_temporary(into)
    return isinstance(tree, Create) and (tree.find(TemporaryProperty) is not None or _is_temporary(tree))


def _is_temporary(made: Expression) -> bool:
    """Whether a thing's name has the schema of temporary ones."""
    named = made.find(Table)
    return named is not None and named.text("db").lower() == "pg_temp"


def statement_name(statement: Statement) -> str:
    """What kind of statement it is, for messages: "CREATE VIEW"."""
    match = _STATEMENT_NAME.match(statement.clean)
    return re.sub(r"\s+", " ", match.group()).upper() if match else statement.keyword


def _by_sqlglot(statement: Statement) -> Expression:
    tools = _FREE.pop() if _FREE else (_DIALECT.tokenizer(), _DIALECT.parser())
    tokenizer, parser = tools
    text = statement.clean
    try:
        tokens = tokenizer.tokenize(text)
        if "::" in text or "->" in text:
            tokens = bracketed(grouped(tokens, _TYPE_TOKENS))
        if "FETCH" in text.upper():
            tokens = signed_counts(tokens)
        if "[]" in text:
            tokens = arrays_of_ids(tokens)
        if "INTERVAL" in text.upper():
            tokens = whole_intervals(tokens)
        references: list[ReferenceOptions] = []
        if statement.keyword == "CREATE" and "REFERENCES" in text.upper():
            tokens, references = lift_references(tokens)
        identities: list[IdentityOptions] = []
        if statement.keyword == "CREATE" and "IDENTITY" in text.upper():
            tokens, identities = lift_identity_options(tokens, text)
        ending = ""
        if statement.keyword == "CREATE" and "COMMIT" in text.upper():
            tokens, ending = lift_on_commit(tokens)
        overriding = ""
        if "OVERRIDING" in text.upper():
            tokens, overriding = lift_overriding(tokens)
        upsert = "upsert" in text.lower() and _insert_for_upsert(tokens)
        trees = _parse_tokens(parser, tokens, text)
        if ending and isinstance(trees[0], Expression):
            trees[0].set("on_commit", ending)
        if overriding and isinstance(trees[0], Insert):
            trees[0].set("overriding", overriding)
        if references and isinstance(trees[0], Expression):
            attach_references(trees[0], references)
        if any(identities) and isinstance(trees[0], Expression):
            attach_identity_options(trees[0], identities)
    except ParseError as error:
        raise _syntax_error(statement, error) from error
    except TokenError as error:
        raise SqlError(
            "42601", "syntax error: a token is not complete", position=statement.offset + 1
        ) from error
    except RecursionError as error:
        raise SqlError("54001", "stack depth limit exceeded") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # sqlglot's own slips on malformed text: the text is at fault all the same.
        raise SqlError("42601", f"syntax error: {error}", position=statement.offset + 1) from error
    _FREE.append(tools)
    tree = trees[0] if trees else None
    if tree is not None and not isinstance(tree, UnknownSyntax):
        refuse_lost(tree, refuse_unread(tree), tokens)
    if tree is not None and "?" in text and tree.find(Placeholder):  # other databases' parameters
        raise SqlError("42601", 'syntax error at or near "?"', position=statement.position(text.index("?")))
    if tree is not None and ("[" in text or "<" in text):
        tree = with_plain_operators(tree)
    if upsert and isinstance(tree, Insert):
        if tree.args.get("conflict"):
            raise SqlError("42601", 'syntax error at or near "ON"', position=statement.offset + 1)
        tree.set("conflict", OnConflict(action=Var(this="UPSERT")))
    if not isinstance(tree, Expression) or len(trees) != 1 or isinstance(tree, UnknownSyntax):
        raise SqlError(
            "42601",
            f"syntax error in {statement_name(statement)} statement",
            position=statement.offset + 1,
        )
    return tree


def _insert_for_upsert(tokens: list[Token]) -> bool:
    """Whether the statement is an UPSERT, which sqlglot reads as the INSERT that it is made here."""
    for i, token in enumerate(tokens[:-1]):
        if token.token_type == TokenType.VAR and token.text.upper() == "UPSERT":
            if tokens[i + 1].token_type != TokenType.INTO:
                continue
            tokens[i] = Token(TokenType.INSERT, token.text, token.line, token.col, token.start, token.end)
            return True
    return False


def _parse_tokens(parser: Parser, tokens: list[Token], text: str) -> list[Expr | None]:
    """Parse, RETURNING apart: sqlglot reads no stars in it, so it is read as a SELECT list.

    Commas with nothing after them, which sqlglot passes over, are errors.
    """
    depth = 0
    comma = False
    for i, token in enumerate(tokens):
        kind = token.token_type
        if comma and kind in _NOT_AFTER_COMMA:
            break
        comma = kind == TokenType.COMMA
        if kind == TokenType.L_PAREN:
            depth += 1
        elif kind == TokenType.R_PAREN:
            depth -= 1
        elif kind == TokenType.RETURNING and depth == 0:
            trees = parser.parse(tokens[:i], text)
            select = Token(TokenType.SELECT, token.text, token.line, token.col, token.start, token.end)
            listed = parser.parse([select, *tokens[i + 1 :]], text)[0]
            if trees and isinstance(trees[0], _CHANGES) and isinstance(listed, Select):
                if [key for key, value in listed.args.items() if value] != ["expressions"]:
                    break
                trees[0].set("returning", Returning(expressions=listed.expressions))
                return trees
            break
    else:
        if not comma:
            return parser.parse(tokens, text)
        raise ParseError.new("comma")
    raise ParseError.new("unexpected", line=token.line, col=token.col, highlight=token.text)


def _syntax_error(statement: Statement, error: ParseError) -> SqlError:
    """PostgreSQL's message: sqlglot says the line, the column after the token, and the token."""
    found = error.errors[0] if error.errors else {}
    text, near = statement.clean, str(found.get("highlight") or "")
    line, column = int(found.get("line") or 1), int(found.get("col") or 0)
    offset = 0
    for _ in range(line - 1):
        offset = text.find("\n", offset) + 1
    offset = min(offset + column, len(text))
    if not near or (str(found.get("description", "")).startswith("Required keyword") and offset >= len(text)):
        return SqlError("42601", "syntax error at end of input", position=statement.position(len(text)))
    start = text.rfind(near, 0, offset + len(near))
    if start + len(near) == len(text) and text.count("(") > text.count(")"):
        return SqlError("42601", "syntax error at end of input", position=statement.position(len(text)))
    return SqlError(
        "42601",
        f'syntax error at or near "{near}"',
        position=statement.position(start if start >= 0 else max(offset - 1, 0)),
    )
