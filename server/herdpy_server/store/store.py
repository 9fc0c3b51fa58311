"""Store layer, top: the state of one tablespace, LMDB underneath and memory above.

How data passes through: a statement writes into its ``Workspace``; when the transaction has its
place in the log, ``push_pending`` shows its layer to everyone; when the log has it durably,
``apply`` puts it into the memtable and ``pop_pending`` takes the layer away; ``flush`` writes the
memtable to LMDB together with the position, which makes the log up to there unnecessary.

One thread at a time calls into a store (the engine's turn), except that ``flush`` and ``copy`` run
in threads of their own and a ``StoreSnapshot`` may be read by another thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from herdpy.log import LSN, Transaction
from herdpy.log.records import Record, TablesChecksum
from herdpy_server.store import check, copy, flush
from herdpy_server.store.apart import Apart, StepApplier
from herdpy_server.store.apply import Applier
from herdpy_server.store.check import Finding
from herdpy_server.store.columns import ColumnCache
from herdpy_server.store.copy import Progress
from herdpy_server.store.disk import Disk
from herdpy_server.store.errors import ApplyError
from herdpy_server.store.held import HeldWorkspace
from herdpy_server.store.history import History
from herdpy_server.store.index_build import Written
from herdpy_server.store.layers import Item, Layer, Missing, find, overlay, showing
from herdpy_server.store.loads import Loaded, LoadOutcome, Loads, loaded_by
from herdpy_server.store.locks import Locks
from herdpy_server.store.memory import Memory
from herdpy_server.store.outcomes import Outcome, Outcomes, outcome_of
from herdpy_server.store.snapshot import StoreSnapshot
from herdpy_server.store.tables import TableOps
from herdpy_server.store.workspace import Workspace
from herdpy_sql.catalog import Catalog

MAP_SIZE_BYTES = 1 << 40
COLUMN_CACHE_BYTES = 512 << 20


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
        on_checksum: called after such a record, alone in its transaction, was applied, and nothing after it.
        sequence_heads: the states of sequences as far as values were given here, by id.
        history: what was committed since a state that an open transaction stands on.
        watched_tables: of which the written keys are noted, for an index that is made meanwhile.
        memory, disk, table_ops, row_ids: parts of it, for the modules of this package.
    """

    def __init__(self, disk: Disk, column_cache_bytes: int) -> None:
        self.disk = disk
        self.memory = Memory()
        self.history = History()
        self.columns = ColumnCache(column_cache_bytes)
        self.applied = self.durable = disk.durable
        self.catalog = disk.written
        self.visible_catalog: tuple[Catalog, int] = (disk.written, 0)
        self.outcomes = Outcomes(disk.outcomes, disk.read_outcomes())
        self.loads = Loads(disk.loads, disk.read_loads())
        self.uuid = disk.uuid
        self.table_ops: dict[int, TableOps] = {}
        self.row_ids: dict[int, int] = {}
        self.sequence_heads: dict[int, bytes] = {}
        self.watched_tables: list[Written] = []
        self._apply_ops: dict[int, TableOps] = {}
        self.on_checksum: Callable[[TablesChecksum], object] = lambda _record: None
        self.on_roles: Callable[[], object] = lambda: None
        self._sequence = 0
        self._half_applied: BaseException | None = None
        self._lock = threading.Lock()  # short steps on what the engine and a flush share
        self._flushing = threading.Lock()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        map_size_bytes: int = MAP_SIZE_BYTES,
        read_only: bool = False,
        column_cache_bytes: int = COLUMN_CACHE_BYTES,
    ) -> Store:
        """Open the store in a directory, which is made when it does not exist.

        Args:
            map_size_bytes: the most that LMDB's file may grow to.
            column_cache_bytes: the most that columns kept for DuckDB may take.

        Raises:
            StoreDamagedError: what is there cannot be trusted; says what is wrong.
        """
        return cls(Disk(path, map_size_bytes=map_size_bytes, read_only=read_only), column_cache_bytes)

    # The log's side.

    def apply(self, lsn: LSN, records: Sequence[Record], layer: Layer | None = None) -> None:
        """Apply one transaction of the log, the only one of the entry at ``lsn``; see ``apply_entry``."""
        self.apply_entry(lsn, [(records, layer)])

    def apply_logged(self, lsn: LSN, transactions: Sequence[tuple[LSN, Transaction]]) -> None:
        """Apply transactions as the log gave them, each with its position; ``lsn``: where to go on after.

        What recovery and followers do. Errors as ``apply_entry``.
        """
        records = [record for _lsn, one in transactions for record in one.records]
        named = [outcome_of(at, one) for at, one in transactions if one.request_id]
        self._apply(lsn, [(records, None)], named, _loads_of(transactions))
        self._tell_checksums(one.records for _lsn, one in transactions)

    def apply_in_steps(self, lsn: LSN, transactions: Sequence[tuple[LSN, Transaction]]) -> Iterator[None]:
        """As ``apply_logged``, for what takes long: between the steps others may read and write to disk.

        Nothing of it shows, or is flushed, before the last step, which shows all; nothing else may be applied
        meanwhile. Given up half-way, it has done nothing.
        """
        apart = Apart(self.memory, self.disk)
        applier = StepApplier(apart, self.catalog, self._apply_ops)
        for _lsn, one in transactions:
            yield from applier.steps(one.records)
        named = [outcome_of(at, one) for at, one in transactions if one.request_id]
        with self._lock, self._whole():
            self.memory.adopt(apart.layer)
            self._applied(lsn, applier.catalog, named, _loads_of(transactions))
        self._tell_checksums(one.records for _lsn, one in transactions)

    def apply_entry(
        self,
        lsn: LSN,
        transactions: Sequence[tuple[Sequence[Record], Layer | None]],
        named: Sequence[Outcome] = (),
        loads: Sequence[Loaded] = (),
    ) -> None:
        """Apply all transactions that take effect with the entry at ``lsn``, in order, at once.

        At once, so that no flush can come in between: recovery would skip the rest of the entry.

        Args:
            transactions: the records of each, and what the leader's workspace made of them, where
                it did and pushed it: then that is taken as it is, which is what applying the
                records would give.
            named: the outcomes of those that have a request id.
            loads: those that are loads.

        Raises:
            ApplyError: the records do not fit the state; it cannot be used any further.
        """
        self._apply(lsn, transactions, named, loads)
        self._tell_checksums(records for records, _layer in transactions)

    def _apply(
        self,
        lsn: LSN,
        transactions: Sequence[tuple[Sequence[Record], Layer | None]],
        named: Sequence[Outcome],
        loads: Sequence[Loaded],
    ) -> None:
        with self._lock, self._whole():
            catalog = self.catalog
            for nth, (records, layer) in enumerate(transactions):
                pending = self.memory.nth_pending(nth)
                if layer is not None and pending is not None and pending.layer is layer:
                    self.memory.adopt(layer)
                    catalog = pending.catalog or catalog
                else:
                    applier = Applier(self.memory, _AppliedState(self), catalog, self._apply_ops)
                    applier.apply(records)
                    catalog = applier.catalog
                    if pending is not None and pending.catalog == catalog:
                        catalog = pending.catalog  # the same definitions, known to plans by identity
            self._applied(lsn, catalog, named, loads)

    def _applied(self, lsn: LSN, catalog: Catalog, named: Sequence[Outcome], loads: Sequence[Loaded]) -> None:
        for outcome in named:
            self.outcomes.add(outcome)
        for one in loads:
            self.loads.add(one)
        self.applied = lsn
        self._sequence += 1
        if self.history.is_kept:
            self.history.expire_old()
        if catalog is not self.catalog:
            before, self.catalog = self.catalog, catalog
            self._show_catalog()
            if catalog.roles is not before.roles:
                self.on_roles()

    def _tell_checksums(self, transactions: Iterable[Sequence[Record]]) -> None:
        for records in transactions:
            if len(records) == 1 and type(records[0]) is TablesChecksum:
                self.on_checksum(records[0])

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """What is applied half is never written."""
        try:
            yield
        except BaseException as error:
            self._half_applied = error
            raise

    def _show_catalog(self) -> None:
        shown = (self.catalog, 0)
        for pending in self.memory.transactions:
            if pending.catalog is not None and pending.catalog.version >= self.catalog.version:
                shown = (pending.catalog, pending.token)
        if shown[0] is not self.visible_catalog[0]:
            self.table_ops.clear()
        self.visible_catalog = shown

    def push_pending(self, layer: Layer, catalog: Catalog | None) -> int:
        """Show the changes of a transaction that took its place in the log, not yet durable.

        Returns a rising token. ``catalog`` is None when the transaction defined nothing.
        """
        with self._lock:
            for written in self.watched_tables:
                written.note(layer)
            token = self.memory.push(layer, catalog)
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

    # Readers and writers.

    def workspace(self, locks: Locks, owner: object) -> Workspace:
        """The view of one transaction, which takes its locks as ``owner``."""
        return Workspace(self, locks, owner)

    def held_workspace(self, locks: Locks, owner: object, *, serializable: bool) -> HeldWorkspace:
        """The view of one transaction that stands on the state that its first statement finds."""
        return HeldWorkspace(self, locks, owner, serializable=serializable)

    def snapshot(self, workspace: Workspace | None = None, *, stays: bool = False) -> StoreSnapshot:
        """What ``workspace`` (or a new one) sees now, held fast.

        Args:
            stays: it may be read long after the state has gone on.
        """
        own: Layer = {}
        catalog, token = self.visible_catalog
        if workspace is not None:
            own, catalog = workspace.frozen_layer(), workspace.catalog
            if self.memory.transactions:
                token = self.memory.transactions[-1].token
            workspace.read_position = max(workspace.read_position, token)
        with self._lock:
            self.memory.hold()
            applied, pending = self.memory.applied.copy(), self.memory.pending.copy()
            # After the chains: what LMDB may have got meanwhile is in them too.
            disk = self.disk.renewed()
            return StoreSnapshot(
                disk,
                applied,
                pending,
                own,
                catalog,
                self._sequence,
                self.columns,
                self.durable,
                self.applied if stays else None,
            )

    def applied_snapshot(self) -> tuple[StoreSnapshot, LSN]:
        """What is applied now, without anything pending, held fast; and its position."""
        with self._lock:
            self.memory.hold()
            applied = self.memory.applied.copy()
            disk = self.disk.renewed()
            held = StoreSnapshot(
                disk, applied, {}, {}, self.catalog, self._sequence, self.columns, self.durable
            )
            return held, self.applied

    # The checkpointer's side.

    @property
    def memtable_rows(self) -> int:
        """Changes of rows and index entries that are applied and not in LMDB."""
        return self.memory.rows

    @property
    def memtable_bytes(self) -> int:
        """About what those take of memory."""
        return self.memory.nbytes

    def flush(self) -> LSN:
        """Write what is applied to LMDB, synced; returns the new ``durable``.

        For the checkpointer's thread. An error leaves everything readable, to be tried again.

        Raises:
            lmdb.Error: LMDB could not write (MapFullError, DiskError).
            ApplyError: a transaction did not fit, so that what is in memory is no state of the log.
        """
        with self._flushing:
            with self._lock:
                if self._half_applied is not None:
                    raise ApplyError(f"not written: {self._half_applied}")
                frozen = self.memory.freeze()
                applied, catalog = self.applied, self.catalog
                named, done = self.outcomes.freeze(), self.loads.freeze()
            if applied == self.durable and not frozen:
                return applied
            handles, checksums, figures, load_figures, sequences = flush.write(
                self.disk, frozen, applied, catalog, named, done
            )
            self.disk.handles, self.disk.checksums = handles, checksums
            self.disk.outcomes, self.disk.loads = figures, load_figures
            self.disk.written, self.disk.sequences = catalog, sequences
            view = self.disk.renewed()
            with self._lock:
                # Readers take the chain first and LMDB after it, so LMDB is replaced first.
                self.disk.current = view
                self.columns.flushed(frozen)
                self.history.flushed(sum(delta.nbytes for chain in frozen.values() for delta in chain))
                self.memory.release(frozen)
                self.outcomes.written(named)
                self.loads.written(done)
                self.durable = applied
            return applied

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
        self.disk.close()


def _loads_of(transactions: Sequence[tuple[LSN, Transaction]]) -> list[Loaded]:
    found = (loaded_by(lsn, one) for lsn, one in transactions)
    return [one for one in found if one is not None]


class _AppliedState:
    """The state without anything pending, as ``apply`` reads it."""

    def __init__(self, store: Store) -> None:
        self._memory = store.memory
        self._disk = store.disk

    def get(self, db: int, key: bytes) -> bytes | None:
        value = find(self._memory.applied.get(db, ()), key)
        return self._disk.current.get(db, key) if isinstance(value, Missing) else value

    def scan(self, db: int, may_be_long: bool) -> Iterator[Item]:
        deltas, through = showing(self._memory.applied.get(db, ()))
        under: Iterator[Item] = iter(())
        if through:
            under = self._disk.current.scan(db, None, None, reverse=False, may_be_long=may_be_long)
        return overlay(deltas, under, None, None, False)
