"""Store layer, top: the view of a transaction of which all statements read one snapshot.

REPEATABLE READ and SERIALIZABLE. Plans read rows through the public methods, and those read the snapshot
with the transaction's own changes over it; what a write checks (keys that exist, index entries) is looked
up in the newest state, as always. The first statement pins the snapshot: from then on ``history`` keeps
what others commit. Before a row is written or locked, it is asked whether anybody has changed the row
since: the first one to change it wins, and who comes later gets 40001. A serializable transaction also
notes what it reads (``Reads``), and at its commit none of that may have been changed since: then everything
it has read and done is as if done at that moment, one transaction after another. One that writes nothing is
as if done at the moment of its snapshot, and need not be judged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa

from herdpy.codec.kinds import Datum
from herdpy.log.records import InsertBatch
from herdpy_server.store import routing
from herdpy_server.store.batches import Expanded
from herdpy_server.store.definitions import differs
from herdpy_server.store.history import History, Pin, Range
from herdpy_server.store.layers import MISSING, Item, Missing, find, overlay, showing
from herdpy_server.store.locks import Locks, NoLocks
from herdpy_server.store.snapshot import StoreSnapshot
from herdpy_server.store.store import Store
from herdpy_server.store.transaction_state import watched
from herdpy_server.store.workspace import Workspace
from herdpy_sql.catalog import Catalog, Index, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.lock_modes import UPDATE

MAX_KEYS = 100_000
MAX_RANGES = 10_000
"""Of one database; when there are more, all of it counts as read."""


class Scanned:
    """A range that a scan has read so far."""

    __slots__ = ("high", "low")

    def __init__(self, low: bytes | None, high: bytes | None) -> None:
        self.low, self.high = low, high


class Reads:
    """What a serializable transaction has read: keys and ranges by database.

    Keys that were asked for and ranges that were scanned, of tables and of indexes alike, whether something
    was found there or not: what was not there is read too. A scan that stops early has read what it
    came past.
    """

    def __init__(self) -> None:
        self._keys: dict[int, set[bytes]] = {}
        self._ranges: dict[int, list[Scanned]] = {}

    def key(self, db: int, key: bytes) -> None:
        """A key was asked for."""
        keys = self._keys.get(db)
        if keys is None:
            keys = self._keys[db] = set()
        keys.add(key)
        if len(keys) > MAX_KEYS:
            keys.clear()
            self.range(db, None, None)

    def range(self, db: int, low: bytes | None, high: bytes | None) -> Scanned:
        """A range was scanned; what is given back may still be narrowed."""
        ranges = self._ranges.setdefault(db, [])
        if len(ranges) >= MAX_RANGES:
            ranges[:] = [Scanned(None, None)]
        scanned = Scanned(low, high)
        ranges.append(scanned)
        return scanned

    def scan(
        self, db: int, low: bytes | None, high: bytes | None, items: Iterator[Item], *, reverse: bool
    ) -> Iterator[Item]:
        """``items`` of a range, of which only that counts which the reader comes past."""
        first = b"" if low is None else low
        scanned = self.range(db, high, high) if reverse else self.range(db, first, first)
        for item in items:
            if reverse:
                scanned.low = item[0]
            else:
                scanned.high = item[0] + b"\0"
            yield item
        scanned.low, scanned.high = low, high

    def covers(self, db: int, key: bytes) -> bool:
        """Whether a key was read."""
        if key in self._keys.get(db, ()):
            return True
        return any(
            (one.low is None or one.low <= key) and (one.high is None or key < one.high)
            for one in self._ranges.get(db, ())
        )

    def were_changed(self, history: History, since: int) -> bool:
        """Whether anybody has changed any of it since."""
        for db, keys in self._keys.items():
            if history.any_changed(db, keys, since) is not None:
                return True
        for db, scanned in self._ranges.items():
            ranges: list[Range] = [(one.low, one.high) for one in scanned]
            if history.changed_within(db, ranges, since):
                return True
        return False


class SnapshotTransaction(Workspace):
    """A transaction's reads of one snapshot, taken with its first statement, and its writes."""

    has_snapshot = True

    def __init__(self, store: Store, locks: Locks, owner: object, *, serializable: bool) -> None:
        Workspace.__init__(self, store, locks, owner)
        self._pin: Pin | None = None
        self._reads = Reads() if serializable else None

    def begin_statement(self) -> None:
        """A statement begins: the first one pins the snapshot. SqlError 72000 when that is too old."""
        pin = self._pin
        if pin is None:
            store = self.store
            self.read_position = max(self.read_position, store.memory.newest_token)
            self._pin = store.history.pin(store.memory.last_token, store.snapshot(stays=True))
        elif pin.expired:
            raise too_old()

    def read_state(self, snapshot: StoreSnapshot) -> None:
        """Read this snapshot, whatever is written meanwhile; nothing is written."""
        self._pin = Pin(0, 0, 0, snapshot)
        self._ops = {}

    def release(self) -> None:
        """The transaction has ended."""
        if self._pin is not None:
            self.store.history.unpin(self._pin)

    @property
    def _pinned(self) -> Pin:
        """The pin of the snapshot. SqlError 72000 when that is too old."""
        if self._pin is None:
            self.begin_statement()
        pin = self._pin
        if pin is None or pin.expired:
            raise too_old()
        return pin

    @property
    def newest(self) -> Newest:
        """All that is committed by now, with the own changes."""
        return Newest(self)

    # Reading: the snapshot, and the own changes over it.

    @property
    def catalog(self) -> Catalog:
        """The own catalog, over that of the snapshot; where there is no snapshot, over everybody's."""
        if self._pin is None or self._pin.expired:
            return super().catalog
        return self._pinned.snapshot.catalog if self._catalog is None else self._catalog

    def get(self, table: Table, key: bytes) -> bytes | None:
        """The row image under ``key``, or None."""
        if table.partition_key is not None:
            found = self.holder(table, key)
            return None if found is None else self.get(found, key)
        db = table.id
        own = self.layer.get(db)
        if own is not None:
            value: bytes | Missing | None = own.rows.get(key, MISSING)
            if value is not MISSING:
                return value  # type: ignore[return-value]
            if own.cleared:
                return None
        snapshot = self._pinned.snapshot
        if self._reads is not None:
            self._reads.key(db, key)
        value = find(snapshot.applied_and_pending(db), key)
        return snapshot.disk.get(db, key) if isinstance(value, Missing) else value

    def scan(
        self, table: Table, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Item]:
        """Pairs of key and row image, in key order."""
        return self._snapshot_scan(table.id, low, high, reverse, self.ops(table).may_be_long)

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
        may_be_long = self.ops(table).index(index.id).may_be_long
        return self._snapshot_scan(index.id, low, high, reverse, may_be_long)

    def _snapshot_scan(
        self, db: int, low: bytes | None, high: bytes | None, reverse: bool, may_be_long: bool
    ) -> Iterator[Item]:
        snapshot, own = self._pinned.snapshot, self.layer.get(db)
        chain = snapshot.applied_and_pending(db)
        deltas, through = showing(chain if own is None else (own, *chain))
        found: Iterator[Item] = iter(())
        if through:
            found = snapshot.disk.scan(db, low, high, reverse=reverse, may_be_long=may_be_long)
        if deltas:
            found = overlay(deltas, found, low, high, reverse)
        if self._reads is not None and not (own is not None and own.cleared):
            found = self._reads.scan(db, low, high, found, reverse=reverse)
        return found if self.watch is None else watched(found, self.watch)

    def snapshot(self) -> StoreSnapshot:
        """What this view sees now, which later writes do not change."""
        return self._pinned.snapshot.with_own(self.frozen_layer(), self.catalog)

    def note_range(self, table: Table, low: bytes | None, high: bytes | None) -> None:
        """Rows with keys in a range are read from a :meth:`snapshot`."""
        if self._reads is not None:
            self._reads.range(table.id, low, high)

    # Writing: nobody may have been faster.

    def _in_force(self, table: Table) -> None:
        """SqlError 40001 when the definition of a table is not that of the snapshot any more."""
        before = self._pinned.snapshot.catalog.tables.get(table.id)
        now = self.store.visible_catalog[0].tables.get(table.id)
        if now is not before and now != before:
            raise overtaken()

    def _unchanged(self, db: int, key: bytes) -> None:
        """SqlError 40001 when another transaction has changed a row since the snapshot."""
        pin = self._pinned
        if self.store.history.changed(db, key, pin.since):
            raise overtaken(deleted=self.newest_value(db, key) is None)

    def lock_row(self, table: Table, key: bytes, mode: int = UPDATE) -> None:
        """See Workspace; SqlError 40001 when another transaction has changed it since the snapshot."""
        if table.partition_key is not None:
            found = self.holder(table, key)
            if found is None:
                return
            table = found
        self._in_force(table)
        super().lock_row(table, key, mode)
        self._unchanged(table.id, key)

    def try_lock_row(self, table: Table, key: bytes, mode: int = UPDATE) -> bool:
        """See :meth:`lock_row`."""
        if table.partition_key is not None:
            found = self.holder(table, key)
            return found is None or self.try_lock_row(found, key, mode)
        self._in_force(table)
        if not super().try_lock_row(table, key, mode):
            return False
        self._unchanged(table.id, key)
        return True

    def lock_rows(self, table: Table, keys: Collection[bytes]) -> None:
        """See :meth:`lock_row`."""
        if table.partition_key is not None:
            super().lock_rows(table, keys)
            return
        self._in_force(table)
        super().lock_rows(table, keys)
        self._none_changed(table.id, keys)

    def _none_changed(self, db: int, keys: Iterable[bytes]) -> None:
        pin = self._pinned
        changed = self.store.history.any_changed(db, keys, pin.since)
        if changed is not None:
            raise overtaken(deleted=self.newest_value(db, changed) is None)

    def insert(self, table: Table, values: Sequence[Datum]) -> None:
        """See Workspace. Where a row has the key that the snapshot does not have, that is 23505 or 40001."""
        if table.is_routed:
            table = self.placed(table, values)
        self._in_force(table)
        try:
            super().insert(table, values)
        except SqlError as error:
            self._exists(table, [values], error)
            raise
        self._unchanged(table.id, self.ops(table).key(values))  # the snapshot has a row that is gone

    def insert_many(self, table: Table, rows: Iterable[Sequence[Datum]]) -> int:
        """See :meth:`insert`."""
        if table.partition_key is not None:
            groups = routing.grouped_rows(self.catalog, table, list(rows))
            return sum(self.insert_many(one, some) for one, some in groups)
        self._in_force(table)
        taken = rows if isinstance(rows, list) else list(rows)
        try:
            count = super().insert_many(table, taken)
        except SqlError as error:
            self._exists(table, taken, error)
            raise
        self._none_changed(table.id, map(self.ops(table).key, taken))
        return count

    def insert_batch(self, table: Table, batch: pa.RecordBatch) -> int:
        """See :meth:`insert`."""
        if table.partition_key is not None:
            return super().insert_batch(table, batch)
        self._in_force(table)
        try:
            count = super().insert_batch(table, batch)
        except SqlError as error:
            self._exists(table, None, error)
            raise
        logged = self.records[-1] if count else None
        if isinstance(logged, InsertBatch) and isinstance(logged.expanded, Expanded):
            self._none_changed(table.id, logged.expanded.keys)
        return count

    def _exists(self, table: Table, rows: Sequence[Sequence[Datum]] | None, error: SqlError) -> None:
        """An insert was refused: by what came after the snapshot? A serializable transaction has read that.

        Raises:
            SqlError: 40001, it had read before that nothing was there.
        """
        reads, pin = self._reads, self._pin
        if reads is None or pin is None or error.sqlstate != "23505":
            return
        history, ops = self.store.history, self.ops(table)
        if rows is None:
            reads.range(table.id, None, None)
            return
        for values in rows:
            key = ops.key(values)
            keys = [(table.id, key), *((one.index.id, one.entry(values, key)[0]) for one in ops.indexes)]
            for db, entry in keys:
                if entry is not None and history.changed(db, entry, pin.since):
                    if reads.covers(db, entry):
                        raise conflicting() from error
                    reads.key(db, entry)

    def update(self, table: Table, key: bytes, image: bytes, values: Sequence[Datum]) -> None:
        """See :meth:`lock_row`."""
        if table.is_routed:
            before, table = self.holder(table, key), self.placed(table, values)
            if before is not None and before.id != table.id:
                self.delete(before, key, image)
                self.insert(table, values)
                return
        self._in_force(table)
        super().update(table, key, image, values)
        self._unchanged(table.id, key)
        new_key = self.ops(table).key(values)
        if new_key != key:
            self._unchanged(table.id, new_key)

    def delete(self, table: Table, key: bytes, image: bytes) -> None:
        """See :meth:`lock_row`."""
        if table.partition_key is not None:
            table = self.holder(table, key) or table
        self._in_force(table)
        super().delete(table, key, image)
        self._unchanged(table.id, key)

    def lock_to_change(self, table: Table) -> None:
        """A whole table is locked to be changed as one: nobody may have changed any of it."""
        self._in_force(table)
        super().lock_to_change(table)
        pin = self._pinned
        if self.store.history.changed_within(table.id, [(None, None)], pin.since):
            raise overtaken()

    def check_definitions(self, schemas: Collection[str]) -> None:
        """SqlError 40001 when others have defined something in these schemas since the snapshot."""
        before, now = self._pinned.snapshot.catalog, self.store.visible_catalog[0]
        if before is not now and any(differs(before, now, schema) for schema in schemas):
            raise overtaken()

    # The end.

    def check_reads(self) -> None:
        """Before the commit: SqlError 40001 when what a serializable transaction has read was changed."""
        reads, pin = self._reads, self._pin
        if reads is None or pin is None or not self.records:
            return
        if pin.expired or reads.were_changed(self.store.history, pin.since):
            raise conflicting()


def reader_of(store: Store, snapshot: StoreSnapshot) -> SnapshotTransaction:
    """What reads a snapshot that it has already, of whatever moment, and closes it in the end."""
    reader = SnapshotTransaction(store, NoLocks(), None, serializable=False)
    reader.read_state(snapshot)
    return reader


class Newest:
    """What a transaction reads past its snapshot."""

    def __init__(self, transaction: SnapshotTransaction) -> None:
        self.catalog = transaction.catalog
        self.get = partial(Workspace.get, transaction)
        self.scan = partial(Workspace.scan, transaction)
        self.index_scan = partial(Workspace.index_scan, transaction)


def too_old() -> SqlError:
    """Too much was written since the snapshot of a transaction for it to be kept."""
    return SqlError(
        "72000",
        "snapshot too old",
        detail="Too much was written since the transaction's first statement.",
        hint="Run the transaction again from its start.",
    )


def overtaken(*, deleted: bool = False) -> SqlError:
    """Another transaction has changed what this one is about to change."""
    what = "delete" if deleted else "update"
    return SqlError(
        "40001",
        f"could not serialize access due to concurrent {what}",
        hint="Run the transaction again from its start.",
    )


def conflicting() -> SqlError:
    """Another transaction has changed what this one has read."""
    return SqlError(
        "40001",
        "could not serialize access due to read/write dependencies among transactions",
        detail="What the transaction has read was changed by another one since.",
        hint="The transaction might succeed if retried.",
    )
