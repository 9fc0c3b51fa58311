"""Store layer: the state of one tablespace, LMDB underneath and memory above.

Above ``apply``, ``layers``, ``disk`` and ``flush``; below ``transaction_state`` and ``workspace``, which read
it and write to it. How data passes through: a statement writes into its ``Workspace``; when the transaction
has its place in the log, ``push_pending`` shows its layer to everyone: it is *pending*. When the log has it
durably, ``apply`` puts it into the memtable, at once with all others that take effect with the same entry,
and ``pop_pending`` takes the layer away: it is *applied*. When the log fails it is lost. ``flush`` writes the
memtable to LMDB together with the position, which makes the log up to there unnecessary.

One thread at a time calls into a store (the engine's turn), except that ``flush`` and ``copy`` run
in threads of their own and a ``StoreSnapshot`` may be read by another thread.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from herdpy.formats import NEWEST_LEVEL
from herdpy.log import LSN, START, LoggedTransaction
from herdpy.log.records import Record, TablesChecksum
from herdpy_server.store import check, copy, flush
from herdpy_server.store.apply import AppliedState, Applier, BackgroundChanges, StepApplier
from herdpy_server.store.check import Finding
from herdpy_server.store.columns import ColumnCache
from herdpy_server.store.copy import Progress
from herdpy_server.store.dead_ranges import DeadRanges
from herdpy_server.store.disk import MAX_DATABASES, MAX_READERS, ApplyError, Disk
from herdpy_server.store.disk_view import DiskView
from herdpy_server.store.flush import Begun
from herdpy_server.store.history import History
from herdpy_server.store.index_build import WrittenKeys
from herdpy_server.store.layers import MISSING, Layer, Memory, Missing
from herdpy_server.store.limits import ADDRESS_SPACE, Limit
from herdpy_server.store.loads import Loaded, LoadOutcome, Loads, loaded_by
from herdpy_server.store.marks import KeptPast, Marks, StateMark
from herdpy_server.store.outcomes import CommitOutcome, Outcomes, outcome_of
from herdpy_server.store.row_changes import EncodedChanges, GatheredTables
from herdpy_server.store.segment_file import SegmentDraft
from herdpy_server.store.segments import SegmentFiles, SegmentKeeper
from herdpy_server.store.snapshot import StoreSnapshot
from herdpy_server.store.spilling import SpillSettings
from herdpy_server.store.table_counts import TableCounts
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Catalog
from herdpy_sql.errors import SqlError

COLUMN_CACHE_BYTES = 512 << 20
_OTHER_READERS = 64


class Store:
    """The state of a tablespace.

    Attributes:
        applied: the position up to which memory has everything.
        durable: the position in LMDB; recovery starts after it.
        catalog: the definitions as applied, without pending ones.
        visible_catalog: with pending ones, and the token of the newest of those (0: none).
        outcomes: what became of commits that have a request id, as applied.
        loads: those that were done, as applied.
        uuid: made with the store.
        on_roles: called when other roles are applied than before.
        level: gives what may be written to the log (``herdpy.formats``).
        on_checksum: called after such a record, alone in its transaction, was applied, and nothing after it.
        sequence_heads: the states of sequences as far as values were given here, by id.
        id_head: open transactions define things with ids below this one.
        history: what was committed since the oldest state that an open transaction has pinned.
        max_databases: tables and indexes that there may be.
        spilling: where large transactions put what is too much for memory; None: nowhere.
        dead_ranges: ranges of keys of which none is visible now.
        watched_tables: of which the written keys are noted, for an index that is made meanwhile.
        segments: keeps columns of tables in files beside LMDB's; None: nothing does.
        committed_us: the newest time of a commit that is applied, in microseconds since 1970; 0: none is.
        marks: old states of LMDB that are kept.
        memory, disk, columns, table_ops, row_ids: parts of it, for the modules of this package.
    """

    def __init__(self, disk: Disk, column_cache_bytes: int, segment_bytes: int = 0) -> None:
        self.disk = disk
        self.segments: SegmentKeeper | None = None
        files = None if disk.read_only else SegmentFiles(disk, segment_bytes)
        if files is not None:
            self.segments = SegmentKeeper(files, disk.checksums, disk.written)
        self.columns = ColumnCache(column_cache_bytes, files if segment_bytes else None)
        self.max_databases = MAX_DATABASES
        self.memory = Memory()
        self.dead_ranges = DeadRanges()
        self.history = History()
        self.applied = self.durable = disk.durable
        self.committed_us = disk.committed_us
        if not self.committed_us and disk.durable != START:  # written before there was such a word in it
            self.committed_us = time.time_ns() // 1000
        self.marks = Marks(self._mark(disk.durable, self.committed_us, 0))
        self.catalog = disk.written
        self.visible_catalog: tuple[Catalog, int] = (disk.written, 0)
        self.outcomes = Outcomes(disk.outcomes, disk.read_outcomes())
        self.loads = Loads(disk.loads, disk.read_loads())
        self.counts = TableCounts()
        self.uuid = disk.uuid
        self.table_ops: dict[int, TableOps] = {}
        self.row_ids: dict[int, int] = {}
        self.sequence_heads: dict[int, bytes] = {}
        self.id_head = 0
        self.watched_tables: list[WrittenKeys] = []
        self._apply_ops: dict[int, TableOps] = {}
        self.on_checksum: Callable[[TablesChecksum], object] = lambda _record: None
        self.on_roles: Callable[[], object] = lambda: None
        self.level: Callable[[], int] = lambda: NEWEST_LEVEL
        self.spilling: SpillSettings | None = None
        self._sequence = 0
        self._half_applied: BaseException | None = None
        self._lock = threading.Lock()  # short steps on what the engine and a flush share
        self._flushing = threading.Lock()
        self._begun: Begun | None = None  # what LMDB may have, and memory does not know of yet

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        map_size_bytes: int | None = None,
        read_only: bool = False,
        column_cache_bytes: int = COLUMN_CACHE_BYTES,
        segment_bytes: int = 0,
        max_readers: int = MAX_READERS,
    ) -> Store:
        """Open the store in a directory, which is made when it does not exist.

        Args:
            map_size_bytes: the most that LMDB's file may grow to; None: by need (``limits``).
            column_cache_bytes: the most that columns kept for DuckDB may take.
            segment_bytes: the most that files of such columns may take on disk; 0: there are none.
            max_readers: states of LMDB that may be read at a time, by all processes.

        Raises:
            StoreDamagedError: what is there cannot be trusted; says what is wrong.
            SqlError: 53200, 53400, the machine or a limit does not allow it now.
        """
        disk = Disk(path, map_size_bytes=map_size_bytes, read_only=read_only, max_readers=max_readers)
        return cls(disk, column_cache_bytes, segment_bytes)

    # Snapshots, and how much there may be.

    def snapshot(
        self, own: Layer | None = None, catalog: Catalog | None = None, *, stays: bool = False
    ) -> StoreSnapshot:
        """What everybody sees now, which later writes do not change.

        All snapshots of one state of LMDB share a reader.

        Args:
            own: changes of a transaction that show over that, with the ``catalog`` that it has.
            stays: it may be read long after the state has gone on.

        Raises:
            SqlError: 53400, snapshots hold as many older states of LMDB as they may.
        """
        self._check_states()
        with self._lock:
            self.memory.hold()
            applied, pending = self.memory.applied.copy(), self.memory.pending.copy()
            return StoreSnapshot(
                self.disk.current,
                applied,
                pending,
                {} if own is None else own,
                self.visible_catalog[0] if catalog is None else catalog,
                self._sequence,
                self.columns,
                self.durable,
                self.applied if stays else None,
            )

    def applied_snapshot(self) -> tuple[StoreSnapshot, LSN]:
        """What is applied now, without anything pending, and its position; errors as there."""
        self._check_states()
        with self._lock:
            self.memory.hold()
            applied = self.memory.applied.copy()
            snapshot = StoreSnapshot(
                self.disk.current, applied, {}, {}, self.catalog, self._sequence, self.columns, self.durable
            )
            return snapshot, self.applied

    def _mark(self, lsn: LSN, committed_us: int, written_bytes: int) -> StateMark:
        """The state that LMDB has now, which is that at ``lsn``."""
        disk = self.disk
        return StateMark(
            lsn, committed_us, disk.current, disk.written, disk.sequences,
            time.monotonic(), written_bytes, disk.used_bytes,
        )  # fmt: skip

    def mark_before(self, reaches: Callable[[StateMark], bool]) -> tuple[StateMark | None, StateMark]:
        """The newest state that is kept of which that is true, and the oldest there is. For any thread."""
        with self._lock:
            return self.marks.newest_where(reaches), self.marks.oldest

    @property
    def floor(self) -> LSN:
        """The log's entries after it are needed here. For any thread."""
        with self._lock:
            return min(self.durable, self.marks.oldest.lsn)

    def kept_past(self) -> KeptPast:
        """How far the past is kept. For any thread."""
        with self._lock:
            marks, disk = self.marks, self.disk
            oldest = marks.oldest
            return KeptPast(
                marks.keep_s, oldest.lsn, oldest.committed_us, marks.count,
                marks.held_bytes(disk.used_bytes), marks.most_bytes(disk.map_size_bytes),
            )  # fmt: skip

    def expire_marks(self) -> None:
        """Let go of old states whose time is over. For any thread."""
        with self._lock:
            self.marks.expire(self.disk.map_size_bytes)

    def let_go_of_marks(self) -> None:
        """Let go of all old states, which keep space of the disk. For any thread."""
        with self._lock:
            self.marks.let_go()

    @property
    def max_states(self) -> int:
        """How many states of LMDB snapshots may hold; other readers are for flushes and processes."""
        readers = self.disk.max_readers
        return readers - max(min(_OTHER_READERS, readers // 4), 1)

    def _check_states(self) -> None:
        if self.disk.states >= self.max_states:
            raise SqlError(
                "53400",
                "too many snapshots of different moments are open",
                detail=f"Transactions and queries hold {self.disk.states} states of the store.",
                hint="End transactions that have been open for long.",
            )

    def databases(self, catalog: Catalog) -> int:
        """How many tables and indexes there are by a catalog, with those that LMDB still has."""
        known = set(catalog.tables)
        for table in catalog.tables.values():
            known.update(index.id for index in table.indexes)
        return len(known | self.disk.handles.keys()) + len(self.disk.condemned)

    def check_databases(self, catalog: Catalog, more: int = 0) -> None:
        """SqlError 53400 when by a catalog, with so many more, there are more than there may be."""
        if self.databases(catalog) + more > self.max_databases:
            raise SqlError(
                "53400",
                f"a tablespace has at most {self.max_databases} tables and indexes",
                hint="Drop some, or make another tablespace. Dropped ones count until a checkpoint.",
            )

    def limits(self) -> tuple[Limit, ...]:
        """What may be used up, and how far it is. For any thread."""
        space, disk, marks = ADDRESS_SPACE, self.disk, self.marks
        held = marks.held_bytes(disk.used_bytes), marks.most_bytes(disk.map_size_bytes)
        return (
            *([Limit("flashback_bytes", *held, "72000")] if marks.keep_s else ()),
            Limit("snapshots", disk.states, self.max_states, "53400"),
            Limit("tables_and_indexes", self.databases(self.catalog), self.max_databases, "53400"),
            Limit("store_bytes", disk.used_bytes, disk.map_size_bytes, "53100"),
            Limit("address_space_bytes", space.used_bytes, space.total_bytes, "53400"),
        )

    def durable_value(self, db: int, key: bytes) -> bytes | Missing | None:
        """What everybody sees under ``key``, or None; MISSING where that is not durable yet."""
        chain = self.memory.visible.get(db)
        if chain is not None:
            for delta in chain:
                value = delta.rows.get(key, MISSING)
                if value is not MISSING:
                    return MISSING if delta.token else value
                if delta.cleared:
                    return MISSING if delta.token else None
        return self.disk.current.get(db, key)

    # Applied.

    def apply(
        self, lsn: LSN, records: Sequence[Record], layer: Layer | None = None, committed_us: int = 0
    ) -> None:
        """Apply one transaction of the log, the only one of the entry at ``lsn``; see ``apply_entry``."""
        self.apply_entry(lsn, [(records, layer)], committed_us=committed_us)

    def apply_logged(self, lsn: LSN, transactions: Sequence[tuple[LSN, LoggedTransaction]]) -> None:
        """Apply transactions as the log gave them, each with its position; ``lsn``: where to go on after.

        What recovery and followers do. Errors as ``apply_entry``.
        """
        records = [record for _lsn, one in transactions for record in one.records]
        named = [outcome_of(at, one) for at, one in transactions if one.request_id]
        self._apply(lsn, [(records, None)], named, _loads_of(transactions), _newest_of(transactions))
        self._report_checksums((one.records, None) for _lsn, one in transactions)

    def encoded_changes(self) -> EncodedChanges:
        """Where transactions are added for :meth:`apply_changes`; nothing else is applied meanwhile."""
        return EncodedChanges(self.catalog)

    def apply_changes(self, lsn: LSN, changes: EncodedChanges) -> None:
        """As :meth:`apply_logged`, for plain transactions of any number of entries, all at once.

        ``lsn`` is where to go on after all of them. Errors as ``apply_entry``.
        """
        with self._lock:
            self.dead_ranges.forget()
            try:
                for step in changes.steps:
                    if isinstance(step, dict):
                        self._adopt_gathered(step)
                    else:
                        self._apply_rows(step)
                self._applied(lsn, self.catalog, changes.named, (), changes.newest_us)
            except BaseException as error:
                self.spoil(error)  # what is applied half is never written
                raise

    def _adopt_gathered(self, tables: GatheredTables) -> None:
        for table_id, gathered in tables.items():
            self.memory.adopt_rows(table_id, gathered.rows, gathered.size_bytes)
            self.counts.follow_rows(table_id, gathered.net)

    def _apply_rows(self, records: Sequence[Record]) -> None:
        Applier(self.memory, AppliedState(self.memory, self.disk), self.catalog, self._apply_ops).apply(
            records
        )
        self.counts.follow(records)

    def apply_in_steps(
        self, lsn: LSN, transactions: Sequence[tuple[LSN, LoggedTransaction]]
    ) -> Iterator[None]:
        """As ``apply_logged``, for what takes long: between the steps others may read and write to disk.

        Nothing of it shows, or is flushed, before the last step, which shows all; nothing else may be applied
        meanwhile. Given up half-way, it has done nothing.
        """
        changes = BackgroundChanges(self.memory, self.disk, self.spilling)
        applier = StepApplier(changes, self.catalog, self._apply_ops)
        for _lsn, one in transactions:
            for _ in applier.steps(one.records):
                changes.make_room()
                yield
        named = [outcome_of(at, one) for at, one in transactions if one.request_id]
        with self._lock:
            self.dead_ranges.forget()
            try:
                self.memory.adopt(changes.layer)
                for _lsn, one in transactions:
                    self.counts.follow(one.records)
                loads, newest_us = _loads_of(transactions), _newest_of(transactions)
                self._applied(lsn, applier.catalog, named, loads, newest_us)
            except BaseException as error:
                self.spoil(error)  # what is applied half is never written
                raise
        self._report_checksums((one.records, None) for _lsn, one in transactions)

    def apply_entry(
        self,
        lsn: LSN,
        transactions: Sequence[tuple[Sequence[Record], Layer | None]],
        named: Sequence[CommitOutcome] = (),
        loads: Sequence[Loaded] = (),
        committed_us: int = 0,
    ) -> None:
        """Apply all transactions that take effect with the entry at ``lsn``, in order, at once.

        At once, so that no flush can come in between: recovery would skip the rest of the entry.

        Args:
            transactions: the records of each, and what the leader's workspace made of them, where
                it did and pushed it: then that is taken as it is, which is what applying the
                records would give.
            named: the outcomes of those that have a request id.
            loads: those that are loads.
            committed_us: when the newest of them was committed.

        Raises:
            ApplyError: the records do not fit the state; it cannot be used any further.
        """
        self._apply(lsn, transactions, named, loads, committed_us)
        self._report_checksums(transactions)

    def _apply(
        self,
        lsn: LSN,
        transactions: Sequence[tuple[Sequence[Record], Layer | None]],
        named: Sequence[CommitOutcome],
        loads: Sequence[Loaded],
        committed_us: int,
    ) -> None:
        with self._lock:
            try:
                self._applied(lsn, self._taken(transactions), named, loads, committed_us)
            except BaseException as error:
                self.spoil(error)  # what is applied half is never written
                raise

    def _taken(self, transactions: Sequence[tuple[Sequence[Record], Layer | None]]) -> Catalog:
        """Take the changes of transactions into memory; the definitions after them."""
        catalog, waiting = self.catalog, self.memory.transactions
        for nth, (records, layer) in enumerate(transactions):
            pending = waiting[nth] if nth < len(waiting) else None
            if layer is not None and pending is not None and pending.layer is layer:
                self.memory.adopt(layer)
                self.counts.take(records, layer)
                catalog = pending.catalog or catalog
            else:
                self.dead_ranges.forget()
                applier = Applier(self.memory, AppliedState(self.memory, self.disk), catalog, self._apply_ops)
                applier.apply(records)
                self.counts.follow(records)
                catalog = applier.catalog
                if pending is not None and pending.catalog == catalog:
                    catalog = pending.catalog  # the same definitions, known to plans by identity
        return catalog

    def _applied(
        self,
        lsn: LSN,
        catalog: Catalog,
        named: Sequence[CommitOutcome],
        loads: Sequence[Loaded],
        committed_us: int,
    ) -> None:
        for outcome in named:
            self.outcomes.add(outcome)
        for one in loads:
            self.loads.add(one)
        self.applied = lsn
        self.committed_us = max(self.committed_us, committed_us)
        self._sequence += 1
        if self.history.is_kept:
            self.history.expire_old()
        if catalog is not self.catalog:
            before, self.catalog = self.catalog, catalog
            self._show_catalog()
            if catalog.roles is not before.roles:
                self.on_roles()

    def _report_checksums(self, transactions: Iterable[tuple[Sequence[Record], Layer | None]]) -> None:
        for records, _layer in transactions:
            if len(records) == 1 and type(records[0]) is TablesChecksum:
                self.on_checksum(records[0])

    @property
    def is_spoilt(self) -> bool:
        """Whether what is in memory is no state of the log: it is not written, and is to be read anew."""
        return self._half_applied is not None

    def spoil(self, error: BaseException) -> None:
        """Something came between what the log has and what is here."""
        self._half_applied = self._half_applied or error

    def _show_catalog(self) -> None:
        shown = (self.catalog, 0)
        for pending in self.memory.transactions:
            if pending.catalog is not None and pending.catalog.version >= self.catalog.version:
                shown = (pending.catalog, pending.token)
        if shown[0] is not self.visible_catalog[0]:
            self.table_ops.clear()
        self.visible_catalog = shown

    # Pending.

    def push_pending(self, layer: Layer, catalog: Catalog | None) -> int:
        """Show the changes of a transaction that took its place in the log, not yet durable.

        Returns a rising token. ``catalog`` is None when the transaction defined nothing.
        """
        with self._lock:
            for written in self.watched_tables:
                written.note(layer)
            token = self.memory.push(layer, catalog)
            self.dead_ranges.pushed(layer)
            if self.history.is_kept:
                self.history.pushed(token, layer)
            if catalog is not None:
                self._show_catalog()
            return token

    def pop_pending(self, token: int) -> None:
        """The transactions up to ``token`` were applied."""
        with self._lock:
            self.memory.pop(token)
            if self.visible_catalog[1]:
                self._show_catalog()

    def drop_pending(self) -> None:
        """The log failed: no pending transaction shows any more."""
        with self._lock:
            for written in self.watched_tables:
                written.lost = True
            self.memory.drop_pending()
            self.dead_ranges.forget()
            self.row_ids.clear()
            self._show_catalog()

    # Loads.

    def load(self, load_id: str) -> LoadOutcome | None:
        """What a load came to that was done and is applied; only the newest are known."""
        return self.loads.find(load_id)

    def log_trimmed(self, base: LSN) -> list[int]:
        """The log begins after ``base`` now; the staged ledgers that nobody needs any more since."""
        with self._lock:
            return self.loads.trimmed(base)

    # The checkpointer's side.

    @property
    def memtable_rows(self) -> int:
        """Changes of rows and index entries that are applied and not in LMDB."""
        return self.memory.rows

    @property
    def memtable_bytes(self) -> int:
        """About what those take of memory."""
        return self.memory.nbytes

    @property
    def segment_bytes(self) -> int:
        """How large the files of columns are that hold."""
        return 0 if self.segments is None else self.segments.nbytes

    def flush(self, *, always: bool = False) -> LSN:
        """Write what is applied to LMDB, synced; returns the new ``durable``.

        For the checkpointer's thread. An error leaves everything readable, to be tried again.

        Args:
            always: also when nothing was applied since, for what is known of past loads.

        Raises:
            lmdb.Error: LMDB could not write (MapFullError, DiskError, ReadersFullError).
            ApplyError: a transaction did not fit, so that what is in memory is no state of the log.
        """
        with self._flushing:
            self._settle()
            with self._lock:
                if self._half_applied is not None:
                    raise ApplyError(f"not written: {self._half_applied}")
                frozen = self.memory.freeze()
                self.counts.freeze(self.catalog.tables)
                applied, catalog, committed_us = self.applied, self.catalog, self.committed_us
                named, done = self.outcomes.freeze(), self.loads.freeze()
            self.disk.clear_stale_readers()
            if applied == self.durable and not frozen and not always:
                return applied
            self._commit(frozen, applied, catalog, named, done, committed_us)
            return applied

    def _commit(self, *state: Any) -> None:
        # The reader of the new state has its place before there is one.
        reserved = self.disk.reserve()
        try:
            self._begun = flush.begin(self.disk, *state)
            self._begun.txn.commit()
        except BaseException:
            reserved.end()
            self._settle()
            raise
        self._follow(self._begun, reserved)

    def _settle(self) -> None:
        """A commit was begun, and something came in between: memory follows if LMDB has committed.

        While that is not known, nothing more is written: what a flush counts on would not be so.
        """
        begun = self._begun
        if begun is None or self._half_applied is not None:
            return
        begun.txn.abort()  # nothing, where it has committed
        if self.disk.env.info()["last_txnid"] >= begun.number:
            self._follow(begun, None)
        self._begun = None

    def _follow(self, begun: Begun, reserved: DiskView | None) -> None:
        """Memory follows what LMDB has committed; tried again by the next flush where it fails."""
        disk, known = self.disk, {index.id for one in begun.catalog.tables.values() for index in one.indexes}
        for db in begun.handles.keys() - begun.checksums.keys() - known:
            disk.condemned[db] = begun.handles.pop(db)
        disk.handles, disk.checksums = begun.handles, begun.checksums
        disk.outcomes, disk.loads = begun.figures, begun.load_figures
        disk.written, disk.sequences = begun.catalog, begun.sequences
        view = disk.renewed(reserved)
        frozen = begun.frozen
        with self._lock:
            try:
                # Readers take the chain first and LMDB after it, so LMDB is replaced first.
                disk.current = view
                self.columns.flushed(frozen)
                nbytes = sum(delta.nbytes for chain in frozen.values() for delta in chain)
                self.history.flushed(nbytes)
                self.memory.release(frozen)
                self.counts.flushed()
                self.outcomes.written(begun.named)
                self.loads.written(begun.done)
                self.durable = begun.applied
                self._begun = None
                marks = self.marks
                marks.written_bytes += nbytes
                mark = self._mark(begun.applied, begun.committed_us, marks.written_bytes)
                marks.flushed(mark, disk.map_size_bytes)
            except BaseException as error:
                self.spoil(error)  # what is applied half is never written
                raise
        if self.segments is not None:
            self.segments.flushed(frozen, begun.checksums, begun.catalog)

    def keep_columns(self) -> None:
        """Write columns that queries asked for beside LMDB, and remove what is of no use any more.

        For the checkpointer's thread. What the disk refuses is logged, and costs nothing but time later.
        """
        if self.segments is None:
            return
        for draft in self._drafts() if self.columns.has_drafts else ():
            self.segments.files.write(draft)
        self.segments.tend()

    def _drafts(self) -> list[SegmentDraft]:
        try:
            snapshot = self.snapshot()
        except SqlError:  # too many states of LMDB are read just now
            return []
        try:
            return self.columns.drafts(snapshot)
        finally:
            snapshot.close()

    def table_checksums(self) -> dict[int, tuple[int, int]]:
        """(rows, checksum) of each table by its id, as of ``durable``."""
        return dict(self.disk.checksums)

    def copy(self, target: Path, progress: Progress | None = None) -> LSN:
        """Copy what is durable into the new directory ``target`` while the store is in use.

        Returns the copy's position. Errors as ``herdpy_server.store.copy.copy``.
        """
        return copy.copy(self.disk, target, progress)

    def check(self) -> Iterator[Finding]:
        """What does not fit together in LMDB; nothing when all is well."""
        with self._lock:
            disk, view = self.disk, self.disk.renewed()
            catalog, checksums = disk.written, disk.checksums
            figures, load_figures = disk.outcomes, disk.loads
        return chain(
            check.check(view, catalog, checksums),
            check.check_outcomes(view, disk.outcomes_handle, figures),
            check.check_loads(view, disk.loads_handle, load_figures),
        )

    def close(self) -> None:
        """Close the files. What is not flushed is in the log."""
        self.columns.clear()
        self.marks.close()
        self.disk.close()


def _newest_of(transactions: Sequence[tuple[LSN, LoggedTransaction]]) -> int:
    return max((one.timestamp_us for _lsn, one in transactions), default=0)


def _loads_of(transactions: Sequence[tuple[LSN, LoggedTransaction]]) -> list[Loaded]:
    found = (loaded_by(lsn, one) for lsn, one in transactions)
    return [one for one in found if one is not None]
