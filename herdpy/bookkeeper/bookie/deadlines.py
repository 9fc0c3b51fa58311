"""Time-outs of what is pending at one bookie, with one timer for all of it.

Beside the handle: it says when a request was made and when something was heard; it is told what ran out of
time, and when the connection has been silent for so long that it should be given up.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from herdpy.bookkeeper.bookie.pending import AddReceiver, Awaited, AwaitedEntry, PendingRequests

SILENT_TIMEOUTS = 2
"""A connection on which nothing at all came for so many time-outs, while requests waited, is given up."""

_SWEEPS_PER_TIMEOUT = 100
"""The timer goes off at most so often in one time-out, however many deadlines there are."""


class Deadlines:
    """The timer of one bookie's requests.

    `goes_off_s`: when the timer does, infinity while there is none. `heard_s` is set by the owner whenever
    something arrived. `expired(adds, awaited)` is called with what was taken out of `pending`; then
    `silent()`, if nothing was heard for SILENT_TIMEOUTS times `timeout_s`.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        pending: PendingRequests,
        timeout_s: float,
        expired: Callable[[list[tuple[AddReceiver, float]], list[Awaited | AwaitedEntry]], None],
        silent: Callable[[], None],
    ) -> None:
        self.heard_s = clock()
        self._clock = clock
        self._pending = pending
        self._timeout_s = timeout_s
        self._expired = expired
        self._silent = silent
        self._silent_since_s: float | None = None
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.goes_off_s = math.inf

    def arm(self, now_s: float, deadline_s: float | None = None) -> None:
        """See to it that the timer goes off by `deadline_s`, by default a time-out from now."""
        if deadline_s is None:
            if self._timer is not None:
                return
            deadline_s = now_s + self._timeout_s
        if self._timer is not None:
            if self.goes_off_s <= deadline_s:
                return
            self._timer.cancel()
        self.goes_off_s = deadline_s
        self._timer = self._loop.call_later(max(0.0, deadline_s - now_s), self._sweep)

    def connected(self, now_s: float) -> None:
        """A new connection: what was silent was another one."""
        self.heard_s = now_s
        self._silent_since_s = None

    def stop(self) -> None:
        """No more time-outs."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.goes_off_s = math.inf

    def _sweep(self) -> None:
        self._timer = None
        self.goes_off_s = math.inf
        now_s = self._clock()
        adds, awaited = self._pending.take_expired(now_s)
        if adds or awaited:
            oldest_s = min([sent_s for _, sent_s in adds] + [one.sent_s for one in awaited])
            if self.heard_s > oldest_s:
                self._silent_since_s = None
            elif self._silent_since_s is None or self.heard_s > self._silent_since_s:
                self._silent_since_s = oldest_s
            self._expired(adds, awaited)
            since_s = self._silent_since_s
            if since_s is not None and now_s - since_s >= SILENT_TIMEOUTS * self._timeout_s:
                self._silent_since_s = None
                self._silent()
        next_s = self._pending.next_deadline_s()
        if next_s is not None:
            self.arm(now_s, max(next_s, now_s + self._timeout_s / _SWEEPS_PER_TIMEOUT))
