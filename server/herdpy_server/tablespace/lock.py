"""One lock: who holds it, in which modes, and who waits for it. Below ``locks``, which has all of them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from herdpy.log.wait import Wait
from herdpy_sql.errors import SqlError
from herdpy_sql.lock_modes import CONFLICTS


class Owner(Protocol):
    """What locks need to know of a transaction, or of a session with locks of its own."""

    instant: bool

    @property
    def partner(self) -> Owner | None:
        """Who waits and goes on with it: see ``locks.would_deadlock``."""

    @property
    def lock_timeout_s(self) -> float | None:
        """How long a lock is waited for; None for ever."""


class LockWait(Wait[None]):
    """Granted when the lock is the waiter's; fails with 55P03 when its time-out passes first.

    Who waits must call :meth:`LockTable.forget` in the engine's turn when it fails.
    """

    __slots__ = ("timeout_s",)

    def __init__(self, timeout_s: float | None) -> None:
        super().__init__()
        self.timeout_s = timeout_s

    def block(self, timeout_s: float | None = None) -> bool:
        if timeout_s is not None or self.timeout_s is None:
            return super().block(timeout_s)
        if not super().block(self.timeout_s):
            self.expire()
        return True

    def add_done_callback(self, callback: Callable[[Any], object], *, context: Any = None) -> None:
        super().add_done_callback(callback, context=context)
        if self.timeout_s is not None and not self.done():
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self.timeout_s, self.expire)
            super().add_done_callback(lambda _wait: timer.cancel())

    def expire(self) -> None:
        """The time-out has passed: whoever keeps the time calls this."""
        self.fail(SqlError("55P03", "canceling statement due to lock timeout"))


Queued = tuple[Owner, LockWait, int]
"""Who waits, for what, and in which mode."""


class Lock:
    """One held lock, with the mask of modes of each holder, and those who wait for it."""

    __slots__ = ("holders", "queue")

    def __init__(self, owner: Owner, mask: int) -> None:
        self.holders = {owner: mask}
        self.queue: deque[Queued] | tuple[()] = ()  # a queue of its own once somebody waits

    def join(self, queued: Queued) -> None:
        """Somebody waits: behind all others, or, who has the lock already in a weaker mode, before them."""
        if isinstance(self.queue, tuple):
            self.queue = deque()
        at = len(self.queue)
        if queued[0] in self.holders:
            at = sum(1 for other, _wait, _mode in self.queue if other in self.holders)
        self.queue.insert(at, queued)

    def admits(self, owner: Owner, mode: int) -> bool:
        """Whether no other holder excludes it."""
        excluded = CONFLICTS[mode]
        holders = self.holders
        return not any(mask & excluded and holder is not owner for holder, mask in holders.items())
