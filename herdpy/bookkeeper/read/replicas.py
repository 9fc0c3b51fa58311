"""Which replica of an entry to ask first: preferred ones, then by write set, those in doubt last.

Leaf of the reading layer. Reads tell it who failed or was slow; it orders candidates and never drops one,
because a replica in doubt may be the only one that has the entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class ReplicaOrder:
    """The order in which replicas are asked.

    Args:
        loop: whose time counts.
        doubt_s: for how long a bookie that failed or was slow is asked last.
        preferred: bookies to ask first, such as those of one's own rack.
    """

    __slots__ = ("_doubt_s", "_expiry", "_loop", "_preferred", "_until", "version")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, doubt_s: float, preferred: Iterable[str] = ()
    ) -> None:
        self._loop = loop
        self._doubt_s = doubt_s
        self._preferred = frozenset(preferred)
        self._until: dict[str, float] = {}
        self._expiry = 0.0
        self.version = 0
        """Changes whenever the order may have changed: callers may keep orders as long as it stays."""

    def doubt(self, bookie_id: str) -> None:
        """A bookie failed, or was slower than another: ask it last for a while."""
        if bookie_id not in self._until:
            self.version += 1
        self._until[bookie_id] = self._loop.time() + self._doubt_s
        self._expiry = min(self._until.values())

    def refresh(self) -> None:
        """Forget doubts whose time is over; cheap when there are none."""
        if self._until and self._loop.time() >= self._expiry:
            now = self._loop.time()
            self._until = {bookie: until for bookie, until in self._until.items() if until > now}
            self._expiry = min(self._until.values(), default=0.0)
            self.version += 1

    def ordered(self, candidates: Iterable[str]) -> tuple[str, ...]:
        """All candidates, the best first; among equals the given order stays."""
        preferred, until = self._preferred, self._until
        return tuple(sorted(candidates, key=lambda bookie: (bookie in until, bookie not in preferred)))
