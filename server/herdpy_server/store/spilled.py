"""Store layer, inside: rows of a large transaction's delta, the newest in memory and the others in a file.

Above ``spill_file``. What is written goes to ``_fresh``, in memory. When the transaction takes too much of
that, ``_fresh`` becomes ``_moving``, which does not change any more and is put into the file in steps, in key
order; until the last step it stands before the file. A key that was taken back (``del``) and may be in the
file has MISSING in memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, ItemsView, Iterator, Mapping
from typing import TypeVar, cast

from herdpy_server.store.disk_view import DiskView
from herdpy_server.store.layers import (
    ENTRY_BYTES,
    MISSING,
    Delta,
    Item,
    LargeRows,
    Missing,
    changed_keys,
    distinct,
)
from herdpy_server.store.physical import MAX_PLAIN
from herdpy_server.store.spill_file import SpillFile

_D = TypeVar("_D")
_DELETED = b"\0"
_PRESENT = b"\1"
_NOWHERE = Missing()
_WRITTEN_AT_ONCE = 8192
"""Rows that go to the file in one transaction of LMDB, whose pages are in memory meanwhile."""


class SpilledRows(LargeRows):
    """Values by key, None for a deleted key; see ``LargeRows``.

    Args:
        rows: what there is so far; it is not to be used by others any more.
        nbytes: about what that takes of memory.
    """

    __slots__ = ("_file", "_fresh", "_long", "_moved", "_moving", "_pinned", "_slot", "_todo")

    def __init__(self, file: SpillFile, slot: int, rows: dict[bytes, bytes | None], nbytes: int) -> None:
        self._file = file
        self._slot = slot
        self._fresh = Delta()
        self._fresh.rows, self._fresh.nbytes = rows, nbytes
        self._moving: Delta | None = None
        self._todo: list[bytes] = []  # its keys, of which the first ``_moved`` are in the file
        self._moved = 0
        self._pinned: DiskView | None = None
        self._long = False  # whether a key in the file may be a long one

    @property
    def _view(self) -> DiskView:
        return self._file.view() if self._pinned is None else self._pinned

    @property
    def _in_memory(self) -> list[Delta]:
        return [self._fresh] if self._moving is None else [self._fresh, self._moving]

    @property
    def resident_bytes(self) -> int:
        """About what it takes of memory."""
        return sum(delta.nbytes for delta in self._in_memory)

    # Moving to the file.

    def move_some(self, most: int) -> int:
        """Put some keys into the file, ``most`` at most; returns how many, 0 when all are there.

        SqlError 53100, 58030: nothing is lost.
        """
        if self._moving is None:
            if not self._fresh.rows:
                return 0
            self._moving, self._fresh = self._fresh, Delta()
            self._todo, self._moved = sorted(self._moving.rows), 0
        some = self._todo[self._moved : self._moved + min(most, _WRITTEN_AT_ONCE)]
        self._put(self._moving.rows, some)
        self._long |= any(len(key) > MAX_PLAIN for key in some)
        self._moved += len(some)
        if self._moved == len(self._todo):
            self._moving, self._todo = None, []
        return len(some)

    def _put(self, rows: Mapping[bytes, bytes | None], keys: list[bytes]) -> None:
        items: list[Item] = []
        gone: list[bytes] = []
        for key in keys:
            value: bytes | Missing | None = rows[key]
            if value is None:
                items.append((key, _DELETED))
            elif isinstance(value, Missing):
                gone.append(key)
            else:
                items.append((key, _PRESENT + value))
        self._file.write(self._slot, items, gone)

    # Reading.

    def _find(self, key: bytes) -> bytes | Missing | None:
        for delta in self._in_memory:
            value: bytes | Missing | None = delta.rows.get(key, _NOWHERE)
            if value is not _NOWHERE:
                return value
        stored = self._view.get(self._slot, key)
        return MISSING if stored is None else _decoded(stored)

    def get(self, key: bytes, default: _D = None) -> bytes | _D | None:  # type: ignore[assignment]
        """The value under ``key``."""
        value = self._find(key)
        return default if isinstance(value, Missing) else value

    def __getitem__(self, key: bytes) -> bytes | None:
        value = self._find(key)
        if isinstance(value, Missing):
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self._find(cast("bytes", key)) is not MISSING

    def __len__(self) -> int:
        return sum(len(delta.rows) for delta in self._in_memory) + self._view.entries(self._slot)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def __iter__(self) -> Iterator[bytes]:
        return self.keys_within(None, None, False)

    def items(self) -> ItemsView[bytes, bytes | None]:
        """Pairs of key and value, in key order."""
        return ItemsView(self)

    def keys_within(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[bytes]:
        """The keys in [low, high), each once, in order."""
        above = changed_keys(self._in_memory, low, high, reverse)
        under = self._view.scan(self._slot, low, high, reverse=reverse, may_be_long=self._long)
        keys = distinct(heapq.merge(above, (key for key, _ in under), reverse=reverse))
        return (key for key in keys if not self._is_taken_back(key))

    def _is_taken_back(self, key: bytes) -> bool:
        """Whether a key that is in memory or in the file is not to be seen."""
        value: bytes | Missing | None = self._fresh.rows.get(key, _NOWHERE)
        if value is _NOWHERE and self._moving is not None:
            value = self._moving.rows.get(key, _NOWHERE)
        return value is MISSING

    def known(self, keys: Collection[bytes]) -> set[bytes]:
        """Those of the ``keys`` that are here."""
        found: set[bytes] = set()
        below = set(keys)
        for delta in self._in_memory:
            there = delta.known(below)
            found.update(key for key in there if not isinstance(delta.rows[key], Missing))
            below -= there
        if self._long or (below and max(map(len, below)) > MAX_PLAIN):
            view = self._view
            found.update(key for key in below if view.get(self._slot, key) is not None)
        else:
            found.update(self._view.existing(self._slot, sorted(below)))
        return found

    # Writing.

    def __setitem__(self, key: bytes, value: bytes | None) -> None:
        fresh = self._fresh
        rows = fresh.rows
        assert isinstance(rows, dict)
        before = rows.get(key, MISSING)
        if before is MISSING and key not in rows:
            fresh.nbytes += len(key) + ENTRY_BYTES
        elif isinstance(before, bytes):
            fresh.nbytes -= len(before)
        rows[key] = value
        if isinstance(value, bytes):
            fresh.nbytes += len(value)

    def __delitem__(self, key: bytes) -> None:
        self[key] = MISSING  # type: ignore[assignment]
        if self._moving is None and self._view.get(self._slot, key) is None:
            self._fresh.nbytes -= len(key) + ENTRY_BYTES
            del self._fresh.rows[key]
            self._fresh.forget_order()

    def update(self, other: Mapping[bytes, bytes | None]) -> None:  # type: ignore[override]
        """Put many."""
        for key, value in other.items():
            self[key] = value

    def copy(self) -> SpilledRows:
        """Equal rows that do not change with these."""
        twin = SpilledRows(self._file, self._slot, {}, 0)
        twin._fresh = self._fresh.copy()
        twin._moving = self._moving
        twin._pinned, twin._long = self._view, self._long
        return twin


def _decoded(stored: bytes) -> bytes | None:
    return None if stored == _DELETED else stored[1:]
