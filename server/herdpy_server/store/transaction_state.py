"""Store layer, inside: one transaction: its own changes, what it reads, and its locks.

Above ``store``, below ``bulk``, ``definitions`` and ``workspace``, which change rows and definitions
through it.

*Changes.* Every write comes through here into the transaction's own layer, noted so that ``undo`` can take a
statement back. The layer is what others will see once the transaction has its place in the log; the records
are what the log will carry. When all that takes too much of memory, the oldest of it goes into files
(``spilling``), step by step, as much as is added.

*Reads.* The own changes come first, then what is visible to everyone: pending transactions, the memtable,
LMDB. What it read of pending ones is remembered, because an answer must wait for them. Scans are lazy: finish
one before writing to the table it reads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, KeysView, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final

from herdpy.codec.kinds import Datum
from herdpy.log.entry import encode_records
from herdpy.log.records import InsertBatch, Record
from herdpy_server.store import routing
from herdpy_server.store.dead_ranges import MANY, DeadRun, Range, shows
from herdpy_server.store.layers import (
    ENTRY_BYTES,
    MISSING,
    Chain,
    Delta,
    Item,
    Layer,
    Missing,
    overlay,
    showing,
)
from herdpy_server.store.locks import Locks
from herdpy_server.store.notified import TransactionNotifications
from herdpy_server.store.physical import is_plain
from herdpy_server.store.snapshot import StoreSnapshot
from herdpy_server.store.spilling import AT_ONCE, Spill, SpillSettings, Spool, move_rows
from herdpy_server.store.store import Store
from herdpy_server.store.table_counts import CountedAhead, Counts, add_counts, count_records
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Catalog, Index, Table
from herdpy_sql.deferred import Deferred
from herdpy_sql.errors import SqlError
from herdpy_sql.lock_modes import ACCESS_EXCLUSIVE, UPDATE
from herdpy_sql.partition_map import read_tables
from herdpy_sql.storage import Reader

_ENCODED_AT_ONCE = 256
_FORGOTTEN_AT_ONCE = 4096
_FEW_RECORDS: Final = 1024
_NOTE_BYTES = 150
"""What a record, or a change that may have to be undone, takes beside what it refers to."""

logger = logging.getLogger("herdpy.store")

#: A loop asks at every 1,024th of its rows whether to go on.
WATCHED: Final = 1023


Definition = Callable[[Catalog], Catalog]
"""One definition, or its end: what it makes of a catalog."""


def watched(items: Iterator[Item], watch: Callable[[], None]) -> Iterator[Item]:
    """``items``, with ``watch`` called now and then."""
    for count, item in enumerate(items):
        if not count & WATCHED:
            watch()
        yield item


Found = Callable[[bytes | None, bytes | None, Callable[[bytes], None] | None], Iterator[Item]]
"""The items of a database in a range, as ``overlay`` gives them: (low, high, gone)."""


def _behind(
    ranges: Sequence[Range], low: bytes | None, high: bytes | None, found: Found, run: DeadRun | None
) -> Iterator[Item]:
    """The items in [low, high) without ``ranges``; ``run`` is given the keys without a row."""
    gone = None if run is None else run.meet
    for dead in (*ranges, None):
        end = high if dead is None else dead[0]
        if low is None or end is None or low < end:
            for item in found(low, end, gone):
                if run is not None and run.count:
                    run.end()
                yield item
        if dead is not None:
            low = dead[1]
            if run is not None:
                run.skip(dead)
    if run is not None and run.count:
        run.end()


class Mark:
    """A place in a transaction to which :meth:`TransactionState.undo` goes back."""

    __slots__ = ("base", "catalog", "changes", "deferred", "definitions", "records")

    def __init__(
        self,
        changes: int,
        records: int,
        definitions: int,
        catalog: Catalog | None,
        base: Catalog | None,
        deferred: Deferred | None = None,
    ) -> None:
        self.changes = changes
        self.records = records
        self.definitions = definitions
        self.catalog = catalog
        self.base = base
        self.deferred = deferred

    def after_changes(self, changes: int) -> Mark:
        """The same place, but so many changes on."""
        return Mark(changes, self.records, self.definitions, self.catalog, self.base, self.deferred)


class TransactionState:
    """What one transaction has changed, what it reads, and the locks that it takes.

    Attributes:
        store: what is under its changes.
        locks: the lock table, where it is ``owner``.
        records: what to log, in order; the first of them may be in ``spilled_records``.
        layer: its changes; not to be written to once it was pushed.
        encoded: the bytes of the first ``encoded_count`` of ``records``, made ahead of the commit.
        limit_bytes: how much of memory it may take, about; 0: no limit.
        spilling: where what is too much goes, and how much that is; None: all of it stays in memory.
        has_snapshot: whether all its statements read one snapshot.
        watch: asked now and then in long loops; raises when the statement shall end.
        deferred: see ``herdpy_sql.storage.View``.
        notified: the notifications that it sends with its commit; None before the first.
        new_ids: ids of tables, indexes and objects that it took.
        read_position: the highest token of a pending transaction it has read from: answer nobody
            before that one is durable. 0 when there is none.
        losses: how often pending transactions had been dropped when all that it had read was known
            to be durable.
    """

    has_snapshot = False
    notified: TransactionNotifications | None = None

    def __init__(self, store: Store, locks: Locks, owner: object) -> None:
        self.store = store
        self.locks = locks
        self.owner = owner
        self._acquire = locks.acquire
        self._memtable = store.memory
        self.read_position = 0
        self.losses = store.memory.losses
        self.new_ids: set[int] = set()
        self._definitions: list[Definition] = []
        self._catalog: Catalog | None = None  # what they make of the next one
        self._base: Catalog | None = None
        self._ops: dict[int, TableOps] | None = None
        self._changes: list[tuple[Delta | int, object, object]] = []
        self._began = (0, 0)  # how many changes and records there were when the newest point statement began
        self._frozen: tuple[int, Layer] = (-1, {})
        self._writes = 0
        self.layer: Layer = {}
        self.records: list[Record] = []
        self.encoded: list[bytes] = []
        self.encoded_count = 0
        self._counted: Counts = {}  # what those change
        self.limit_bytes = 0
        self.spilling: SpillSettings | None = None
        self._spill: Spill | None = None
        self._hidden: list[Delta] = []  # those under one that cleared the database, for ``undo``
        self._warned = False  # that half of ``limit_bytes`` is taken
        self.watch: Callable[[], None] | None = None
        self.deferred: Deferred | None = None

    # Changes.

    def _own(self, db: int) -> Delta:
        delta = self.layer.get(db)
        if delta is None:
            delta = self.layer[db] = Delta()
        return delta

    def put(self, db: int, key: bytes, value: bytes | None) -> None:
        """Change one item of a database; None: it goes."""
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

    # How much of memory they take.

    @property
    def size_bytes(self) -> int:
        """About how much of memory it takes: its layer, its records, and what ``undo`` needs."""
        noted = len(self._changes) + len(self.records)
        deltas = chain(self.layer.values(), self._hidden)
        return sum(delta.resident_bytes for delta in deltas) + _NOTE_BYTES * noted

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
            self._encode_anew()
        self.locks.move_some(self.owner, spill.file, most)

    def _refuse_more(self, size: int, limit: int) -> None:
        """SqlError 54000 when it takes more of memory than it may; a warning when that is half so."""
        if size > limit:
            raise SqlError(
                "54000",
                f"the transaction takes more than {limit >> 20} MB of memory until it is committed",
                detail="That is four times memtable_limit_bytes.",
                hint="Commit more often, or cut what is loaded into parts.",
            )
        if 2 * size > limit and not self._warned and self._spill is None:
            self._warned = True
            logger.warning("a transaction takes %d MB of memory, and may take %d", size >> 20, limit >> 20)

    def clear(self, db: int) -> None:
        """Let nothing of a database show."""
        self.replace(db, Delta(cleared=True))

    def replace(self, db: int, delta: Delta) -> None:
        """Let ``delta`` be all that is changed in a database."""
        before = self.layer.get(db)
        self._changes.append((db, before, None))
        if before is not None:
            self._hidden.append(before)
        self.layer[db] = delta
        self._writes += 1

    def note_definition(self, before: Catalog, change: Definition, record: Record) -> None:
        """Note a definition: what it makes of the catalog ``before``, and its record for the log."""
        if self._catalog is None:
            self._base = before
        self._definitions.append(change)
        self._catalog = change(before)
        self._ops = {}
        self._writes += 1
        self.records.append(record)

    def mark(self) -> Mark:
        """Where the transaction is now."""
        changes, records, spill = len(self._changes), len(self.records), self._spill
        if spill is not None:
            changes, records = changes + spill.note_count, records + spill.records.count
        return Mark(
            changes,
            records,
            len(self._definitions),
            self._catalog,
            self._base,
            self.deferred,
        )

    def begins_point(self, catalog: Catalog, watch: Callable[[], None]) -> bool:
        """A statement about one row begins, which defines nothing and puts no check off, and is made for
        ``catalog``.

        Args:
            watch: see above.

        Returns:
            Whether the transaction sees this catalog, which is durable, and all that is committed by now, and
            keeps all of its own in memory. Else nothing has begun.
        """
        seen, token = self.store.visible_catalog
        if (
            seen is not catalog
            or token
            or self._catalog is not None
            or self._spill is not None
            or self.has_snapshot
        ):
            return False
        self.watch = watch
        self._began = len(self._changes), len(self.records)
        return True

    @property
    def point_mark(self) -> Mark:
        """Where the transaction was when the newest statement about one row began."""
        changes, records = self._began
        return Mark(changes, records, len(self._definitions), self._catalog, self._base, self.deferred)

    def has_changed_since(self, mark: Mark) -> bool:
        """Whether there is anything for :meth:`undo` to take back."""
        return (
            self._spill is not None
            or len(self._changes) != mark.changes
            or len(self.records) != mark.records
            or len(self._definitions) != mark.definitions
            or self.deferred is not mark.deferred
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
        self.undo(mark.after_changes(self.change_count - _FORGOTTEN_AT_ONCE) if more else mark)
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
        if self.notified is not None:
            self.notified.cut(mark.records)
        below = 0 if self._spill is None else self._spill.records.count
        left = mark.records - below
        if self._spill is not None and below and left <= 0:
            self.records[:] = self._spill.cut_records(mark.records)
            self._encode_anew()
            return
        if self.encoded_count > left:
            self._encode_anew()
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
        count = len(records)
        return count > _FEW_RECORDS or (
            count > 1 and (type(records[-1]) is InsertBatch or type(records[-2]) is InsertBatch)
        )

    def _encode_anew(self) -> None:
        """The records in memory are others now."""
        self.encoded, self.encoded_count, self._counted = [], 0, {}

    @property
    def counted_ahead(self) -> CountedAhead | None:
        """What of its records was counted already; None: nothing."""
        spill = self._spill
        if not self.encoded_count and spill is None:
            return None
        counts: Counts = {}
        for one in (*(() if spill is None else spill.counts), self._counted):
            add_counts(one, counts)
        return CountedAhead(counts, self.encoded_count)

    def encode_some(self) -> bool:
        """A step of encoding the records; whether there is more. RecordError as ``encode_records``."""
        records, at = self.records, self.encoded_count
        some = records[at : at + _ENCODED_AT_ONCE]
        batches = (nth for nth, record in enumerate(some) if type(record) is InsertBatch)
        some = some[: max(next(batches, len(some)), 1)]  # one of those at a time
        self.encoded.append(encode_records(some))
        count_records(some, self._counted)
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

    # Reads.

    @property
    def catalog(self) -> Catalog:
        """Everybody's catalog, with what the transaction has defined itself."""
        catalog, token = self.store.visible_catalog
        self.read_position = max(self.read_position, token)
        if self._catalog is None:
            return catalog
        if self._base is not catalog and self._catalog is not catalog:  # and it was not pushed
            with suppress(KeyError):  # they are about what another leader dropped: the commit is refused
                self._rebase(catalog)
        return self._catalog

    def _rebase(self, base: Catalog) -> None:
        """Others have defined something since: put the own definitions over that."""
        catalog = base
        for change in self._definitions:
            catalog = change(catalog)
        self._catalog, self._base, self._ops = catalog, base, {}

    @property
    def own_catalog(self) -> Catalog | None:
        """The catalog to push with the layer; None when the transaction defined nothing.

        Raises:
            SqlError: 40001, what it has defined something about is not there any more; 53400, there would be
                more tables and indexes than there may be.
        """
        newest = self.store.visible_catalog[0]
        if self._catalog is None:
            return None
        if self._base is not newest:
            try:
                self._rebase(newest)
            except KeyError as error:
                raise SqlError("40001", "the catalog was changed concurrently") from error
        catalog = self._catalog
        if self.store.databases(catalog) > self.store.databases(newest):
            self.store.check_databases(catalog)
        return catalog

    @property
    def next_id(self) -> int:
        """See ``View``."""
        return max(self.store.visible_catalog[0].next_id, self.store.id_head)

    @property
    def rests_on_loss(self) -> bool:
        """Whether it may have read a pending transaction that was dropped since."""
        memory = self._memtable
        if self.losses == memory.losses:
            return False
        first = memory.lost_since(self.losses)
        return first is not None and self.read_position >= first

    def forget_reads(self) -> None:
        """Another statement reads through it, which nothing rests on that was read before."""
        self.read_position = 0
        self.losses = self._memtable.losses

    def verified(self) -> None:
        """All that it has read so far is durable: losses to come do not touch it."""
        self.losses = self._memtable.losses

    @property
    def newest(self) -> Reader:
        """All that is committed by now, with the own changes: what a snapshot must not hide from a check."""
        return self

    def get(self, table: Table, key: bytes) -> bytes | None:
        """The row image under ``key``, or None."""
        if table.partition_key is not None:
            found = self.holder(table, key)
            return None if found is None else self.get(found, key)
        return self.newest_value(table.id, key)

    def newest_value(self, db: int, key: bytes) -> bytes | None:
        """The newest value under ``key`` in a database, or None, whatever snapshot plans read."""
        delta = self.layer.get(db)
        if delta is not None:
            value: bytes | Missing | None = delta.rows.get(key, MISSING)
            if value is not MISSING:
                return value  # type: ignore[return-value]
            if delta.cleared:
                return None
        chain = self._memtable.visible.get(db)
        if chain is not None:
            for delta in chain:
                value = delta.rows.get(key, MISSING)
                if value is not MISSING:
                    self.read_position = max(self.read_position, delta.token)
                    return value  # type: ignore[return-value]
                if delta.cleared:
                    self.read_position = max(self.read_position, delta.token)
                    return None
        return self.store.disk.current.get(db, key)

    def _chain(self, db: int) -> Chain:
        """Every delta over LMDB, newest first, the own one included."""
        chain = self._memtable.visible.get(db, ())
        if chain and chain[0].token > self.read_position:
            self.read_position = chain[0].token
        own = self.layer.get(db)
        return chain if own is None else (own, *chain)

    def _scan(
        self, db: int, low: bytes | None, high: bytes | None, reverse: bool, may_be_long: bool
    ) -> Iterator[Item]:
        found = self._scan_all(db, low, high, reverse, may_be_long)
        return found if self.watch is None else watched(found, self.watch)

    def _scan_all(
        self, db: int, low: bytes | None, high: bytes | None, reverse: bool, may_be_long: bool
    ) -> Iterator[Item]:
        chain = self._chain(db)
        disk = self.store.disk.current
        if not chain:
            return disk.scan(db, low, high, reverse=reverse, may_be_long=may_be_long)
        deltas, through = showing(chain)

        def found(
            low: bytes | None, high: bytes | None, gone: Callable[[bytes], None] | None
        ) -> Iterator[Item]:
            under: Iterator[Item] = iter(())
            if through:
                under = disk.scan(db, low, high, reverse=reverse, may_be_long=may_be_long)
            return overlay(deltas, under, low, high, reverse, gone)

        if reverse or sum([len(delta.rows) for delta in deltas]) < MANY:
            return found(low, high, None)
        return self._behind_dead(db, low, high, found)

    def _behind_dead(self, db: int, low: bytes | None, high: bytes | None, found: Found) -> Iterator[Item]:
        """A forward scan that leaves out the ranges known to be dead, and notes those that it meets."""
        known = self.store.dead_ranges
        ranges, own = known.within(db, low, high), self.layer.get(db)
        run: DeadRun | None = None
        if own is None:
            run = DeadRun(known, db)
        else:
            ranges = [one for one in ranges if not shows(own, one)]
        return _behind(ranges, low, high, found, run)

    def scan(
        self, table: Table, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Item]:
        """Pairs of key and row image, in key order."""
        return self._scan(table.id, low, high, reverse, self.ops(table).may_be_long)

    def index_scan(
        self,
        table: Table,
        index: Index,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[Item]:
        """Pairs of index key and row key, in index order."""
        return self._scan(index.id, low, high, reverse, self.ops(table).index(index.id).may_be_long)

    def ops(self, table: Table) -> TableOps:
        """How rows of ``table`` are kept.

        Raises:
            SqlError: 40001 when the definition is not the one in force (the plan is out of date).
        """
        known = self.store.table_ops if self._ops is None else self._ops
        ops = known.get(table.id)
        if ops is None or ops.table is not table:
            if self.catalog.tables.get(table.id) != table:
                raise SqlError("40001", f'the definition of table "{table.name}" was changed concurrently')
            ops = known[table.id] = TableOps(table)
        return ops

    def placed(self, table: Table, values: Sequence[Datum]) -> Table:
        """Where a row goes that is written to ``table``, which ``is_routed``: a partition.

        Raises:
            SqlError: 23514, no partition takes it, or another; 40001 as of :meth:`ops`.
        """
        self.ops(table)
        return routing.placed(self.catalog, table, values)

    def holder(self, table: Table, key: bytes) -> Table | None:
        """The table itself or the partition that has the row under ``key``, if any has it."""
        return table if table.partition_key is None else routing.holder(self.catalog, table, key)

    def first_existing(self, db: int, keys: list[bytes], distinct: KeysView[bytes]) -> bytes | None:
        """One of the ``keys`` that is visible already, or None; ``distinct`` are the same keys as a set."""
        deltas, through = showing(self._chain(db))
        suspects: set[bytes] = set()
        for delta in deltas:
            suspects |= delta.known(distinct)
        for key in suspects:
            if self.newest_value(db, key) is not None:
                return key
        if through:
            disk = self.store.disk.current
            if not is_plain(keys):
                return next((key for key in keys if self.newest_value(db, key) is not None), None)
            for key in disk.existing(db, sorted(keys)):
                if key not in suspects:
                    return key
        return None

    def existing(self, db: int, keys: Collection[bytes]) -> set[bytes]:
        """Those of the ``keys`` that are visible; lock them before, or they may come and go."""
        deltas, through = showing(self._chain(db))
        found: set[bytes] = set()
        below = set(keys)
        for delta in deltas:
            known = delta.known(below)
            found.update(key for key in known if delta.rows[key] is not None)
            below -= known
        if through and below:
            disk = self.store.disk.current
            if is_plain(below):
                found.update(disk.existing(db, sorted(below)))
            else:
                found.update(key for key in below if disk.get(db, key) is not None)
        return found

    def snapshot(self) -> StoreSnapshot:
        """What this transaction sees now. SqlError 53400: snapshots have too many older states."""
        catalog = self.catalog
        self.read_position = max(self.read_position, self._memtable.newest_token)
        return self.store.snapshot(self.frozen_layer(), catalog)

    def next_row_id(self, table: Table) -> int:
        """A fresh value for the hidden key."""
        return self.next_row_ids(table, 1)

    def next_row_ids(self, table: Table, count: int) -> int:
        """The first of so many fresh values for the hidden key, which follow one another."""
        ids = self.store.row_ids
        number = table.id if table.bound is None else table.bound.parent  # partitions count together
        value = ids.get(number)
        if value is None:
            value = 1
            for one in read_tables(self.catalog, [self.catalog.tables.get(number, table)]):
                for key, _ in self._scan(one.id, None, None, True, self.ops(one).may_be_long):
                    value = max(value, int(one.key_codec.decode(key)[0]) + 1)  # type: ignore[arg-type]
                    break
        ids[number] = value + count
        return value

    # Locks.

    def lock_row(self, table: Table, key: bytes, mode: int = UPDATE) -> None:
        """Keep others from the row under ``key``, until this transaction ends, as far as ``mode`` does."""
        if table.partition_key is not None:
            found = self.holder(table, key)
            if found is None:
                return
            table = found
        self._acquire(self.owner, table.id, key, mode)

    def try_lock_row(self, table: Table, key: bytes, mode: int = UPDATE) -> bool:
        """As :meth:`lock_row`; False where that would have to wait for another transaction."""
        if table.partition_key is not None:
            found = self.holder(table, key)
            return found is None or self.try_lock_row(found, key, mode)
        return self.locks.try_acquire(self.owner, table.id, key, mode)

    def lock_table(self, table: Table, mode: int = ACCESS_EXCLUSIVE, *, wait: bool = True) -> bool:
        """Lock a whole table in one of its modes; False where others are in the way, unless ``wait``.

        Partitions are locked with their table.
        """
        for one in self.catalog.partitions.get(table.id, ()) if table.partition_key is not None else ():
            if not self.lock_table(one, mode, wait=wait):
                return False
        if not wait:
            return self.locks.try_acquire_table(self.owner, table.id, mode)
        self.locks.acquire_table(self.owner, table.id, mode)
        return True

    def lock_to_change(self, table: Table) -> None:
        """Lock a whole table to change it as one."""
        self.locks.acquire_table(self.owner, table.id)

    def lock_rows(self, table: Table, keys: Collection[bytes]) -> None:
        """As :meth:`lock_row` for many keys, all of them or none."""
        if table.partition_key is not None:
            for one, some in routing.grouped_keys(self.catalog, table, keys):
                self.lock_rows(one, some)
            return
        self.locks.acquire_many(self.owner, table.id, keys)

    def lock_many(self, db: int, keys: Collection[bytes]) -> None:
        """Take the locks of many keys of one database."""
        self.locks.acquire_many(self.owner, db, keys)

    def check_definitions(self, schemas: Collection[str]) -> None:
        """SqlError 40001 when others have defined something in these schemas that this one may not see."""


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
