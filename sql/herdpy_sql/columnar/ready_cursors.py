"""Cursors of DuckDB that have a query's columns registered, kept from one run of the query to the next.

To register a table costs DuckDB about a millisecond, and its client plans a text twice: when it makes a
relation of it, and when that is fetched. A query that is run again over the very same Arrow tables, as
reports are, finds its cursor here (``READY.take``) and gives it back at its end. If it has no parameters, it
is prepared then, so that its plan is made once.

DuckDB has the whole answer of a prepared statement in memory before it gives the first row. So a query is
prepared only when its last answer was small: over the same columns it is as small again.

A cursor holds its columns, but keeps nobody from letting go of them: when a table that was given dies, its
cursors go with it. With a prepared plan DuckDB keeps the hash tables of its last run. Where a database holds
too much after a run, the plan is dropped: so all plans together keep no more than that.

Below ``query``, beside ``engine``.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from herdpy.imports import lazy_module

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
else:
    duckdb = lazy_module("duckdb")

SMALL_ANSWER_BYTES = 1 << 20
"""The largest answer of which a query is prepared."""
SHARE = 8
"""Plans keep at most so small a part of a database's memory."""
KEPT = 64
"""How many cursors are kept."""
_HELD = "PREPARE held AS SELECT coalesce(sum(memory_usage_bytes), 0) FROM duckdb_memory()"
_Key = tuple[Any, ...]


class ReadyCursor:
    """A cursor with the columns of one query. One run at a time has it.

    Attributes:
        cursor: as DuckDB's client has it.
        answer_bytes: of the last answer that was read to its end; None before.
        is_prepared: whether DuckDB keeps the plan; None while nobody has tried.
    """

    __slots__ = ("_connection", "_sources", "_sql", "answer_bytes", "cursor", "is_prepared", "key")

    def __init__(
        self,
        connection: Any,
        sql: str,
        sources: Mapping[str, pa.Table],
        gone: Callable[[_Key], object],
    ) -> None:
        """``sources``: what was given, by the scans' names; ``gone(key)`` is called when one of them dies."""
        self.key = key = _key(connection, sql, sources)
        self.cursor = connection.cursor()
        self.answer_bytes: int | None = None
        self.is_prepared: bool | None = None
        self._connection = connection
        self._sql = sql
        self._sources = [weakref.ref(table, lambda _: gone(key)) for table in sources.values()]

    def relation(self, values: Sequence[Any], attach: Callable[[], None]) -> Any:
        """DuckDB's relation of the query. Raises as DuckDB.

        Args:
            values: of the parameters.
            attach: is called when DuckDB is about to compute: it forgets an interrupt that comes sooner.
        """
        if not values and self._is_small() and self._prepared():
            attach()
            return self.cursor.sql("EXECUTE ready")
        relation = self.cursor.sql(self._sql, params=values)
        attach()
        return relation

    def _is_small(self) -> bool:
        return self.answer_bytes is not None and self.answer_bytes <= SMALL_ANSWER_BYTES

    def _prepared(self) -> bool:
        if self.is_prepared is None:
            try:
                self.cursor.execute(f"PREPARE ready AS {self._sql}")
                self.cursor.execute(_HELD)
                self.is_prepared = True
            except duckdb.ParserException:  # it is no query, but an EXPLAIN
                self.is_prepared = False
        return self.is_prepared

    def settle(self, memory_bytes: int) -> None:
        """After a run: drop the plan when DuckDB still holds too much of the memory that it may use."""
        if self.is_prepared:
            (held,) = self.cursor.execute("EXECUTE held").fetchone()
            if held > memory_bytes // SHARE:
                self.cursor.execute("DEALLOCATE ready")
                self.is_prepared = None

    def holds(self, connection: Any, sources: Mapping[str, pa.Table]) -> bool:
        """Whether it is of that database and has the columns of these very tables."""
        pairs = zip(self._sources, sources.values(), strict=True)
        return self._connection is connection and all(mine() is given for mine, given in pairs)


class ReadyCursors:
    """Cursors that no run has, the least recently used ones dropped beyond a number. For any thread.

    Each step is one operation of the dict, which no other thread can divide. A lock would be in the way:
    a table may die, and call ``_kept.pop``, in the midst of anything.
    """

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._kept: dict[_Key, ReadyCursor] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def take(
        self,
        connection: Any,
        sql: str,
        sources: Mapping[str, pa.Table],
        register: Callable[[Any], object],
    ) -> ReadyCursor:
        """A cursor of this database with the query's columns; ``register`` gives them to a new one."""
        kept = self._kept.pop(_key(connection, sql, sources), None)
        if kept is not None and kept.holds(connection, sources):
            return kept
        made = ReadyCursor(connection, sql, sources, lambda key: self._kept.pop(key, None))
        register(made.cursor)
        return made

    def give_back(self, ready: ReadyCursor) -> None:
        """A run has ended well, and its tables are alive."""
        self._kept[ready.key] = ready
        while len(self._kept) > self._most:
            self._kept.pop(list(self._kept)[0], None)  # noqa: RUF015 - an iterator may meet a change

    def clear(self) -> None:
        """Drop all."""
        self._kept.clear()


def _key(connection: Any, sql: str, sources: Mapping[str, pa.Table]) -> _Key:
    return id(connection), sql, *map(id, sources.values())


READY = ReadyCursors()
"""Of this process."""
atexit.register(READY.clear)  # before the interpreter goes, as engine's databases
