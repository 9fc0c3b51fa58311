"""What a pool has counted, for metrics: plain numbers, added to where things happen."""

from __future__ import annotations

from bisect import bisect_left

WAIT_S = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the buckets of waiting times, in seconds."""


class WorkerCounts:
    """Since the pool was made.

    Attributes:
        started, died: workers; those that ended as they were told to do not count as died.
        queries: questions that got a worker; repeated: again, since the first one died.
        refused: questions that found the queue full, or waited too long.
        stale: how often a flush came between a worker and the snapshot, and it was begun again.
        waits, wait_s: how long questions waited for a worker: by bucket, and in all.
    """

    def __init__(self) -> None:
        self.started = self.died = self.queries = self.repeated = self.refused = self.stale = 0
        self.waits = [0] * (len(WAIT_S) + 1)
        self.wait_s = 0.0

    def waited(self, seconds: float) -> None:
        """A question got its worker after so long."""
        self.queries += 1
        self.waits[bisect_left(WAIT_S, seconds)] += 1
        self.wait_s += seconds
