"""Store layer, inside: what a serializable transaction has read, for its commit to be judged by.

Keys that were asked for and ranges that were scanned, of tables and of indexes alike, whether something was
found there or not: what was not there is read too. A scan that stops early has read what it came past.
"""

from __future__ import annotations

from collections.abc import Iterator

from herdpy_server.store.history import History, Range
from herdpy_server.store.layers import Item

MAX_KEYS = 100_000
MAX_RANGES = 10_000
"""Of one database; when there are more, all of it counts as read."""


class Scanned:
    """A range that a scan has read so far."""

    __slots__ = ("high", "low")

    def __init__(self, low: bytes | None, high: bytes | None) -> None:
        self.low, self.high = low, high


class Reads:
    """Keys and ranges by database."""

    def __init__(self) -> None:
        self._keys: dict[int, set[bytes]] = {}
        self._ranges: dict[int, list[Scanned]] = {}

    def key(self, db: int, key: bytes) -> None:
        """A key was asked for."""
        keys = self._keys.get(db)
        if keys is None:
            keys = self._keys[db] = set()
        keys.add(key)
        if len(keys) > MAX_KEYS:
            keys.clear()
            self.range(db, None, None)

    def range(self, db: int, low: bytes | None, high: bytes | None) -> Scanned:
        """A range was scanned; what is given back may still be narrowed."""
        ranges = self._ranges.setdefault(db, [])
        if len(ranges) >= MAX_RANGES:
            ranges[:] = [Scanned(None, None)]
        scanned = Scanned(low, high)
        ranges.append(scanned)
        return scanned

    def scan(
        self, db: int, low: bytes | None, high: bytes | None, items: Iterator[Item], *, reverse: bool
    ) -> Iterator[Item]:
        """``items`` of a range, of which only that counts which the reader comes past."""
        first = b"" if low is None else low
        scanned = self.range(db, high, high) if reverse else self.range(db, first, first)
        for item in items:
            if reverse:
                scanned.low = item[0]
            else:
                scanned.high = item[0] + b"\0"
            yield item
        scanned.low, scanned.high = low, high

    def covers(self, db: int, key: bytes) -> bool:
        """Whether a key was read."""
        if key in self._keys.get(db, ()):
            return True
        return any(
            (one.low is None or one.low <= key) and (one.high is None or key < one.high)
            for one in self._ranges.get(db, ())
        )

    def were_changed(self, history: History, since: int) -> bool:
        """Whether anybody has changed any of it since."""
        for db, keys in self._keys.items():
            if history.any_changed(db, keys, since) is not None:
                return True
        for db, scanned in self._ranges.items():
            ranges: list[Range] = [(one.low, one.high) for one in scanned]
            if history.changed_within(db, ranges, since):
                return True
        return False
