"""How many tasks a second were submitted and ended, over the last minutes.

Layer 4, without I/O: the poller adds what it has read, pages draw it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from herdpy_broker.sample import Finish

KEPT_S = 300
"""Seconds that are kept."""
KINDS = ("submitted", "done", "dead", "cancelled")


class Rates:
    """Counts by second and kind; what is older than ``KEPT_S`` is forgotten."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[int, float]] = {kind: {} for kind in KINDS}
        self._totals: dict[str, tuple[float, int]] = {}

    def add_total(self, kind: str, at: datetime, total: int) -> None:
        """Count by how much a total has risen since the call before; a total that falls counts nothing."""
        now_s = at.timestamp()
        before, self._totals[kind] = self._totals.get(kind), (now_s, total)
        if before is None or now_s <= before[0]:
            return
        since_s, since = before
        seconds = range(int(since_s) + 1, int(now_s) + 1) or range(int(now_s), int(now_s) + 1)
        for second in seconds[-KEPT_S:]:
            self._add(kind, second, max(0, total - since) / len(seconds))

    def add_finishes(self, finishes: Iterable[Finish]) -> None:
        """Count them, each in its second."""
        for one in finishes:
            self._add(one.outcome, int(one.finished_at.timestamp()), 1)

    def _add(self, kind: str, second: int, count: float) -> None:
        counts = self._counts[kind]
        counts[second] = counts.get(second, 0) + count
        if len(counts) > 2 * KEPT_S:
            newest = max(counts)
            self._counts[kind] = {one: n for one, n in counts.items() if one > newest - KEPT_S}

    def series(self, kind: str, now: datetime, lag_s: float, step_s: int = 5) -> Sequence[float]:
        """Tasks a second in each ``step_s`` of the time that is kept, the oldest first.

        Args:
            lag_s: the newest so many seconds are not known yet, and are left out.
        """
        end = (int(now.timestamp() - lag_s) // step_s) * step_s
        counts = self._counts[kind]
        return [
            sum(counts.get(second, 0) for second in range(start, start + step_s)) / step_s
            for start in range(end - KEPT_S, end, step_s)
        ]

    def rate(self, kind: str, now: datetime, lag_s: float, over_s: int = 10) -> float:
        """Tasks a second over the last ``over_s`` seconds that are known."""
        end = int(now.timestamp() - lag_s)
        counts = self._counts[kind]
        return sum(counts.get(second, 0) for second in range(end - over_s, end)) / over_s
