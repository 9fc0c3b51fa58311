"""The thread that looks after a pool now and then. Beside ``sync``, which it does not keep alive."""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue

Tend = Callable[[], float | None]
"""Looks after the pool; in how many seconds to look again (infinity: when told to), None for never."""


class PoolKeeper:
    """A thread that calls a method of the pool, when it is time or when it is told to.

    Attributes:
        nudge: have it look now; may be called anywhere, also while an object is collected.
    """

    def __init__(self, tend: weakref.WeakMethod[Tend]) -> None:
        nudges: SimpleQueue[None] = SimpleQueue()
        self.nudge: Callable[[], None] = lambda: nudges.put(None)
        self._thread = threading.Thread(target=_keep, args=(tend, nudges), name="herdpy-pool", daemon=True)

    def start(self) -> None:
        """Begin, with a look at once."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Wait for its end, which the pool has in store when it is looked at next."""
        self.nudge()
        if self._thread is not threading.current_thread() and self._thread.ident is not None:
            self._thread.join(timeout_s)


def _keep(tend: weakref.WeakMethod[Tend], nudges: SimpleQueue[None]) -> None:
    while True:
        method = tend()
        pause_s = None if method is None else method()
        del method
        if pause_s is None:
            return
        with contextlib.suppress(Empty):
            nudges.get(timeout=None if math.isinf(pause_s) else max(pause_s, 0.001))
