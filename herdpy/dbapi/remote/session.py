"""What SET changed in a session, so that the next one, on another connection, has it too."""

from __future__ import annotations

import re
from collections.abc import Mapping

from herdpy.dbapi.remote.statements import Kind, kind_of

_SET = re.compile(
    r"\s*SET\s+(?:(SESSION|LOCAL)\s+)?(?!TRANSACTION\b|CHARACTERISTICS\b|CONSTRAINTS\b)"
    r"(TIME\s+ZONE|NAMES|[\w.\"]+)",
    re.IGNORECASE,
)
_RESET = re.compile(r"\s*RESET\s+([\w.\"]+)", re.IGNORECASE)
_CHARACTERISTICS = re.compile(r"\s*SET\s+SESSION\s+CHARACTERISTICS\b", re.IGNORECASE)
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
        kept = self._kept.get(_READ_LEVEL)
        return "at_lsn" in kept.lower() if kept is not None else self._given.get(_READ_LEVEL) == "at_lsn"

    @property
    def position(self) -> str:
        """The position that at_lsn was told to wait for; empty where it was not, or in an unusual way."""
        found = _POSITION.search(self._kept.get(_MIN_LSN) or self._given.get(_MIN_LSN, ""))
        return found[0] if found is not None else ""

    def ran(self, sql: str, *, in_transaction: bool) -> None:
        """A statement about settings, or the end of a transaction, has succeeded."""
        kind = kind_of(sql)
        if kind in (Kind.COMMIT, Kind.ROLLBACK):
            self.ended(committed=kind is Kind.COMMIT)
        elif in_transaction:
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
        if _CHARACTERISTICS.match(sql):
            self._kept["characteristics"] = sql
        elif found := _SET.match(sql):
            name = re.sub(r"\s+", " ", found[2].strip('"')).lower()
            if (found[1] or "").upper() != "LOCAL" and name != _NOT_KEPT:
                self._kept.pop(name, None)
                self._kept[name] = sql
        elif found := _RESET.match(sql):
            if found[1].lower() == "all":
                self._kept.clear()
            else:
                self._kept.pop(found[1].strip('"').lower(), None)
        elif sql.lstrip()[:7].upper() == "DISCARD":
            self._kept.clear()
