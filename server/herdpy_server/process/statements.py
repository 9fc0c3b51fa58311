"""What sessions report of statements: counts and latencies for metrics, and the slow-statement log.

A session calls :meth:`StatementStatistics.observe` when a statement has ended. That is a few additions to
plain ints; names, labels and text are made when somebody asks, at a scrape or for a slow statement.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left

logger = logging.getLogger("herdpy.statements")

BUCKETS_S = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
    0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""Upper bounds of the latency histogram's buckets; above the last there is one without a bound."""

_KINDS = frozenset({
    "SELECT", "INSERT", "UPDATE", "DELETE", "COPY", "BEGIN", "COMMIT", "ROLLBACK", "CREATE", "DROP", "ALTER",
    "TRUNCATE", "SET", "SHOW", "EXPLAIN", "FETCH", "EXECUTE",
})  # fmt: skip
_SAME = {
    "START": "BEGIN", "END": "COMMIT", "ABORT": "ROLLBACK", "RESET": "SET", "MOVE": "FETCH",
    "WITH": "SELECT", "VALUES": "SELECT", "TABLE": "SELECT", "SAVEPOINT": "BEGIN", "RELEASE": "COMMIT",
}  # fmt: skip
_WORD = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/|\()*([A-Za-z]+)", re.DOTALL)
_SECRET = re.compile(r"\bPASSWORD\b", re.IGNORECASE)
_REMEMBERED_TEXTS = 4096
_REMEMBERED_LENGTH = 2048
_SQLSTATES = 200
_CANCELLED = "57014"


class KindStatistics:
    """One kind of statement.

    Attributes:
        ok, failed, cancelled: how many ended so.
        rows: returned or changed.
        seconds: spent, all outcomes together.
        buckets: how many took up to each of BUCKETS_S and no shorter one, and how many longer.
    """

    __slots__ = ("buckets", "cancelled", "failed", "ok", "rows", "seconds")

    def __init__(self) -> None:
        self.ok = self.failed = self.cancelled = self.rows = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS_S) + 1)


class StatementStatistics:
    """Statements of all sessions of a server.

    Attributes:
        kinds: statistics by kind, such as "SELECT".
        errors: how many by SQLSTATE.
        slow: how many were logged as slow.
        slow_s: statements that take at least this long are logged; below 0 none.
        slow_chars: how much of their text is logged.
    """

    def __init__(self, slow_s: float = -1.0, slow_chars: int = 1000) -> None:
        self.kinds: dict[str, KindStatistics] = {}
        self.errors: dict[str, int] = {}
        self.slow = 0
        self.slow_chars = slow_chars
        self._texts: dict[str, KindStatistics] = {}
        self._threshold_s = float("inf")
        self.slow_s = slow_s

    @property
    def slow_s(self) -> float:
        """See the class."""
        return self._slow_s

    @slow_s.setter
    def slow_s(self, seconds: float) -> None:
        self._slow_s = seconds
        self._threshold_s = float("inf") if seconds < 0 else seconds

    def observe(self, text: str, seconds: float, rows: int, error: BaseException | None) -> None:
        """A statement ended, after so long, with so many rows (-1: it has none to count) or an error."""
        kind = self._texts.get(text)
        if kind is None:
            kind = self._kind(text)
        kind.seconds += seconds
        kind.buckets[bisect_left(BUCKETS_S, seconds)] += 1
        if error is None:
            kind.ok += 1
            if rows > 0:
                kind.rows += rows
        else:
            self._count_error(kind, error)
        if seconds >= self._threshold_s:
            self._log_slow(text, seconds, rows, error)

    def _kind(self, text: str) -> KindStatistics:
        name = kind_of(text)
        kind = self.kinds.get(name)
        if kind is None:
            kind = self.kinds[name] = KindStatistics()
        if len(text) <= _REMEMBERED_LENGTH:
            if len(self._texts) >= _REMEMBERED_TEXTS:
                self._texts.clear()
            self._texts[text] = kind
        return kind

    def _count_error(self, kind: KindStatistics, error: BaseException) -> None:
        state = getattr(error, "sqlstate", None) or "XX000"
        if state == _CANCELLED:
            kind.cancelled += 1
        else:
            kind.failed += 1
        if state not in self.errors and len(self.errors) >= _SQLSTATES:
            state = "other"
        self.errors[state] = self.errors.get(state, 0) + 1

    def _log_slow(self, text: str, seconds: float, rows: int, error: BaseException | None) -> None:
        self.slow += 1
        fields: dict[str, object] = {"seconds": round(seconds, 6), "rows": rows}
        if error is not None:
            fields["sqlstate"] = getattr(error, "sqlstate", None) or "XX000"
        fields["statement"] = shown(text, self.slow_chars)
        logger.info("slow statement", extra=fields)


def kind_of(text: str) -> str:
    """The kind of a statement by its first word, of a fixed set of names; "OTHER" for all else."""
    found = _WORD.match(text[:4096])
    word = found[1].upper() if found else ""
    word = _SAME.get(word, word)
    return word if word in _KINDS else "OTHER"


def shown(text: str, chars: int) -> str:
    """A statement's text as a log may have it: cut, and without what follows the word PASSWORD."""
    secret = _SECRET.search(text)
    if secret is not None:
        text = text[: secret.end()] + " ..."
    return text if len(text) <= chars else text[:chars] + "..."
