"""How late the event loop comes: a tick that should come every so often, and how far it was off."""

from __future__ import annotations

import asyncio

_TICK_S = 0.5


class LoopDelay:
    """Measures one loop, from :meth:`start` to :meth:`stop`."""

    def __init__(self) -> None:
        self._worst_s = 0.0
        self._due = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop

    def start(self) -> None:
        """Begin, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._next()

    def stop(self) -> None:
        """End; a second call does nothing."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def take(self) -> float:
        """The longest delay since the last call, in seconds."""
        worst, self._worst_s = self._worst_s, 0.0
        return worst

    def _next(self) -> None:
        self._due = self._loop.time() + _TICK_S
        self._handle = self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._worst_s = max(self._worst_s, self._loop.time() - self._due)
        self._next()
