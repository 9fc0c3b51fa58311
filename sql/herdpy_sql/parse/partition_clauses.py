"""The clauses of partitions as PostgreSQL reads them: sqlglot, which makes the tree, reads more and drops it.

Nothing is kept here. SqlError 42601 at the first word that PostgreSQL would not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_sql.parse.lexer import TokenCursor

if TYPE_CHECKING:
    from herdpy_sql.parse.lexer import Statement

_AFTER = frozenset({"", "USING", "WITH", "WITHOUT", "ON", "TABLESPACE"})
"""What may follow the last of these clauses in CREATE TABLE."""


def check_clauses(statement: Statement) -> None:
    """Read PARTITION OF and PARTITION BY of CREATE TABLE, which has at most one of each, in this order."""
    cursor = TokenCursor(statement)
    has_columns = False
    while cursor.peek() not in {"", "AS"}:
        if cursor.accept("PARTITION", "OF"):
            _partition_of(cursor)
        elif has_columns and cursor.accept("PARTITION", "BY"):
            _partition_by(cursor)
        elif cursor.accept("PARTITION", "BY"):
            cursor.at -= 1
            raise cursor.fail()
        else:
            has_columns = cursor.peek() == "("
            _step(cursor)
            continue
        if cursor.peek() not in _AFTER:
            raise cursor.fail()
    while cursor.peek():  # a query, whose windows are in parentheses
        if cursor.accept("PARTITION", "BY"):
            cursor.at -= 2
            raise cursor.fail()
        _step(cursor)


def pass_bound(cursor: TokenCursor) -> None:
    """Step over which rows a partition takes."""
    if cursor.accept("DEFAULT"):
        return
    _demand(cursor, "FOR", "VALUES")
    if cursor.accept("IN"):
        _pass_list(cursor)
    elif cursor.accept("FROM"):
        _pass_list(cursor)
        _demand(cursor, "TO")
        _pass_list(cursor)
    else:
        _demand(cursor, "WITH", "(", "MODULUS")
        cursor.value()
        _demand(cursor, ",", "REMAINDER")
        cursor.value()
        _demand(cursor, ")")


def _partition_of(cursor: TokenCursor) -> None:
    cursor.qualified_name()
    if cursor.peek() == "(":
        _pass_list(cursor)
    pass_bound(cursor)
    if cursor.accept("PARTITION", "BY"):
        _partition_by(cursor)


def _partition_by(cursor: TokenCursor) -> None:
    cursor.name()
    _pass_list(cursor)


def _pass_list(cursor: TokenCursor) -> None:
    """Step over a list in parentheses, which is not empty."""
    _demand(cursor, "(")
    if cursor.peek() == ")":
        raise cursor.fail()
    cursor.at -= 1
    _step(cursor)


def _step(cursor: TokenCursor) -> None:
    """Step over a word, or over parentheses with all that is in them."""
    depth = 0
    while word := cursor.peek():
        depth += (word == "(") - (word == ")")
        cursor.at += 1
        if depth <= 0:
            return


def _demand(cursor: TokenCursor, *words: str) -> None:
    for word in words:
        if not cursor.accept(word):
            raise cursor.fail()
