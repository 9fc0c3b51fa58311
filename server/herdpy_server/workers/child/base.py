"""The store's LMDB as a worker reads it: the newest state at the moment that a question begins.

Beside ``channel``, on the store's ``disk``. Another process writes the environment, so tables come and
go: handles are opened when a state is met that has tables without one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import lmdb

from herdpy.log.lsn import LSN
from herdpy_server.store.disk import Disk, DiskView
from herdpy_server.store.errors import StoreDamagedError
from herdpy_server.store.layers import Item

_LSN = struct.Struct(">qq")
_TRIES = 5
_PIECE = 4096
_MAP_SIZE_BYTES = 1 << 40


class WatchedView(DiskView):
    """A view whose scans call ``watch`` now and then, which may raise to end them."""

    __slots__ = ("watch",)

    watch: Callable[[], None]

    def values(self, db: int) -> Iterator[bytes]:
        """See DiskView."""
        values = super().values(db)
        while piece := list(islice(values, _PIECE)):
            self.watch()
            yield from piece

    def scan(
        self, db: int, low: bytes | None, high: bytes | None, *, reverse: bool, may_be_long: bool
    ) -> Iterator[Item]:
        """See DiskView."""
        items = super().scan(db, low, high, reverse=reverse, may_be_long=may_be_long)
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
