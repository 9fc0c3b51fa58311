"""How requests end: each is told once, counted once, and its bytes are given back once.

The replying half of the handle. Frames come in from the connection and are matched with what is pending, in
one pass; what runs out of time or loses its connection is ended here as well. The hot path is the loop of
`match`, whose every turn is one acknowledged add or one entry read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Final

from herdpy.bookkeeper.bookie.connection import Frame
from herdpy.bookkeeper.bookie.pending import (
    AddReceiver,
    AnsweringBookie,
    Awaited,
    AwaitedEntry,
    PendingRequests,
    Settling,
)
from herdpy.bookkeeper.errors import BookKeeperError, ProtocolError
from herdpy.bookkeeper.statuses import error_of
from herdpy.bookkeeper.wire.adds import parse_add_reply
from herdpy.bookkeeper.wire.reads import find_body, parse_read_reply
from herdpy.bookkeeper.wire.replies import parse_reply
from herdpy.bookkeeper.wire.status import Operation, ReplyStatus

log = logging.getLogger("herdpy.bookkeeper.bookie")

# Reaching into an enum takes as long as matching a reply.
_EOK: Final = ReplyStatus.EOK
_ADD_ENTRY: Final = Operation.ADD_ENTRY
_READ_ENTRY: Final = Operation.READ_ENTRY
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
            self._tell(receiver, status)

    def _other_reply(self, frame: Frame, now_s: float) -> None:
        """A reply that is no plain success of an add."""
        reply = parse_read_reply(frame) or parse_reply(frame)
        operation, status = reply.operation, reply.status
        pair = self._pending.adds.pop(reply.txn, None) if operation == _ADD_ENTRY else None
        if pair is not None:
            receiver, sent_s = pair
            self._metrics.answered(_ADD_ENTRY, status, now_s - sent_s)
            self._bookie.pending_bytes -= receiver.size_bytes
            self._tell(receiver, status)
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

    def _tell(self, receiver: AddReceiver, status: int) -> None:
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
