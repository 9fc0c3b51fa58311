"""What the threads of a worker share: its places, the groups that were woken, and whether it stops. Layer 3.

listener, upkeep: wake ─┐
finisher: release ───────┼─> wait_for_work -> the claim loop -> hold
signals: stop ──────────┘
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from herdpy_broker.handlers import Attempt


class WorkerState:
    """A worker's attempts, at most ``capacity``, and what its claim loop waits for."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._changed = threading.Condition()
        self._held: dict[int, Attempt] = {}
        self._woken: set[str] = set()
        self._is_nudged = False
        self._must_look = False
        self._is_listening = False
        self._limited: frozenset[str] = frozenset()
        self._is_stopping = False
        self._in_haste = False

    @property
    def free(self) -> int:
        """How many more attempts the worker may have."""
        return self._capacity - len(self._held)

    @property
    def is_stopping(self) -> bool:
        """The worker takes no more tasks."""
        return self._is_stopping

    def held(self) -> frozenset[int]:
        """The ids of the tasks that the worker holds."""
        with self._changed:
            return frozenset(self._held)

    def hold(self, attempt: Attempt) -> None:
        """An attempt begins: it takes a place."""
        with self._changed:
            self._held[attempt.task.id] = attempt

    def release(self, attempt: Attempt) -> None:
        """An attempt is over: its place is free."""
        with self._changed:
            if self._held.get(attempt.task.id) is attempt:
                del self._held[attempt.task.id]
            if attempt.task.group in self._limited:  # nobody notifies that its next task may run
                self._woken.add(attempt.task.group)
            self._changed.notify_all()

    def wake(self, groups: Iterable[str]) -> None:
        """Groups may have work."""
        with self._changed:
            self._woken.update(groups)
            self._changed.notify_all()

    def nudge(self) -> None:
        """Have the claim loop go on: what it may do has changed."""
        with self._changed:
            self._is_nudged = True
            self._changed.notify_all()

    def look(self) -> None:
        """Have the claim loop look for work: notifications may have been missed."""
        with self._changed:
            self._must_look = self._is_nudged = True
            self._changed.notify_all()

    def takes_look(self) -> bool:
        """Whether the claim loop must look for work; it must not any more then."""
        with self._changed:
            must_look, self._must_look = self._must_look, False
            return must_look

    @property
    def is_listening(self) -> bool:
        """Notifications come, so that the claim loop need not look often."""
        return self._is_listening

    def set_listening(self, is_listening: bool) -> None:
        """Note whether notifications come. What was committed before that must be looked for."""
        self._is_listening = is_listening
        self.look()

    def set_limited(self, groups: frozenset[str]) -> None:
        """Note the groups with ``max_running``: the end of a task is what another one of them waits for."""
        self._limited = groups

    def stop(self, *, at_once: bool = False) -> None:
        """Take no more tasks; ``at_once``: do not wait for those that run."""
        with self._changed:
            self._is_stopping = True
            self._in_haste |= at_once
            self._changed.notify_all()

    def wait_for_work(self, timeout_s: float) -> frozenset[str] | None:
        """Wait until a place is free, and a group was woken, or the loop nudged, or ``timeout_s`` is over.

        Returns:
            The groups that were woken; None when the worker stops.
        """
        until = time.monotonic() + timeout_s
        with self._changed:
            while not self._is_stopping:
                left_s = until - time.monotonic()
                if self.free > 0 and (self._woken or self._is_nudged or left_s <= 0):
                    woken = frozenset(self._woken)
                    self._woken.clear()
                    self._is_nudged = False
                    return woken
                self._changed.wait(left_s if self.free > 0 else None)
            return None

    def wait_until_idle(self, timeout_s: float) -> bool:
        """Whether all attempts were over within ``timeout_s``, and nobody was in haste."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held or self._in_haste, timeout_s)
            return not self._held
