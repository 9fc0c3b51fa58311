"""The connections that are lent, without keeping them alive. Beside ``core``.

A connection that its user forgets is collected, and closes itself; its place in the pool must not be lost.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from herdpy.pool.core import Held

C = TypeVar("C")


class Lent(Generic[C]):
    """Which connections are lent. Under the pool's lock.

    Args:
        nudge: called when one was collected; anywhere, in any thread, so it must not wait.
    """

    def __init__(self, nudge: Callable[[], None]) -> None:
        self._nudge = nudge
        self._out: dict[int, tuple[weakref.ref[C], Held[None]]] = {}
        self._collected: deque[int] = deque()

    def __contains__(self, connection: object) -> bool:
        entry = self._out.get(id(connection))
        return entry is not None and entry[0]() is connection

    def add(self, held: Held[C]) -> None:
        """One is lent."""
        number = id(held.connection)
        left: Held[None] = Held(None, held.expires_at)
        self._out[number] = (
            weakref.ref(held.connection, _Collected(number, self._collected, self._nudge)),
            left,
        )

    def remove(self, connection: C) -> Held[C]:
        """One is lent no longer; KeyError when it was not."""
        _, left = self._out.pop(id(connection))
        return Held(connection, left.expires_at, is_new=False)

    def forgotten(self) -> int:
        """How many were collected since this was asked for. To be asked before one is added."""
        count = 0
        while self._collected:
            count += self._out.pop(self._collected.popleft(), None) is not None
        return count


class _Collected:
    """Is called when a connection is collected, before another can be in its place."""

    __slots__ = ("_collected", "_nudge", "_number")

    def __init__(self, number: int, collected: deque[int], nudge: Callable[[], None]) -> None:
        self._number = number
        self._collected = collected
        self._nudge = nudge

    def __call__(self, _: object) -> None:
        self._collected.append(self._number)
        self._nudge()
