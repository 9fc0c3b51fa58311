"""Where a log over files writes when one loop does everything: on the loop itself, or in a thread.

Below ``file_log``, beside ``group_commit``; pure. To hand a group to a thread, and its outcome back, costs
more than a quick disk takes to sync it; while a slow disk syncs, the loop is to serve others. So the log
measures each group, and says so here. docs/decisions/22 has the reasons and the figures.
"""

from __future__ import annotations

QUICK_S = 0.0003
"""A disk is quick while a group takes no longer on average, written and synced."""
STALL_S = 0.003
"""One group that takes longer than this is a stall, however quick the others are."""
QUICK_BYTES = 1 << 16
"""A group of more bytes goes to the thread in any case."""
FEWEST, MOST = 64, 1 << 14
_WEIGHT = 1 / 16
"""That of the newest group in the average."""


class WritePlace:
    """Decides for one log, by how long its groups took.

    It begins in the thread. After enough groups without a stall the loop writes, if they were quick. When
    they are no longer, or at a stall, the thread writes again, and next time twice as many groups are enough:
    a disk that stalls now and then is soon left to the thread. As many groups on the loop, and half are
    enough again.

    Attributes:
        on_loop: whether the loop writes.
        average_s: how long a group took lately.
    """

    def __init__(self) -> None:
        self.on_loop = False
        self.average_s = QUICK_S
        self._enough = FEWEST
        self._in_a_row = 0

    def takes(self, size_bytes: int) -> bool:
        """Whether the loop writes a group of this size."""
        return self.on_loop and size_bytes <= QUICK_BYTES

    def took(self, seconds: float) -> None:
        """A group was written and synced, wherever that was."""
        self.average_s += (seconds - self.average_s) * _WEIGHT
        stalled = seconds > STALL_S
        if self.on_loop and (stalled or self.average_s > QUICK_S):
            self.on_loop = False
            self._enough = min(2 * self._enough, MOST)
            self._in_a_row = 0
            return
        self._in_a_row = 0 if stalled else self._in_a_row + 1
        if self._in_a_row >= self._enough and self.average_s <= QUICK_S:
            self._in_a_row = 0
            if self.on_loop:
                self._enough = max(self._enough // 2, FEWEST)
            self.on_loop = True
