"""How long, and how often, a change of metadata is tried again while ZooKeeper does not answer."""

from __future__ import annotations

import asyncio

from herdpy.bookkeeper.errors import SessionExpiredError, ZooKeeperUnavailableError

UNANSWERED = (ZooKeeperUnavailableError, SessionExpiredError)
"""What says that an operation got no answer: it was done, or not."""


class ZooKeeperBackoff:
    """A deadline, and pauses that double up to a second until it is reached. Times are the loop's."""

    def __init__(self, limit_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + limit_s
        self._pause_s = 0.05

    async def pause(self) -> bool:
        """Wait before another attempt; False (at once) when there is no time left for one."""
        if self._loop.time() + self._pause_s > self._deadline:
            return False
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, 1.0)
        return True
