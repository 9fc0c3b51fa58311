"""Store layer, inside: an index that is made while others write to its table.

It is filled from a snapshot, without locks. Who commits meanwhile leaves the keys that it wrote with the
build (``Store.push_pending``); they are looked at again in a newer snapshot, round by round, until few
are left. For those the table is locked, and then the index has what the rows are: as they were in the
snapshot, but for the keys that were noted, which are looked at once more.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing

from herdpy.codec.kinds import Datum
from herdpy_server.store.layers import ENTRY_BYTES, Delta, Item, Layer
from herdpy_server.store.snapshot import StoreSnapshot
from herdpy_server.store.tables import IndexOps, TableOps
from herdpy_sql.catalog import Table
from herdpy_sql.storage import Reader

FEW = 256
"""So many keys are looked at under the table's lock, at most, unless writers are faster than the build."""
_STEP = 63
_MOST_ROUNDS = 16


class WrittenKeys:
    """The keys of one table that others have written since a moment.

    Attributes:
        lost: they are not all known: the table was emptied, or what was seen was never durable.
    """

    def __init__(self, table_id: int) -> None:
        self.table_id = table_id
        self.keys: set[bytes] = set()
        self.lost = False

    def note(self, layer: Layer) -> None:
        """A transaction took its place in the log with these changes."""
        delta = layer.get(self.table_id)
        if delta is not None:
            self.lost |= delta.cleared
            self.keys.update(delta.rows)

    def take(self) -> set[bytes]:
        """The keys so far, which are forgotten."""
        keys, self.keys = self.keys, set()
        return keys


class IndexBuild:
    """The entries of an index, while they are made."""

    def __init__(
        self,
        snapshot: Callable[[], StoreSnapshot],
        ops: TableOps,
        one: IndexOps,
        written: WrittenKeys,
    ) -> None:
        """``snapshot`` takes one; ``ops``: of the table with the index; ``one``: of the index."""
        self.delta = Delta(cleared=True)
        self._snapshot = snapshot
        self._ops = ops
        self._one = one
        self._written = written
        self._base: StoreSnapshot | None = None  # that of which the entries are

    def fill(self, table: Table) -> Generator[None, None, Sequence[Datum] | None]:
        """Make the entries of all rows but those that are left with ``written``, in steps.

        Returns the values of a row that is not unique, or None.
        """
        base = self._base = self._snapshot()
        clash = yield from fill_slowly(self._ops, self._one, base.scan(table), self.delta)
        rounds = 0
        while clash is None and len(self._written.keys) > FEW and rounds < _MOST_ROUNDS:
            rounds += 1
            keys = self._written.take()  # in one turn with the snapshot that has them
            older, self._base = base, self._snapshot()
            base = self._base
            with closing(older):
                clash = yield from self._again(table, keys, older, base)
        return clash

    def _again(
        self, table: Table, keys: set[bytes], older: StoreSnapshot, newer: StoreSnapshot
    ) -> Generator[None, None, Sequence[Datum] | None]:
        """Bring the entries of these rows from what they were in one snapshot to what they are in another."""
        for count, key in enumerate(keys, 1):
            self._remove(key, older.get(table, key))
            if not count & _STEP:
                yield
        for count, key in enumerate(keys, 1):
            clash = self._add(key, newer.get(table, key))
            if clash is not None:
                return clash
            if not count & _STEP:
                yield
        return None

    def complete(self, table: Table, reader: Reader) -> Sequence[Datum] | None:
        """Make the entries those of all rows, which nobody else can change any more; as :meth:`fill`."""
        base = self._base
        assert base is not None
        if self._written.lost:
            self.delta = Delta(cleared=True)
            return fill_index(self._ops, self._one, reader.scan(table), self.delta)
        keys = self._written.take()
        for key in keys:
            self._remove(key, base.get(table, key))
        for key in keys:
            clash = self._add(key, reader.get(table, key))
            if clash is not None:
                return clash
        return None

    def close(self) -> None:
        """Let go of the snapshot."""
        if self._base is not None:
            self._base.close()

    def _remove(self, key: bytes, image: bytes | None) -> None:
        if image is None:
            return
        made = self._one.entry(self._ops.decode(image), key)[0]
        if made and self.delta.rows.get(made) == key:
            del self.delta.rows[made]

    def _add(self, key: bytes, image: bytes | None) -> Sequence[Datum] | None:
        """Add a row's entry; its values when it is not unique."""
        if image is None:
            return None
        values = self._ops.decode(image)
        made, exclusive = self._one.entry(values, key)
        if not made:
            return None
        if exclusive and made in self.delta.rows:
            return values
        self.delta.rows[made] = key
        self.delta.nbytes += len(made) + len(key) + ENTRY_BYTES
        return None


def fill_index(ops: TableOps, one: IndexOps, rows: Iterable[Item], delta: Delta) -> Sequence[Datum] | None:
    """Put the entries of all ``rows`` into ``delta``; the values of a row that is not unique, or None."""
    steps = fill_slowly(ops, one, rows, delta)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            clash: Sequence[Datum] | None = stop.value
            return clash


def fill_slowly(
    ops: TableOps, one: IndexOps, rows: Iterable[Item], delta: Delta
) -> Generator[None, None, Sequence[Datum] | None]:
    """As :func:`fill_index`, in steps of few rows."""
    entry, decode, entries = one.entry, ops.decode, delta.rows
    nbytes = 0
    for count, (key, image) in enumerate(rows, 1):
        values = decode(image)
        made, exclusive = entry(values, key)
        if made:
            if exclusive and made in entries:
                return values
            entries[made] = key
            nbytes += len(made) + len(key) + ENTRY_BYTES
        if not count & _STEP:
            yield
    delta.nbytes += nbytes
    return None
