"""Store layer: the state of a store: what is visible, what is pending, what is applied.

Above ``apply`` and ``memory``; below ``transaction_state``, which reads it, and ``store``, which writes it to
disk. A transaction is *pending* from its place in the log until the log has it durably; then it is *applied*,
at once with all others that take effect with the same entry; when the log fails it is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from herdpy.log import LSN, Transaction
from herdpy.log.records import Record, TablesChecksum
from herdpy_server.store.apply import AppliedState, Applier, BackgroundChanges, StepApplier
from herdpy_server.store.columns import ColumnCache
from herdpy_server.store.disk import MAX_DATABASES, Disk
from herdpy_server.store.history import History
from herdpy_server.store.index_build import WrittenKeys
from herdpy_server.store.layers import Layer
from herdpy_server.store.loads import Loaded, Loads, loaded_by
from herdpy_server.store.memory import Memory
from herdpy_server.store.outcomes import CommitOutcome, Outcomes, outcome_of
from herdpy_server.store.snapshot import StoreSnapshot
from herdpy_server.store.spilling import SpillSettings
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Catalog
from herdpy_sql.errors import SqlError

_OTHER_READERS = 64


class StoreState:
    """The state of a tablespace, without what writes it to disk.

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
        id_head: open transactions define things with ids below this one.
        history: what was committed since the oldest state that an open transaction has pinned.
        max_databases: tables and indexes that there may be.
        spilling: where large transactions put what is too much for memory; None: nowhere.
        watched_tables: of which the written keys are noted, for an index that is made meanwhile.
        memory, disk, columns, table_ops, row_ids: parts of it, for the modules of this package.
    """

    def __init__(self, disk: Disk, columns: ColumnCache) -> None:
        self.disk = disk
        self.columns = columns
        self.max_databases = MAX_DATABASES
        self.memory = Memory()
        self.history = History()
        self.applied = self.durable = disk.durable
        self.catalog = disk.written
        self.visible_catalog: tuple[Catalog, int] = (disk.written, 0)
        self.outcomes = Outcomes(disk.outcomes, disk.read_outcomes())
        self.loads = Loads(disk.loads, disk.read_loads())
        self.uuid = disk.uuid
        self.table_ops: dict[int, TableOps] = {}
        self.row_ids: dict[int, int] = {}
        self.sequence_heads: dict[int, bytes] = {}
        self.id_head = 0
        self.watched_tables: list[WrittenKeys] = []
        self._apply_ops: dict[int, TableOps] = {}
        self.on_checksum: Callable[[TablesChecksum], object] = lambda _record: None
        self.on_roles: Callable[[], object] = lambda: None
        self.spilling: SpillSettings | None = None
        self._sequence = 0
        self._half_applied: BaseException | None = None
        self._lock = threading.Lock()  # short steps on what the engine and a flush share

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

    # Applied.

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
        changes = BackgroundChanges(self.memory, self.disk, self.spilling)
        applier = StepApplier(changes, self.catalog, self._apply_ops)
        for _lsn, one in transactions:
            for _ in applier.steps(one.records):
                changes.make_room()
                yield
        named = [outcome_of(at, one) for at, one in transactions if one.request_id]
        with self._lock, self._whole():
            self.memory.adopt(changes.layer)
            self._applied(lsn, applier.catalog, named, _loads_of(transactions))
        self._tell_checksums(one.records for _lsn, one in transactions)

    def apply_entry(
        self,
        lsn: LSN,
        transactions: Sequence[tuple[Sequence[Record], Layer | None]],
        named: Sequence[CommitOutcome] = (),
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
        named: Sequence[CommitOutcome],
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
                    state = AppliedState(self.memory, self.disk)
                    applier = Applier(self.memory, state, catalog, self._apply_ops)
                    applier.apply(records)
                    catalog = applier.catalog
                    if pending is not None and pending.catalog == catalog:
                        catalog = pending.catalog  # the same definitions, known to plans by identity
            self._applied(lsn, catalog, named, loads)

    def _applied(
        self, lsn: LSN, catalog: Catalog, named: Sequence[CommitOutcome], loads: Sequence[Loaded]
    ) -> None:
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


def _loads_of(transactions: Sequence[tuple[LSN, Transaction]]) -> list[Loaded]:
    found = (loaded_by(lsn, one) for lsn, one in transactions)
    return [one for one in found if one is not None]
