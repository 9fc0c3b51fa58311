"""Store layer: what the log does to a store: transactions become pending, are applied, or are lost.

Above ``apply`` and ``memory``, below ``store``, which reads what stands here and writes it to disk. A
transaction is *pending* from its place in the log until the log has it durably; then it is *applied*, at once
with all others that take effect with the same entry.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from herdpy.log import LSN, Transaction
from herdpy.log.records import Record, TablesChecksum
from herdpy_server.store.apart import Apart, StepApplier
from herdpy_server.store.apply import Applier
from herdpy_server.store.disk import Disk
from herdpy_server.store.history import History
from herdpy_server.store.index_build import Written
from herdpy_server.store.layers import Item, Layer, Missing, find, overlay, showing
from herdpy_server.store.loads import Loaded, Loads, loaded_by
from herdpy_server.store.memory import Memory
from herdpy_server.store.outcomes import Outcome, Outcomes, outcome_of
from herdpy_server.store.spilling import SpillSettings
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Catalog


class Applying:
    """For its attributes see ``Store``."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
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
        self.watched_tables: list[Written] = []
        self._apply_ops: dict[int, TableOps] = {}
        self.on_checksum: Callable[[TablesChecksum], object] = lambda _record: None
        self.on_roles: Callable[[], object] = lambda: None
        self.spilling: SpillSettings | None = None
        self._sequence = 0
        self._half_applied: BaseException | None = None
        self._lock = threading.Lock()  # short steps on what the engine and a flush share

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
        apart = Apart(self.memory, self.disk, self.spilling)
        applier = StepApplier(apart, self.catalog, self._apply_ops)
        for _lsn, one in transactions:
            for _ in applier.steps(one.records):
                apart.make_room()
                yield
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
                    state = AppliedState(self.memory, self.disk)
                    applier = Applier(self.memory, state, catalog, self._apply_ops)
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


class AppliedState:
    """The state without anything pending, as ``apply`` reads it."""

    def __init__(self, memory: Memory, disk: Disk) -> None:
        self._memory = memory
        self._disk = disk

    def get(self, db: int, key: bytes) -> bytes | None:
        value = find(self._memory.applied.get(db, ()), key)
        return self._disk.current.get(db, key) if isinstance(value, Missing) else value

    def scan(self, db: int, may_be_long: bool) -> Iterator[Item]:
        deltas, through = showing(self._memory.applied.get(db, ()))
        under: Iterator[Item] = iter(())
        if through:
            under = self._disk.current.scan(db, None, None, reverse=False, may_be_long=may_be_long)
        return overlay(deltas, under, None, None, False)
