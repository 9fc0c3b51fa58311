"""What sessions report of statements: counts and latencies for metrics, by kind and by text, and the
slow-statement log.

A session has an observer of its own (:meth:`StatementStatistics.of_session`), which it calls when a statement
has ended. That is a few additions to plain numbers: those of the statement's kind, and those of its entry in
the table of statements (``sessions.statement_table``). Names, labels and rows are made at
a scrape, for a query over the catalog or for a slow statement; a text is normalised when it comes first.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from herdpy_server.sessions.statement_table import StatementEntry, StatementTable
from herdpy_sql.explain import explain_lines

if TYPE_CHECKING:
    from herdpy_server.roles.effective_role import EffectiveRole
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.identity import Observer

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
_REMEMBERED_TEXTS = 512
_REMEMBERED_CHARS = 131_072
"""What one session's observer remembers; prepared statements have their texts anyway."""
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

    def add(self, entry: StatementEntry) -> None:
        """Add what an entry has counted, but for its buckets and errors."""
        self.ok += entry.calls
        self.rows += entry.rows
        self.seconds += entry.total_s + entry.failed_s


class StatementStatistics:
    """Statements of all sessions of a server.

    Attributes:
        errors: how many by SQLSTATE.
        slow: how many were logged as slow.
        slow_s: statements that take at least this long are logged; below 0 none.
        slow_chars: how much of their text is logged.
        slow_plan: whether their plan is logged, too.
        table: statements by their normalised texts.
    """

    def __init__(
        self, slow_s: float = -1.0, slow_chars: int = 1000, table: StatementTable | None = None
    ) -> None:
        self._kinds: dict[str, KindStatistics] = {}  # buckets, errors, and what entries had that are gone
        self._uncounted: dict[str, StatementEntry] = {}  # by kind, where the table keeps nothing
        self.errors: dict[str, int] = {}
        self.slow = 0
        self.slow_chars = slow_chars
        self.slow_plan = True
        self.table = StatementTable() if table is None else table
        self.table.on_drop = self._dropped
        self.threshold_s = float("inf")
        self.slow_s = slow_s

    @property
    def slow_s(self) -> float:
        """See the class."""
        return self._slow_s

    @slow_s.setter
    def slow_s(self, seconds: float) -> None:
        self._slow_s = seconds
        self.threshold_s = float("inf") if seconds < 0 else seconds
        self.table.generation += 1  # observers look again

    def of_session(self, session: TransactionBlock) -> Observer:
        """The observer of a session."""
        return SessionStatements(self, session).observe

    @property
    def kinds(self) -> dict[str, KindStatistics]:
        """Statistics by kind, such as "SELECT", as of now."""
        found: dict[str, KindStatistics] = {}
        for name, kept in self._kinds.items():
            one = found[name] = KindStatistics()
            one.ok, one.failed, one.cancelled = kept.ok, kept.failed, kept.cancelled
            one.rows, one.seconds, one.buckets = kept.rows, kept.seconds, list(kept.buckets)
        for entry in (*self.table, *self._uncounted.values()):
            found[entry.kind].add(entry)
        return found

    def _dropped(self, entry: StatementEntry) -> None:
        self._kinds[entry.kind].add(entry)

    def entry(self, text: str, session: TransactionBlock) -> StatementEntry:
        """Where runs of a text are counted that comes first in a session."""
        name = kind_of(text)
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = KindStatistics()
        if self.table.most:
            role, database = session.effective_role, session.identity.database
            return self.table.entry(text, database, role.key, role.name, session.catalog, name, kind.buckets)
        entry = self._uncounted.get(name)
        if entry is None:
            entry = self._uncounted[name] = StatementEntry("", "", "", 0, "", name, kind.buckets)
        return entry

    def count_error(self, entry: StatementEntry, error: BaseException) -> None:
        """A statement failed."""
        kind = self._kinds[entry.kind]
        state = getattr(error, "sqlstate", None) or "XX000"
        if state == _CANCELLED:
            kind.cancelled += 1
        else:
            kind.failed += 1
        if state not in self.errors and len(self.errors) >= _SQLSTATES:
            state = "other"
        self.errors[state] = self.errors.get(state, 0) + 1

    def log_slow(
        self, text: str, seconds: float, rows: int, error: BaseException | None, plan: list[str]
    ) -> None:
        """A statement was slow; ``plan`` has EXPLAIN's lines where they are known and to be logged."""
        self.slow += 1
        fields: dict[str, object] = {"seconds": round(seconds, 6), "rows": rows}
        if error is not None:
            fields["sqlstate"] = getattr(error, "sqlstate", None) or "XX000"
        fields["statement"] = shown(text, self.slow_chars)
        if plan:
            fields["plan"] = "\n".join(plan)
        logger.info("slow statement", extra=fields)


class SessionStatements:
    """Observes one session.

    What the session has waited for is read off its ``waits``, whose sums only grow.
    """

    def __init__(self, statistics: StatementStatistics, session: TransactionBlock) -> None:
        self._statistics = statistics
        self._table = statistics.table
        self._session = session
        self._settings = session.settings
        self._waits = session.waits
        self._seen: tuple[EffectiveRole, tuple[str, ...], int] | None = None
        self._revision = self._generation = -1
        self._entries: dict[str, StatementEntry] = {}
        self._chars = 0  # of the texts there
        self._lock_s = self._log_s = self._worker_s = 0.0
        self._questions = self._changes = 0
        self._threshold_s = float("inf")

    def observe(self, text: str, seconds: float, rows: int, error: BaseException | None) -> None:
        """A statement ended, after so long, with so many rows (-1: it has none to count) or an error."""
        if self._settings.revision != self._revision or self._table.generation != self._generation:
            self._look_again()
        entry = self._entries.get(text)
        if entry is None:
            entry = self._know(text)
        entry.buckets[bisect_left(BUCKETS_S, seconds)] += 1
        if error is None:
            entry.calls += 1
            entry.total_s += seconds
            entry.squares += seconds * seconds
            least_s, most_s = entry.least_s, entry.most_s
            if seconds > most_s:
                entry.most_s = seconds
            if seconds < least_s:
                entry.least_s = seconds
            if rows > 0:
                entry.rows += rows
        else:
            entry.errors += 1
            entry.failed_s += seconds
            self._statistics.count_error(entry, error)
        if self._waits.changes != self._changes:
            self._count_waits(entry)
        if seconds >= self._threshold_s:
            self._log(entry, text, seconds, rows, error)

    def _log(
        self, entry: StatementEntry, text: str, seconds: float, rows: int, error: BaseException | None
    ) -> None:
        """The statement took long."""
        plan = self._plan(text)
        if plan and self._table.most:
            self._table.keep_plan(entry, plan)
        explains = self._statistics.slow_plan or seconds >= self._settings.explain_after_s
        self._statistics.log_slow(text, seconds, rows, error, plan if explains else [])

    def _count_waits(self, entry: StatementEntry) -> None:
        """The statement has waited, or the columnar engine had a part in it."""
        waits = self._waits
        self._changes = waits.changes
        entry.log_s += waits.log_s - self._log_s
        entry.lock_s += waits.lock_s - self._lock_s
        self._log_s, self._lock_s = waits.log_s, waits.lock_s
        if waits.questions != self._questions:
            self._questions = waits.questions
            entry.columnar += 1
            entry.worker_s += waits.worker_s - self._worker_s
            self._worker_s = waits.worker_s

    def _look_again(self) -> None:
        """A setting is another, or entries have gone."""
        self._revision, self._generation = self._settings.revision, self._table.generation
        self._threshold_s = min(self._statistics.threshold_s, self._settings.explain_after_s)
        seen = self._session.effective_role, self._settings.path, self._generation
        if seen != self._seen:
            self._seen = seen
            self._entries, self._chars = {}, 0

    def _know(self, text: str) -> StatementEntry:
        """The entry of a text that comes first."""
        statistics = self._statistics
        entry = statistics.entry(text, self._session)
        if not entry.plan and statistics.table.most:
            plan = self._plan(text)
            if plan:
                statistics.table.keep_plan(entry, plan)
        if len(text) <= _REMEMBERED_CHARS and self._table.generation == self._generation:
            if len(self._entries) >= _REMEMBERED_TEXTS or self._chars + len(text) > _REMEMBERED_CHARS:
                self._entries, self._chars = {}, 0
            self._entries[text] = entry
            self._chars += len(text)
        return entry

    def _plan(self, text: str) -> list[str]:
        """What EXPLAIN says of a text's newest plan; nothing where there is none any more."""
        plan = self._session.plans.newest_plan(text)
        return [] if plan is None else explain_lines(plan)


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
