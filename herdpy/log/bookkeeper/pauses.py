"""Who waits for the queue: until there is room for more, or until nothing is under way.

Below ``leader_log``, which says when it may be so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from herdpy.log.bookkeeper.queue import AppendQueue
from herdpy.log.bookkeeper.sender import Sender


class Pauses:
    """Those who wait for one log's queue, on its loop.

    Args:
        max_queued_bytes: with no more than this queued there is room.
        is_lost: whether the log is lost; then nobody waits.
    """

    def __init__(
        self, queue: AppendQueue, sender: Sender, max_queued_bytes: int, is_lost: Callable[[], bool]
    ) -> None:
        self._queue = queue
        self._sender = sender
        self._max_queued_bytes = max_queued_bytes
        self._is_lost = is_lost
        self._loop = asyncio.get_running_loop()
        self._idle: list[asyncio.Future[None]] = []
        self._roomy: list[asyncio.Future[None]] = []

    @property
    def anybody(self) -> bool:
        """Whether somebody waits."""
        return bool(self._idle or self._roomy)

    @property
    def is_busy(self) -> bool:
        """Whether something is queued or in flight."""
        return not self._is_lost() and bool(self._sender.flights or self._queue)

    async def quiet(self) -> None:
        """Wait until nothing is queued or in flight."""
        while self.is_busy:
            waiter = self._loop.create_future()
            self._idle.append(waiter)
            await waiter

    async def room(self) -> None:
        """Wait until there is room."""
        while self._queue.size_bytes > self._max_queued_bytes and not self._is_lost():
            waiter = self._loop.create_future()
            self._roomy.append(waiter)
            await waiter

    def when_roomy(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` when there is room, at the earliest with the next :meth:`wake`."""
        waiter = self._loop.create_future()
        waiter.add_done_callback(lambda _waiter: callback())
        self._roomy.append(waiter)

    def wake(self) -> None:
        """Let those go on who need not wait any more."""
        if not self._sender.flights and not self._queue:
            idle, self._idle = self._idle, []
            _release(idle)
        if self._is_lost() or self._queue.size_bytes <= self._max_queued_bytes:
            roomy, self._roomy = self._roomy, []
            _release(roomy)


def _release(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
