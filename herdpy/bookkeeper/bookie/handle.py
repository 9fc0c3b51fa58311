"""One bookie, through all its connections: requests go in, replies come out, none is forgotten.

The middle of the bookie layer. Writers call `send_add`, everyone else the methods of `BookieOperations`;
frames wait in one list until the end of the loop's turn and leave in one write. What comes back is matched
by `RequestOutcomes`. Connections are made on demand by `Connector`; when one is lost, everything unanswered
fails at once, because it cannot be known what the bookie has done of it.

Adds are the hot path: one entry of a dict for each, no future, no timer, no task.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sized

from herdpy.bookkeeper.bookie.backoff import Backoff
from herdpy.bookkeeper.bookie.connection import BookieConnection, Frame
from herdpy.bookkeeper.bookie.connector import Connector
from herdpy.bookkeeper.bookie.deadlines import Deadlines
from herdpy.bookkeeper.bookie.metrics import BookieMetrics
from herdpy.bookkeeper.bookie.operations import BookieOperations
from herdpy.bookkeeper.bookie.outcomes import RequestOutcomes, copy_of
from herdpy.bookkeeper.bookie.pending import (
    AddReceiver,
    Awaited,
    AwaitedEntry,
    PendingRequests,
    ReplySink,
    Settling,
)
from herdpy.bookkeeper.errors import (
    BackPressureError,
    BookieUnavailableError,
    BookKeeperError,
    ClosedClientError,
    Outcome,
    ProtocolError,
    TimedOutError,
)
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.statuses import TIMED_OUT, UNAVAILABLE
from herdpy.bookkeeper.wire.reads import encode_read
from herdpy.bookkeeper.wire.status import Operation

log = logging.getLogger("herdpy.bookkeeper.bookie")

MAX_AWAITED = 10_000
"""Awaited requests (reads and the like) at one bookie; one more is refused with BackPressureError."""

MAX_WAITING_FRAMES = 1_000_000
"""Frames that may wait for a connection or for room in its buffer."""


class Bookie(BookieOperations):
    """A bookie that one client speaks to. Made by `BookiePool.get`.

    Attributes:
        id: the bookie's id, as ensembles name it.
        pending_bytes: the sizes of the adds queued or sent and not yet answered; a writer waits above
            `max_bookie_pending_bytes` (see `when_room`).
        unanswered: those adds; a writer waits above `max_bookie_pending_entries` of them, too.
        metrics: what is counted of it.
        unsettled: while several replies are being told: receivers may put here what is to be settled after
            the last of them; None at other times.
        failure: why the last connection could not be made or was lost; None while one is in use.
    """

    def __init__(
        self,
        bookie_id: str,
        settings: ClientSettings,
        resolve: Callable[[str], tuple[str, int]],
        next_txn: Callable[[], int],
        metrics: BookieMetrics,
        rng: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self.id = bookie_id
        self.metrics = metrics
        self.pending_bytes = 0
        self.unsettled: dict[Settling, None] | None = None
        self.failure: BookKeeperError | None = None
        self._settings = settings
        self._next_txn = next_txn
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._pending = PendingRequests()
        self._adds = self._pending.adds
        self.unanswered: Sized = self._adds
        self._awaited = self._pending.awaited
        self._outcomes = RequestOutcomes(self, self._pending)
        self._out: list[bytes] = []
        self._blocked = True  # nothing can be written now: no connection, or its buffer is full
        self._turn_s = clock()  # when the frames in `_out` were handed over
        self._connection: BookieConnection | None = None
        self._connector = Connector(
            bookie_id,
            settings,
            resolve,
            next_txn,
            metrics,
            Backoff(settings.backoff_first_s, settings.backoff_max_s, rng),
            clock,
            self._connected,
            self._disconnected,
        )
        self._closed = False
        self._deadlines = Deadlines(
            clock, self._pending, settings.request_timeout_s, self._expired, self._silent
        )
        self._answered = False  # by the present connection, at least once
        self._room_waiters: list[tuple[int, int, Callable[[], None]]] = []

    def __repr__(self) -> str:
        return f"<Bookie {self.id}: {len(self._pending)} pending, {self.pending_bytes} bytes>"

    @property
    def pause_left_s(self) -> float:
        """How long requests are still refused because a connection failed; 0: they are sent, or wait."""
        return 0.0 if self._connection is not None else self._connector.pause_left_s

    @property
    def heard_s(self) -> float:
        """When anything came from it last, or a connection was made; at first: when this was made."""
        return self._deadlines.heard_s

    # Requests.

    def send_add(self, txn: int, frame: bytes, op: AddReceiver) -> None:
        """Send an add, and tell `op.on_add_reply` exactly once how it ended; never before this returns.

        `txn` is the transaction id inside `frame`, taken from `BookiePool.next_txn`.
        """
        if (self._blocked or not self._out) and not self._admit():
            self.metrics.refused += 1
            self.metrics.count(Operation.ADD_ENTRY, UNAVAILABLE)
            self._loop.call_soon(op.on_add_reply, self, UNAVAILABLE)
            return
        self._out.append(frame)
        self._adds[txn] = (op, self._turn_s)
        self.pending_bytes += op.size_bytes

    async def call(
        self,
        operation: Operation,
        txn: int,
        frame: bytes,
        timeout_s: float,
        ledger_id: int | None = None,
        entry_id: int | None = None,
    ) -> object:
        """Send a request and await the body of its reply. See `BookieOperations` for what it raises."""
        future: asyncio.Future[object] = self._loop.create_future()
        self.request(operation, txn, frame, timeout_s, future, ledger_id, entry_id)
        try:
            return await future
        except asyncio.CancelledError:
            if self._pending.awaited.pop(txn, None) is not None:
                self._pending.abandon(txn)
                self.metrics.cancelled += 1
            raise

    def request(
        self,
        operation: Operation,
        txn: int,
        frame: bytes,
        timeout_s: float,
        sink: ReplySink,
        ledger_id: int | None = None,
        entry_id: int | None = None,
    ) -> None:
        """As `call`, with the outcome told to `sink`, once, and never before this returns."""
        awaited = self._awaited
        if len(awaited) >= MAX_AWAITED or ((self._blocked or not self._out) and not self._admit()):
            self.metrics.refused += 1
            self._loop.call_soon(_refuse, sink, self._refusal(ledger_id, entry_id))
            return
        sent_s = self._turn_s
        deadline_s = sent_s + timeout_s
        self._out.append(frame)
        awaited[txn] = Awaited(operation, sink, sent_s, deadline_s, ledger_id, entry_id)
        if deadline_s < self._deadlines.goes_off_s:
            self._deadlines.arm(sent_s, deadline_s)

    def send_reads(self, ledger_id: int, reads: Iterable[AwaitedEntry]) -> None:
        """As `send_read` for each of these, which are told the outcome themselves."""
        awaited, timeout_s = self._awaited, self._settings.request_timeout_s
        for read in reads:
            entry_id = read.entry_id
            if len(awaited) >= MAX_AWAITED or ((self._blocked or not self._out) and not self._admit()):
                self.metrics.refused += 1
                self._loop.call_soon(_refuse, read, self._refusal(ledger_id, entry_id))
                continue
            txn = self._next_txn()
            self._out.append(encode_read(txn, ledger_id, entry_id))
            read.sent_s = sent_s = self._turn_s
            read.deadline_s = deadline_s = sent_s + timeout_s
            awaited[txn] = read
            if deadline_s < self._deadlines.goes_off_s:
                self._deadlines.arm(sent_s, deadline_s)

    def when_room(self, limit_bytes: int, limit_entries: int, callback: Callable[[], None]) -> None:
        """Call back once, soon, when at most `limit_bytes` in `limit_entries` adds are unanswered."""
        if self.pending_bytes <= limit_bytes and len(self.unanswered) <= limit_entries:
            self._loop.call_soon(callback)
        else:
            self._room_waiters.append((limit_bytes, limit_entries, callback))

    def close(self) -> None:
        """Give up the connection and everything unanswered; every later request is refused. Idempotent."""
        if self._closed:
            return
        self._closed = self._blocked = True
        self._connector.cancel()
        if self._connection is not None:
            self._connection.abort()
        self._loop.call_soon(self._disconnected, ClosedClientError())

    async def wait_closed(self) -> None:
        """After `close`: wait until no task of this bookie is left."""
        await self._connector.wait_ended()

    # Sending.

    def _admit(self) -> bool:
        """Before the first frame of a turn, and before each one while blocked: may it be queued?"""
        self._turn_s = now_s = self._clock()
        if self._blocked:
            if self._closed or (self._connection is None and not self._connector.start(now_s)):
                return False
            if (
                len(self._out) >= MAX_WAITING_FRAMES
                or self.pending_bytes > 2 * self._settings.max_bookie_pending_bytes
            ):
                return False
        else:
            self._loop.call_soon(self.flush)
        self._deadlines.arm(now_s)
        return True

    def flush(self) -> None:
        """Write what has been queued in this turn of the loop; done at its end in any case."""
        if self._out and self._connection is not None and not self._blocked:
            self._out = self._connection.write(self._out)

    def _refusal(self, ledger_id: int | None, entry_id: int | None) -> BookKeeperError:
        if self._closed:
            why: BookKeeperError = ClosedClientError()
        elif self._connection is None and not self._connector.is_connecting and self.failure is not None:
            why = self.failure
        else:
            why = BackPressureError("too many requests wait for this bookie")
        error = copy_of(why, self.id, ledger_id, entry_id)
        error.outcome = Outcome.NOT_DONE
        return error

    # What the connection tells (ConnectionOwner).

    def frames_received(self, frames: list[Frame]) -> None:
        """Replies: each ends what it answers."""
        now_s = self._deadlines.heard_s = self._clock()
        self._answered = True
        try:
            self._outcomes.match(frames, now_s)
        except ProtocolError as error:
            self.frame_malformed(error)
        self._tell_room()

    def adds_acknowledged(self, txns: list[int]) -> None:
        """Replies to adds, all of them well."""
        now_s = self._deadlines.heard_s = self._clock()
        self._answered = True
        self._outcomes.acknowledge(txns, now_s)
        self._tell_room()

    def frame_malformed(self, error: ProtocolError) -> None:
        """Give up the connection: nothing on it can be trusted any more."""
        self.metrics.malformed_frames += 1
        log.error("malformed frame", extra={"bookie": self.id, "error": str(error)})
        self._give_up(f"the bookie sent a malformed frame: {error.message}")

    def connection_ended(self, error: Exception | None) -> None:
        """Everything pending fails; the next request connects again, paused if nothing was answered."""
        why = f"the connection was lost: {error}" if error else "the bookie closed the connection"
        log.warning("connection lost", extra={"bookie": self.id, "error": why, "pending": len(self._pending)})
        if self._answered:
            self._connector.reset()
        else:
            self._connector.pause()
        self._disconnected(BookieUnavailableError(why))

    def writing_paused(self, paused: bool) -> None:
        """Keep frames here until the transport's buffer has room again."""
        self._blocked = paused
        if not paused:
            self.flush()

    # How requests end without a reply.

    def _expired(self, adds: list[tuple[AddReceiver, float]], awaited: list[Awaited | AwaitedEntry]) -> None:
        log.warning("no answer in time", extra={"bookie": self.id, "requests": len(adds) + len(awaited)})
        self._outcomes.end(adds, awaited, TIMED_OUT, TimedOutError())
        self._tell_room()

    def _silent(self) -> None:
        if self._connection is not None:
            self._give_up("the bookie answered nothing for a long time")

    def _give_up(self, why: str) -> None:
        if self._connection is not None:
            self._connection.abort()
        self._connector.pause()
        self._disconnected(BookieUnavailableError(why))

    def _disconnected(self, failure: BookKeeperError) -> None:
        """The connection is gone, or none could be made: everything pending fails."""
        if self._connection is not None:
            self._connection = None
            self.metrics.disconnections += 1
        self._blocked = True
        self.failure = failure
        self._out = []
        self._outcomes.end(*self._pending.take_all(), UNAVAILABLE, failure)
        self._tell_room()
        if not self._pending:
            self._deadlines.stop()

    def _tell_room(self) -> None:
        if self._room_waiters:
            waiters = self._room_waiters
            self._room_waiters = []
            for waiter in waiters:
                self.when_room(*waiter)

    # What the connector tells.

    def _connected(self, connection: BookieConnection) -> None:
        connection.owner = self
        self._connection = connection
        self._answered = False
        self._outcomes.connected()
        self._deadlines.connected(self._clock())
        self.failure = None
        self.writing_paused(not connection.writable)


def _refuse(sink: ReplySink, error: BookKeeperError) -> None:
    if not sink.done():
        sink.set_exception(error)
