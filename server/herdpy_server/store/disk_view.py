"""Store layer, bottom: one state of LMDB as everything above reads it.

Below ``disk``, which makes them. Keys of any length: see ``physical``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from herdpy_server.store import physical
from herdpy_server.store.layers import Item


class DiskView:
    """One state of LMDB, held for as long as anyone refers to it, by one reader for all of them.

    Any number of threads may read it at a time: LMDB changes nothing in a read transaction whose databases
    have been looked at once, which ``Disk.renewed`` sees to. A scan is its thread's own.
    """

    __slots__ = ("__weakref__", "_get", "handles", "txn")

    def __init__(self, txn: Any, handles: Mapping[int, Any]) -> None:
        self.txn = txn
        self.handles = handles
        self._get = txn.get

    def end(self) -> None:
        """Let go of the state, though somebody may still refer to the view: nobody reads it any more."""
        self.txn.abort()
        self.txn = self._get = None

    def get(self, db: int, key: bytes) -> bytes | None:
        """The value under ``key`` in a table's or index's database, or None."""
        handle = self.handles.get(db)
        if handle is None:
            return None
        if len(key) <= physical.MAX_PLAIN:
            return self._get(key, None, handle)  # type: ignore[no-any-return]
        value = self._get(physical.long_key(key), None, handle)
        return None if value is None else value[4 + len(key) :]

    def scan(
        self, db: int, low: bytes | None, high: bytes | None, *, reverse: bool, may_be_long: bool
    ) -> Iterator[Item]:
        """The items with keys in [low, high), in order."""
        handle = self.handles.get(db)
        if handle is None:
            return iter(())
        if not may_be_long:
            return self._scan(handle, low, high, reverse)
        items = self._scan(handle, physical.physical_low(low), physical.physical_high(high), reverse)
        return physical.in_order(items, low, high, reverse)

    def values(self, db: int) -> Iterator[bytes]:
        """Every value in key order, for databases without long keys: half the price of items."""
        handle = self.handles.get(db)
        if handle is None:
            return iter(())
        cursor = self.txn.cursor(handle)
        return cursor.iternext(keys=False) if cursor.first() else iter(())

    def _scan(self, handle: Any, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[Item]:
        cursor = self.txn.cursor(handle)
        if reverse:
            beyond = high is not None and cursor.set_range(high)
            if not (cursor.prev() if beyond else cursor.last()):
                return iter(())
            return cursor.iterprev() if low is None else _down_to(cursor, low)
        if not (cursor.first() if low is None else cursor.set_range(low)):
            return iter(())
        return cursor.iternext() if high is None else _up_to(cursor, high)

    def existing(self, db: int, keys: Sequence[bytes]) -> list[bytes]:
        """Those of the sorted ``keys`` (none of them long) that are there."""
        handle = self.handles.get(db)
        if handle is None or not keys:
            return []
        cursor = self.txn.cursor(handle)
        found = []
        at, count = 0, len(keys)
        while at < count and cursor.set_range(keys[at]):
            there = cursor.key()
            if there == keys[at]:
                found.append(there)
                at += 1
            elif there > keys[-1]:
                break
            else:
                # Step over the keys before what is there: by galloping, since both lists are sorted.
                step = 1
                while at + step < count and keys[at + step] < there:
                    step *= 2
                stop = min(at + step, count)
                at += step // 2
                while at < stop:
                    middle = (at + stop) // 2
                    if keys[middle] < there:
                        at = middle + 1
                    else:
                        stop = middle
        return found

    def entries(self, db: int) -> int:
        """How many items the database holds."""
        handle = self.handles.get(db)
        return 0 if handle is None else self.txn.stat(handle)["entries"]


def _up_to(cursor: Any, high: bytes) -> Iterator[Item]:
    for item in cursor.iternext():
        if item[0] >= high:
            return
        yield item


def _down_to(cursor: Any, low: bytes) -> Iterator[Item]:
    for item in cursor.iterprev():
        if item[0] < low:
            return
        yield item
