"""When what waits becomes an entry: at once, or a moment later together with what comes until then.

Below ``sender``, which asks before each entry and says what it sent. An entry costs the bookies, and
everybody who follows, far more than a transaction more in it. So while others commit, too, what waits is
held back for a moment, as PostgreSQL's ``commit_delay`` does:

- One client never waits. Nothing comes while its entry is on its way, so its next commit goes at once.
- When something came during the last flight, the next entry gathers. It goes when enough transactions wait,
  when so few transactions are open that waiting is not worth it, and at the latest ``commit_delay_s`` after
  the first of them came.
- When somebody waits for what waits, and does not commit meanwhile, it goes, too: a transaction that has read
  it holds locks that others may want.
- While an entry is on its way what comes gathers in any case, and at the latest goes at the same time.

What waits is always seen to again: by the answer to an entry that is on its way, by the timer, or by the
answer to the header of a ledger that is not there yet. It has no place in the log before it is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


def nothing_open() -> int:
    """The number of open transactions where nobody counts them."""
    return 0


class Pacing:
    """That of one leader, on its loop.

    Args:
        delay_s: as ``LedgerLogSettings.commit_delay_s``.
        siblings: as ``LedgerLogSettings.commit_siblings``.
        open_transactions: how many transactions have changed something and not committed yet.
        go: called when the delay is over: ask again.
    """

    def __init__(
        self, delay_s: float, siblings: int, open_transactions: Callable[[], int], go: Callable[[], None]
    ) -> None:
        self._delay_s = delay_s
        self._siblings = siblings
        self._open_transactions = open_transactions
        self._go = go
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._is_overdue = self._is_wanted = False
        self._gathers = False  # the last entry waited for others, or could have
        self._sent = 0  # how many transactions it has
        self._came = False  # something came since it was sent, while it or another was on its way

    def is_time(self, under_way: int) -> bool:
        """Whether what waits is to be sent now. There is something, and it is not enough for an entry.

        Args:
            under_way: how many entries are on their way.
        """
        if self._is_overdue:
            return True
        if under_way:
            self._came = True
        elif self._is_wanted or not self._is_worthwhile():
            return True
        if self._timer is None and self._delay_s:
            self._timer = self._loop.call_later(self._delay_s, self.hurry)
        return False

    def _is_worthwhile(self) -> bool:
        """Whether more may come soon."""
        if not self._delay_s or not self._is_crowded():
            return False
        return self._open_transactions() >= self._siblings

    def _is_crowded(self) -> bool:
        """Whether others commit, too: something came during the last flight, or several were in it."""
        return self._came or (self._gathers and self._sent > 1)

    def sent(self, transactions: int, is_all: bool) -> None:
        """An entry with so many transactions was sent; ``is_all``: nothing waits any more."""
        self._gathers = self._is_crowded()
        self._sent = transactions
        self._came = False
        if is_all:
            self._is_overdue = self._is_wanted = False
            self.stop()

    def want(self) -> None:
        """Somebody waits for what waits: it goes when nothing is on its way."""
        self._is_wanted = True
        self._go()

    def hurry(self) -> None:
        """What waits has waited long enough."""
        self._is_overdue = True
        self.stop()
        self._go()

    def stop(self) -> None:
        """Keep no timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
