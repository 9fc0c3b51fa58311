"""What a statement is, by its words: may it be sent again, and what does it do to the transaction or session?

Below ``connection``. A text becomes tokens: code without comments, quoted text as one piece. The first
tokens, and all those of queries that may act upon the server, say the kind. ``SessionSettings`` keeps what
SET changed, for the next session.
"""

from __future__ import annotations

import enum
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from herdpy.dbapi import parameters

_CODE = re.compile(
    r"(?P<word>[A-Za-z_\u0080-\U0010ffff][A-Za-z0-9_$\u0080-\U0010ffff]*)"
    r"|(?P<number>[0-9][0-9A-Za-z_.]*)|(?P<mark>\S)"
)


_HEAD = 1024
"""Characters in which the first words are, mostly; texts of statements may be long."""


class Token(NamedTuple):
    """One piece of code.

    Attributes:
        word: in capitals; "" for what is none, such as a quoted name.
        name: as PostgreSQL folds it: of a word or of a quoted name; "" for neither.
        text: as it is written; of a quoted string, what it says.
        start, end: where it is.
    """

    word: str
    name: str
    text: str
    start: int
    end: int

    @property
    def is_mark(self) -> bool:
        """Whether it is punctuation, an operator's letter or a number."""
        return not (self.word or self.name or self.is_string)

    @property
    def is_string(self) -> bool:
        """Whether it is a quoted string."""
        return self.end - self.start != len(self.text)


@functools.lru_cache(16)
def tokens_of(sql: str) -> tuple[Token, ...]:
    """The tokens of a text, in order."""
    return tuple(_tokens(sql))


def first_tokens(sql: str, count: int) -> tuple[Token, ...]:
    """The first tokens, without parentheses that come before them: what follows is not looked at."""
    found = _first(sql[:_HEAD], count)
    if len(sql) > _HEAD and (len(found) < count or found[-1].end == _HEAD):
        found = _first(sql, count)
    return found


def _first(sql: str, count: int) -> tuple[Token, ...]:
    return tuple(itertools.islice(itertools.dropwhile(lambda token: token.text == "(", _tokens(sql)), count))


def statements_of(text: str) -> list[tuple[Token, ...]]:
    """The tokens of each statement of a text, without the ``;`` between them; none of empty ones."""
    found: list[list[Token]] = [[]]
    for token in tokens_of(text):
        if token.is_mark and token.text == ";":
            found.append([])
        else:
            found[-1].append(token)
    return [tuple(one) for one in found if one]


def without_end(sql: str) -> str:
    """A statement without the ``;`` that ends it, and comments after that."""
    tokens = tokens_of(sql)
    end = len(tokens)
    while end and tokens[end - 1].is_mark and tokens[end - 1].text == ";":
        end -= 1
    return sql if end == len(tokens) else sql[: tokens[end].start]


def starts(tokens: Sequence[Token], *words: str) -> bool:
    """Whether these words come first."""
    return tuple(token.word for token in tokens[: len(words)]) == words


def calls(tokens: Sequence[Token], names: frozenset[str]) -> bool:
    """Whether a function of one of these names is called, with or without a schema, quoted or not."""
    return any(
        token.name in names and after.is_mark and after.text == "("
        for token, after in itertools.pairwise(tokens)
    )


def _tokens(sql: str) -> Iterator[Token]:
    position = 0
    for kind, start, end, _match in parameters.tokens(sql, placeholders=False):
        if kind not in (parameters.TEXT, parameters.COMMENT):
            continue
        yield from _code(sql, position, start)
        if kind == parameters.TEXT:
            yield _quoted(sql, start, end)
        position = end
    yield from _code(sql, position, len(sql))


def _code(sql: str, start: int, end: int) -> Iterator[Token]:
    for match in _CODE.finditer(sql, start, end):
        text = match.group()
        if match.lastgroup == "word":
            yield Token(text.upper(), text.lower(), text, *match.span())
        else:
            yield Token("", "", text, *match.span())


def _quoted(sql: str, start: int, end: int) -> Token:
    text = sql[start:end]
    if text[0] == '"':
        return Token("", text[1:-1].replace('""', '"'), text, start, end)
    if text[0] == "$":
        tag = text.index("$", 1) + 1
        return Token("", "", text[tag : max(tag, len(text) - tag)], start, end)
    opening = text.index("'") + 1
    return Token("", "", text[opening:-1].replace("''", "'"), start, end)


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
    "NOTIFY": StatementKind.WRITE,
    **dict.fromkeys(("BEGIN", "START"), StatementKind.BEGIN),
    **dict.fromkeys(("COMMIT", "END"), StatementKind.COMMIT),
    **dict.fromkeys(("ROLLBACK", "ABORT"), StatementKind.ROLLBACK),
    **dict.fromkeys(("SET", "RESET", "DISCARD", "LISTEN", "UNLISTEN"), StatementKind.SETTING),
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
_OWN_TRANSACTION = frozenset(
    {"SELECT", "VALUES", "TABLE", "DECLARE", "SAVEPOINT", "EXECUTE", "LISTEN", "UNLISTEN"}
)
_CONTROL = frozenset(
    ["BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "PREPARE", "COPY", "CHECKPOINT", "VACUUM"]
)
_WRITES = frozenset({"nextval", "setval", "pg_notify"})
"""Functions that are part of what a transaction writes."""
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
    return StatementKind.WRITE if makes_table or calls(tokens, _WRITES) else StatementKind.READ


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


_CHARACTERISTICS = {
    "ISOLATION": "default_transaction_isolation",
    "READ": "default_transaction_read_only",
    "DEFERRABLE": "default_transaction_deferrable",
    "NOT": "default_transaction_deferrable",
}
_TWO_WORDS = {
    ("TIME", "ZONE"): "timezone",
    ("SESSION", "AUTHORIZATION"): "session_authorization",
}
_OTHER_NAMES = {"names": "client_encoding", "authorization": "session_authorization"}
_NO_SETTINGS = frozenset({"TRANSACTION", "CONSTRAINTS", "LOCAL"})
"""What may follow SET without being, or giving, a value that lasts."""
_TWO_LEVELS = frozenset({"REPEATABLE", "READ"})
"""How levels of isolation of two words begin."""
_LISTENS = frozenset({"LISTEN", "UNLISTEN"})
_CHANNEL = "channel "
"""Before a channel's name, where settings have theirs, which have no blank."""
_NOT_KEPT = "herdpy.request_id"
_READ_LEVEL, _MIN_LSN = "herdpy.read_level", "herdpy.min_lsn"
_POSITION = re.compile(r"\d+:\d+")


class SessionSettings:
    """The statements that give a new session the settings, and the channels, of the one before."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._kept: dict[str, str] = {}
        self._pending: list[str] | None = None  # within a transaction: they count when it commits

    def statements(self) -> list[str]:
        """The settings of a new session."""
        quoted = {name: value.replace("'", "''") for name, value in self._given.items()}
        return [*(f"SET {name} = '{value}'" for name, value in quoted.items()), *self._kept.values()]

    @property
    def is_at_lsn(self) -> bool:
        """Whether the read level is at_lsn."""
        return self._value(_READ_LEVEL) == "at_lsn"

    @property
    def position(self) -> str:
        """The position that at_lsn waits for; empty where it has none, or one in an unusual form."""
        found = _POSITION.fullmatch(self._value(_MIN_LSN))
        return found[0] if found is not None else ""

    def _value(self, name: str) -> str:
        """What a setting was given, as SET or the connection's options did."""
        kept = self._kept.get(name)
        if kept is None:
            return self._given.get(name, "")
        last = tokens_of(without_end(kept))[-1]
        return last.text if last.is_string else last.name

    def ran(self, sql: str, *, in_transaction: bool) -> None:
        """A statement about settings has succeeded."""
        if in_transaction:
            self._pending = [*(self._pending or ()), sql]
        else:
            self._keep(sql)

    def ended(self, *, committed: bool) -> None:
        """A transaction has ended: what it SET is kept only when it committed."""
        pending, self._pending = self._pending, None
        if committed:
            for sql in pending or ():
                self._keep(sql)

    def _keep(self, sql: str) -> None:
        tokens = tokens_of(without_end(sql))
        if tokens[0].word in _LISTENS:
            self._keep_channel(tokens, sql)
        elif starts(tokens, "DISCARD", "ALL"):
            self._kept.clear()
        elif starts(tokens, "RESET", "ALL"):
            self._kept = self._of_channels()
        elif starts(tokens, "RESET"):
            self._kept.pop(_setting(tokens[1:]), None)
        elif starts(tokens, "SET", "SESSION", "CHARACTERISTICS"):
            self._keep_characteristics(tokens[5:])
        elif starts(tokens, "SET") and tokens[1].word not in _NO_SETTINGS:
            name = _setting(tokens[1:])
            if name != _NOT_KEPT:
                self._put(name, sql)

    def _keep_channel(self, tokens: Sequence[Token], sql: str) -> None:
        """LISTEN or UNLISTEN."""
        if tokens[0].word == "LISTEN":
            self._put(_CHANNEL + tokens[1].name, sql)
        elif tokens[1].text == "*":
            for name in self._of_channels():
                del self._kept[name]
        else:
            self._kept.pop(_CHANNEL + tokens[1].name, None)

    def _of_channels(self) -> dict[str, str]:
        """The statements that listen."""
        return {name: sql for name, sql in self._kept.items() if name.startswith(_CHANNEL)}

    @property
    def listens(self) -> bool:
        """Whether the session listens on a channel."""
        return bool(self._of_channels())

    def _keep_characteristics(self, tokens: Sequence[Token]) -> None:
        """SET SESSION CHARACTERISTICS AS TRANSACTION and these modes: each has a default of its own."""
        at = 0
        while at < len(tokens):
            first = tokens[at].word
            size = {"ISOLATION": 3, "READ": 2, "NOT": 2}.get(first, 1)
            if first == "ISOLATION" and tokens[at + 2].word in _TWO_LEVELS:
                size = 4
            if first in _CHARACTERISTICS:  # and no comma
                mode = " ".join(token.word for token in tokens[at : at + size])
                self._put(_CHARACTERISTICS[first], f"SET SESSION CHARACTERISTICS AS TRANSACTION {mode}")
            at += size

    def _put(self, name: str, sql: str) -> None:
        self._kept.pop(name, None)  # what came last is said last
        self._kept[name] = sql


def _setting(tokens: Sequence[Token]) -> str:
    """The setting that SET or RESET names, by the name that SHOW has for it."""
    if starts(tokens, "SESSION") and not starts(tokens, "SESSION", "AUTHORIZATION"):
        tokens = tokens[1:]
    two = (tokens[0].word, tokens[1].word if len(tokens) > 1 else "")
    if two in _TWO_WORDS:
        return _TWO_WORDS[two]
    name = tokens[0].name
    for mark, part in zip(tokens[1::2], tokens[2::2], strict=False):
        if mark.text != ".":
            break
        name += "." + part.name
    name = name.lower()  # as the server folds names of settings, quoted or not
    return _OTHER_NAMES.get(name, name)
