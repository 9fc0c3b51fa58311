"""What a worker knows of tables: LMDB, deltas that its server sent, and columns kept from earlier questions.

Beside ``channel``, on the store's ``disk``. Another process writes the environment, so tables come and go:
handles are opened when a state is met that has tables without one. Deltas have the serial numbers of the
server's own, which are never changed once they were sent; so chains are put together here as they are there,
and the store's snapshot and column cache work on them as if they were in the server.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import lmdb

from herdpy.log.lsn import LSN
from herdpy_server.store.columns import ColumnCache
from herdpy_server.store.disk import Disk, StoreDamagedError
from herdpy_server.store.disk_view import DiskView
from herdpy_server.store.layers import ENTRY_BYTES, Chain, Delta, Item
from herdpy_server.store.segments import SegmentFiles
from herdpy_server.store.snapshot import StoreSnapshot
from herdpy_server.workers.messages import AskQuestion, DeltaRows, FlushedDelta
from herdpy_sql.catalog import Catalog

T = TypeVar("T")

_LSN = struct.Struct(">qq")
_TRIES = 5
_PIECE = 4096
_MAP_SIZE_BYTES = 1 << 40
_HELD_BYTES = 64 << 20
_NOTHING = Catalog()


class WatchedView(DiskView):
    """A view whose scans call ``watch`` now and then, which may raise to end them."""

    __slots__ = ("watch",)

    watch: Callable[[], None]

    def values(self, db: int, low: bytes | None = None) -> Iterator[bytes]:
        """See DiskView."""
        return self._watched(super().values(db, low))

    def keys(self, db: int, low: bytes | None = None) -> Iterator[bytes]:
        """See DiskView."""
        return self._watched(super().keys(db, low))

    def scan(
        self, db: int, low: bytes | None, high: bytes | None, *, reverse: bool, may_be_long: bool
    ) -> Iterator[Item]:
        """See DiskView."""
        return self._watched(super().scan(db, low, high, reverse=reverse, may_be_long=may_be_long))

    def _watched(self, items: Iterator[T]) -> Iterator[T]:
        while piece := list(islice(items, _PIECE)):
            self.watch()
            yield from piece


class WorkerDisk:
    """The environment, opened read-only."""

    def __init__(self, path: Path) -> None:
        """StoreDamagedError when it cannot be opened."""
        for left in reversed(range(_TRIES)):
            try:
                self._disk = Disk(path, map_size_bytes=_MAP_SIZE_BYTES, read_only=True)
                break
            except StoreDamagedError:  # perhaps a table was dropped in the middle of it
                if not left:
                    raise
        self._known = LSN(-1, -1)

    def segments(self, limit_bytes: int) -> SegmentFiles | None:
        """The files of columns beside it; None where there are to be none."""
        return SegmentFiles(self._disk, limit_bytes) if limit_bytes else None

    def newest(self) -> tuple[LSN, WatchedView]:
        """A view of the newest state, and its position."""
        disk = self._disk
        while True:
            txn = disk.env.begin()
            position = LSN(*_LSN.unpack(txn.get(b"applied", b"", disk.meta)))
            if position != self._known:
                missing = [name for name, db in _tables(txn) if db not in disk.handles]
                if missing:
                    txn.abort()
                    self._open(missing)
                    continue
                self._known = position
            view = WatchedView(txn, dict(disk.handles))
            view.watch = _nothing
            return position, view

    def _open(self, names: list[bytes]) -> None:
        """Handles for tables; one that was dropped meanwhile is not in the next state either."""
        for name in names:
            try:
                handle = self._disk.env.open_db(name, create=False)
            except lmdb.NotFoundError:
                continue
            self._disk.handles[int(name[1:])] = handle

    @staticmethod
    def release(view: DiskView) -> None:
        """Let LMDB use again what the view kept from being overwritten."""
        view.txn.abort()


def _tables(txn: lmdb.Transaction) -> Iterator[tuple[bytes, int]]:
    for key in txn.cursor().iternext(values=False):
        name = bytes(key)
        if name.startswith((b"t", b"i")):
            yield name, int(name[1:])


def _nothing() -> None:
    pass


class WorkerCache:
    """Deltas and columns between questions."""

    def __init__(self, column_cache_bytes: int, segments: SegmentFiles | None) -> None:
        self.columns = ColumnCache(column_cache_bytes, segments)
        self._told: dict[int, int] = {}
        self._held: OrderedDict[int, Delta] = OrderedDict()  # whole ones of earlier questions
        self._coming: dict[int, Delta] = {}
        self._whole: set[int] = set()
        self._gone: dict[int, list[Delta]] = {}

    def begin(self) -> None:
        """A question begins; what came for one that was never asked is forgotten."""
        self._coming.clear()
        self._whole.clear()
        self._gone.clear()

    @property
    def kept(self) -> dict[int, int]:
        """Tables of which columns are kept, and the number of the flush up to which that was reported."""
        return {table: self._told[table] for table in self.columns.tables}

    @property
    def held(self) -> list[int]:
        """Serial numbers of deltas that need not be sent."""
        return list(self._held)

    def part(self, part: DeltaRows) -> None:
        """Some rows of a delta."""
        delta = self._coming.get(part.serial)
        if delta is None:
            delta = self._coming[part.serial] = _delta(part.serial, part.cleared)
        delta.rows.update(zip(part.keys, part.values, strict=True))
        delta.nbytes += ENTRY_BYTES * len(part.keys) + sum(map(len, part.keys))
        delta.nbytes += sum(len(value) for value in part.values if value is not None)
        if part.is_whole:
            self._whole.add(part.serial)

    def gone(self, gone: FlushedDelta) -> None:
        """A flush moved a delta to LMDB since the table's columns were made."""
        delta = _delta(gone.serial, gone.cleared)
        delta.rows = self._held[gone.serial].rows if gone.keys is None else dict.fromkeys(gone.keys)
        self._gone.setdefault(gone.table, []).append(delta)

    def snapshot(self, ask: AskQuestion, view: DiskView) -> StoreSnapshot:
        """What the question sees."""
        if self._gone:
            self.columns.flushed({table: tuple(deltas) for table, deltas in self._gone.items()})
        for chains in ask.chains:
            self._told[chains.table] = ask.flushes
        applied = {chains.table: self._chain(chains.applied) for chains in ask.chains}
        unapplied = {chains.table: self._chain(chains.unapplied) for chains in ask.chains}
        self._hold()
        return StoreSnapshot(view, applied, unapplied, {}, _NOTHING, ask.sequence, self.columns)

    def _chain(self, serials: Sequence[int]) -> Chain:
        return tuple([self._delta(serial) for serial in serials])

    def _delta(self, serial: int) -> Delta:
        coming = self._coming.get(serial)
        if coming is not None:
            return coming
        self._held.move_to_end(serial)
        return self._held[serial]

    def _hold(self) -> None:
        """Keep whole deltas: the next question of these tables will mostly be about the same ones."""
        for serial in self._whole:
            self._held[serial] = self._coming[serial]
        self.begin()
        size = sum(delta.nbytes for delta in self._held.values())
        while size > _HELD_BYTES:
            size -= self._held.popitem(last=False)[1].nbytes


def _delta(serial: int, cleared: bool) -> Delta:
    delta = Delta(cleared=cleared)
    delta.serial = serial
    return delta
