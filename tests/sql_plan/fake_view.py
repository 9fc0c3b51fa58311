"""A test double of herdpy_sql.storage.View: sorted dictionaries, one session, no durability.

It keeps what the protocol promises about order, bounds, unique errors and indexes, so that plans can be
tested without a store; it is no model of locking (``lock_row`` only notes what was locked).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from herdpy.codec.arrow import array_to_datums, datums_to_array
from herdpy_sql.catalog import Catalog, Index, Table
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import CatalogObject
from herdpy_sql.sequences import SequenceState


class SortedBytes:
    """A mapping from bytes to bytes, iterated in key order."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.keys: list[bytes] = []

    def put(self, key: bytes, value: bytes) -> None:
        if key not in self.values:
            self.keys.insert(bisect_left(self.keys, key), key)
        self.values[key] = value

    def pop(self, key: bytes) -> None:
        del self.values[key]
        del self.keys[bisect_left(self.keys, key)]

    def scan(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        start = 0 if low is None else bisect_left(self.keys, low)
        stop = len(self.keys) if high is None else bisect_left(self.keys, high)
        chosen = self.keys[start:stop]
        for key in reversed(chosen) if reverse else chosen:
            yield key, self.values[key]


class FakeView:
    """The rows of a few tables in memory."""

    def __init__(self) -> None:
        self._catalog = Catalog()
        self.rows: dict[int, SortedBytes] = {}
        self.entries: dict[int, SortedBytes] = {}
        self.states: dict[int, SequenceState] = {}
        self.last_row_id = 0
        self.locked: list[bytes] = []
        self.deferred = None

    @property
    def catalog(self) -> Catalog:
        return self._catalog

    @property
    def next_id(self) -> int:
        return self._catalog.next_id

    @property
    def newest(self) -> FakeView:
        return self

    # --- reading ---

    def get(self, table: Table, key: bytes) -> bytes | None:
        return self.rows[table.id].values.get(key)

    def scan(self, table: Table, low=None, high=None, *, reverse: bool = False):
        return self.rows[table.id].scan(low, high, reverse)

    def index_scan(self, table: Table, index: Index, low=None, high=None, *, reverse: bool = False):
        return self.entries[index.id].scan(low, high, reverse)

    # --- writing ---

    def lock_row(self, table: Table, key: bytes, mode: int = 3) -> None:
        self.locked.append(key)

    def try_lock_row(self, table: Table, key: bytes, mode: int = 3) -> bool:
        self.locked.append(key)
        return True

    def existing(self, db: int, keys: Sequence[bytes]) -> set[bytes]:
        return {key for key in keys if key in self.rows[db].values}

    def lock_many(self, db: int, keys: Sequence[bytes]) -> None:
        self.locked += keys

    def insert(self, table: Table, values: Sequence[Any]) -> None:
        key = table.key_codec.encode([values[p] for p in table.key_positions])
        if key in self.rows[table.id].values:
            raise _duplicate(table.key_name)
        for index in table.indexes:
            self._add_entry(table, index, key, values)
        self.rows[table.id].put(key, table.row_codec.encode(values))

    def insert_many(self, table: Table, rows: Iterable[Sequence[Any]]) -> int:
        count = 0
        for values in rows:
            self.insert(table, values)
            count += 1
        return count

    def insert_batch(self, table: Table, batch: pa.RecordBatch) -> int:
        columns = zip(table.columns, batch.columns, strict=True)
        datums = [array_to_datums(column.type.field, array) for column, array in columns]
        return self.insert_many(table, zip(*datums, strict=True))

    def update(self, table: Table, key: bytes, image: bytes, values: Sequence[Any]) -> None:
        assert self.rows[table.id].values[key] == image
        self.delete(table, key, image)
        self.insert(table, values)

    def delete(self, table: Table, key: bytes, image: bytes) -> None:
        assert self.rows[table.id].values[key] == image
        values = table.row_codec.decode(image)
        for index in table.indexes:
            if index.predicate is None or values[index.predicate] is True:
                self.entries[index.id].pop(self._entry(table, index, key, values))
        self.rows[table.id].pop(key)

    def next_row_id(self, table: Table) -> int:
        return self.next_row_ids(table, 1)

    def next_row_ids(self, table: Table, count: int) -> int:
        first = self.last_row_id + 1
        self.last_row_id += count
        return first

    def truncate(self, table: Table) -> None:
        self.rows[table.id] = SortedBytes()
        for index in table.indexes:
            self.entries[index.id] = SortedBytes()

    # --- definitions ---

    def create_table(self, table: Table) -> None:
        self._catalog = self._catalog.with_table(table)
        self.rows[table.id] = SortedBytes()
        for index in table.indexes:
            self.entries[index.id] = SortedBytes()

    def drop_table(self, table: Table) -> None:
        self._catalog = self._catalog.without_table(table.id)
        del self.rows[table.id]

    def lock_definition(self, table: Table) -> None:
        assert self._catalog.tables[table.id] == table

    def alter_table(self, table: Table, changed: Table) -> None:
        self._catalog = self._catalog.with_table(changed)

    def create_index(self, table: Table, index: Index) -> None:
        self.entries[index.id] = SortedBytes()
        for key, image in self.rows[table.id].scan(None, None, False):
            self._add_entry(table, index, key, table.row_codec.decode(image))
        self._catalog = self._catalog.with_index(index)

    def create_index_slowly(self, table: Table, index: Index) -> Iterator[None]:
        self.create_index(table, index)
        return iter(())

    def drop_index(self, table: Table, index: Index) -> None:
        self._catalog = self._catalog.without_index(table.id, index.id)
        del self.entries[index.id]

    def put_object(self, one: CatalogObject) -> None:
        self._catalog = self._catalog.with_object(one)

    def drop_object(self, one: CatalogObject) -> None:
        self._catalog = self._catalog.without_object(one.id)

    def restart_sequence(self, one: CatalogObject, state: SequenceState) -> None:
        self.states[one.id] = state

    def sequence_state(self, one: CatalogObject) -> SequenceState:
        return self.states[one.id]

    # --- what a session does ---

    def save(self) -> Any:
        """All that a statement may change, to put back when it fails."""
        return self._catalog, _copy(self.rows), _copy(self.entries)

    def restore(self, saved: Any) -> None:
        self._catalog, self.rows, self.entries = saved

    def snapshot(self) -> FakeView:
        return self

    def close(self) -> None:
        pass

    def arrow(self, table: Table, positions: Sequence[int], low=None, high=None) -> pa.Table:
        images = [image for _, image in self.scan(table, low, high)]
        rows = list(map(table.row_codec.decoder(positions), images))
        columns = [table.columns[p] for p in positions]
        return pa.table(
            [datums_to_array(c.type.field, [row[i] for row in rows]) for i, c in enumerate(columns)],
            names=[column.name for column in columns],
        )

    # --- inside ---

    def _entry(self, table: Table, index: Index, key: bytes, values: Sequence[Any]) -> bytes:
        columns = [values[part.position] for part in index.parts]
        entry = table.index_codec(index).encode(columns)
        return entry if index.unique and None not in columns else entry + key

    def _add_entry(self, table: Table, index: Index, key: bytes, values: Sequence[Any]) -> None:
        if index.predicate is not None and values[index.predicate] is not True:
            return
        entry = self._entry(table, index, key, values)
        if entry in self.entries[index.id].values:
            raise _duplicate(index.name)
        self.entries[index.id].put(entry, key)


def _copy(stores: dict[int, SortedBytes]) -> dict[int, SortedBytes]:
    copied = {}
    for number, store in stores.items():
        copied[number] = one = SortedBytes()
        one.values, one.keys = dict(store.values), list(store.keys)
    return copied


def _duplicate(name: str) -> SqlError:
    return SqlError("23505", f'duplicate key value violates unique constraint "{name}"', constraint=name)
