"""Store layer, inside: ranges of keys of which none is visible, which scans need not walk through.

Rows that are deleted stay in the memtable as keys without a value until a flush. Where a queue takes its rows
at the head of an index, every scan would pass all of them. So a scan that has met many such keys in a row
notes their range here, and later scans go on behind it.

A range holds for what everybody sees: applied changes, pending ones and LMDB. A flush changes none of that.
``pushed`` takes out of the ranges what a commit makes visible in them, and ``forget`` drops all ranges where
changes come in another way (followers, recovery, pending transactions that are lost).
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter

from herdpy_server.store.layers import Delta, Layer

MANY = 64
"""Keys in a row that are worth a range."""
_MOST_RANGES = 256
_MOST_CHANGES = 1024

Range = tuple[bytes, bytes]
"""The first key, and the first one behind the range."""


def _behind(ranges: list[Range], key: bytes) -> int:
    """The place of the first range that begins behind a key."""
    return bisect_right(ranges, key, key=itemgetter(0))


class DeadRanges:
    """The ranges by database, sorted and apart from each other.

    Attributes:
        version: rises with every change of what is visible.
    """

    def __init__(self) -> None:
        self.version = 0
        self._ranges: dict[int, list[Range]] = {}

    def within(self, db: int, low: bytes | None, high: bytes | None) -> list[Range]:
        """Those that begin or end in [low, high), in order, cut to it."""
        ranges = self._ranges.get(db)
        if not ranges:
            return []
        found = []
        first = 0 if low is None else max(_behind(ranges, low) - 1, 0)
        for start, end in ranges[first:]:
            if high is not None and start >= high:
                break
            if low is None or end > low:
                cut = start if low is None else max(start, low)
                found.append((cut, end if high is None else min(end, high)))
        return found

    def note(self, db: int, start: bytes, end: bytes, version: int) -> None:
        """No key in [start, end) was visible when ``version`` was what it says."""
        if version != self.version:
            return
        ranges = self._ranges.setdefault(db, [])
        first = _behind(ranges, start)
        if first and ranges[first - 1][1] >= start:
            first -= 1
            start = ranges[first][0]
        last = first
        while last < len(ranges) and ranges[last][0] <= end:
            end = max(end, ranges[last][1])
            last += 1
        ranges[first:last] = [(start, end)]
        if len(ranges) > _MOST_RANGES:
            del self._ranges[db]

    def pushed(self, layer: Layer) -> None:
        """A transaction's changes are visible from now on."""
        self.version += 1
        if not self._ranges:
            return
        for db, delta in layer.items():
            ranges = self._ranges.get(db)
            if ranges:
                self._revive(db, ranges, delta)

    def _revive(self, db: int, ranges: list[Range], delta: Delta) -> None:
        rows = delta.rows
        if not isinstance(rows, dict) or len(rows) > _MOST_CHANGES:
            del self._ranges[db]
            return
        for key, value in rows.items():
            if value is None:
                continue
            at = _behind(ranges, key) - 1
            if at >= 0 and key < ranges[at][1]:
                start, end = ranges[at]
                halves = ((start, key), (key + b"\0", end))
                ranges[at : at + 1] = [one for one in halves if one[0] < one[1]]

    def forget(self) -> None:
        """What is visible has changed in another way."""
        self.version += 1
        self._ranges.clear()


def shows(own: Delta, dead: Range) -> bool:
    """Whether a transaction's own changes may have a row in a range; True where that is not looked up."""
    rows = own.rows
    if not isinstance(rows, dict) or len(rows) > _MOST_CHANGES:
        return True
    return any(value is not None and dead[0] <= key < dead[1] for key, value in rows.items())


class DeadRun:
    """The keys without a row that a scan meets one after another.

    Args:
        db, version: as of :meth:`DeadRanges.note`.
    """

    __slots__ = ("_db", "_first", "_known", "_last", "_ranges", "_version", "count")

    def __init__(self, ranges: DeadRanges, db: int) -> None:
        self._ranges = ranges
        self._db = db
        self._version = ranges.version
        self._first = self._last = self._known = b""
        self.count = 0

    def meet(self, key: bytes) -> None:
        """The next key has no row."""
        if not self.count:
            self._first = key
        self._last = key
        self.count += 1

    def skip(self, dead: Range) -> None:
        """The scan goes on behind a range."""
        if not self.count:
            self._first = dead[0]
        self._known = dead[1]
        self.count += MANY

    def end(self) -> None:
        """A row, or the end of the scan, comes next."""
        if self.count >= MANY:
            end = self._last + b"\0"
            if end > self._known:
                self._ranges.note(self._db, self._first, end, self._version)
        self.count = 0
