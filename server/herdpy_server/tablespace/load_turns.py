"""One at a time under each load's id: publishing it, or giving it up. Beside ``tablespace``, which has one.

What was published is in the store, and stays known through changes of the leader. Between the look whether it
is there and the commit that would put it there, nobody else may come; that is kept here, in memory alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from herdpy.log.wait import Wait


async def _just(wait: Wait[None]) -> None:
    await wait


class LoadTurns:
    """The ids that somebody is busy with. In the engine's turn.

    Attributes:
        ledgers: those with rows that are being published now.
    """

    def __init__(self) -> None:
        self.ledgers: set[int] = set()
        self._busy: dict[str, deque[Wait[None]]] = {}

    @asynccontextmanager
    async def turn(
        self, load_id: str, waiting: Callable[[Wait[None]], Awaitable[None]] = _just
    ) -> AsyncIterator[None]:
        """Within the block nobody else is busy with the id.

        Args:
            waiting: awaits; what it raises ends the waiting.
        """
        queue = self._busy.get(load_id)
        if queue is None:
            self._busy[load_id] = deque()
        else:
            wait: Wait[None] = Wait()
            queue.append(wait)
            try:
                await waiting(wait)
            except BaseException:
                if wait in queue:
                    queue.remove(wait)
                else:
                    self._next(load_id)  # it was granted already
                raise
        try:
            yield
        finally:
            self._next(load_id)

    def _next(self, load_id: str) -> None:
        queue = self._busy[load_id]
        if queue:
            queue.popleft().resolve(None)
        else:
            del self._busy[load_id]
