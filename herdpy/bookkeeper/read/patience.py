"""How long to wait for bookies that could not be reached, and when to ask them again.

Beside ``quorum`` and ``recovery``, above the bookies' handles. After a failed connection a handle refuses
requests for a while (``bookie/backoff``), also when the bookie has just come back. Whoever needs that very
bookie waits here until it may be asked again, instead of failing because of a pause of this client's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import BookiePool

MIN_PAUSE_S = 0.05
"""Before a bookie is asked again whose handle does not pause: its connection was lost just now."""


class BookieBackoff:
    """A deadline, and the pauses until then. Times are the loop's.

    Args:
        limit_s: how long to wait in all, from now on; 0: not at all.

    Attributes:
        deadline_s: when it ends.
    """

    def __init__(self, pool: BookiePool, limit_s: float) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self.deadline_s = self._loop.time() + limit_s

    @property
    def is_over(self) -> bool:
        """Whether no time is left for another pause."""
        return self._loop.time() + MIN_PAUSE_S >= self.deadline_s

    async def pause(self, bookie_ids: Iterable[str]) -> bool:
        """Wait until the first of these may be asked again; False (at once) when that is too late."""
        pauses = [self._pool.get(bookie_id).pause_left_s for bookie_id in bookie_ids]
        pause_s = max(MIN_PAUSE_S, min((one for one in pauses if one > 0), default=0.0))
        if self._loop.time() + pause_s >= self.deadline_s:
            return False
        await asyncio.sleep(pause_s)
        return True
