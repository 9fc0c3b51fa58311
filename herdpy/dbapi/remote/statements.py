"""What a statement is, by its words: may it be sent again, what does it do to a transaction?"""

from __future__ import annotations

import enum
import functools
import itertools
import re
from collections.abc import Sequence

from herdpy.dbapi.remote.words import Token, calls, first_tokens, starts, statements_of, tokens_of


class StatementKind(enum.Enum):
    """How a statement is to be treated."""

    READ = enum.auto()  # changes nothing: may be sent again
    WRITE = enum.auto()  # changes what the log has: named, so that its outcome can be asked for
    BEGIN = enum.auto()
    COMMIT = enum.auto()
    ROLLBACK = enum.auto()
    SETTING = enum.auto()  # of the session: to be repeated in the next one
    SESSION = enum.auto()  # of the session, and lost with it
    COPY = enum.auto()
    OTHER = enum.auto()  # what the log does not have


_KINDS = {
    **dict.fromkeys(("SELECT", "VALUES", "TABLE"), StatementKind.READ),
    **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "WITH", "TRUNCATE", "MERGE"), StatementKind.WRITE),
    **dict.fromkeys(("BEGIN", "START"), StatementKind.BEGIN),
    **dict.fromkeys(("COMMIT", "END"), StatementKind.COMMIT),
    **dict.fromkeys(("ROLLBACK", "ABORT"), StatementKind.ROLLBACK),
    **dict.fromkeys(("SET", "RESET", "DISCARD"), StatementKind.SETTING),
    **dict.fromkeys(
        ("SAVEPOINT", "RELEASE", "PREPARE", "DEALLOCATE", "DECLARE", "FETCH", "CLOSE"), StatementKind.SESSION
    ),
    "SHOW": StatementKind.READ,
    "EXPLAIN": StatementKind.READ,
    "COPY": StatementKind.COPY,
}
_QUERIES = ("SELECT", "VALUES")
_DEFINES = ("CREATE", "ALTER", "DROP")
_NOT_LOGGED = frozenset({"ROLE", "USER", "GROUP", "TABLESPACE"})
_OWN_TRANSACTION = frozenset({"SELECT", "VALUES", "TABLE", "DECLARE", "SAVEPOINT", "EXECUTE"})
_CONTROL = frozenset(
    ["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "PREPARE", "COPY", "CHECKPOINT", "VACUUM"]
)
_SEQUENCES = frozenset({"nextval", "setval"})
_ACTS = ("pg_terminate", "pg_cancel", "pg_reload", "pg_rotate", "pg_promote", "pg_switch", "pg_stat_reset")
"""What the names of functions that act upon the server begin with."""
_SET_CONFIG = frozenset({"set_config"})
_MAY_ACT = re.compile(r"into|(?:next|set)val|set_config|herdpy|pg_", re.IGNORECASE)
"""A query that has none of these needs no closer look."""
_OPTIONS = 64
"""Tokens in which the options of EXPLAIN end."""
_FALSE = frozenset({"FALSE", "OFF"})


@functools.lru_cache(2048)
def kind_of(sql: str) -> StatementKind:
    """What kind of statement ``sql`` is."""
    tokens = first_tokens(sql, 3)
    first = tokens[0].word if tokens else ""
    if first == "EXPLAIN" and _runs_what_it_explains(first_tokens(sql, _OPTIONS)[1:]):
        return StatementKind.WRITE
    if first == "ROLLBACK" and starts(_after_work(tokens), "TO"):
        return StatementKind.SESSION
    if first in _DEFINES:
        return (
            StatementKind.OTHER if len(tokens) > 1 and tokens[1].word in _NOT_LOGGED else StatementKind.WRITE
        )
    if first in _QUERIES and _MAY_ACT.search(sql) is not None:
        return _kind_of_query(tokens_of(sql))
    return _KINDS.get(first, StatementKind.OTHER)


def _kind_of_query(tokens: Sequence[Token]) -> StatementKind:
    if calls(tokens, _SET_CONFIG) or any(map(_acts, tokens, tokens[1:])):
        return StatementKind.OTHER
    makes_table = any(token.word == "INTO" for token in tokens)
    return StatementKind.WRITE if makes_table or calls(tokens, _SEQUENCES) else StatementKind.READ


def _acts(token: Token, after: Token) -> bool:
    """Whether a function is named that acts upon the server, or the session."""
    if token.name == "herdpy":
        return after.is_mark and after.text == "."
    return token.name.startswith(_ACTS) and after.is_mark and after.text == "("


def _runs_what_it_explains(tokens: Sequence[Token]) -> bool:
    """EXPLAIN ANALYZE ..., or EXPLAIN (..., ANALYZE [true], ...) ...; ``tokens`` follow the first word."""
    if not tokens or tokens[0].text != "(":
        return starts(tokens, "ANALYZE") or starts(tokens, "VERBOSE", "ANALYZE")
    for token, after in itertools.pairwise(tokens):
        if token.text == ")":
            return False
        if token.name == "analyze":
            off = after.word in _FALSE or after.text == "0"
            return not (off or (after.is_string and after.text.upper() in _FALSE))
    return False


def chains(sql: str) -> bool:
    """Whether a COMMIT or ROLLBACK begins the next transaction: ... AND CHAIN."""
    return starts(_after_work(first_tokens(sql, 4)), "AND", "CHAIN")


@functools.lru_cache(2048)
def begins_transaction(sql: str) -> bool:
    """Whether the statement, outside a transaction and without autocommit, begins one."""
    if starts(first_tokens(sql, 2), "SET", "LOCAL"):
        return True
    return kind_of(sql) is StatementKind.WRITE or first_word(sql) in _OWN_TRANSACTION


def returns_rows(sql: str) -> bool:
    """Whether a statement that writes may answer rows, too."""
    if any(token.word == "RETURNING" for token in tokens_of(sql)):
        return True
    return first_word(sql) in ("WITH", "EXPLAIN", *_QUERIES)


@functools.lru_cache(2048)
def first_word(sql: str) -> str:
    """The statement's first word in capitals."""
    tokens = first_tokens(sql, 1)
    return tokens[0].word if tokens else ""


def is_plain(text: str) -> bool:
    """Whether a text of several statements is one transaction, as far as can be seen."""
    return not any(_is_control(one) for one in statements_of(text))


def has_copy(text: str) -> bool:
    """Whether one of the statements is COPY."""
    return any(starts(one, "COPY") for one in statements_of(text))


def _is_control(tokens: Sequence[Token]) -> bool:
    first, second = (*(token.word for token in tokens[:2]), "", "")[:2]
    return first in _CONTROL or (first in (*_DEFINES, "CHECK") and second in _NOT_LOGGED)


def _after_work(tokens: Sequence[Token]) -> Sequence[Token]:
    """What follows COMMIT [WORK | TRANSACTION], and its like."""
    return tokens[2:] if len(tokens) > 1 and tokens[1].word in ("WORK", "TRANSACTION") else tokens[1:]
