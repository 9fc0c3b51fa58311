"""One statement to a syntax tree, by sqlglot's postgres dialect, with PostgreSQL's errors.

sqlglot is liberal: it accepts other dialects' syntax too, and turns what it does not know into a
"Command". Statements are therefore told apart by their first words before it is asked, and a Command
that comes back is a syntax error. Parsers are kept and used again: making one costs as much as parsing
a point SELECT.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from sqlglot import TokenType
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError, TokenError
from sqlglot.expressions import Command as UnknownSyntax
from sqlglot.expressions import Delete, Expr, Expression, Insert, Returning, Select, Update
from sqlglot.tokenizer_core import Token

from herdpy_sql.errors import SqlError
from herdpy_sql.parse.commands import COMMANDS, Command, parse_command
from herdpy_sql.parse.copy_statement import CopyStatement, parse_copy
from herdpy_sql.parse.cursor import Cursor
from herdpy_sql.parse.cursor_commands import CURSOR_COMMANDS, parse_cursor_command
from herdpy_sql.parse.maintenance import MAINTENANCE, parse_maintenance
from herdpy_sql.parse.role_commands import ROLE_COMMANDS, parse_role_command
from herdpy_sql.parse.tablespace_commands import TABLESPACE_COMMANDS, parse_tablespace_command
from herdpy_sql.parse.typed_literals import grouped

if TYPE_CHECKING:
    from sqlglot.parser import Parser
    from sqlglot.tokens import Tokenizer

    from herdpy_sql.parse.lexer import Statement

_QUERIES = frozenset({"SELECT", "VALUES", "WITH", "(", "TABLE", "INSERT", "UPDATE", "DELETE"})
_DEFINITIONS = re.compile(r"CREATE\s+(?:(?:UNLOGGED\s+)?TABLE|(?:UNIQUE\s+)?INDEX)\b", re.IGNORECASE)
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
        "CLUSTER",
        "COMMENT",
        "CREATE",
        "DO",
        "DROP",
        "GRANT",
        "IMPORT",
        "LISTEN",
        "LOAD",
        "LOCK",
        "MERGE",
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

    class Tokenizer(Postgres.Tokenizer):
        HEREDOC_STRINGS = []  # noqa: RUF012 - sqlglot's way of declaring it
        SINGLE_TOKENS = {**Postgres.Tokenizer.SINGLE_TOKENS, "$": TokenType.PARAMETER}  # noqa: RUF012


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
    if keyword in {"CREATE", "ALTER", "DROP", "CHECK"}:
        if ROLE_COMMANDS.match(statement.clean):
            return parse_role_command(statement)
        if TABLESPACE_COMMANDS.match(statement.clean):
            return parse_tablespace_command(statement)
    if keyword in MAINTENANCE:
        return parse_maintenance(Cursor(statement))
    if keyword in CURSOR_COMMANDS:
        return parse_cursor_command(statement)
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
            tokens = grouped(tokens, _TYPE_TOKENS)
        trees = _parse_tokens(parser, tokens, text)
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
    if not isinstance(tree, Expression) or len(trees) != 1 or isinstance(tree, UnknownSyntax):
        raise SqlError(
            "42601",
            f"syntax error in {statement_name(statement)} statement",
            position=statement.offset + 1,
        )
    return tree


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
