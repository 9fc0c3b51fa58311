"""Store layer, top: one transaction's view, what ``herdpy_sql.storage.View`` promises to plans.

Above ``transaction_state``, which has its changes, reads and locks, and ``definitions``; here are the
writes of rows, and sequences. A write takes its locks first (so that a ``MustWait`` leaves nothing behind),
checks uniqueness in everything visible, changes the transaction's own layer, rows and index entries alike,
and adds the record that the log will carry.

*Sequences.* A value that was given is never taken back, so a leader counts in memory
(``Store.sequence_heads``), beside all transactions. What a transaction has used is logged with its
commit: the state that the sequence has at that moment, so that in the log the states of one sequence are in
order and the newest is the right one. A state is kept as the one item of a database that has the sequence's
id; on the disk it is in ``meta``. A state that a transaction sets for itself (a new sequence, RESTART) lies
in its own layer until it commits, and is undone with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from herdpy.codec.kinds import Datum
from herdpy.formats import NOTIFY_LEVEL
from herdpy.log.records import Before, Delete, Insert, SequenceAdvance, Truncate, Update
from herdpy_server.store import bulk, routing
from herdpy_server.store.batches import Expanded
from herdpy_server.store.definitions import Definitions
from herdpy_server.store.layers import ENTRY_BYTES, SEQUENCE_KEY
from herdpy_server.store.locks import Locks
from herdpy_server.store.notified import TransactionNotifications
from herdpy_server.store.store import Store
from herdpy_server.store.tables import TableOps, duplicate
from herdpy_server.store.transaction_state import TransactionState
from herdpy_sql import sequences
from herdpy_sql.catalog import Index, Table, is_temporary
from herdpy_sql.clock import Programs
from herdpy_sql.errors import SqlError
from herdpy_sql.lock_modes import UPDATE
from herdpy_sql.objects import SYSTEM, CatalogObject
from herdpy_sql.rights.held import OWNED, Subject, own_new, subject_of
from herdpy_sql.sequences import SequenceMemory, SequenceState
from herdpy_sql.storage import MustWait

_FEW = 8
"""So many rows are added one by one."""

Entry = tuple[int, bytes, bool]
"""Of an index: its id, the entry, and whether no other row may have it."""


class Workspace(TransactionState):
    """A transaction's reads and writes; see ``TransactionState`` for its other attributes.

    Attributes:
        role: the key of the role whose things the new ones are.
        programs: runs functions for its statement; None where none may be called.
        memory: what its session remembers of sequences; None where there is no session.
        used: ids of the sequences whose states are to be logged with the commit.
        taken: states before the first value was taken since this was emptied, for ``give_back``.
    """

    role = SYSTEM
    memory: SequenceMemory | None = None
    programs: Programs | None = None

    def __init__(self, store: Store, locks: Locks, owner: object) -> None:
        TransactionState.__init__(self, store, locks, owner)
        self.used: set[int] = set()
        self.taken: dict[int, bytes] = {}

    # The snapshot that all statements read, where there is one: see ``SnapshotTransaction``.

    def begin_statement(self) -> None:
        """A statement begins: the first one pins the snapshot. SqlError 72000 when that is too old."""

    def release(self) -> None:
        """The transaction has ended: its snapshot may go."""

    def check_reads(self) -> None:
        """Before the commit: SqlError 40001 when others have changed what it may not have read then."""

    def note_range(self, table: Table, low: bytes | None, high: bytes | None) -> None:
        """Rows with keys in a range are read from a :meth:`snapshot`."""

    # Rows.

    def insert(self, table: Table, values: Sequence[Datum]) -> None:
        """Add a row; SqlError 23505 when its key or an exclusive index entry exists, 23514 as ``placed``."""
        if table.is_routed:
            table = self.placed(table, values)
        ops = self.ops(table)
        try:
            key = ops.key(values)
            image = ops.encode(values)
        except ValueError as error:
            raise SqlError("22000", str(error)) from error
        db = table.id
        self._acquire(self.owner, db, key)
        if not ops.indexes:
            if self.newest_value(db, key) is not None:
                raise duplicate(table, table.key, table.key_name, values)
        else:
            entries = self._entries(ops, values, key)
            if self.newest_value(db, key) is not None:
                raise duplicate(table, table.key, table.key_name, values)
            self._check_entries(ops, entries, values)
            for index_id, entry, _ in entries:
                self.put(index_id, entry, key)
        self.put(db, key, image)
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
                self._acquire(self.owner, one.index.id, entry)
            entries.append((one.index.id, entry, exclusive))
        return entries

    def _check_entries(self, ops: TableOps, entries: Iterable[Entry], values: Sequence[Datum]) -> None:
        for index_id, entry, exclusive in entries:
            if exclusive and self.newest_value(index_id, entry) is not None:
                index = ops.index(index_id).index
                raise duplicate(ops.table, index.parts, index.name, values)

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
        taken = rows if isinstance(rows, list) else list(rows)
        if table.is_routed and (len(taken) > _FEW or table.partition_key is None):
            self.ops(table)
            groups = routing.grouped_rows(self.catalog, table, taken)
            if table.partition_key is not None:
                return sum(self.insert_many(one, some) for one, some in groups)
        if len(taken) > _FEW:
            return bulk.insert_many(self, table, taken)
        for row in taken:
            self.insert(table, row)
        return len(taken)

    def insert_batch(self, table: Table, batch: pa.RecordBatch) -> int:
        """Add the rows of an Arrow batch that has every physical column, checked already."""
        if table.is_routed:
            self.ops(table)
            groups = list(routing.grouped_batch(self.catalog, table, batch))
            if table.partition_key is not None:
                return sum(self.insert_batch(one, some) for one, some in groups)
        return bulk.insert_batch(self, table, batch)

    def update(self, table: Table, key: bytes, image: bytes, values: Sequence[Datum]) -> None:
        """Replace the row ``image`` under ``key`` by ``values``; the key may change with them."""
        if table.is_routed:
            there, table = self.holder(table, key), self.placed(table, values)
            if there is not None and there.id != table.id:
                self.delete(there, key, image)
                self.insert(table, values)
                return
        ops = self.ops(table)
        try:
            new_key = ops.key(values)
            new_image = ops.encode(values)
        except ValueError as error:
            raise SqlError("22000", str(error)) from error
        db = table.id
        old_values = ops.decode(image) if ops.indexes else None
        moved = new_key != key
        self._acquire(self.owner, db, key, UPDATE if moved else ops.row_mode(old_values, values))
        if moved:
            self._acquire(self.owner, db, new_key)
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
        if moved and self.newest_value(db, new_key) is not None:
            raise duplicate(table, table.key, table.key_name, values)
        if added:
            self._check_entries(ops, added, values)
        for index_id, entry, _ in removed:
            self.put(index_id, entry, None)
        for index_id, entry, _ in added:
            self.put(index_id, entry, new_key)
        if moved:
            self.put(db, key, None)
        self.put(db, new_key, new_image)
        if table.identity_full:
            self.records.append(Before(db, key, image))
        self.records.append(Update(db, key if moved else None, new_key, new_image))

    def put_row(self, db: int, key: bytes, image: bytes) -> None:
        """Give a row that is locked another image, of the same key and index entries."""
        self.put(db, key, image)
        self.records.append(Update(db, None, key, image))

    def delete(self, table: Table, key: bytes, image: bytes) -> None:
        """Remove the row ``image`` under ``key``."""
        if table.partition_key is not None:
            table = self.holder(table, key) or table
        ops = self.ops(table)
        db = table.id
        self._acquire(self.owner, db, key)
        if ops.indexes:
            for index_id, entry, _ in self._entries(ops, ops.decode(image), key):
                self.put(index_id, entry, None)
        self.put(db, key, None)
        if table.identity_full:
            self.records.append(Before(db, key, image))
        self.records.append(Delete(db, key))

    def truncate(self, table: Table) -> None:
        """Remove every row."""
        ops = self.ops(table)
        self.lock_to_change(table)
        self.clear(table.id)
        for one in ops.indexes:
            self.clear(one.index.id)
        self.records.append(Truncate(table.id))

    # Sequences.

    def nextval(self, sequence: str) -> int:
        """The next value of the sequence that a regclass text names."""
        one = self._sequence(sequence)
        number, before = one.id, self._state(one)
        state = sequences.after(one, SequenceState.decode(before))
        self.taken.setdefault(number, before)
        self._set_state(number, state.encode())
        memory = self.memory
        if memory is not None:
            memory.values[number] = state.value
            memory.last = number
        return state.value

    def setval(self, sequence: str, value: int, called: bool) -> int:
        """Let a sequence go on after ``value``, or with it where it is not ``called``; at once, for all."""
        one = self._sequence(sequence)
        state = sequences.checked(one, value, called=called)
        self.taken.setdefault(one.id, self._state(one))
        self._set_state(one.id, state.encode())
        if called and self.memory is not None:
            self.memory.values[one.id] = value
        return value

    def currval(self, sequence: str) -> int:
        """The value that the session was given last. SqlError 55000 when there is none."""
        one = self._sequence(sequence)
        value = None if self.memory is None else self.memory.values.get(one.id)
        if value is None:
            raise SqlError("55000", f'currval of sequence "{one.name}" is not yet defined in this session')
        return value

    def lastval(self) -> int:
        """The value that the session was given last of any sequence. SqlError 55000 when there is none."""
        memory = self.memory
        if memory is None or memory.last is None or memory.last not in self.catalog.objects:
            raise SqlError("55000", "lastval is not yet defined in this session")
        return memory.values[memory.last]

    def call_program(
        self, program: int, values: list[Any], expected: tuple[tuple[str, Any], ...] | None = None
    ) -> Any:
        """What a function of the catalog gives. SqlError 0A000 where none may be called."""
        if self.programs is None:
            raise SqlError("0A000", "functions of the database are not called in this place of a statement")
        return self.programs.call(program, values, expected)

    def run_block(self, program: Any) -> None:
        """Run a DO block."""
        assert self.programs is not None
        self.programs.run_block(program)

    def pg_notify(self, channel: str | None, payload: str | None) -> str:
        """Send a notification with the commit; what the function gives, which is nothing.

        Raises:
            SqlError: as ``TransactionNotifications.add``; 0A000 while servers that do not know notifications
                may have to read the log.
        """
        if self.store.level() < NOTIFY_LEVEL:
            raise SqlError(
                "0A000",
                "NOTIFY is not supported before the upgrade of this database is finished",
                hint="herdpy admin upgrade --finish (docs/upgrades.md).",
            )
        notified = self.notified
        if notified is None:
            notified = self.notified = TransactionNotifications()
        pid = 1 if self.memory is None else self.memory.pid
        record = notified.add(pid, channel or "", payload or "", self.record_count)
        if record is not None:
            self.records.append(record)
            self._writes += 1
        return ""

    def sequence_state(self, one: CatalogObject) -> SequenceState:
        """How far a sequence has come."""
        return SequenceState.decode(self._state(one))

    def restart_sequence(self, one: CatalogObject, state: SequenceState) -> None:
        """Give a sequence a state as part of the transaction: others see it, or not, with the commit."""
        self.put(one.id, SEQUENCE_KEY, state.encode())
        self.used.add(one.id)

    def give_back(self) -> None:
        """Take back the values since ``taken`` was emptied; nobody else may have taken any since."""
        for number, state in self.taken.items():
            if number in self.store.sequence_heads:
                self.store.sequence_heads[number] = state
        self.taken.clear()

    def log_sequences(self) -> None:
        """Add to the records how far the sequences have come that were used; right before the commit."""
        heads, objects = self.store.sequence_heads, self.catalog.objects
        for number in sorted(self.used & objects.keys()):
            own = self.layer.get(number)
            state = None if own is None else own.rows.get(SEQUENCE_KEY)
            if state is not None:
                heads[number] = state
            else:
                state = heads.get(number)
                if state is None:
                    continue  # it was set, and the setting undone
                self.put(number, SEQUENCE_KEY, state)
            self.records.append(SequenceAdvance(number, state))
        self.used.clear()

    def _sequence(self, text: str) -> CatalogObject:
        if self.memory is None:
            return sequences.find_sequence(self.catalog, text)
        return sequences.find_sequence(self.catalog, text, self.memory.settings.path)

    def _state(self, one: CatalogObject) -> bytes:
        own = self.layer.get(one.id)
        state = None if own is None else own.rows.get(SEQUENCE_KEY)
        if state is None:
            state = self.store.sequence_heads.get(one.id)
        if state is None:
            state = self.newest_value(one.id, SEQUENCE_KEY)
        if state is None:
            state = self.store.disk.sequences.get(one.id)
        if state is None:
            return SequenceState(sequences.definition_of(one).start, False).encode()
        return state

    def _set_state(self, number: int, state: bytes) -> None:
        own = self.layer.get(number)
        if own is not None and SEQUENCE_KEY in own.rows:
            self.put(number, SEQUENCE_KEY, state)
        else:
            self.store.sequence_heads[number] = state
        self.used.add(number)

    # Definitions.

    def create_table(self, table: Table) -> None:
        """Define ``table`` (its id from ``next_id``)."""
        Definitions(self).create_table(table)
        self._own_new(Subject("table", table.id, table.name), table.schema)

    def drop_table(self, table: Table) -> None:
        """Remove ``table``, its rows and its indexes."""
        Definitions(self).drop_table(table)

    def lock_definition(self, table: Table) -> None:
        """Keep others from writing to ``table``, and from changing its definition, until this one ends."""
        Definitions(self).lock_definition(table)

    def alter_table(self, table: Table, changed: Table) -> None:
        """Give ``table`` another definition, that its rows are of, too: see ``View``."""
        Definitions(self).alter_table(table, changed)

    def create_index(self, table: Table, index: Index) -> None:
        """Define ``index`` and fill it from the rows; SqlError 23505 when they are not unique."""
        Definitions(self).create_index(table, index)

    def create_index_slowly(self, table: Table, index: Index) -> Iterator[None]:
        """As :meth:`create_index`, in steps of few rows. Its locks keep other writers away in between."""
        return Definitions(self).create_index_slowly(table, index)

    def create_index_online(self, table: Table, index: Index) -> Iterator[MustWait | None]:
        """As :meth:`create_index`, in steps between which others may write: see ``Definitions``."""
        return Definitions(self).create_index_online(table, index)

    def drop_index(self, table: Table, index: Index) -> None:
        """Remove ``index``."""
        Definitions(self).drop_index(table, index)

    def put_object(self, one: CatalogObject) -> None:
        """Define an object that is no table (a new id from ``next_id``), or change it."""
        if Definitions(self).put_object(one) and one.kind in OWNED:
            self._own_new(subject_of(one), one.schema)

    def drop_object(self, one: CatalogObject) -> None:
        """Remove an object that is there."""
        Definitions(self).drop_object(one)

    def put_role(self, name: str, definition: bytes) -> None:
        """Define a role, anew if it is there."""
        Definitions(self).put_role(name, definition)

    def drop_role(self, name: str) -> None:
        """Remove a role that is there."""
        Definitions(self).drop_role(name)

    def _own_new(self, subject: Subject, schema: str) -> None:
        """What is made is its maker's, with what he wants others to have."""
        if not is_temporary(schema):
            own_new(self, subject, schema, self.role)


def _partial_changes(old: list[Entry], new: list[Entry], *, moved: bool) -> tuple[list[Entry], list[Entry]]:
    """The entries that an UPDATE removes and adds where not every index has the row."""
    before = {one[0]: one[1] for one in old}
    after = {one[0]: one[1] for one in new}
    removed = [one for one in old if after.get(one[0]) != one[1]]
    added = [one for one in new if before.get(one[0]) != one[1]]
    if moved:  # the same entries, for another key
        added += [(index_id, entry, False) for index_id, entry, _ in new if before.get(index_id) == entry]
    return removed, added
