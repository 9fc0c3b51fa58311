"""Store layer, inside: what was committed since the oldest snapshot that an open transaction has pinned.

A transaction at REPEATABLE READ or SERIALIZABLE pins one snapshot (``snapshot_transaction``). Before it
locks a row it asks here whether anybody has changed the row since, and at its commit a serializable one
asks the same of all that it has read. Kept are the layers of commits in their order, while an older state
is pinned, and an index of their keys, which is made when somebody asks. What that takes is bounded: a pin
of too old a state expires. The same bound holds for what a pinned snapshot keeps of memory and of LMDB's
pages, since all of that grows by what is written.

All of it is for the engine's turn, but for ``flushed``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence

from herdpy_server.store.layers import Layer
from herdpy_server.store.snapshot import StoreSnapshot

LIMIT_BYTES = 256 << 20
"""Changes, in memory's bytes, after which a snapshot is too old."""

Range = tuple[bytes | None, bytes | None]
"""Keys from (inclusive) and to (exclusive); None where open."""


class Pin:
    """A transaction reads the state after the commit with the token ``since``, for as long as it lasts.

    Attributes:
        snapshot: that state; closed when the pin ends.
        expired: the pin has ended, or the state is too old: nothing is known of what came after.
    """

    __slots__ = ("expired", "flushed", "pushed", "since", "snapshot")

    def __init__(self, since: int, pushed: int, flushed: int, snapshot: StoreSnapshot) -> None:
        self.since = since
        self.pushed, self.flushed = pushed, flushed
        self.expired = False
        self.snapshot = snapshot

    def expire(self) -> None:
        """Let go of the snapshot."""
        self.expired = True
        self.snapshot.close()


class History:
    """Commits since the oldest state that is pinned.

    Attributes:
        is_kept: whether any is.
        limit_bytes: how much may be written after a state before it is too old.
    """

    def __init__(self) -> None:
        self.is_kept = False
        self.limit_bytes = LIMIT_BYTES
        self._pins: list[Pin] = []
        self._layers: deque[tuple[int, Layer]] = deque()
        self._noted = 0  # the token up to which layers are in the index
        self._newest: dict[int, dict[bytes, int]] = {}  # by database and key: the token of the newest change
        self._cleared: dict[int, int] = {}  # by database: the token of the newest commit that emptied it
        self._pushed = self._flushed = 0

    def pin(self, since: int, snapshot: StoreSnapshot) -> Pin:
        """Keep what is committed from now on, until :meth:`unpin` or until that gets too much."""
        pin = Pin(since, self._pushed, self._flushed, snapshot)
        self._pins.append(pin)
        self.is_kept = True
        return pin

    def unpin(self, pin: Pin) -> None:
        """Nobody asks about that state any more."""
        if pin in self._pins:
            self._pins.remove(pin)
        pin.expire()
        self._forget()

    def pushed(self, token: int, layer: Layer) -> None:
        """A transaction has its place in the log."""
        self._layers.append((token, layer))
        self._pushed += sum(delta.nbytes for delta in layer.values())
        self.expire_old()

    def flushed(self, nbytes: int) -> None:
        """So much was written to LMDB. For any thread: :meth:`expire_old` looks at it."""
        self._flushed += nbytes

    def expire_old(self) -> None:
        """Let go of states after which too much was written."""
        limit = self.limit_bytes
        old = [
            one
            for one in self._pins
            if self._pushed - one.pushed > limit or self._flushed - one.flushed > limit
        ]
        for one in old:
            self._pins.remove(one)
            one.expire()
        if old:
            self._forget()

    def _forget(self) -> None:
        if not self._pins:
            self.is_kept = False
            self._layers.clear()
            self._newest.clear()
            self._cleared.clear()
            return
        oldest = min(one.since for one in self._pins)
        while self._layers and self._layers[0][0] <= oldest:
            token, layer = self._layers.popleft()
            if token <= self._noted:
                self._take_out(token, layer)

    def _take_out(self, token: int, layer: Layer) -> None:
        for db, delta in layer.items():
            if self._cleared.get(db) == token:
                del self._cleared[db]
            newest = self._newest.get(db)
            if newest is not None:
                for key in delta.rows:
                    if newest.get(key) == token:
                        del newest[key]

    def _note(self) -> None:
        """Bring the index up to date."""
        if not self._layers or self._layers[-1][0] <= self._noted:
            return
        fresh = []
        for token, layer in reversed(self._layers):
            if token <= self._noted:
                break
            fresh.append((token, layer))
        for token, layer in reversed(fresh):
            for db, delta in layer.items():
                if delta.cleared:
                    self._cleared[db] = token
                if delta.rows:
                    self._newest.setdefault(db, {}).update(dict.fromkeys(delta.rows, token))
        self._noted = self._layers[-1][0]

    # Questions.

    def changed(self, db: int, key: bytes, since: int) -> bool:
        """Whether a key of a database was changed after the commit with the token ``since``."""
        self._note()
        newest = self._newest.get(db)
        if newest is not None and newest.get(key, 0) > since:
            return True
        return self._cleared.get(db, 0) > since

    def any_changed(self, db: int, keys: Iterable[bytes], since: int) -> bytes | None:
        """One of the keys that was changed, or None."""
        self._note()
        newest, cleared = self._newest.get(db), self._cleared.get(db, 0) > since
        if newest is None and not cleared:
            return None
        found = newest or {}
        return next((key for key in keys if cleared or found.get(key, 0) > since), None)

    def changed_within(self, db: int, ranges: Sequence[Range], since: int) -> bool:
        """Whether any key in one of the ranges was changed."""
        self._note()
        if self._cleared.get(db, 0) > since:
            return True
        newest = self._newest.get(db)
        if not newest:
            return False
        lows, highs = _joined(ranges)
        for key, token in newest.items():
            if token > since:
                at = bisect_right(lows, key) - 1
                high = highs[at] if at >= 0 else b""
                if at >= 0 and (high is None or key < high):
                    return True
        return False


def _joined(ranges: Sequence[Range]) -> tuple[list[bytes], list[bytes | None]]:
    """The same keys as ranges that do not overlap, in order: where they begin, and where they end."""
    lows: list[bytes] = []
    highs: list[bytes | None] = []
    for low, high in sorted(((low or b"", high) for low, high in ranges), key=lambda one: one[0]):
        if highs and (highs[-1] is None or low <= highs[-1]):
            if highs[-1] is not None and (high is None or high > highs[-1]):
                highs[-1] = high
        else:
            lows.append(low)
            highs.append(high)
    return lows, highs
