"""What was asked of a bookie and is not answered yet.

Plain data of the handle: it owns one `PendingRequests` through all connections, puts requests in when they
are made and takes them out when they are answered, out of time, or lost with their connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from herdpy.bookkeeper.bookie.metrics import BookieMetrics
from herdpy.bookkeeper.wire.status import Operation

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
        """Told once for each `send_add`: a status of the protocol, TIMED_OUT or UNAVAILABLE."""


class Settling(Protocol):
    """What several receivers have in common, told once when all of one read from the socket were told."""

    def settle(self) -> None:
        """Act on what the receivers took note of."""


class ReplySink(Protocol):
    """Who waits for a reply: a future, or what takes replies as one would, without a task behind it."""

    def done(self) -> bool:
        """Whether nobody waits any more; then it is told nothing."""

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
