"""Making appends wait: the bound on what a writer holds in memory.

Between the writer's callers and the pipeline. A writer faster than its bookies waits here, first come, first
served; the pipeline calls ``wake`` after each answer while somebody waits, and so does a slow bookie when it
has caught up.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from herdpy.bookkeeper.write.pipeline import Pipeline

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie.handle import Bookie


class Room:
    """Who waits for room in a pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._asked: set[Bookie] = set()
        self._closed = False
        pipeline.wake = self.wake

    async def wait(self) -> None:
        """Return when there is room, after all who came before; also when the writer has ended.

        Nothing is reserved: append before the loop goes on.
        """
        if not self._waiters and self._is_free():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        self._listen()
        try:
            await turn
            while not self._is_free():
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
        elif waiters and not waiters[0].done():
            if self._pipeline.has_room():
                waiters[0].set_result(None)
            elif not self._pipeline.pending:
                # No answer to this ledger's entries may be left to come.
                self._listen()
        self._pipeline.waiting = bool(waiters)

    def close(self) -> None:
        """Let everybody go: the writer takes nothing more."""
        self._closed = True
        self.wake()

    def _is_over(self) -> bool:
        return self._closed or self._pipeline.failure is not None

    def _is_free(self) -> bool:
        return self._is_over() or self._pipeline.has_room()

    def _listen(self) -> None:
        """See to it that ``wake`` is called when there may be room."""
        pipeline = self._pipeline
        pipeline.waiting = True
        most_bytes, most_entries = pipeline.max_bookie_bytes - 1, pipeline.max_bookie_entries - 1
        for bookie in pipeline.bookies:
            # What it owes to other ledgers counts, too, and their writers tell this one nothing.
            is_full = bookie.pending_bytes > most_bytes or len(bookie.unanswered) > most_entries
            if is_full and bookie not in self._asked:
                self._asked.add(bookie)
                bookie.when_room(most_bytes, most_entries, partial(self._bookie_has_room, bookie))

    def _bookie_has_room(self, bookie: Bookie) -> None:
        self._asked.discard(bookie)
        self.wake()
