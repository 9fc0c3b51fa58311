"""Who gets which connection: the rules and settings of both kinds of pools. The bottom of ``pool``.

A request gets the idle connection that was used last, or leave to make one while there are fewer than
``max_size``, or its place in line. What comes back, and leave to make what was lost, goes to the first in
line. ``Core`` has no waiting, I/O or clock: ``sync`` and ``herdpy.aio.pool`` call it under their lock, and
do the rest.

    ask -> PoolRequest.held | PoolRequest.may_make | in line        put, lost -> the next in line is woken
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import random
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from herdpy.dbapi.address import DirectoryAddress, ServersAddress, UrlOrPath, address_of, missing, open_link
from herdpy.dbapi.connection import Connection
from herdpy.dbapi.errors import Error, InterfaceError, OperationalError, ProgrammingError
from herdpy.dbapi.link import TransactionStatus
from herdpy.dbapi.types import RowFactory

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


logger = logging.getLogger("herdpy.pool")

CLOSE_PATIENCE_S = 5.0
"""How long ``close()`` waits for connections that are lent, without a time."""
PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
"""Before servers that cannot be reached are tried again: at first, and at most (``Backoff``)."""
FILL_PAUSE_S = 5.0
"""Before ``min_size`` connections are tried again in the background."""
_SHORTEST_CONNECT_S = 0.05


class PoolTimeout(OperationalError):  # noqa: N818 - psycopg's name
    """No connection came back in time (53300)."""


class PoolClosed(InterfaceError):  # noqa: N818 - psycopg's name
    """The pool was closed (08003)."""


@dataclass(frozen=True)
class PoolSettings:
    """Sizes and times of a pool, and how its connections are made.

    Attributes:
        address: what they connect to.
        row_factory: of each of them.
    """

    address: DirectoryAddress | ServersAddress
    row_factory: RowFactory[Any]
    min_size: int
    max_size: int
    timeout_s: float
    max_idle_s: float
    max_lifetime_s: float

    def __post_init__(self) -> None:
        for name in ("min_size", "max_size"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise ProgrammingError(f"{name} is a number of connections, not {value!r}", sqlstate="22023")
        if not 0 <= self.min_size <= self.max_size or self.max_size < 1:
            raise ProgrammingError(
                f"0 <= min_size <= max_size, and 1 <= max_size: not {self.min_size} and {self.max_size}",
                sqlstate="22023",
            )
        for name in ("timeout_s", "max_idle_s", "max_lifetime_s"):
            seconds_of(name, getattr(self, name))

    def core(self) -> Core[Any]:
        """The state of a new pool."""
        return Core(self.min_size, self.max_size, self.max_idle_s, self.max_lifetime_s)

    def connect(self, left_s: float) -> Connection[Any]:
        """A new connection. Servers are looked for no longer than so many seconds."""
        address = self.address
        if isinstance(address, ServersAddress):
            timeout_s = max(_SHORTEST_CONNECT_S, min(address.options.connect_timeout_s, left_s))
            options = dataclasses.replace(address.options, connect_timeout_s=timeout_s)
            address = dataclasses.replace(address, options=options)
        try:
            return Connection(open_link(address), address.name, self.row_factory)
        except ImportError as error:
            raise missing(error) from error

    def patience(self, timeout_s: float | None) -> float:
        """How long to wait for a connection, in seconds."""
        return self.timeout_s if timeout_s is None else seconds_of("timeout_s", timeout_s)

    def may_pass(self, error: Error) -> bool:
        """Whether connecting may go well a little later: no server leads at the moment."""
        return isinstance(self.address, ServersAddress) and (error.sqlstate or "")[:2] == "08"

    def too_late(self, waiting: int) -> PoolTimeout:
        """The error for whom nothing came back in time."""
        return PoolTimeout(
            f"no connection came back in time: all {self.max_size} are used",
            sqlstate="53300",
            detail=f"{waiting} more are waiting for one." if waiting else None,
            hint="Hold connections for less long, or make the pool larger (max_size).",
        )


def pool_address(url: UrlOrPath, options: Mapping[str, Any]) -> DirectoryAddress | ServersAddress:
    """What the connections of a pool connect to. InterfaceError as from ``herdpy.connect``."""
    try:
        return address_of(url, options)
    except ImportError as error:
        raise missing(error) from error


def seconds_of(name: str, value: object) -> float:
    """A time that was given, in seconds; infinity is allowed."""
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value) or value < 0:
        raise ProgrammingError(f"{name} is a number of seconds, not {value!r}", sqlstate="22023")
    return float(value)


def closed_error() -> PoolClosed:
    """The error of a pool that was closed."""
    return PoolClosed("the pool is closed", sqlstate="08003")


def forked_error() -> InterfaceError:
    """The error of a pool in a child of the process that made it."""
    return InterfaceError(
        "the pool was made before a fork, in the parent process: make one here", sqlstate="08003"
    )


def foreign_error() -> ProgrammingError:
    """The error for a connection that is not lent by a pool."""
    return ProgrammingError("the connection is not one that this pool has lent", sqlstate="55000")


def left_open_error(who: str) -> ProgrammingError:
    """The error for a function of the pool's user that left a transaction open."""
    return ProgrammingError(f"{who} left the connection in a transaction", sqlstate="25001")


def is_open(status: TransactionStatus) -> bool:
    """Whether a connection that comes back is in a transaction."""
    return status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)


class PoolEnd(Generic[C]):
    """The half of a pool that neither lends nor waits.

    It is for the process that made it: in a child of that one it must not be used, and its end does nothing.
    """

    _SHOWN_AS: ClassVar[str]
    _core: Core[C]
    _pid: int

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._core.is_closed

    def __repr__(self) -> str:
        core = self._core
        state = "closed" if self.closed else f"{core.lent} of {core.size} lent, at most {core.max_size}"
        return f"<{self._SHOWN_AS} [{state}] at {id(self):#x}>"

    def __del__(self, _warn: Any = warnings.warn) -> None:
        core = getattr(self, "_core", None)
        if core is None or core.is_closed or self._is_forked:
            return
        shown = repr(self)
        core.is_closed = True
        self._abandon([held.connection for held in core.idle])
        if core.size:
            _warn(f"{shown} was deleted without being closed", ResourceWarning)

    def _abandon(self, idle: list[C]) -> None:
        """The pool is being collected, wherever that is: have these closed, without waiting."""
        raise NotImplementedError

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._pid

    def _refuse_fork(self) -> None:
        if self._is_forked:
            raise forked_error()

    def _refuse_closed(self) -> None:
        if self.closed:
            raise closed_error()

    def _warn_of(self, still: int) -> None:
        """A block has ended, and closed the pool, while so many connections are lent."""
        if still:
            logger.warning("%r was closed, but for %d connections that are still used", self, still)
