"""How many rows of each table were inserted, updated and deleted, and how many there are: for statistics.

Beside ``store``, which counts what it applies, in the lock that a flush takes, too. Records are counted, so
every way in counts alike: statements, COPY, Arrow, loads. A leader counts its own commits, and what it rolls
back, as PostgreSQL does; followers and recovery count only how many rows there are. The rows that there are
come from LMDB's own count as of the newest checkpoint, and what was applied since.

Records of a large transaction are counted ahead (:class:`CountedAhead`), while they are encoded or put into a
file.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from herdpy.log.records import Delete, Insert, InsertBatch, LoadBatch, LoadOp, Record, Truncate, Update

Counts = dict[int, list[int]]
"""By table: inserted, updated, deleted, the difference in rows, and 1 where all that was there before is
gone."""
_NET: Final = 3
_CLEARED: Final = 4


def count_records(records: Iterable[Record], counts: Counts) -> None:
    """Add what records change."""
    for record in records:
        kind = type(record)
        if kind is Update:
            _of(counts, record.table_id)[1] += 1  # type: ignore[union-attr]
        elif kind is Insert:
            one = _of(counts, record.table_id)  # type: ignore[union-attr]
            one[0] += 1
            one[3] += 1
        elif kind is Delete:
            one = _of(counts, record.table_id)  # type: ignore[union-attr]
            one[2] += 1
            one[3] -= 1
        else:
            _count_others(record, counts)


def _of(counts: Counts, table_id: int) -> list[int]:
    one = counts.get(table_id)
    if one is None:
        one = counts[table_id] = [0, 0, 0, 0, 0]
    return one


def _count_others(record: Record, counts: Counts) -> None:
    """Add what a record of many rows changes, or one of none."""
    if isinstance(record, InsertBatch):
        one = _of(counts, record.table_id)
        one[0] += record.rows
        one[_NET] += record.rows
    elif isinstance(record, Truncate):
        one = _of(counts, record.table_id)
        one[_NET], one[_CLEARED] = 0, 1
    elif isinstance(record, LoadBatch):
        one = _of(counts, record.table_id)
        present = sum(byte.bit_count() for byte in record.present)
        fresh = record.rows - present
        if record.op is LoadOp.DELETE:
            one[2] += present
            one[_NET] -= present
        else:
            one[0] += fresh
            one[1] += present if record.op is LoadOp.UPSERT else 0
            one[_NET] += fresh


def add_counts(more: Mapping[int, Sequence[int]], counts: Counts) -> None:
    """Add what came after ``counts``."""
    for table_id, (inserted, updated, deleted, net, cleared) in more.items():
        one = _of(counts, table_id)
        one[0] += inserted
        one[1] += updated
        one[2] += deleted
        one[_NET] = net if cleared else one[_NET] + net
        one[_CLEARED] |= cleared


class CountedAhead:
    """What the first records of a transaction change, counted before its commit.

    Attributes:
        counts: of them; ``first``: how many those in memory are.
    """

    __slots__ = ("counts", "first")

    def __init__(self, counts: Counts, first: int) -> None:
        self.counts = counts
        self.first = first


class TableCounts:
    """The counts of one store. The store's lock is held where it says so.

    Attributes:
        reset_us: since when changes are counted, microseconds since 1970 UTC. ``flushes``: since the start.
    """

    def __init__(self) -> None:
        self._counts: Counts = {}
        self._frozen: dict[int, tuple[int, int]] = {}  # (rows, cleared) that a flush writes
        self._ahead: dict[int, CountedAhead] = {}
        self._lock = threading.Lock()
        self.reset_us = time.time_ns() // 1000
        self.flushes = 0

    def expect(self, layer: object, ahead: CountedAhead) -> None:
        """A transaction with this layer will be applied, some of whose records were counted ahead."""
        self._ahead[id(layer)] = ahead

    def take(self, records: Sequence[Record], layer: object) -> None:
        """A transaction of the leader is applied. In the store's lock."""
        with self._lock:
            ahead = self._ahead.pop(id(layer), None) if self._ahead else None
            if ahead is None:
                count_records(records, self._counts)
            else:
                add_counts(ahead.counts, self._counts)
                count_records(records[ahead.first :], self._counts)

    def follow(self, records: Iterable[Record]) -> None:
        """Records of the log are applied: what they change counts only as rows that there are. In the
        store's lock."""
        found: Counts = {}
        count_records(records, found)
        with self._lock:
            add_counts({id_: (0, 0, 0, one[_NET], one[_CLEARED]) for id_, one in found.items()}, self._counts)

    def follow_rows(self, table_id: int, net: int) -> None:
        """As :meth:`follow`, for records of one table after which there are ``net`` rows more."""
        with self._lock:
            _of(self._counts, table_id)[_NET] += net

    def rolled_back(self, records: Sequence[Record], ahead: CountedAhead | None) -> None:
        """A transaction is rolled back: it has changed rows, and there are as many as before."""
        found: Counts = {}
        if ahead is not None:
            add_counts(ahead.counts, found)
        count_records(records if ahead is None else records[ahead.first :], found)
        with self._lock:
            add_counts({id_: (*one[:3], 0, 0) for id_, one in found.items()}, self._counts)

    def lost(self) -> None:
        """The log failed: nothing that was expected will be applied."""
        self._ahead.clear()

    def freeze(self, tables: Collection[int]) -> None:
        """A flush will write all that is applied. Counts of others than these tables go. In the store's
        lock."""
        with self._lock:
            for table_id, one in list(self._counts.items()):
                if table_id not in tables:
                    del self._counts[table_id]
                    continue
                before, cleared = self._frozen.get(table_id, (0, 0))
                if one[_CLEARED]:
                    before, cleared = 0, 1
                self._frozen[table_id] = before + one[_NET], cleared
                one[_NET] = one[_CLEARED] = 0

    def flushed(self) -> None:
        """The flush has written it. In the store's lock."""
        self.flushes += 1
        with self._lock:
            self._frozen = {}

    def reset(self) -> None:
        """Begin anew to count changes."""
        with self._lock:
            for one in self._counts.values():
                one[0] = one[1] = one[2] = 0
        self.reset_us = time.time_ns() // 1000

    def of_table(self, table_id: int, written: int) -> tuple[int, int, int, int]:
        """Rows inserted, updated and deleted, and those that there are; LMDB has ``written``."""
        with self._lock:
            inserted, updated, deleted, net, cleared = self._counts.get(table_id, (0, 0, 0, 0, 0))
            frozen, frozen_cleared = self._frozen.get(table_id, (0, 0))
        there = 0 if cleared else frozen + (0 if frozen_cleared else written)
        return inserted, updated, deleted, max(there + net, 0)
