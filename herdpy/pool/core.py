"""Who gets which connection: the rules of a pool, without waiting, I/O or a clock. The bottom of ``pool``.

Whoever wants a connection asks. He gets the idle one that was used last, or leave to make one while there
are fewer than ``max_size``, or his place in line. What comes back, and leave to make what was lost, goes to
the first in line. ``sync`` and ``herdpy.aio.pool`` call this under their lock, and do the rest.

    ask -> PoolRequest.held | PoolRequest.may_make | in line        put, lost -> the next in line is woken
"""

from __future__ import annotations

import math
import random
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

C = TypeVar("C")

_LIFETIME_SPREAD = 0.1
"""Lifetimes are shorter by up to this share, so that not all connections end at the same time."""


@dataclass(frozen=True, slots=True)
class PoolStats:
    """What a pool has and what it has done since it was made.

    Attributes:
        size: connections that it has: idle, lent and being made.
        idle: those that are there to be lent.
        lent: those that are used.
        waiting: who is in line now.
        asked: how often a connection was asked for.
        waited: how often for longer than no time, because all were used.
        waited_s: how many seconds in all.
        timeouts: how often in vain, because the time was up or the one who asked was cancelled.
        made: connections that were made.
        failed: attempts to make one that failed.
        broken: connections that were given up because they did not work, or were closed by their users.
        expired: connections that were given up for their age, or for not being used.
        rolled_back: connections that came back within a transaction.
    """

    size: int
    idle: int
    lent: int
    waiting: int
    asked: int
    waited: int
    waited_s: float
    timeouts: int
    made: int
    failed: int
    broken: int
    expired: int
    rolled_back: int


@dataclass(slots=True, eq=False)
class Held(Generic[C]):
    """A connection of the pool. Times are on the caller's clock, in seconds.

    Attributes:
        is_new: it was made for who gets it, and used by nobody before.
    """

    connection: C
    expires_at: float
    idle_since: float = 0.0
    is_new: bool = True


@dataclass(slots=True, eq=False)
class PoolRequest(Generic[C]):
    """Somebody who wants a connection.

    Attributes:
        wake: tells him that one of the others has changed.
        held: the connection that he got.
        may_make: he is to make one, and to say ``made`` or ``lost``.
        is_refused: he gets none: the pool was closed, or he has left the line.
    """

    wake: Callable[[], None]
    since: float
    held: Held[C] | None = None
    may_make: bool = False
    is_refused: bool = False

    @property
    def is_in_line(self) -> bool:
        """Whether nothing has been decided yet."""
        return not (self.held or self.may_make or self.is_refused)


@dataclass(slots=True)
class Counts:
    """See PoolStats."""

    asked: int = 0
    waited: int = 0
    waited_s: float = 0.0
    timeouts: int = 0
    made: int = 0
    failed: int = 0
    broken: int = 0
    expired: int = 0
    rolled_back: int = 0


@dataclass(slots=True)
class Core(Generic[C]):
    """The state of a pool.

    Attributes:
        size: connections that there are or that are being made.
        lent: those of them that are used.
        is_closed: nobody gets one any more.
    """

    min_size: int
    max_size: int
    max_idle_s: float
    max_lifetime_s: float
    size: int = 0
    lent: int = 0
    is_closed: bool = False
    idle: deque[Held[C]] = field(default_factory=deque)  # that which was used last is at the end
    line: deque[PoolRequest[C]] = field(default_factory=deque)
    counts: Counts = field(default_factory=Counts)

    # Asking.

    def ask(self, now: float, wake: Callable[[], None]) -> PoolRequest[C]:
        """Ask for a connection."""
        ask: PoolRequest[C] = PoolRequest(wake, now)
        self.counts.asked += 1
        if self.is_closed:
            ask.is_refused = True
        elif self.idle:
            ask.held = self.idle.pop()
            self.lent += 1
        elif self.size < self.max_size:
            ask.may_make = True
            self.size += 1
        else:
            self.counts.waited += 1
            self.line.append(ask)
        return ask

    def leave(self, ask: PoolRequest[C], now: float) -> bool:
        """Wait no longer. False when something was decided meanwhile, which must be used or given back."""
        if not ask.is_in_line:
            return False
        self.line.remove(ask)
        ask.is_refused = True
        self.counts.timeouts += 1
        self.counts.waited_s += now - ask.since
        return True

    # What becomes of connections.

    def made(self, connection: C, now: float) -> Held[C]:
        """One that there was leave for was made. It is lent, or else :meth:`put`."""
        self.counts.made += 1
        self.lent += 1
        spread = 1.0 - _LIFETIME_SPREAD * random.random()
        return Held(connection, now + self.max_lifetime_s * spread)

    def put(self, held: Held[C], now: float) -> bool:
        """One that was lent has come back, and works. False: it is to be closed, and ``lost`` called."""
        if self.is_closed or now >= held.expires_at:
            if not self.is_closed:
                self.counts.expired += 1
            return False
        held.is_new = False
        if (first := self._first(now)) is not None:
            first.held = held
            first.wake()
        else:
            self.lent -= 1
            held.idle_since = now
            self.idle.append(held)
        return True

    def lost(self, now: float, *, lent: bool) -> None:
        """One is no more, or could not be made: the next in line makes another."""
        self.size -= 1
        self.lent -= lent
        if not self.is_closed and self.size < self.max_size and (first := self._first(now)) is not None:
            self.size += 1
            first.may_make = True
            first.wake()

    def settle(self, forgotten: int, now: float) -> None:
        """So many were collected while they were lent."""
        for _ in range(forgotten):
            self.counts.broken += 1
            self.lost(now, lent=True)

    def _first(self, now: float) -> PoolRequest[C] | None:
        if not self.line:
            return None
        first = self.line.popleft()
        self.counts.waited_s += now - first.since
        return first

    # Looking after them.

    def expired(self, now: float) -> list[Held[C]]:
        """The idle ones to be closed by now, which are no longer the pool's."""
        gone: list[Held[C]] = []
        kept: deque[Held[C]] = deque()
        for held in self.idle:  # those at the front have been idle for longest
            spare = self.size - len(gone) > self.min_size
            if now >= held.expires_at or (spare and now >= held.idle_since + self.max_idle_s):
                gone.append(held)
            else:
                kept.append(held)
        self.idle = kept
        self.size -= len(gone)
        self.counts.expired += len(gone)
        return gone

    def may_fill(self) -> bool:
        """Whether there are fewer than there should be; if so, there is leave to make one."""
        if self.is_closed or self.size >= self.min_size:
            return False
        self.size += 1
        return True

    def next_look(self) -> float:
        """When an idle one expires next; infinity when none does."""
        spare = self.size > self.min_size
        return min(
            (
                min(held.expires_at, held.idle_since + self.max_idle_s if spare else math.inf)
                for held in self.idle
            ),
            default=math.inf,
        )

    def close(self) -> list[Held[C]]:
        """Lend no more; the idle ones, to be closed."""
        self.is_closed = True
        for ask in self.line:
            ask.is_refused = True
            ask.wake()
        self.line.clear()
        idle = list(self.idle)
        self.idle.clear()
        self.size -= len(idle)
        return idle

    def stats(self) -> PoolStats:
        """What there is, and what was done."""
        counts = self.counts
        return PoolStats(
            size=self.size,
            idle=len(self.idle),
            lent=self.lent,
            waiting=len(self.line),
            **{name: getattr(counts, name) for name in Counts.__slots__},
        )


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
