"""Making appends wait: the bound on what a writer holds in memory.

Between the writer's callers and the pipeline. A writer faster than its bookies waits here, first come, first
served; the pipeline calls ``wake`` after each answer while somebody waits. An answer to another ledger
makes room at a shared bookie, too, but nobody tells of it, hence a timer.
"""

from __future__ import annotations

import asyncio
from collections import deque

from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.write.pipeline import Pipeline

RECHECK_S = 0.02
"""How often those who wait look again by themselves."""


class Room:
    """Who waits for room in a pipeline."""

    def __init__(self, pipeline: Pipeline, settings: ClientSettings) -> None:
        self._pipeline = pipeline
        self._limits = (
            settings.max_in_flight_bytes,
            settings.max_in_flight_entries,
            settings.max_bookie_pending_bytes,
        )
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        pipeline.wake = self.wake

    def has(self, size_bytes: int) -> bool:
        """Whether an entry of this size may be appended now, those who wait apart."""
        return self._pipeline.has_room(size_bytes, *self._limits)

    async def wait(self, size_bytes: int) -> None:
        """Return when there is room, after all who came before; also when the writer has ended.

        Nothing is reserved: append before the loop goes on.
        """
        if not self._waiters and self._is_free(size_bytes):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        self._listen()
        try:
            await turn
            while not self._is_free(size_bytes):
                turn = self._waiters[0] = asyncio.get_running_loop().create_future()
                self._listen()
                await turn
        finally:
            # The next one looks for itself, after this one has appended.
            self._waiters.remove(turn)
            self.wake()

    def wake(self) -> None:
        """Let the first one look whether there is room now; all of them when the writer has ended."""
        waiters = self._waiters
        if self._is_over():
            for turn in waiters:
                if not turn.done():
                    turn.set_result(None)
        elif waiters and not waiters[0].done() and self.has(0):
            waiters[0].set_result(None)
        if not waiters:
            self._pipeline.waiting = False
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def close(self) -> None:
        """Let everybody go: the writer takes nothing more."""
        self._closed = True
        self.wake()

    def _is_over(self) -> bool:
        return self._closed or self._pipeline.failure is not None

    def _is_free(self, size_bytes: int) -> bool:
        return self._is_over() or self.has(size_bytes)

    def _listen(self) -> None:
        self._pipeline.waiting = True
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(RECHECK_S, self._recheck)

    def _recheck(self) -> None:
        self._timer = None
        self.wake()
        if self._waiters:
            self._listen()
