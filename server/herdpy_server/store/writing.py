"""Store layer: a transaction's writes of rows, and the locks that they take first.

Above ``reading`` and ``sequences``, below ``workspace``. A write takes its locks first (so that a
``MustWait`` leaves nothing behind), checks uniqueness in everything visible (``reading``), changes the
transaction's own layer (``changes``), rows and index entries alike, and adds the record that the log will
carry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, KeysView, Sequence
from typing import TYPE_CHECKING

from herdpy.codec.kinds import Datum
from herdpy.log.records import Before, Delete, Insert, Truncate, Update
from herdpy_server.store import bulk
from herdpy_server.store.batches import Expanded
from herdpy_server.store.constraints import duplicate
from herdpy_server.store.layers import ENTRY_BYTES, showing
from herdpy_server.store.locks import Locks
from herdpy_server.store.physical import is_plain
from herdpy_server.store.sequences import SequenceUse
from herdpy_server.store.spill_file import SpillFile
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Table
from herdpy_sql.errors import SqlError
from herdpy_sql.lock_modes import ACCESS_EXCLUSIVE, UPDATE

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_server.store.store import Store

Entry = tuple[int, bytes, bool]
"""Of an index: its id, the entry, and whether no other row may have it."""


class Writing(SequenceUse):
    """Reads and writes of rows; see ``Reading`` and ``Changes`` for its attributes."""

    def __init__(self, store: Store, locks: Locks, owner: object) -> None:
        SequenceUse.__init__(self, store)
        self._locks = locks
        self._owner = owner
        self._acquire = locks.acquire

    # Locks.

    def lock_row(self, table: Table, key: bytes, mode: int = UPDATE) -> None:
        """Keep others from the row under ``key``, until this transaction ends, as far as ``mode`` does."""
        self._acquire(self._owner, table.id, key, mode)

    def try_lock_row(self, table: Table, key: bytes, mode: int = UPDATE) -> bool:
        """As :meth:`lock_row`; False where that would have to wait for another transaction."""
        return self._locks.try_acquire(self._owner, table.id, key, mode)

    def lock_table(self, table: Table, mode: int = ACCESS_EXCLUSIVE, *, wait: bool = True) -> bool:
        """Lock a whole table in one of its modes; False where others are in the way, unless ``wait``."""
        if not wait:
            return self._locks.try_acquire_table(self._owner, table.id, mode)
        self._locks.acquire_table(self._owner, table.id, mode)
        return True

    def _acquire_table(self, table: Table) -> None:
        """Lock a whole table to change it as one."""
        self._locks.acquire_table(self._owner, table.id)

    def lock_rows(self, table: Table, keys: Collection[bytes]) -> None:
        """As :meth:`lock_row` for many keys, all of them or none."""
        self._locks.acquire_many(self._owner, table.id, keys)

    def _move_locks(self, file: SpillFile, most: int) -> None:
        self._locks.move_some(self._owner, file, most)

    # Rows.

    def insert(self, table: Table, values: Sequence[Datum]) -> None:
        """Add a row; SqlError 23505 when its key or an exclusive index entry exists."""
        ops = self.ops(table)
        try:
            key = ops.key(values)
            image = ops.encode(values)
        except ValueError as error:
            raise SqlError("22000", str(error)) from error
        db = table.id
        self._acquire(self._owner, db, key)
        if not ops.indexes:
            if self._get(db, key) is not None:
                raise duplicate(table, table.key, table.key_name, values)
        else:
            entries = self._entries(ops, values, key)
            if self._get(db, key) is not None:
                raise duplicate(table, table.key, table.key_name, values)
            self._check_entries(ops, entries, values)
            for index_id, entry, _ in entries:
                self._put(index_id, entry, key)
        self._put(db, key, image)
        self.records.append(Insert(db, key, image))

    def _entries(self, ops: TableOps, values: Sequence[Datum], key: bytes) -> list[Entry]:
        """(index id, entry, exclusive) of a row for every index that has it; exclusive ones are locked."""
        entries = []
        for one in ops.indexes:
            try:
                entry, exclusive = one.entry(values, key)
            except ValueError as error:
                raise SqlError("22000", str(error)) from error
            if not entry:
                continue
            if exclusive:
                self._acquire(self._owner, one.index.id, entry)
            entries.append((one.index.id, entry, exclusive))
        return entries

    def _check_entries(self, ops: TableOps, entries: Iterable[Entry], values: Sequence[Datum]) -> None:
        for index_id, entry, exclusive in entries:
            if exclusive and self._get(index_id, entry) is not None:
                index = ops.index(index_id).index
                raise duplicate(ops.table, index.parts, index.name, values)

    def lock_many(self, db: int, keys: Collection[bytes]) -> None:
        """Take the locks of many keys of one database."""
        self._locks.acquire_many(self._owner, db, keys)

    def first_existing(self, db: int, keys: list[bytes], distinct: KeysView[bytes]) -> bytes | None:
        """One of the ``keys`` that is visible already, or None; ``distinct`` are the same keys as a set."""
        deltas, through = showing(self._chain(db))
        suspects: set[bytes] = set()
        for delta in deltas:
            suspects |= delta.known(distinct)
        for key in suspects:
            if self._get(db, key) is not None:
                return key
        if through:
            disk = self._store.disk.current
            if not is_plain(keys):
                return next((key for key in keys if self._get(db, key) is not None), None)
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
            disk = self._store.disk.current
            if is_plain(below):
                found.update(disk.existing(db, sorted(below)))
            else:
                found.update(key for key in below if disk.get(db, key) is not None)
        return found

    def add_batch(self, table: Table, expanded: Expanded) -> None:
        """Add rows as :meth:`insert_batch` does, and leave it to the caller to log them."""
        bulk.add_batch(self, table, expanded)

    def put_many(self, table: Table, rows: dict[bytes, bytes | None]) -> None:
        """New images by key, None for a row that goes, of a table without indexes whose rows are locked.

        It is for the caller to log them.
        """
        ops = self.ops(table)
        assert not ops.indexes
        size = sum(len(key) + len(image or b"") for key, image in rows.items())
        self.add_fresh(table.id, rows, size + len(rows) * ENTRY_BYTES)

    def insert_many(self, table: Table, rows: Iterable[Sequence[Datum]]) -> int:
        """Add rows, as :meth:`insert` does, faster; returns how many."""
        return bulk.insert_many(self, table, rows)

    def insert_batch(self, table: Table, batch: pa.RecordBatch) -> int:
        """Add the rows of an Arrow batch that has every physical column, checked already."""
        return bulk.insert_batch(self, table, batch)

    def update(self, table: Table, key: bytes, image: bytes, values: Sequence[Datum]) -> None:
        """Replace the row ``image`` under ``key`` by ``values``; the key may change with them."""
        ops = self.ops(table)
        try:
            new_key = ops.key(values)
            new_image = ops.encode(values)
        except ValueError as error:
            raise SqlError("22000", str(error)) from error
        db = table.id
        old_values = ops.decode(image) if ops.indexes else None
        moved = new_key != key
        self._acquire(self._owner, db, key, UPDATE if moved else ops.row_mode(old_values, values))
        if moved:
            self._acquire(self._owner, db, new_key)
        added: list[Entry] = []
        removed: list[Entry] = []
        if old_values is not None:
            old = self._entries(ops, old_values, key)
            new = self._entries(ops, values, new_key)
            if ops.has_partial:
                removed, added = _partial_changes(old, new, moved=moved)
                old = new = []
            for before, after in zip(old, new, strict=True):
                if before[1] != after[1]:
                    removed.append(before)
                    added.append(after)
                elif moved:
                    added.append((after[0], after[1], False))  # the same entry, for another key
        if moved and self._get(db, new_key) is not None:
            raise duplicate(table, table.key, table.key_name, values)
        self._check_entries(ops, added, values)
        for index_id, entry, _ in removed:
            self._put(index_id, entry, None)
        for index_id, entry, _ in added:
            self._put(index_id, entry, new_key)
        if moved:
            self._put(db, key, None)
        self._put(db, new_key, new_image)
        if table.identity_full:
            self.records.append(Before(db, key, image))
        self.records.append(Update(db, key if moved else None, new_key, new_image))

    def delete(self, table: Table, key: bytes, image: bytes) -> None:
        """Remove the row ``image`` under ``key``."""
        ops = self.ops(table)
        db = table.id
        self._acquire(self._owner, db, key)
        if ops.indexes:
            for index_id, entry, _ in self._entries(ops, ops.decode(image), key):
                self._put(index_id, entry, None)
        self._put(db, key, None)
        if table.identity_full:
            self.records.append(Before(db, key, image))
        self.records.append(Delete(db, key))

    def truncate(self, table: Table) -> None:
        """Remove every row."""
        ops = self.ops(table)
        self._acquire_table(table)
        self._clear(table.id)
        for one in ops.indexes:
            self._clear(one.index.id)
        self.records.append(Truncate(table.id))


def _partial_changes(old: list[Entry], new: list[Entry], *, moved: bool) -> tuple[list[Entry], list[Entry]]:
    """The entries that an UPDATE removes and adds where not every index has the row."""
    before = {one[0]: one[1] for one in old}
    after = {one[0]: one[1] for one in new}
    removed = [one for one in old if after.get(one[0]) != one[1]]
    added = [one for one in new if before.get(one[0]) != one[1]]
    if moved:  # the same entries, for another key
        added += [(index_id, entry, False) for index_id, entry, _ in new if before.get(index_id) == entry]
    return removed, added
