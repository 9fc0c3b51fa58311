"""Store layer, top: one transaction's view, what ``herdpy_sql.storage.View`` promises to plans.

A write takes its locks first (so that a ``MustWait`` leaves nothing behind), checks uniqueness in
everything visible (``reading``), changes the transaction's own layer (``changes``), rows and index
entries alike, and adds the record that the log will carry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, KeysView, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from herdpy.codec.kinds import Datum
from herdpy.log.records import (
    AlterTable,
    Before,
    CreateIndex,
    CreateTable,
    Delete,
    DropIndex,
    DropRole,
    DropTable,
    Insert,
    PutRole,
    Truncate,
    Update,
)
from herdpy_server.store import bulk
from herdpy_server.store.constraints import duplicate, not_unique
from herdpy_server.store.layers import ENTRY_BYTES, Delta, showing
from herdpy_server.store.locks import CATALOG_DATABASE, CATALOG_KEY, Locks
from herdpy_server.store.reading import Reading
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Catalog, Index, Table, encode_index, encode_table
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_server.store.snapshot import StoreSnapshot
    from herdpy_server.store.store import Store


class Workspace(Reading):
    """A transaction's reads and writes; see ``Reading`` and ``Changes`` for its attributes."""

    def __init__(self, store: Store, locks: Locks, owner: object) -> None:
        Reading.__init__(self, store)
        self._locks = locks
        self._owner = owner
        self._acquire = locks.acquire

    # Writing rows.

    def lock_row(self, table: Table, key: bytes) -> None:
        """Make sure no other transaction writes the row under ``key`` until this one ends."""
        self._acquire(self._owner, table.id, key)

    def lock_rows(self, table: Table, keys: Collection[bytes]) -> None:
        """As :meth:`lock_row` for many keys, all of them or none."""
        self._locks.acquire_many(self._owner, table.id, keys)

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

    def _entries(self, ops: TableOps, values: Sequence[Datum], key: bytes) -> list[tuple[int, bytes, bool]]:
        """(index id, entry, exclusive) of a row for every index; the exclusive ones are locked."""
        entries = []
        for one in ops.indexes:
            try:
                entry, exclusive = one.entry(values, key)
            except ValueError as error:
                raise SqlError("22000", str(error)) from error
            if exclusive:
                self._acquire(self._owner, one.index.id, entry)
            entries.append((one.index.id, entry, exclusive))
        return entries

    def _check_entries(
        self, ops: TableOps, entries: Iterable[tuple[int, bytes, bool]], values: Sequence[Datum]
    ) -> None:
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
            if not distinct.isdisjoint(delta.rows.keys()):
                suspects |= distinct & delta.rows.keys()
        for key in suspects:
            if self._get(db, key) is not None:
                return key
        if through:
            disk = self._store.disk.current
            if not bulk.is_plain(keys):
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
            known = below & delta.rows.keys()
            found.update(key for key in known if delta.rows[key] is not None)
            below -= known
        if through and below:
            disk = self._store.disk.current
            if bulk.is_plain(below):
                found.update(disk.existing(db, sorted(below)))
            else:
                found.update(key for key in below if disk.get(db, key) is not None)
        return found

    def add_batch(self, table: Table, expanded: bulk.Expanded) -> None:
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
        self._acquire(self._owner, db, key)
        moved = new_key != key
        if moved:
            self._acquire(self._owner, db, new_key)
        added: list[tuple[int, bytes, bool]] = []
        removed: list[tuple[int, bytes, bool]] = []
        if ops.indexes:
            old = self._entries(ops, ops.decode(image), key)
            new = self._entries(ops, values, new_key)
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
        self._locks.acquire_table(self._owner, table.id)
        self._clear(table.id)
        for one in ops.indexes:
            self._clear(one.index.id)
        self.records.append(Truncate(table.id))

    # Definitions.

    def _define(self) -> Catalog:
        """The catalog to change, once no other transaction can change it."""
        self._locks.acquire(self._owner, CATALOG_DATABASE, CATALOG_KEY)
        return self.catalog

    def create_table(self, table: Table) -> None:
        """Define ``table`` (its id from ``catalog.next_id``)."""
        catalog = self._define()
        if table.name in catalog.by_name:
            raise SqlError("42P07", f'relation "{table.name}" already exists', table=table.name)
        if table.id < catalog.next_id:
            raise SqlError("40001", "the catalog was changed concurrently")
        for db in (table.id, *(index.id for index in table.indexes)):
            self._clear(db)
        self._defined(catalog.with_table(table), CreateTable(encode_table(table)))

    def drop_table(self, table: Table) -> None:
        """Remove ``table``, its rows and its indexes."""
        catalog = self._define()
        self.ops(table)
        self._locks.acquire_table(self._owner, table.id)
        for db in (table.id, *(index.id for index in table.indexes)):
            self._clear(db)
        self._defined(catalog.without_table(table.id), DropTable(table.id))

    def alter_table(self, table: Table, changed: Table) -> None:
        """Give ``table`` another definition; name, columns, key and indexes stay as they are."""
        catalog = self._define()
        self.ops(table)
        self._locks.acquire_table(self._owner, table.id)
        self._defined(catalog.with_table(changed), AlterTable(encode_table(changed)))

    def create_index(self, table: Table, index: Index) -> None:
        """Define ``index`` and fill it from the rows; SqlError 23505 when they are not unique."""
        for _ in self._create_index(table, index, self):
            pass

    def create_index_slowly(self, table: Table, index: Index) -> Iterator[None]:
        """As :meth:`create_index`, in steps of few rows. Its locks keep other writers away in between."""
        self._define()
        self._locks.acquire_table(self._owner, table.id)
        with closing(self.snapshot()) as snapshot:
            yield from self._create_index(table, index, snapshot)

    def _create_index(self, table: Table, index: Index, reader: Reading | StoreSnapshot) -> Iterator[None]:
        catalog = self._define()
        self.ops(table)
        if index.id < catalog.next_id:
            raise SqlError("40001", "the catalog was changed concurrently")
        self._locks.acquire_table(self._owner, table.id)
        changed = catalog.with_index(index)
        ops = TableOps(changed.tables[table.id])
        delta = Delta(cleared=True)
        clash = yield from bulk.fill_slowly(ops, ops.index(index.id), reader.scan(table), delta)
        if clash is not None:
            raise not_unique(table, index.parts, index.name, clash)
        self._changes.append((index.id, self.layer.get(index.id), None))
        self.layer[index.id] = delta
        self._defined(changed, CreateIndex(table.id, encode_index(index)))

    def drop_index(self, table: Table, index: Index) -> None:
        """Remove ``index``."""
        catalog = self._define()
        self.ops(table).index(index.id)
        self._locks.acquire_table(self._owner, table.id)
        self._clear(index.id)
        self._defined(catalog.without_index(table.id, index.id), DropIndex(table.id, index.id))

    # Roles.

    def put_role(self, name: str, definition: bytes) -> None:
        """Define a role, anew if it is there."""
        self._defined(self._define().with_role(name, definition), PutRole(name.encode(), definition))

    def drop_role(self, name: str) -> None:
        """Remove a role that is there."""
        self._defined(self._define().without_role(name), DropRole(name.encode()))

    def snapshot(self) -> StoreSnapshot:
        """What this view sees now, held fast."""
        return self._store.snapshot(self)
