"""What a server's statements were and cost, by their normalised texts: the rows of herdpy.statements and
pg_stat_statements.

Below the observers of sessions (``process.statements``), which add to the entries.
An entry is for a tablespace, the role that counts, and a query id, which is made of the normalised text and
of the relations that its names mean along the search path: the same text about another schema's table is
another entry, and a table that is made again under its name is the same one. An observer asks for an entry
when a text comes first in its session, along a path and for a role. The table is bounded: the entries that
were least used go when there are too many, or their texts are too long together. In the engine's turn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from herdpy_server.roles.passwords import without_passwords
from herdpy_sql.errors import SqlError
from herdpy_sql.parse.normalised import Normalised, normalised

if TYPE_CHECKING:
    from herdpy_sql.catalog import Catalog

DEFAULT_ENTRIES: Final = 5000
DEFAULT_BYTES: Final = 16 << 20
_LONGEST: Final = 16_384
"""So many characters of a text, and of a plan, are kept."""
_PART: Final = 20
"""One entry of so many goes when there are too many."""


class StatementEntry:
    """One statement; every number is of its runs since the beginning or the reset. Times are in seconds.

    Attributes:
        user_key, user_name: the role whose rights counted.
        database: the tablespace. ``kind``: the statement's first word, one of a few.
        buckets: of the latency histogram that all entries of the kind share.
        calls, errors: runs that ended well, and the others; ``rows`` were returned or changed.
        total_s, squares, least_s, most_s: of runs that ended well: sum, sum of squares, the least, the most.
        failed_s: of the runs that failed.
        lock_s, log_s, worker_s: of all runs, the time spent waiting: for locks, for the log
            (room in it, and what was written or read to be durable), for a worker process.
        columnar: how many runs the columnar engine had a part in.
        plan: lines of EXPLAIN of the first run whose plan was known, or of the newest slow one; "" for none.
        used: how much it was used lately.
    """

    __slots__ = (
        "buckets", "calls", "columnar", "database", "errors", "failed_s", "kind", "least_s", "lock_s",
        "log_s", "most_s", "plan", "query_id", "rows", "seen_calls", "squares", "text", "total_s", "used",
        "user_key", "user_name", "worker_s",
    )  # fmt: skip

    def __init__(
        self,
        database: str,
        user_key: str,
        user_name: str,
        query_id: int,
        text: str,
        kind: str,
        buckets: list[int],
    ) -> None:
        self.kind = kind
        self.buckets = buckets
        self.failed_s = 0.0
        self.database = database
        self.user_key = user_key
        self.user_name = user_name
        self.query_id = query_id
        self.text = text
        self.plan = ""
        self.calls = self.errors = self.rows = self.columnar = 0
        self.total_s = self.squares = self.most_s = 0.0
        self.least_s = float("inf")
        self.lock_s = self.log_s = self.worker_s = 0.0
        self.used = 0.0
        self.seen_calls = 0

    def row(self) -> Mapping[str, Any]:
        """Of herdpy.statements, and what pg_stat_statements has besides."""
        calls = self.calls
        mean_s = self.total_s / calls if calls else 0.0
        variance = self.squares / calls - mean_s * mean_s if calls else 0.0
        return {
            "tablespace": self.database,
            "user_name": self.user_name,
            "user_key": self.user_key,
            "query_id": self.query_id,
            "query": self.text,
            "calls": calls,
            "errors": self.errors,
            "total_s": self.total_s,
            "mean_s": mean_s,
            "min_s": self.least_s if calls else 0.0,
            "max_s": self.most_s,
            "stddev_s": max(variance, 0.0) ** 0.5,
            "rows": self.rows,
            "lock_wait_s": self.lock_s,
            "log_wait_s": self.log_s,
            "worker_wait_s": self.worker_s,
            "own_plans": max(calls + self.errors - self.columnar, 0),
            "columnar_plans": self.columnar,
            "plan": self.plan or None,
        }


def query_id_of(text: str, catalog: Catalog) -> int:
    """Of a statement along a catalog's path: 64 bits, never 0. The same on every server, and after each
    start."""
    return _query_id(normalised(without_passwords(text)), catalog)


def _query_id(one: Normalised, catalog: Catalog) -> int:
    names = ((_schema_of(catalog, name), name) for name in one.names)
    meant = sorted(f"{schema}.{name}" for schema, name in names if schema is not None)
    digest = blake2b(
        "\0".join([one.likeness, *meant]).encode("utf-8", "surrogatepass"), digest_size=8
    ).digest()
    return int.from_bytes(digest, "big", signed=True) or 1


def _schema_of(catalog: Catalog, name: str) -> str | None:
    """The schema of the relation that a name means along the path."""
    relations = catalog.relations
    return next((schema for schema in catalog.path if (schema, name) in relations), None)


class StatementTable:
    """The statements of a server.

    Attributes:
        most, most_bytes: entries, and characters of their texts and plans, that are kept; 0 entries: none.
        generation: another one after entries have gone: observers look theirs up again.
        dealloc: how often the least used went.
        reset_us: since when is counted, microseconds since 1970 UTC.
        on_drop: called for each entry that goes.
    """

    def __init__(self, most: int = DEFAULT_ENTRIES, most_bytes: int = DEFAULT_BYTES) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self.generation = 0
        self.dealloc = 0
        self.reset_us = time.time_ns() // 1000
        self.on_drop: Callable[[StatementEntry], object] = lambda _entry: None
        self._bytes = 0
        self._entries: dict[tuple[str, str, int], StatementEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def limit(self, most: int, most_bytes: int) -> None:
        """Keep no more than that from now on."""
        if (most == 0) is not (self.most == 0):
            self.generation += 1
        self.most, self.most_bytes = most, most_bytes
        if not most:
            self.reset(None, None, 0)
        elif len(self._entries) > most or self._bytes > most_bytes:
            self._make_room(None)

    @property
    def used_bytes(self) -> int:
        """Characters of texts and plans that are kept."""
        return self._bytes

    def entry(
        self,
        text: str,
        database: str,
        user_key: str,
        user_name: str,
        catalog: Catalog,
        kind: str = "OTHER",
        buckets: list[int] | None = None,
    ) -> StatementEntry:
        """The entry of a text, which is normalised for it.

        Args:
            user_key, user_name: the role that counts. catalog: along its path names are looked up.
            kind, buckets: of a new entry, see ``StatementEntry``.
        """
        found = normalised(without_passwords(text))
        query_id = _query_id(found, catalog)
        key = (database, user_key, query_id)
        entry = self._entries.get(key)
        if entry is None:
            shown = _short(found.text)
            entry = StatementEntry(database, user_key, user_name, query_id, shown, kind, buckets or [])
            self._entries[key] = entry
            self._bytes += len(entry.text)
            if len(self._entries) > self.most or self._bytes > self.most_bytes:
                self._make_room(entry)
        return entry

    def keep_plan(self, entry: StatementEntry, lines: Sequence[str]) -> None:
        """Keep what EXPLAIN says of a run."""
        plan = _short("\n".join(lines))
        self._bytes += len(plan) - len(entry.plan)
        entry.plan = plan

    def _make_room(self, newest: StatementEntry | None) -> None:
        """The least used go, but not the newest; counts of long ago weigh less each time."""
        for entry in self._entries.values():
            runs = entry.calls + entry.errors
            entry.used = entry.used * 0.5 + runs - entry.seen_calls
            entry.seen_calls = runs
        if newest is not None:
            newest.used = float("inf")
        by_use = sorted(self._entries.items(), key=lambda one: one[1].used)
        at_least = max(len(by_use) // _PART, 1)
        for gone, (key, entry) in enumerate(by_use[:-1]):
            is_enough = len(self._entries) < self.most and self._bytes <= self.most_bytes * 0.95
            if gone >= at_least and is_enough:
                break
            self._drop(key, entry)
        if newest is not None:
            newest.used = 1.0
        self.dealloc += 1
        self.generation += 1

    def _drop(self, key: tuple[str, str, int], entry: StatementEntry) -> None:
        del self._entries[key]
        self._bytes -= len(entry.text) + len(entry.plan)
        self.on_drop(entry)

    def reset(self, user_key: str | None, database: str | None, query_id: int) -> None:
        """Forget entries: those of a role's key (None: all), of a tablespace (None), with an id (0: all)."""
        if user_key is None and database is None and not query_id:
            for key, entry in list(self._entries.items()):
                self._drop(key, entry)
            self.dealloc = 0
            self.reset_us = time.time_ns() // 1000
        else:
            for key, entry in list(self._entries.items()):
                if (
                    (user_key is None or key[1] == user_key)
                    and (database is None or key[0] == database)
                    and (not query_id or key[2] == query_id)
                ):
                    self._drop(key, entry)
        self.generation += 1

    def __iter__(self) -> Iterator[StatementEntry]:
        return iter(list(self._entries.values()))

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """Of herdpy.statements."""
        for entry in self:
            yield entry.row()


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."


def refused_reset() -> SqlError:
    """42501."""
    return SqlError("42501", "permission denied for function pg_stat_statements_reset")
