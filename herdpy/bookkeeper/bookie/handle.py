"""One bookie, through all its connections: requests go in, replies come out, none is forgotten.

The middle of the bookie layer. Writers call `send_add`, everyone else the methods of `BookieOperations`;
frames wait in one list until the end of the loop's turn and leave in one write. What comes back is matched
by `RequestOutcomes`. Connections are made on demand by `Connector`; when one is lost, everything unanswered
fails at once, because it cannot be known what the bookie has done of it.

Adds are the hot path: one entry of a dict for each, no future, no timer, no task.

The parts, from the top of the file: BookieOperations has one method for each operation but adds, which send
a frame and await the body of the reply; RequestOutcomes matches replies with what is pending, in one pass,
and ends what runs out of time or loses its connection: each request ends once, is counted once, and its
bytes are given back once. The hot path is the loop of `match`, whose every turn is one acknowledged add or
one entry read. Bookie is the handle.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sized
from typing import Final, TypeVar

from herdpy.bookkeeper.bookie.connection import BookieConnection, BookieContext, Connector, Frame
from herdpy.bookkeeper.bookie.pending import (
    AddReceiver,
    AnsweringBookie,
    Awaited,
    AwaitedEntry,
    Deadlines,
    PendingRequests,
    ReplySink,
    Settling,
)
from herdpy.bookkeeper.errors import (
    TIMED_OUT,
    UNAVAILABLE,
    BackPressureError,
    BookieUnavailableError,
    BookKeeperError,
    ClosedClientError,
    Outcome,
    ProtocolError,
    TimedOutError,
    error_of,
)
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire import messages
from herdpy.bookkeeper.wire.entries import encode_read, find_body, parse_add_reply, parse_read_reply
from herdpy.bookkeeper.wire.messages import InfoReply, LacReply, ListReply, ReadReply, parse_reply
from herdpy.bookkeeper.wire.protocol import LAST_ENTRY, Operation, ReplyStatus

T = TypeVar("T")

_READ_ENTRY: Final = Operation.READ_ENTRY


class BookieOperations(ABC):
    """The requests that are awaited one by one."""

    id: str
    _settings: ClientSettings
    _next_txn: Callable[[], int]

    @abstractmethod
    async def call(
        self,
        operation: Operation,
        txn: int,
        frame: bytes,
        timeout_s: float,
        ledger_id: int | None = None,
        entry_id: int | None = None,
    ) -> object:
        """Send a request and await the body of its reply; ledger and entry are for the errors."""

    @abstractmethod
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
        """Send a request; `sink` gets the outcome, once, later."""

    def send_read(
        self, ledger_id: int, entry_id: int, sink: ReplySink, *, fence_key: bytes | None = None
    ) -> None:
        """Read an entry as `read` does, without a task: `sink` gets the reply, or what `read` raises."""
        txn = self._next_txn()
        if fence_key is None:
            frame = encode_read(txn, ledger_id, entry_id)
        else:
            frame = messages.fence_read(txn, ledger_id, fence_key, entry_id)
        timeout_s = self._settings.request_timeout_s
        self.request(_READ_ENTRY, txn, frame, timeout_s, sink, ledger_id, entry_id)

    async def read(
        self,
        ledger_id: int,
        entry_id: int = LAST_ENTRY,
        *,
        fence_key: bytes | None = None,
        timeout_s: float | None = None,
    ) -> ReadReply:
        """Read an entry (-1: the last one this bookie has).

        With `fence_key`, the ledger's master key, the bookie fences the ledger first: it accepts no further
        adds except a recovery's. Raises NoSuchEntryError, NoSuchLedgerError and what the class says.
        """
        txn = self._next_txn()
        if fence_key is None:
            frame = encode_read(txn, ledger_id, entry_id)
        else:
            frame = messages.fence_read(txn, ledger_id, fence_key, entry_id)
        if timeout_s is None:
            timeout_s = self._settings.request_timeout_s
        body = await self.call(Operation.READ_ENTRY, txn, frame, timeout_s, ledger_id, entry_id)
        return self._expect(body, ReadReply)

    async def long_poll(self, ledger_id: int, previous_lac: int, timeout_s: float) -> ReadReply:
        """Wait at the bookie, at most `timeout_s`, until its last add confirmed is above `previous_lac`.

        The reply then carries `max_lac` and, when this bookie has it, the entry after `previous_lac`; when
        the time is over it carries `max_lac` alone. The bookie may take `request_timeout_s` more to answer.
        """
        txn = self._next_txn()
        frame = messages.long_poll(txn, ledger_id, previous_lac, round(timeout_s * 1000))
        patience_s = timeout_s + self._settings.request_timeout_s
        body = await self.call(Operation.READ_ENTRY, txn, frame, patience_s, ledger_id)
        return self._expect(body, ReadReply)

    def send_long_poll(self, ledger_id: int, previous_lac: int, timeout_s: float, sink: ReplySink) -> None:
        """As `long_poll`, without a task: `sink` gets the reply, or what `long_poll` raises."""
        txn = self._next_txn()
        frame = messages.long_poll(txn, ledger_id, previous_lac, round(timeout_s * 1000))
        patience_s = timeout_s + self._settings.request_timeout_s
        self.request(_READ_ENTRY, txn, frame, patience_s, sink, ledger_id)

    def send_read_lac(self, ledger_id: int, sink: ReplySink) -> None:
        """As `read_lac`, without a task: `sink` gets the reply, or what `read_lac` raises."""
        txn = self._next_txn()
        frame = messages.read_lac(txn, ledger_id)
        self.request(Operation.READ_LAC, txn, frame, self._settings.request_timeout_s, sink, ledger_id)

    async def read_lac(self, ledger_id: int) -> LacReply:
        """What the bookie knows of the last add confirmed: the explicit one and the last entry it has."""
        body = await self._ask(Operation.READ_LAC, lambda txn: messages.read_lac(txn, ledger_id), ledger_id)
        return self._expect(body, LacReply)

    async def write_lac(self, ledger_id: int, master_key: bytes, body: bytes) -> None:
        """Tell the bookie the last add confirmed; `body` is sealed by `Digest.seal_lac`."""
        await self._ask(
            Operation.WRITE_LAC,
            lambda txn: messages.write_lac(txn, ledger_id, master_key, body),
            ledger_id,
        )

    async def force(self, ledger_id: int) -> None:
        """Have everything added to the ledger at this bookie so far put on its disks."""
        await self._ask(Operation.FORCE_LEDGER, lambda txn: messages.force(txn, ledger_id), ledger_id)

    async def info(self) -> InfoReply:
        """The bookie's disk space, in bytes."""
        return self._expect(await self._ask(Operation.GET_BOOKIE_INFO, messages.bookie_info), InfoReply)

    async def list_entries(self, ledger_id: int) -> list[int]:
        """The ids of the ledger's entries that this bookie has, ascending."""
        body = await self._ask(
            Operation.GET_LIST_OF_ENTRIES, lambda txn: messages.list_entries(txn, ledger_id), ledger_id
        )
        return list(self._expect(body, ListReply).entry_ids)

    async def _ask(
        self, operation: Operation, encode: Callable[[int], bytes], ledger_id: int | None = None
    ) -> object:
        txn = self._next_txn()
        return await self.call(operation, txn, encode(txn), self._settings.request_timeout_s, ledger_id)

    def _expect(self, body: object, kind: type[T]) -> T:
        if not isinstance(body, kind):
            raise ProtocolError(f"a reply without its {kind.__name__}", bookie=self.id)
        return body


log = logging.getLogger("herdpy.bookkeeper.bookie")

# Reaching into an enum takes as long as matching a reply.
_EOK: Final = ReplyStatus.EOK
_ADD_ENTRY: Final = Operation.ADD_ENTRY
_READ_AT_5: Final = bytes([Operation.READ_ENTRY])  # where the usual header has the operation


class RequestOutcomes:
    """Ends the pending requests of one bookie."""

    def __init__(self, bookie: AnsweringBookie, pending: PendingRequests) -> None:
        self._bookie = bookie
        self._pending = pending
        self._metrics = bookie.metrics
        self._awaited = pending.awaited
        self._add_latency = bookie.metrics.latency[_ADD_ENTRY]
        self._read_latency = bookie.metrics.latency[_READ_ENTRY]
        self._reads_sent_s: list[float] = []  # of those that this turn answers
        self._loop = asyncio.get_running_loop()
        self._stray_logged = False

    def connected(self) -> None:
        """A new connection: it has done nothing odd yet."""
        self._stray_logged = False

    def match(self, frames: list[Frame], now_s: float) -> None:
        """End what these replies answer. What was sent together is counted together.

        Raises ProtocolError for a frame that is no reply; the frames before it have had their effect.
        """
        added: list[int] = []
        awaited, reads_sent_s = self._awaited, self._reads_sent_s
        try:
            for frame in frames:
                if frame[5:6] == _READ_AT_5:
                    found = find_body(frame)
                    one = None if found is None else awaited.get(found[0])
                    if found is None or one is None or isinstance(one, Awaited):
                        self._other_reply(frame, now_s)
                        continue
                    del awaited[found[0]]
                    reads_sent_s.append(one.sent_s)
                    try:
                        one.entry_arrived(frame, found[1], found[2])
                    except Exception as error:  # noqa: BLE001 - its bug must not take the others' replies away
                        self._report(one, error)
                    continue
                reply = parse_add_reply(frame)
                if reply is None:
                    self._other_reply(frame, now_s)
                else:
                    added.append(reply[0])
        finally:
            if added:
                self.acknowledge(added, now_s)
            if reads_sent_s:
                self._count_reads(now_s)

    def acknowledge(self, txns: list[int], now_s: float) -> None:
        """End the adds that succeeded."""
        bookie = self._bookie
        take = self._pending.adds.pop
        run = answered = 0
        run_sent_s = now_s
        unsettled: dict[Settling, None] = {}
        bookie.unsettled = unsettled
        for txn in txns:
            pair = take(txn, None)
            if pair is None:
                self._stray_reply(txn)
                continue
            receiver, sent_s = pair
            if sent_s != run_sent_s:
                if run:
                    self._add_latency.record(now_s - run_sent_s, run)
                    answered += run
                    run = 0
                run_sent_s = sent_s
            run += 1
            bookie.pending_bytes -= receiver.size_bytes
            try:
                receiver.on_add_reply(bookie, 0)
            except Exception as error:  # noqa: BLE001 - its bug must not take the others' replies away
                self._report(receiver, error)
        bookie.unsettled = None
        self._add_latency.record(now_s - run_sent_s, run)
        self._metrics.count(_ADD_ENTRY, _EOK, answered + run)
        for one in unsettled:
            try:
                one.settle()
            except Exception as error:  # noqa: BLE001 - as above
                self._report(one, error)

    def end(
        self,
        adds: list[tuple[AddReceiver, float]],
        awaited: list[Awaited | AwaitedEntry],
        status: int,
        failure: BookKeeperError,
    ) -> None:
        """End requests that get no reply: adds with `status`, the others with a copy of `failure`."""
        self._metrics.count(_ADD_ENTRY, status, len(adds))
        for receiver, _ in adds:
            self._bookie.pending_bytes -= receiver.size_bytes
        for one in awaited:
            self._metrics.count(one.operation, status)
            self._fail(one, copy_of(failure, self._bookie.id, one.ledger_id, one.entry_id))
        for receiver, _ in adds:
            self._deliver_status(receiver, status)

    def _other_reply(self, frame: Frame, now_s: float) -> None:
        """A reply that is no plain success of an add."""
        reply = parse_read_reply(frame) or parse_reply(frame)
        operation, status = reply.operation, reply.status
        pair = self._pending.adds.pop(reply.txn, None) if operation == _ADD_ENTRY else None
        if pair is not None:
            receiver, sent_s = pair
            self._metrics.answered(_ADD_ENTRY, status, now_s - sent_s)
            self._bookie.pending_bytes -= receiver.size_bytes
            self._deliver_status(receiver, status)
            return
        one = self._awaited.get(reply.txn)
        if one is None:
            self._stray_reply(reply.txn)
            return
        if one.operation != operation:
            raise ProtocolError(f"a reply to operation {operation} for a request of {one.operation}")
        del self._awaited[reply.txn]
        if status == _EOK and operation == _READ_ENTRY:
            self._reads_sent_s.append(one.sent_s)
        else:
            self._metrics.answered(one.operation, status, now_s - one.sent_s)
        if status != _EOK:
            bookie_id = self._bookie.id
            self._fail(
                one, error_of(status, bookie=bookie_id, ledger_id=one.ledger_id, entry_id=one.entry_id)
            )
        elif not one.sink.done():  # it is when its task was cancelled in this very turn of the loop
            try:
                one.sink.set_result(reply.body)
            except Exception as error:  # noqa: BLE001 - as above
                self._report(one.sink, error)

    def _count_reads(self, now_s: float) -> None:
        sent, self._reads_sent_s = self._reads_sent_s, []
        self._metrics.count(_READ_ENTRY, _EOK, len(sent))
        for sent_s, times in Counter(sent).items():
            self._read_latency.record(now_s - sent_s, times)

    def _stray_reply(self, txn: int) -> None:
        if self._pending.was_abandoned(txn):
            self._metrics.late_replies += 1
            return
        self._metrics.unknown_replies += 1
        if not self._stray_logged:
            self._stray_logged = True  # once a connection: a bookie could fill the log with them
            log.warning("reply to no request", extra={"bookie": self._bookie.id, "txn": txn})

    def _deliver_status(self, receiver: AddReceiver, status: int) -> None:
        try:
            receiver.on_add_reply(self._bookie, status)
        except Exception as error:  # noqa: BLE001 - as above
            self._report(receiver, error)

    def _fail(self, one: Awaited | AwaitedEntry, failure: BookKeeperError) -> None:
        if not one.sink.done():
            try:
                one.sink.set_exception(failure)
            except Exception as error:  # noqa: BLE001 - as above
                self._report(one.sink, error)

    def _report(self, receiver: object, error: Exception) -> None:
        self._loop.call_exception_handler(
            {"message": f"{receiver!r} failed on what bookie {self._bookie.id} answered", "exception": error}
        )


def copy_of(
    failure: BookKeeperError, bookie: str, ledger_id: int | None, entry_id: int | None
) -> BookKeeperError:
    """One exception for each who waited: an instance raised in many tasks would mix their tracebacks."""
    error = type(failure)(failure.message, bookie=bookie, ledger_id=ledger_id, entry_id=entry_id)
    error.__cause__ = failure.__cause__
    return error


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
        unsettled: while several replies are delivered: receivers may put here what is to be settled after
            the last of them; None at other times.
        failure: why the last connection could not be made or was lost; None while one is in use.
    """

    def __init__(self, context: BookieContext) -> None:
        settings, clock = context.settings, context.clock
        self.id = context.bookie_id
        self.metrics = context.metrics
        self.pending_bytes = 0
        self.unsettled: dict[Settling, None] | None = None
        self.failure: BookKeeperError | None = None
        self._settings = settings
        self._next_txn = context.next_txn
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
        self._connector = Connector(context, self._connected, self._disconnected)
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

    @property
    def is_silent(self) -> bool:
        """Whether nothing came since a request that is older than ``speculative_read_s``."""
        due_s = self._pending.oldest_due_s(self._settings.request_timeout_s)
        return self.heard_s < due_s <= self._clock() - self._settings.speculative_read_s

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
        """As `call`, and `sink` gets the outcome, once, and never before this returns."""
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
        """As `send_read` for each of these, which get the outcome themselves."""
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

    def registered(self) -> None:
        """The bookie has just registered, so it has started: requests are not refused for what was before."""
        self._connector.forget_failures()

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
            why = BackPressureError("too many requests are pending at this bookie")
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
        self._wake_room_waiters()

    def adds_acknowledged(self, txns: list[int]) -> None:
        """Replies to adds, all of them well."""
        now_s = self._deadlines.heard_s = self._clock()
        self._answered = True
        self._outcomes.acknowledge(txns, now_s)
        self._wake_room_waiters()

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
        self._wake_room_waiters()

    def _silent(self) -> None:
        if self._connection is not None:
            self._give_up("the bookie has not responded for a long time")

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
        self._wake_room_waiters()
        if not self._pending:
            self._deadlines.stop()

    def _wake_room_waiters(self) -> None:
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
