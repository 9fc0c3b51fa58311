"""What was asked of a bookie and is not answered yet, and when it is out of time.

Plain data of the handle: it owns one `PendingRequests` through all connections, puts requests in when they
are made and takes them out when they are answered, out of time, or lost with their connection. One timer
(Deadlines) serves all of it: the handle reports when a request was made and when something was heard. It
reports what ran out of time, and a connection that was silent for so long that it should be given up.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from herdpy.bookkeeper.bookie.metrics import BookieMetrics
from herdpy.bookkeeper.wire.protocol import Operation

MAX_ABANDONED = 10_000
"""Requests given up whose late replies are still recognised as such."""


class AnsweringBookie(Protocol):
    """A bookie as those see it who end requests, or receive its answers. See `Bookie` for the attributes."""

    pending_bytes: int
    unsettled: dict[Settling, None] | None

    @property
    def id(self) -> str:
        """The bookie's id, as ensembles name it."""

    @property
    def metrics(self) -> BookieMetrics:
        """What is counted of it."""


class AddReceiver(Protocol):
    """Who sent an add. The same object may be sent to many bookies.

    `deadline_s`: the time of the loop's clock by which it wants an answer, `request_timeout_s` after it was
    sent; `size_bytes`: what it counts for in `Bookie.pending_bytes`, and must not change.
    """

    @property
    def deadline_s(self) -> float:
        """When to give up."""

    @property
    def size_bytes(self) -> int:
        """Bytes held while it is unanswered."""

    def on_add_reply(self, bookie: AnsweringBookie, status: int) -> None:
        """Called once for each `send_add`: a status of the protocol, TIMED_OUT or UNAVAILABLE."""


class Settling(Protocol):
    """What several receivers share; called once all replies of one read from the socket are delivered."""

    def settle(self) -> None:
        """Act on what the receivers took note of."""


class ReplySink(Protocol):
    """Who waits for a reply: a future, or what takes replies as one would, without a task behind it."""

    def done(self) -> bool:
        """Whether nobody waits any more; then it is not called."""

    def set_result(self, reply: object, /) -> None:
        """The reply's body; the operation says of which class."""

    def set_exception(self, error: BaseException, /) -> None:
        """Why there is none."""


@dataclass(slots=True, eq=False)
class Awaited:
    """A request whose caller waits for the reply."""

    operation: Operation
    sink: ReplySink
    sent_s: float
    deadline_s: float
    ledger_id: int | None
    entry_id: int | None


class AwaitedEntry:
    """A read of one entry that is its own sink, for readers, which have thousands of them under way.

    It gets the body where it lies in the frame, still sealed; everything else comes as to any `ReplySink`.
    """

    __slots__ = ("deadline_s", "entry_id", "ledger_id", "sent_s")

    operation: Final = Operation.READ_ENTRY
    sent_s: float
    deadline_s: float

    def __init__(self, ledger_id: int, entry_id: int) -> None:
        self.ledger_id = ledger_id
        self.entry_id = entry_id

    @property
    def sink(self) -> ReplySink:
        """Itself."""
        return self

    def entry_arrived(self, frame: bytes, start: int, end: int) -> None:
        """The sealed body of the entry, unchecked."""
        raise NotImplementedError

    def done(self) -> bool:
        """As of a ReplySink."""
        raise NotImplementedError

    def set_result(self, reply: object, /) -> None:
        """As of a ReplySink."""
        raise NotImplementedError

    def set_exception(self, error: BaseException, /) -> None:
        """As of a ReplySink."""
        raise NotImplementedError


class PendingRequests:
    """Unanswered requests by transaction id, in the order in which they were made.

    `adds` has (receiver, when sent); the hot path works on it directly.
    """

    __slots__ = ("_abandoned", "adds", "awaited")

    def __init__(self) -> None:
        self.adds: dict[int, tuple[AddReceiver, float]] = {}
        self.awaited: dict[int, Awaited | AwaitedEntry] = {}
        self._abandoned: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self.adds) + len(self.awaited)

    def abandon(self, txn: int) -> None:
        """Remember that nobody waits for this reply any more (the latest MAX_ABANDONED are)."""
        self._abandoned[txn] = None
        if len(self._abandoned) > MAX_ABANDONED:
            del self._abandoned[next(iter(self._abandoned))]

    def was_abandoned(self, txn: int) -> bool:
        """Whether this reply is merely late. Asked once for each."""
        if txn not in self._abandoned:
            return False
        del self._abandoned[txn]
        return True

    def take_expired(
        self, now_s: float
    ) -> tuple[list[tuple[AddReceiver, float]], list[Awaited | AwaitedEntry]]:
        """Take out, and abandon, what is past its deadline."""
        add_txns = [txn for txn, (receiver, _) in self.adds.items() if receiver.deadline_s <= now_s]
        awaited_txns = [txn for txn, one in self.awaited.items() if one.deadline_s <= now_s]
        expired = (
            [self.adds.pop(txn) for txn in add_txns],
            [self.awaited.pop(txn) for txn in awaited_txns],
        )
        for txn in (*add_txns, *awaited_txns):
            self.abandon(txn)
        return expired

    def next_deadline_s(self) -> float | None:
        """The earliest deadline; None when nothing is pending."""
        return min(self._deadlines(), default=None)

    def oldest_due_s(self, timeout_s: float) -> float:
        """When the answer to the oldest request could have come: what a bookie may hold counts from later on.
        Infinity when nothing is pending.

        Args:
            timeout_s: how long a request has that a bookie does not hold.
        """
        adds = (sent_s for _, sent_s in self.adds.values())
        awaited = (max(one.sent_s, one.deadline_s - timeout_s) for one in self.awaited.values())
        return min(next(adds, math.inf), min(awaited, default=math.inf))

    def take_all(self) -> tuple[list[tuple[AddReceiver, float]], list[Awaited | AwaitedEntry]]:
        """Take out everything; its replies will never come, for their connection is gone."""
        everything = (list(self.adds.values()), list(self.awaited.values()))
        self.adds.clear()
        self.awaited.clear()
        self._abandoned.clear()
        return everything

    def _deadlines(self) -> Iterator[float]:
        for receiver, _ in self.adds.values():
            yield receiver.deadline_s
        for one in self.awaited.values():
            yield one.deadline_s


# Time-outs.

SILENT_TIMEOUTS = 2
"""A connection on which nothing at all came for so many time-outs, while requests waited, is given up."""

_SWEEPS_PER_TIMEOUT = 100
"""The timer goes off at most so often in one time-out, however many deadlines there are."""

_LATE = 0.1
"""A timer that goes off so much of a time-out too late says that this process did not run meanwhile."""


class Deadlines:
    """The timer of one bookie's requests.

    It says nothing of a bookie that this process did not run, because it was stopped or had no turn: answers
    may lie unread, or requests unsent. A timer that goes off late goes off once more, as much later as it was
    late, a time-out at most, before anything is out of time.

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
        self._was_late = False
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
        now_s = self._clock()
        late_s = now_s - self.goes_off_s
        self._timer = None
        self.goes_off_s = math.inf
        self._was_late = not self._was_late and late_s > _LATE * self._timeout_s
        if self._was_late:
            self.arm(now_s, now_s + min(late_s, self._timeout_s))
            return
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
