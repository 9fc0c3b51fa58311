"""What a statement is, by its first words: may it be sent again, what does it do to a transaction?"""

from __future__ import annotations

import enum
import functools
import re

from herdpy.dbapi import scanner

_WORDS = re.compile(r"\(*\s*([a-z]+)(?:\s+([a-z]+))?", re.IGNORECASE)


class Kind(enum.Enum):
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
    **dict.fromkeys(("SELECT", "VALUES", "TABLE"), Kind.READ),
    **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "WITH", "TRUNCATE", "MERGE"), Kind.WRITE),
    **dict.fromkeys(("BEGIN", "START"), Kind.BEGIN),
    **dict.fromkeys(("COMMIT", "END"), Kind.COMMIT),
    **dict.fromkeys(("ROLLBACK", "ABORT"), Kind.ROLLBACK),
    **dict.fromkeys(("SET", "RESET", "DISCARD"), Kind.SETTING),
    **dict.fromkeys(
        ("SAVEPOINT", "RELEASE", "PREPARE", "DEALLOCATE", "DECLARE", "FETCH", "CLOSE"), Kind.SESSION
    ),
    "SHOW": Kind.READ,
    "EXPLAIN": Kind.READ,
    "COPY": Kind.COPY,
}
_NOT_LOGGED = frozenset({"ROLE", "USER", "GROUP", "TABLESPACE"})
_OWN_TRANSACTION = frozenset({"SELECT", "VALUES", "TABLE", "DECLARE", "SAVEPOINT", "EXECUTE"})
_CONTROL = re.compile(
    r"(?:^|;)\s*(?:begin|start|commit|end|rollback|abort|prepare|copy|checkpoint|vacuum"
    r"|(?:create|alter|drop|check)\s+(?:role|user|group|tablespace))\b",
    re.IGNORECASE,
)
_COPY = re.compile(r"(?:^|;)\s*copy\b", re.IGNORECASE)


@functools.lru_cache(2048)
def kind_of(sql: str) -> Kind:
    """What kind of statement ``sql`` is."""
    first, second = _first_words(sql)
    if first == "EXPLAIN" and "ANALYZE" in sql.upper():
        return Kind.WRITE
    if first == "ROLLBACK" and re.search(r"\bto\b", sql, re.IGNORECASE):
        return Kind.SESSION
    if first in ("CREATE", "ALTER", "DROP"):
        return Kind.OTHER if second in _NOT_LOGGED else Kind.WRITE
    if first == "SELECT" and re.search(r"set_config|herdpy\.|pg_terminate|pg_cancel", sql, re.IGNORECASE):
        return Kind.OTHER
    return _KINDS.get(first, Kind.OTHER)


@functools.lru_cache(2048)
def begins_transaction(sql: str) -> bool:
    """Whether the statement, outside a transaction and without autocommit, begins one."""
    first, second = _first_words(sql)
    if first == "SET" and second == "LOCAL":
        return True
    return kind_of(sql) is Kind.WRITE or first in _OWN_TRANSACTION


def returns_rows(sql: str) -> bool:
    """Whether a statement that writes may answer rows, too."""
    return re.search(r"\breturning\b", sql, re.IGNORECASE) is not None or first_word(sql) in (
        "WITH",
        "EXPLAIN",
    )


@functools.lru_cache(2048)
def first_word(sql: str) -> str:
    """The statement's first word in capitals."""
    return _first_words(sql)[0]


def is_plain(text: str) -> bool:
    """Whether a text of several statements is one transaction, as far as can be seen."""
    return _CONTROL.search(_without_comments(text)) is None


def has_copy(text: str) -> bool:
    """Whether one of the statements may be COPY."""
    return _COPY.search(_without_comments(text)) is not None


def _first_words(sql: str) -> tuple[str, str]:
    found = _WORDS.match(_without_comments(sql).lstrip())
    return ("", "") if found is None else (found[1].upper(), (found[2] or "").upper())


def _without_comments(sql: str) -> str:
    if "--" not in sql and "/*" not in sql:
        return sql
    pieces, taken = [], 0
    for kind, start, end, _match in scanner.tokens(sql):
        if kind == scanner.COMMENT:
            pieces += [sql[taken:start], " "]
            taken = end
    return "".join([*pieces, sql[taken:]])
