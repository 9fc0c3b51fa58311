"""Store layer, inside: a large transaction applied apart, in steps, before all of it shows at once.

Beside ``apply``, which says what a record does; ``Store.apply_in_steps`` drives it. The changes gather in a
layer of their own over the applied state, as those of a leader's transaction do. Between two steps readers
read and a checkpoint may write, and neither sees anything of it; nobody else applies anything meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from herdpy.log.records import CreateIndex, InsertBatch, LoadBatch, Record
from herdpy_server.store import batches
from herdpy_server.store.apply import Applier
from herdpy_server.store.errors import ApplyError
from herdpy_server.store.index_build import fill_slowly
from herdpy_server.store.layers import ENTRY_BYTES, Delta, Item, Layer, Missing, find, overlay, showing
from herdpy_server.store.spill_file import SpillFile
from herdpy_server.store.spilling import SpillSettings, move_rows
from herdpy_sql.catalog import Catalog
from herdpy_sql.definitions import decode_index
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.store.disk import Disk
    from herdpy_server.store.memory import Memory
    from herdpy_server.store.tables import TableOps

_AT_ONCE, _BATCH_AT_ONCE = 256, 2048
logger = logging.getLogger("herdpy.store")

_SLOW = (InsertBatch, LoadBatch, CreateIndex)


class Apart:
    """Takes the changes as ``Memory`` does, and reads as the applied state with them would.

    Attributes:
        layer: the changes so far.
    """

    def __init__(self, memory: Memory, disk: Disk, spilling: SpillSettings | None = None) -> None:
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
        apart: where the changes go, and what is read.
    """

    def __init__(self, apart: Apart, catalog: Catalog, known: dict[int, TableOps]) -> None:
        super().__init__(cast("Memory", apart), apart, catalog, known)  # what is used of it, Apart has
        self._apart = apart

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
        rows = self._apart.scan(record.table_id, before.may_be_long)
        clash = yield from fill_slowly(ops, ops.index(index.id), rows, delta)
        if clash is not None:
            raise ValueError(f"the rows of {ops.table.name} are not unique in {index.name}")
        self._apart.adopt_delta(index.id, delta)


def _end_of_run(records: Sequence[Record], start: int) -> int:
    """The end of the next records that are quickly applied together."""
    stop = min(start + _AT_ONCE, len(records))
    for at in range(start + 1, stop):
        if type(records[at]) in _SLOW:
            return at
    return stop


def is_slow(records: Sequence[Record]) -> bool:
    """Whether it takes long to apply them although they are few."""
    return any(type(record) in _SLOW for record in records)


def logged_rows(records: Sequence[Record]) -> int:
    """How many rows the records change, but for those of loads."""
    return sum(one.rows if type(one) is InsertBatch else 1 for one in records)
