"""Store layer, inside: the records of the log become changes of rows and index entries.

The one place where that happens, for a leader, a follower and recovery alike: it depends on the
records and the applied state only. Index entries are computed from the old and the new image of a
row. (A leader has computed the same changes before it logged the records, and may pass them on.)

A large transaction is applied in the background, in steps (``StepApplier``), before all of it shows at
once. Its changes gather in a layer of their own over the applied state, as those of a leader's transaction
do. Between two steps readers read and a checkpoint may write, and neither sees anything of it; nobody else
applies anything meanwhile. ``Store`` calls both.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from herdpy.log.records import (
    AlterTable,
    Before,
    CreateIndex,
    CreateTable,
    Delete,
    DropIndex,
    DropObject,
    DropRole,
    DropTable,
    Insert,
    InsertBatch,
    LoadBatch,
    LoadDone,
    LoadOp,
    Notify,
    PutObject,
    PutRole,
    Record,
    SequenceAdvance,
    TablesChecksum,
    Truncate,
    Update,
)
from herdpy_server.store import batches
from herdpy_server.store.batches import Expanded
from herdpy_server.store.disk import ApplyError, Disk
from herdpy_server.store.disk_view import DiskView
from herdpy_server.store.index_build import fill_index, fill_slowly
from herdpy_server.store.layers import (
    ENTRY_BYTES,
    SEQUENCE_KEY,
    Delta,
    Item,
    Layer,
    Memory,
    Missing,
    find,
    overlay,
    showing,
)
from herdpy_server.store.spilling import SpillFile, SpillSettings, move_rows
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Catalog
from herdpy_sql.definitions import decode_index, decode_table
from herdpy_sql.errors import SqlError
from herdpy_sql.objects import decode_object
from herdpy_sql.staged import kept_keys, kept_rows

_RUN = 8
"""From how many records on it pays to make one delta a table of them."""
_MOST = 4096
"""So many at most are taken together."""
_LOADED_AT_ONCE = 2048
_AT_ONCE, _BATCH_AT_ONCE = 256, 2048
"""Records, and rows of a batch, that one step applies."""
_SLOW = (InsertBatch, LoadBatch, CreateIndex)

logger = logging.getLogger("herdpy.store")


class Changed(Protocol):
    """Takes the changes: ``Memory``, or a layer in the background."""

    def head(self, db: int) -> Delta:
        """The delta that takes the next change of a database."""

    def put(self, delta: Delta, key: bytes, value: bytes | None) -> None:
        """Change one key in a delta that :meth:`head` gave."""

    def clear(self, db: int) -> None:
        """Let nothing of a database show."""

    def adopt_delta(self, db: int, delta: Delta) -> None:
        """Add changes of one database."""


class Applied(Protocol):
    """The applied state, without anything pending."""

    def get(self, db: int, key: bytes) -> bytes | None:
        """The value under ``key``."""

    def scan(self, db: int, may_be_long: bool) -> Iterator[Item]:
        """All items in order."""


class HasView(Protocol):
    """What has a state of LMDB: ``Disk``, or a state of the past."""

    @property
    def current(self) -> DiskView:
        """The state that lies under the changes in memory."""


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


class Applier:
    """Applies the records of one transaction.

    Attributes:
        catalog: the definitions, as changed so far.
    """

    def __init__(self, memory: Changed, state: Applied, catalog: Catalog, known: dict[int, TableOps]) -> None:
        self.catalog = catalog
        self._memory = memory
        self._state = state
        self._known = known

    def apply(self, records: Sequence[Record]) -> None:
        """Apply them in order; ApplyError when one does not fit."""
        at, count = 0, len(records)
        while at < count:
            record = records[at]
            try:
                stop = self._gather(records, at, min(at + _MOST, count)) if count - at > _RUN else at
                if stop == at:
                    _APPLY[type(record)](self, record)
                    stop += 1
                at = stop
            except (ValueError, KeyError) as error:
                raise ApplyError(f"{type(record).__name__} does not fit the state: {error!r}") from error

    def _gather(self, records: Sequence[Record], start: int, stop: int) -> int:
        """Apply the rows that come from ``start`` on, up to ``stop``, one update for each table.

        Rows of tables without indexes, and inserts: what else changes an indexed row needs its old image, for
        the entries that go.

        Returns:
            Where the first record is that is something else.
        """
        gathered: dict[int, Delta] = {}
        indexed: list[tuple[TableOps, Insert]] = []
        at = start
        while at < stop:
            record = records[at]
            if type(record) is Update:
                if record.old_key is not None or self._ops(record.table_id).indexes:
                    break
                row: bytes | None = record.row
                key, table_id = record.key, record.table_id
            elif type(record) is Insert:
                key, row, table_id = record.key, record.row, record.table_id
                ops = self._ops(table_id)
                if ops.indexes:
                    indexed.append((ops, record))
            elif type(record) is Delete:
                if self._ops(record.table_id).indexes:
                    break
                key, row, table_id = record.key, None, record.table_id
            else:
                break
            delta = gathered.get(table_id)
            if delta is None:
                delta = gathered[table_id] = Delta()
            delta.rows[key] = row
            delta.nbytes += len(key) + (0 if row is None else len(row))
            at += 1
        for table_id, delta in gathered.items():
            delta.nbytes += ENTRY_BYTES * len(delta.rows)
            self._memory.adopt_delta(table_id, delta)
        memory = self._memory
        for ops, one in indexed:
            for db, entry in ops.entries(one.key, one.row):
                memory.put(memory.head(db), entry, one.key)
        return at

    def _ops(self, table_id: int) -> TableOps:
        ops = self._known.get(table_id)
        table = self.catalog.tables[table_id]
        if ops is None or ops.table is not table:
            ops = self._known[table_id] = TableOps(table)
        return ops

    def _insert(self, record: Insert) -> None:
        ops = self._ops(record.table_id)
        memory = self._memory
        memory.put(memory.head(record.table_id), record.key, record.row)
        if ops.indexes:
            for db, entry in ops.entries(record.key, record.row):
                memory.put(memory.head(db), entry, record.key)

    def _remove_entries(self, ops: TableOps, key: bytes) -> None:
        image = self._state.get(ops.table.id, key)
        if image is None:
            raise ValueError(f"table {ops.table.name} has no row {key!r}")
        for db, entry in ops.entries(key, image):
            self._memory.put(self._memory.head(db), entry, None)

    def _update(self, record: Update) -> None:
        ops = self._ops(record.table_id)
        memory = self._memory
        if ops.indexes:
            self._remove_entries(ops, record.key if record.old_key is None else record.old_key)
        head = memory.head(record.table_id)
        if record.old_key is not None:
            memory.put(head, record.old_key, None)
        memory.put(head, record.key, record.row)
        if ops.indexes:
            for db, entry in ops.entries(record.key, record.row):
                memory.put(memory.head(db), entry, record.key)

    def _delete(self, record: Delete) -> None:
        ops = self._ops(record.table_id)
        if ops.indexes:
            self._remove_entries(ops, record.key)
        self._memory.put(self._memory.head(record.table_id), record.key, None)

    def _insert_batch(self, record: InsertBatch) -> None:
        ops = self._ops(record.table_id)
        expanded = batches.expanded(ops.table, record)
        record.expanded = None  # it is in the memtable now
        self._put_rows(ops, expanded)

    def _put_rows(self, ops: TableOps, expanded: Expanded) -> None:
        """Put rows and their index entries; the entries of rows that were under the same keys stay."""
        keys, images = expanded
        delta = Delta()
        delta.rows = dict(zip(keys, images, strict=True))
        delta.nbytes = sum(map(len, images)) + sum(map(len, keys)) + ENTRY_BYTES * len(keys)
        self._memory.adopt_delta(ops.table.id, delta)
        if ops.indexes:
            rows = list(map(ops.decode, images))
            for one in ops.indexes:
                some, some_keys, _ = one.covered(rows, keys)
                entries = one.entries(some, some_keys)[0]
                delta = Delta()
                delta.rows = dict(zip(entries, some_keys, strict=True))
                delta.nbytes = sum(map(len, entries)) + sum(map(len, some_keys)) + ENTRY_BYTES * len(entries)
                self._memory.adopt_delta(one.index.id, delta)

    def _load_batch(self, record: LoadBatch) -> None:
        for _ in self.load_in_steps(record):
            pass

    def load_in_steps(self, record: LoadBatch) -> Iterator[None]:
        """Apply a load, whose staged rows were read, in steps of few rows."""
        ops = self._ops(record.table_id)
        first = 0
        for batch in batches.staged_batches(record, _LOADED_AT_ONCE):
            there: list[bool] = record.present_mask(first, batch.num_rows).tolist()
            if record.op is LoadOp.DELETE:
                self._unload(ops, kept_keys(ops.table, batch), there)
            else:
                rows = batches.expand(ops.table, kept_rows(ops.table, batch, record.first_row_id + first))
                self._load(ops, record.op, rows, there)
            first += batch.num_rows
            yield

    def _load(self, ops: TableOps, op: LoadOp, rows: Expanded, there: list[bool]) -> None:
        if op is LoadOp.IGNORE:
            fresh = [at for at, present in enumerate(there) if not present]
            self._put_rows(ops, Expanded([rows.keys[at] for at in fresh], [rows.images[at] for at in fresh]))
        elif op is LoadOp.UPSERT and ops.indexes and any(there):
            for key, image, present in zip(*rows, there, strict=True):
                if present:
                    self._update(Update(ops.table.id, None, key, image))
                else:
                    self._insert(Insert(ops.table.id, key, image))
        else:
            self._put_rows(ops, rows)

    def _unload(self, ops: TableOps, keys: list[bytes], there: list[bool]) -> None:
        gone = [key for key, present in zip(keys, there, strict=True) if present]
        if ops.indexes:
            for key in gone:
                self._delete(Delete(ops.table.id, key))
        else:
            delta = Delta()
            delta.rows = dict.fromkeys(gone)
            delta.nbytes = sum(map(len, gone)) + ENTRY_BYTES * len(gone)
            self._memory.adopt_delta(ops.table.id, delta)

    def _truncate(self, record: Truncate) -> None:
        table = self.catalog.tables[record.table_id]
        for db in (table.id, *(index.id for index in table.indexes)):
            self._memory.clear(db)

    def _create_table(self, record: CreateTable) -> None:
        table = decode_table(record.definition)
        self.catalog = self.catalog.with_table(table)
        for db in (table.id, *(index.id for index in table.indexes)):
            self._memory.clear(db)

    def _alter_table(self, record: AlterTable) -> None:
        table = decode_table(record.definition)
        before = self.catalog.tables[table.id]
        if [index.id for index in table.indexes] != [index.id for index in before.indexes]:
            raise ValueError(f"table {before.name} would have other indexes")
        self.catalog = self.catalog.with_table(table)

    def _drop_table(self, record: DropTable) -> None:
        table = self.catalog.tables[record.table_id]
        self.catalog = self.catalog.without_table(table.id)
        for db in (table.id, *(index.id for index in table.indexes)):
            self._memory.clear(db)

    def _create_index(self, record: CreateIndex) -> None:
        index = decode_index(record.definition)
        before = self._ops(record.table_id)
        self.catalog = self.catalog.with_index(index)
        ops = self._ops(record.table_id)
        delta = Delta(cleared=True)
        rows = self._state.scan(record.table_id, before.may_be_long)
        if fill_index(ops, ops.index(index.id), rows, delta) is not None:
            raise ValueError(f"the rows of {ops.table.name} are not unique in {index.name}")
        self._memory.adopt_delta(index.id, delta)

    def _drop_index(self, record: DropIndex) -> None:
        self.catalog = self.catalog.without_index(record.table_id, record.index_id)
        self._memory.clear(record.index_id)

    def _put_role(self, record: PutRole) -> None:
        self.catalog = self.catalog.with_role(record.name.decode(), record.definition)

    def _drop_role(self, record: DropRole) -> None:
        self.catalog = self.catalog.without_role(record.name.decode())

    def _put_object(self, record: PutObject) -> None:
        self.catalog = self.catalog.with_object(decode_object(record.definition))

    def _drop_object(self, record: DropObject) -> None:
        self.catalog = self.catalog.without_object(record.object_id)

    def _sequence_advance(self, record: SequenceAdvance) -> None:
        self._memory.put(self._memory.head(record.sequence_id), SEQUENCE_KEY, record.state)

    def _pass_over(self, record: Before | LoadDone | Notify | TablesChecksum) -> None:
        """Nothing to change: for feeds, for listeners, for who repeats a load or compares replicas."""


_APPLY: dict[type[Record], Callable[..., None]] = {
    Insert: Applier._insert,
    Update: Applier._update,
    Delete: Applier._delete,
    InsertBatch: Applier._insert_batch,
    Truncate: Applier._truncate,
    CreateTable: Applier._create_table,
    AlterTable: Applier._alter_table,
    DropTable: Applier._drop_table,
    CreateIndex: Applier._create_index,
    DropIndex: Applier._drop_index,
    PutRole: Applier._put_role,
    DropRole: Applier._drop_role,
    PutObject: Applier._put_object,
    DropObject: Applier._drop_object,
    SequenceAdvance: Applier._sequence_advance,
    Before: Applier._pass_over,
    LoadBatch: Applier._load_batch,
    LoadDone: Applier._pass_over,
    Notify: Applier._pass_over,
    TablesChecksum: Applier._pass_over,
}


_DEFINE: dict[type[Record], Callable[[Catalog, Any], Catalog]] = {
    CreateTable: lambda catalog, one: catalog.with_table(decode_table(one.definition)),
    AlterTable: lambda catalog, one: catalog.with_table(decode_table(one.definition)),
    DropTable: lambda catalog, one: catalog.without_table(one.table_id),
    CreateIndex: lambda catalog, one: catalog.with_index(decode_index(one.definition)),
    DropIndex: lambda catalog, one: catalog.without_index(one.table_id, one.index_id),
    PutRole: lambda catalog, one: catalog.with_role(one.name.decode(), one.definition),
    DropRole: lambda catalog, one: catalog.without_role(one.name.decode()),
    PutObject: lambda catalog, one: catalog.with_object(decode_object(one.definition)),
    DropObject: lambda catalog, one: catalog.without_object(one.object_id),
}
DEFINING = frozenset(_DEFINE)
"""Records that change definitions."""


def defined(catalog: Catalog, record: Record) -> Catalog:
    """The definitions after a record that changes some; ApplyError when it does not fit."""
    try:
        return _DEFINE[type(record)](catalog, record)
    except (ValueError, KeyError) as error:
        raise ApplyError(f"{type(record).__name__} does not fit the state: {error!r}") from error


class BackgroundChanges:
    """Takes the changes as ``Memory`` does, and reads as the applied state with them would.

    Attributes:
        layer: the changes so far.
    """

    def __init__(self, memory: Memory, disk: HasView, spilling: SpillSettings | None = None) -> None:
        self.layer: Layer = {}
        self._spilling = spilling
        self._file: SpillFile | None = None
        self._memory = memory
        self._disk = disk

    def head(self, db: int) -> Delta:
        """The delta that takes the next change of a database."""
        delta = self.layer.get(db)
        if delta is None:
            delta = self.layer[db] = Delta()
        return delta

    def put(self, delta: Delta, key: bytes, value: bytes | None) -> None:
        """Change one key in a delta that :meth:`head` gave."""
        delta.rows[key] = value
        delta.nbytes += len(key) + ENTRY_BYTES + (len(value) if value is not None else 0)

    def clear(self, db: int) -> None:
        """Let nothing of a database show."""
        self.layer[db] = Delta(cleared=True)

    def adopt_delta(self, db: int, delta: Delta) -> None:
        """Add changes of one database."""
        own = self.layer.get(db)
        if own is None or delta.cleared:
            self.layer[db] = delta
        else:
            own.rows.update(delta.rows)
            own.nbytes += delta.nbytes

    def make_room(self) -> None:
        """Put rows into a file when they take too much of memory. Where that cannot be, they stay."""
        spilling = self._spilling
        deltas = self.layer.values()
        if spilling is None or sum(delta.resident_bytes for delta in deltas) <= spilling.memory_bytes:
            return
        try:
            if self._file is None:
                self._file = SpillFile(spilling.directory)
            move_rows(self._file, deltas, 2 * _BATCH_AT_ONCE * len(deltas))
        except SqlError as error:
            logger.warning("a large transaction is applied in memory: %s", error)
            self._spilling = None

    def _chain(self, db: int) -> tuple[Delta, ...]:
        own = self.layer.get(db)
        applied = self._memory.applied.get(db, ())
        return applied if own is None else (own, *applied)

    def get(self, db: int, key: bytes) -> bytes | None:
        """The value under ``key``."""
        value = find(self._chain(db), key)
        return self._disk.current.get(db, key) if isinstance(value, Missing) else value

    def scan(self, db: int, may_be_long: bool) -> Iterator[Item]:
        """All items in order, as they are now, however long it takes to go through them."""
        deltas, through = showing(self._chain(db))
        view = self._disk.current
        under = view.scan(db, None, None, reverse=False, may_be_long=may_be_long) if through else iter(())
        yield from overlay(deltas, under, None, None, False)
        del view  # held until here


class StepApplier(Applier):
    """Applies records as :class:`Applier` does, in steps of few rows.

    Args:
        changes: where the changes go, and what is read.
    """

    def __init__(self, changes: BackgroundChanges, catalog: Catalog, known: dict[int, TableOps]) -> None:
        super().__init__(changes, changes, catalog, known)
        self._background = changes

    def steps(self, records: Sequence[Record]) -> Iterator[None]:
        """Apply them in order; ApplyError when one does not fit."""
        at, count = 0, len(records)
        while at < count:
            record = records[at]
            try:
                if type(record) is InsertBatch:
                    yield from self._batch_in_steps(record)
                    at += 1
                elif type(record) is LoadBatch:
                    yield from self.load_in_steps(record)
                    at += 1
                elif type(record) is CreateIndex:
                    yield from self._index_in_steps(record)
                    at += 1
                else:
                    stop = _end_of_run(records, at)
                    self.apply(records[at:stop])
                    at = stop
            except (ValueError, KeyError) as error:
                raise ApplyError(f"{type(record).__name__} does not fit the state: {error!r}") from error
            yield

    def _batch_in_steps(self, record: InsertBatch) -> Iterator[None]:
        table = self.catalog.tables[record.table_id]
        for piece in batches.in_pieces(table, record.stream, _BATCH_AT_ONCE):
            self._insert_batch(InsertBatch(table.id, b"", len(piece.keys), piece))
            yield

    def _index_in_steps(self, record: CreateIndex) -> Iterator[None]:
        index = decode_index(record.definition)
        before = self._ops(record.table_id)
        self.catalog = self.catalog.with_index(index)
        ops = self._ops(record.table_id)
        delta = Delta(cleared=True)
        rows = self._background.scan(record.table_id, before.may_be_long)
        clash = yield from fill_slowly(ops, ops.index(index.id), rows, delta)
        if clash is not None:
            raise ValueError(f"the rows of {ops.table.name} are not unique in {index.name}")
        self._background.adopt_delta(index.id, delta)


def _end_of_run(records: Sequence[Record], start: int) -> int:
    """The end of the next records that are quickly applied together."""
    stop = min(start + _AT_ONCE, len(records))
    for at in range(start + 1, stop):
        if type(records[at]) in _SLOW:
            return at
    return stop


def slow_records(records: Sequence[Record]) -> list[Record]:
    """Those that take long to apply although they are few."""
    return [record for record in records if type(record) in _SLOW]


def logged_rows(records: Sequence[Record]) -> int:
    """How many rows the records change, but for those of loads."""
    return sum(one.rows if type(one) is InsertBatch else 1 for one in records)
