"""Store layer, above ``physical`` and ``pages``: one state of LMDB, as everything above reads it.

A view is one read transaction with the handles that it knows; ``disk`` opens the environment and makes views.
Single rows come by ``get``. Scans are LMDB's own iterators: where the map is not read ahead, their pages are
once one was missing (``pages``).
"""

from __future__ import annotations

import resource
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, TypeVar

from mypy_extensions import mypyc_attr

from herdpy_server.store import physical
from herdpy_server.store.layers import Item
from herdpy_server.store.pages import Pages, PageTree, ReadAhead

_I = TypeVar("_I", Item, bytes)

_THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
"""Whose missing pages are counted: this thread's, where the system knows those."""
_AT_ONCE = 256
"""Items of a scan between two looks at what is to be read ahead."""


@mypyc_attr(allow_interpreted_subclasses=True)
class DiskView:
    """One state of LMDB, held for as long as anyone refers to it, by one reader for all of them.

    Any number of threads may read it at a time: LMDB changes nothing in a read transaction whose databases
    have been looked at once, which ``Disk.renewed`` sees to. A scan is its thread's own.

    Args:
        pages: the file, where scans have it read ahead; None: the map is read ahead.
        use: referred to for as long as the view is; None: nobody asks whether it is.
    """

    __slots__ = ("_get", "_use", "handles", "pages", "txn")

    def __init__(
        self, txn: Any, handles: Mapping[int, Any], pages: Pages | None = None, use: object = None
    ) -> None:
        self.txn = txn
        self.handles = handles
        self.pages = pages
        self._get = txn.get
        self._use = use

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
        if not may_be_long:
            return self._scan(db, low, high, reverse)
        items = self._scan(db, physical.physical_low(low), physical.physical_high(high), reverse)
        return physical.in_order(items, low, high, reverse)

    def values(self, db: int, low: bytes | None = None) -> Iterator[bytes]:
        """The values from ``low`` on by key, for databases without long keys: half the price of items."""
        cursor = self._from(db, low)
        return iter(()) if cursor is None else _ahead(self, db, cursor, cursor.iternext(keys=False))

    def keys(self, db: int, low: bytes | None = None) -> Iterator[bytes]:
        """The keys from ``low`` on, in order, for databases without long keys: half the price of items."""
        cursor = self._from(db, low)
        return iter(()) if cursor is None else _ahead(self, db, cursor, cursor.iternext(values=False))

    def _from(self, db: int, low: bytes | None) -> Any:
        """A cursor at the first key from ``low`` on; None: there is none."""
        handle = self.handles.get(db)
        if handle is None:
            return None
        cursor = self.txn.cursor(handle)
        return cursor if (cursor.first() if low is None else cursor.set_range(low)) else None

    def tree(self, db: int) -> PageTree | None:
        """Where the keys of a database lie; None where that cannot be known. For one thread, while the view
        is read."""
        if self.pages is None or db not in self.handles:
            return None
        record = self._get(b"t%d" % db) or self._get(b"i%d" % db)
        return None if record is None else PageTree(self.pages, record)

    def _scan(self, db: int, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[Item]:
        if reverse:
            return self._backwards(db, low, high)
        cursor = self._from(db, low)
        if cursor is None:
            return iter(())
        return _ahead(self, db, cursor, cursor.iternext()) if high is None else _up_to(self, db, cursor, high)

    def _backwards(self, db: int, low: bytes | None, high: bytes | None) -> Iterator[Item]:
        handle = self.handles.get(db)
        if handle is None:
            return iter(())
        cursor = self.txn.cursor(handle)
        beyond = high is not None and cursor.set_range(high)
        if not (cursor.prev() if beyond else cursor.last()):
            return iter(())
        return cursor.iterprev() if low is None else _down_to(cursor, low)

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

    def size_bytes(self, db: int) -> int:
        """How much of the file the pages of the database take."""
        handle = self.handles.get(db)
        if handle is None:
            return 0
        stat = self.txn.stat(handle)
        pages: int = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return pages * int(stat["psize"])


def _up_to(view: DiskView, db: int, cursor: Any, high: bytes) -> Iterator[Item]:
    items = cursor.iternext()
    for item in islice(items, _AT_ONCE):
        if item[0] >= high:
            return
        yield item
    for item in _ahead(view, db, cursor, items):
        if item[0] >= high:
            return
        yield item


def _ahead(view: DiskView, db: int, cursor: Any, items: Iterator[_I]) -> Iterator[_I]:
    """``items``, through which the cursor walks. Once a page was missing, the next ones are read ahead."""
    return items if view.pages is None else chain.from_iterable(_pieces(view, db, cursor, items))


def _pieces(view: DiskView, db: int, cursor: Any, items: Iterator[_I]) -> Iterator[Iterator[_I]]:
    yield islice(items, _AT_ONCE)
    ahead, faults = None, resource.getrusage(_THREAD).ru_majflt
    while key := cursor.key():  # at its end it has none; LMDB has no empty key
        if ahead is not None:
            ahead.reached(key)
        elif resource.getrusage(_THREAD).ru_majflt != faults:
            tree = view.tree(db)
            ahead = None if tree is None else ReadAhead(tree, key)
        yield islice(items, _AT_ONCE)


def _down_to(cursor: Any, low: bytes) -> Iterator[Item]:
    for item in cursor.iterprev():
        if item[0] < low:
            return
        yield item
