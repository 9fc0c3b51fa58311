"""What SET changed in a session, so that the next one, on another connection, has it too."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from herdpy.dbapi.remote.statements import Token, starts, tokens_of, without_end

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
_NOT_KEPT = "herdpy.request_id"
_READ_LEVEL, _MIN_LSN = "herdpy.read_level", "herdpy.min_lsn"
_POSITION = re.compile(r"\d+:\d+")


class SessionSettings:
    """The statements that give a new session the settings of the one before."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._kept: dict[str, str] = {}
        self._pending: list[str] | None = None  # within a transaction: they count when it commits

    def statements(self) -> list[str]:
        """What a new session is to be told."""
        quoted = {name: value.replace("'", "''") for name, value in self._given.items()}
        return [*(f"SET {name} = '{value}'" for name, value in quoted.items()), *self._kept.values()]

    @property
    def is_at_lsn(self) -> bool:
        """Whether the read level is at_lsn."""
        return self._value(_READ_LEVEL) == "at_lsn"

    @property
    def position(self) -> str:
        """The position that at_lsn was told to wait for; empty where it was not, or in an unusual way."""
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
        if starts(tokens, "DISCARD", "ALL") or starts(tokens, "RESET", "ALL"):
            self._kept.clear()
        elif starts(tokens, "RESET"):
            self._kept.pop(_setting(tokens[1:]), None)
        elif starts(tokens, "SET", "SESSION", "CHARACTERISTICS"):
            self._keep_characteristics(tokens[5:])
        elif starts(tokens, "SET") and tokens[1].word not in _NO_SETTINGS:
            name = _setting(tokens[1:])
            if name != _NOT_KEPT:
                self._put(name, sql)

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
