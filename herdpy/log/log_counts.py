"""What a log counts of its writing, for metrics. At the bottom of the log; pure."""

from __future__ import annotations

from bisect import bisect_left

GROUP_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Upper bounds of the histogram of transactions a group."""

SYNC_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Upper bounds of the histogram of seconds a sync."""


class LogCounts:
    """Counts of one log.

    Attributes:
        transactions, bytes: made durable.
        sync_s: seconds spent in syncs, one a group.
        sizes: groups by how many transactions they had, one number for each of GROUP_SIZES and one for more.
        syncs: syncs by how long they took, one number for each of SYNC_S and one for longer.
    """

    __slots__ = ("bytes", "sizes", "sync_s", "syncs", "transactions")

    def __init__(self) -> None:
        self.transactions = self.bytes = 0
        self.sync_s = 0.0
        self.sizes = [0] * (len(GROUP_SIZES) + 1)
        self.syncs = [0] * (len(SYNC_S) + 1)

    def group(self, transactions: int, size_bytes: int, sync_s: float) -> None:
        """A group was written and synced."""
        self.transactions += transactions
        self.bytes += size_bytes
        self.sync_s += sync_s
        self.sizes[bisect_left(GROUP_SIZES, transactions)] += 1
        self.syncs[bisect_left(SYNC_S, sync_s)] += 1
