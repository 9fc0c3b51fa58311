"""Where a log over files writes when one loop does everything: on the loop itself, or in a thread.

Below ``file_log``, beside ``group_commit``; pure. To hand a group to a thread, and its outcome back, costs
more than a quick disk takes to sync it, and most where the loop is busy; while a slow disk syncs, the loop is
to serve others. So the log measures each group, and says so here. docs/decisions/22 has the reasons and the
figures.
"""

from __future__ import annotations

from math import inf

from mypy_extensions import mypyc_attr

QUICK_S = 0.0003
"""A disk is quick that writes and syncs a group in this time."""
SLOW_S = 0.0006
"""A disk is slow while a group takes longer on average: about what a busy loop pays for the thread."""
QUICK_BYTES = 1 << 16
"""A group of more bytes goes to the thread in any case."""
FEWEST, MOST = 64, 1 << 14
SAMPLE = 8
"""The quickest of so many groups says how quick the disk is, where a thread has measured."""
_WEIGHT = 1 / 32
"""That of the newest group in the average."""


@mypyc_attr(allow_interpreted_subclasses=True)
class WritePlace:
    """Decides for one log, by how long its groups took.

    It begins in the thread. What a thread measures has its waits for the GIL in it, which are long where the
    loop is busy: so of a few groups the quickest counts. Enough groups with a quick one among every few, and
    the loop writes. There what is measured is the disk. When it is slow on average, the thread writes again,
    and next time twice as many groups are enough: a disk that stalls now and then, or is quick only at times,
    is soon left to the thread. As many groups on the loop, and half are enough again.

    Attributes:
        on_loop: whether the loop writes.
        average_s: how long a group took lately, on the loop.
    """

    def __init__(self) -> None:
        self.on_loop = False
        self.average_s = QUICK_S
        self._enough = FEWEST
        self._in_a_row = 0
        self._quickest_s = inf

    def takes(self, size_bytes: int) -> bool:
        """Whether the loop writes a group of this size."""
        return self.on_loop and size_bytes <= QUICK_BYTES

    def took(self, seconds: float) -> None:
        """A group was written and synced, where :attr:`on_loop` says."""
        self._in_a_row += 1
        if self.on_loop:
            self._took_on_loop(seconds)
        else:
            self._took_in_thread(seconds)

    def _took_on_loop(self, seconds: float) -> None:
        self.average_s += (seconds - self.average_s) * _WEIGHT
        if self.average_s > SLOW_S:
            self.on_loop = False
            self._enough = min(2 * self._enough, MOST)
            self._in_a_row, self._quickest_s = 0, inf
        elif self._in_a_row >= self._enough:
            self._in_a_row = 0
            self._enough = max(self._enough // 2, FEWEST)

    def _took_in_thread(self, seconds: float) -> None:
        self._quickest_s = min(self._quickest_s, seconds)
        if self._in_a_row % SAMPLE:
            return
        quick, self._quickest_s = self._quickest_s <= QUICK_S, inf
        if not quick:
            self._in_a_row = 0
        elif self._in_a_row >= self._enough:
            self.on_loop, self.average_s, self._in_a_row = True, QUICK_S, 0
