"""Things that are kept for a caller for a time, and no longer unless he asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from herdpy_server.service.calls import not_there

DEFAULT_S = 600.0
LEAST_S = 0.1


class Leased(Protocol):
    """What can be kept.

    Attributes:
        id: a name that nobody can guess.
        expires_s: when its lease is over, on the loop's clock.
        users: how many calls use it now; while there are some it is not dropped.
    """

    id: str
    expires_s: float
    users: int


T = TypeVar("T", bound=Leased)


class Leases(Generic[T]):
    """What is kept, by name. For the loop's thread.

    Args:
        what: what to call it in errors.
        longest_s: the longest lease that is given.
        drop: called with what is over, once.
    """

    def __init__(self, what: str, longest_s: float, drop: Callable[[T], object]) -> None:
        self._what = what
        self._longest_s = longest_s
        self._drop = drop
        self._kept: dict[str, T] = {}
        self._released: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._kept.values()))

    def until(self, lease_s: float) -> float:
        """When a lease of so long from now is over; 0 or nonsense stands for the usual length."""
        wanted = lease_s if lease_s > 0 else DEFAULT_S
        return self._loop.time() + min(max(wanted, LEAST_S), self._longest_s)

    def remaining_s(self, one: T) -> float:
        """What is left of a lease."""
        return round(max(0.0, one.expires_s - self._loop.time()), 3)

    def add(self, one: T) -> None:
        """Keep something."""
        self._kept[one.id] = one
        self._look_later()

    def get(self, name: str) -> T:
        """What is kept under a name; SqlError 42704 when there is nothing, or not any more."""
        one = self._kept.get(name)
        if one is None or name in self._released or self._is_over(one):
            raise not_there(self._what)
        return one

    def renew(self, name: str, lease_s: float) -> T:
        """Keep something for longer; errors as :meth:`get`."""
        one = self.get(name)
        one.expires_s = self.until(lease_s)
        self._look_later()
        return one

    def release(self, name: str) -> None:
        """Drop something, as soon as nobody uses it; no error when it is not there."""
        if name in self._kept:
            self._released.add(name)
            self._look()

    def left(self, one: T) -> None:
        """A call does not use it any more."""
        one.users -= 1
        if not one.users:
            self._look()

    def clear(self) -> list[T]:
        """Keep nothing any more; nothing is dropped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        kept, self._kept = list(self._kept.values()), {}
        return kept

    def _is_over(self, one: T) -> bool:
        return not one.users and one.expires_s <= self._loop.time()

    def _look(self) -> None:
        for one in self:
            if not one.users and (one.id in self._released or self._is_over(one)):
                del self._kept[one.id]
                self._released.discard(one.id)
                self._drop(one)
        self._look_later()

    def _look_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        soonest = min((one.expires_s for one in self._kept.values() if not one.users), default=None)
        if soonest is not None:
            self._timer = self._loop.call_at(soonest, self._look)


async def finished(work: asyncio.Future[Any], give_up: Callable[[], object] = lambda: None) -> Any:
    """The result of a thread's work. A call that is cancelled waits for it: it uses what the call holds.

    Args:
        give_up: called then, so that there is not long to wait.
    """
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        give_up()
        await asyncio.wait({work})
        if not work.cancelled():
            work.exception()  # seen: the call has ended for another reason
        raise
