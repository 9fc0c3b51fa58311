"""Store layer, inside: what one transaction has changed, and how it goes back to a place in it.

Below ``reading`` and ``workspace``: every write of a transaction comes through here into its own
layer, noted so that ``undo`` can take a statement back. The layer is what others will see once the
transaction has its place in the log; the records are what the log will carry. When all that takes too much
of memory, the oldest of it goes into files (``spilling``), step by step, as much as is added.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from herdpy.log.records import InsertBatch, Record
from herdpy.log.transaction import encode_records
from herdpy_server.store.layers import ENTRY_BYTES, MISSING, Delta, Layer
from herdpy_server.store.spill_file import SpillFile
from herdpy_server.store.spilling import AT_ONCE, Spill, SpillSettings, move_rows
from herdpy_server.store.spool import Spool
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Catalog
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.deferred import Deferred

_ENCODED_AT_ONCE = 256
_FORGOTTEN_AT_ONCE = 4096
_FEW_RECORDS = 1024
_NOTE_BYTES = 150
"""What a record, or a change that may have to be undone, takes beside what it refers to."""

logger = logging.getLogger("herdpy.store")

#: A loop asks at every 1,024th of its rows whether to go on.
WATCHED = 1023


Definition = Callable[[Catalog], Catalog]
"""One definition, or its end: what it makes of a catalog."""


class Mark(NamedTuple):
    """A place in a transaction to which :meth:`Changes.undo` goes back."""

    changes: int
    records: int
    definitions: int
    catalog: Catalog | None
    base: Catalog | None
    deferred: Deferred | None = None


class Changes:
    """A transaction's own changes.

    Attributes:
        records: what to log, in order; the first of them may be in ``spilled_records``.
        layer: its changes; not to be written to once it was pushed.
        encoded: the bytes of the first ``encoded_count`` of ``records``, made ahead of the commit.
        limit_bytes: how much of memory it may take, about; 0: no limit.
        spilling: where what is too much goes, and how much that is; None: all of it stays in memory.
        watch: asked now and then in long loops; raises when the statement shall end.
        deferred: see ``herdpy_sql.storage.View``.
    """

    def __init__(self) -> None:
        self._definitions: list[Definition] = []
        self._catalog: Catalog | None = None  # what they make of the next one
        self._base: Catalog | None = None
        self._ops: dict[int, TableOps] | None = None
        self._changes: list[tuple[Delta | int, object, object]] = []
        self._frozen: tuple[int, Layer] = (-1, {})
        self._writes = 0
        self.layer: Layer = {}
        self.records: list[Record] = []
        self.encoded: list[bytes] = []
        self.encoded_count = 0
        self.limit_bytes = 0
        self.spilling: SpillSettings | None = None
        self._spill: Spill | None = None
        self._hidden: list[Delta] = []  # those under one that cleared the database, for ``undo``
        self._told = False  # that half of that is taken
        self.watch: Callable[[], None] | None = None
        self.deferred: Deferred | None = None

    def _own(self, db: int) -> Delta:
        delta = self.layer.get(db)
        if delta is None:
            delta = self.layer[db] = Delta()
        return delta

    def _put(self, db: int, key: bytes, value: bytes | None) -> None:
        delta = self.layer.get(db)
        if delta is None:
            delta = self.layer[db] = Delta()
        rows = delta.rows
        self._changes.append((delta, key, rows.get(key, MISSING)))
        rows[key] = value
        delta.nbytes += len(key) + ENTRY_BYTES + (len(value) if value is not None else 0)
        self._writes += 1
        if not self._writes & WATCHED:
            self._weigh(WATCHED + 1)
            if self.watch is not None:
                self.watch()

    def add_fresh(self, db: int, fresh: Mapping[bytes, bytes | None], nbytes: int) -> None:
        """Put many items at once, which are about ``nbytes`` in memory, into the own layer."""
        delta = self._own(db)
        rows = delta.rows
        previous: dict[bytes, bytes | None] = {}
        if rows or delta.is_large:
            previous = {key: rows[key] for key in delta.known(fresh.keys())}
            rows.update(fresh)
        else:
            delta.rows = fresh  # type: ignore[assignment]  # a dict of the caller's, who lets go of it
        self._changes.append((delta, list(fresh), previous))
        delta.nbytes += nbytes
        self._writes += 1
        self._weigh(len(fresh))

    @property
    def size_bytes(self) -> int:
        """About how much of memory it takes: its layer, its records, and what ``undo`` needs."""
        noted = len(self._changes) + len(self.records)
        deltas = chain(self.layer.values(), self._hidden)
        return sum(delta.resident_bytes for delta in deltas) + _NOTE_BYTES * noted

    @property
    def spilled_bytes(self) -> int:
        """How much it has put into files."""
        return 0 if self._spill is None else self._spill.size_bytes

    @property
    def spilled_records(self) -> Spool | None:
        """The records that come before ``records``, encoded; None where there are none."""
        spill = self._spill
        return None if spill is None or not spill.records.count else spill.records

    @property
    def record_count(self) -> int:
        """How many records it has."""
        return len(self.records) + (0 if self._spill is None else self._spill.records.count)

    def _weigh(self, added: int) -> None:
        """See to it that it does not take more of memory than it may, ``added`` rows after the last time.

        Raises:
            SqlError: 54000 when it does; 53100, 53400, 58030 when what is too much cannot be put elsewhere.
        """
        size = self.size_bytes
        if self.spilling is not None and size > self.spilling.memory_bytes:
            self._move_some(self.spilling, AT_ONCE + 2 * added)
            size = self.size_bytes
        if self.limit_bytes:
            self._refuse_more(size, self.limit_bytes)

    def _move_some(self, spilling: SpillSettings, most: int) -> None:
        """Put the oldest of what it has into files. SqlError 53100, 53400, 58030, and nothing is lost."""
        spill = self._spill
        if spill is None:
            spill = self._spill = Spill(spilling.directory)
        move_rows(spill.file, chain(self.layer.values(), self._hidden), most)
        spill.move_notes(self._changes, most)
        if spill.move_records(self.records, most):
            self.encoded, self.encoded_count = [], 0
        self._move_locks(spill.file, most)

    def _move_locks(self, file: SpillFile, most: int) -> None:
        """Put locks into a file, where it has any."""

    def _refuse_more(self, size: int, limit: int) -> None:
        """SqlError 54000 when it takes more of memory than it may; a warning when that is half so."""
        if size > limit:
            raise SqlError(
                "54000",
                f"the transaction takes more than {limit >> 20} MB of memory until it is committed",
                detail="That is four times memtable_limit_bytes.",
                hint="Commit more often, or cut what is loaded into parts.",
            )
        if 2 * size > limit and not self._told and self._spill is None:
            self._told = True
            logger.warning("a transaction takes %d MB of memory, and may take %d", size >> 20, limit >> 20)

    def _clear(self, db: int) -> None:
        self._replace(db, Delta(cleared=True))

    def _replace(self, db: int, delta: Delta) -> None:
        """Let ``delta`` stand for all that is changed in a database."""
        before = self.layer.get(db)
        self._changes.append((db, before, None))
        if before is not None:
            self._hidden.append(before)
        self.layer[db] = delta
        self._writes += 1

    def _defined(self, before: Catalog, change: Definition, record: Record) -> None:
        """Note a definition: what it makes of the catalog ``before``, and what the log is told of it."""
        if self._catalog is None:
            self._base = before
        self._definitions.append(change)
        self._catalog = change(before)
        self._ops = {}
        self._writes += 1
        self.records.append(record)

    def mark(self) -> Mark:
        """Where the transaction is now."""
        return Mark(
            self.change_count,
            self.record_count,
            len(self._definitions),
            self._catalog,
            self._base,
            self.deferred,
        )

    def undo(self, mark: Mark) -> None:
        """Take back everything since ``mark``; the locks stay."""
        while True:
            below = 0 if self._spill is None else self._spill.note_count
            self._take_back(max(mark.changes - below, 0))
            if self._spill is None or below <= mark.changes:
                break
            self._changes += self._spill.newest_notes()
            self._move_taken_back()
        self._undone(mark)

    def _take_back(self, left: int) -> None:
        """Take back the newest changes but for ``left`` of those in memory."""
        changes = self._changes
        while len(changes) > left:
            where, key, previous = changes.pop()
            if isinstance(where, int):
                if isinstance(key, Delta):
                    self.layer[where] = key
                    self._hidden.remove(key)
                else:
                    del self.layer[where]
            elif isinstance(key, bytes):
                where.nbytes -= len(key) + ENTRY_BYTES + len(where.rows[key] or b"")
                if previous is MISSING:
                    del where.rows[key]
                    where.forget_order()
                else:
                    where.rows[key] = previous  # type: ignore[assignment]
            else:
                _take_back_many(where, key, previous)  # type: ignore[arg-type]

    def _move_taken_back(self) -> None:
        """What was taken back of rows in the file is noted in memory: not too much of that, if it can be."""
        if self._spill is None or self.spilling is None or self.size_bytes <= self.spilling.memory_bytes:
            return
        try:
            move_rows(self._spill.file, self.layer.values(), 2 * AT_ONCE)
        except SqlError as error:
            logger.warning("what is taken back of a large transaction stays in memory: %s", error)

    def undo_some(self, mark: Mark) -> bool:
        """A step of :meth:`undo`: take back the newest of what came since ``mark``; whether there is more."""
        more = self.change_count - mark.changes > _FORGOTTEN_AT_ONCE
        self.undo(mark._replace(changes=self.change_count - _FORGOTTEN_AT_ONCE) if more else mark)
        return more

    def _undone(self, mark: Mark) -> None:
        self.deferred = mark.deferred
        self.unlog(mark)
        if len(self._definitions) > mark.definitions:
            del self._definitions[mark.definitions :]
            self._catalog, self._base = mark.catalog, mark.base
            self._ops = None if mark.catalog is None else {}
        self._writes += 1

    def unlog(self, mark: Mark) -> None:
        """Forget the records since ``mark``, and nothing else."""
        below = 0 if self._spill is None else self._spill.records.count
        left = mark.records - below
        if self._spill is not None and below and left <= 0:
            self.records[:] = self._spill.cut_records(mark.records)
            self.encoded, self.encoded_count = [], 0
            return
        if self.encoded_count > left:
            self.encoded, self.encoded_count = [], 0
        del self.records[left:]

    # What there is to do with many changes in steps, so that others have their turn in between.

    @property
    def change_count(self) -> int:
        """How many changes there are to be taken back or forgotten."""
        return len(self._changes) + (0 if self._spill is None else self._spill.note_count)

    @property
    def logs_much(self) -> bool:
        """Whether it takes a while to encode the records."""
        records = self.records
        return len(records) > _FEW_RECORDS or (
            len(records) > 1 and any(type(one) is InsertBatch for one in records[-2:])
        )

    def encode_some(self) -> bool:
        """A step of encoding the records; whether there is more. RecordError as ``encode_records``."""
        records, at = self.records, self.encoded_count
        some = records[at : at + _ENCODED_AT_ONCE]
        batches = (nth for nth, record in enumerate(some) if type(record) is InsertBatch)
        some = some[: max(next(batches, len(some)), 1)]  # one of those at a time
        self.encoded.append(encode_records(some))
        self.encoded_count += len(some)
        return self.encoded_count < len(records)

    def forget_some(self) -> bool:
        """A step of letting go of what nobody needs after the transaction; whether there is more."""
        for held in (self._changes, self.records, self.encoded):
            del held[-_FORGOTTEN_AT_ONCE:]
        self._spill = None
        return bool(self._changes or self.records or self.encoded)

    def let_go_of_files(self) -> None:
        """The transaction has ended: what nobody else reads of its files goes at once."""
        if self._spill is not None:
            self._spill = None
            self.layer, self._hidden, self._frozen = {}, [], (-1, {})
            self._changes.clear()

    def frozen_layer(self) -> Layer:
        """The own layer as it is now, which later writes do not change."""
        if self._frozen[0] != self._writes:
            self._frozen = (self._writes, {db: delta.copy() for db, delta in self.layer.items()})
        return self._frozen[1]


def _take_back_many(delta: Delta, keys: Iterable[bytes], previous: dict[bytes, bytes | None]) -> None:
    """Undo the addition of ``keys``, of which ``previous`` has those that the delta had before."""
    rows = delta.rows
    if isinstance(rows, dict) and not previous and len(rows) == len(keys):  # type: ignore[arg-type]
        rows.clear()
        delta.nbytes = 0
    else:
        taken = sum(len(key) + len(rows[key] or b"") + ENTRY_BYTES for key in keys)
        delta.nbytes = max(delta.nbytes - taken, 0)
        for key in keys:
            if key in previous:
                rows[key] = previous[key]
            else:
                del rows[key]
    delta.forget_order()
