"""From the queue to the bookies: entries get their place in the chain, a few are in flight at a time.

Above ``queue``, below ``leader_log``. Once a pass of the loop, and whenever an entry was answered, what
waits is formed into entries: when none is out, or enough waits and fewer than ``max_in_flight`` are.
Another ledger is begun only when nothing is in flight: all of the old one is acknowledged then, so a
recovery finds the old ledger ending exactly where the new one says that it continues.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter

from herdpy.bookkeeper.errors import BackPressureError, BookKeeperError, ClosedClientError
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.log.bookkeeper.queue import AppendQueue, LeaderAppend, Outgoing
from herdpy.log.entry import encode_entry
from herdpy.log.lsn import LSN


class _Outcome:
    """What the writer tells about one entry. Success is acted upon at once: clients wait for it."""

    __slots__ = ("_entry", "_sender", "_writer")

    def __init__(self, sender: Sender, writer: LedgerWriter, entry: Outgoing) -> None:
        self._sender = sender
        self._writer = writer
        self._entry = entry

    def done(self) -> bool:
        return False

    def set_result(self, entry_id: int, /) -> None:
        self._sender.stored(self._writer, self._entry)

    def set_exception(self, error: BaseException, /) -> None:
        self._sender.not_stored(self._writer, error)


class Sender:
    """The entries in flight of one leader, and the end of its chain.

    Attributes:
        writer: of the ledger that is written to; None while there is none.
        last, crc: the last entry that was given a place.
        flights: entries sent and not acknowledged, in order.
        following: the writer of a ledger to go on with as soon as nothing is in flight.
    """

    def __init__(
        self,
        queue: AppendQueue,
        max_in_flight: int,
        last: LSN,
        crc: int,
        *,
        on_done: Callable[[], None],
        on_unreadable: Callable[[Exception], None],
        on_failed: Callable[[LedgerWriter, BookKeeperError], None],
        on_switched: Callable[[LedgerWriter, LSN, int], None],
    ) -> None:
        """Args:
        on_done: an entry at the head of the flights is done.
        on_unreadable: the next entry cannot be made: nothing behind it can be written either.
        on_failed: the writer can write no more; what is in flight stays so until its outcome is known.
        on_switched: told the writer that was left, and the last entry and CRC of its ledger.
        """
        self.writer: LedgerWriter | None = None
        self.following: LedgerWriter | None = None
        self.last, self.crc = last, crc
        self.flights: deque[Outgoing] = deque()
        self._queue = queue
        self._max_in_flight = max_in_flight
        self._on_done, self._on_failed, self._on_switched = on_done, on_failed, on_switched
        self._on_unreadable = on_unreadable
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._room: asyncio.Task[None] | None = None

    def schedule(self) -> None:
        """Send at the end of this pass of the loop, so that what else it brings goes along."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        self.pump()

    def pump(self) -> None:
        """Send what may be sent now."""
        if self.following is not None and not self.flights and self.writer is not None:
            self._switch(self.following)
        flights, queue, writer = self.flights, self._queue, self.writer
        under_way = sum(not entry.done for entry in flights)
        sent = False
        while (
            writer is not None
            and writer is self.writer
            and self.following is None
            and self._room is None
            and under_way < self._max_in_flight
            and len(flights) < 2 * self._max_in_flight
            and (not under_way or queue.is_worth_an_entry())
            and (entry := self._next()) is not None
        ):
            self._send(writer, entry)
            under_way += 1
            sent = True
        if sent and writer is not None:
            writer.flush()

    def _next(self) -> Outgoing | None:
        """The next entry of the queue. None when there is none, or it cannot be made, which ends the log."""
        try:
            return self._queue.take()
        except Exception as error:  # noqa: BLE001 - whatever it is, what comes behind it cannot go before it
            self._on_unreadable(error)
            return None

    def begin(self, writer: LedgerWriter, last: LSN, crc: int) -> None:
        """Write to a new ledger, behind this entry; its header goes out first."""
        self.writer = writer
        self.last, self.crc = last, crc
        self._send(writer, Outgoing([], [], 0))

    def stop(self) -> None:
        """Send nothing more and hear of nothing more; what is in flight stays in ``flights``."""
        self.writer = self.following = None
        if self._room is not None:
            self._room.cancel()
            self._room = None

    def cut(self, end: LSN) -> list[Outgoing]:
        """The ledger ends at this entry, for certain: what is in flight up to there is done.

        Returns what was in flight behind it, which is not in the log.
        """
        behind = [entry for entry in self.flights if entry.lsn > end]
        for _ in behind:
            self.flights.pop()
        for entry in self.flights:
            entry.done = True
        return behind

    def abandon(self) -> tuple[list[LeaderAppend], list[LeaderAppend]]:
        """Stop, and let go of the ledgers.

        Returns the appends that were in flight: those that are stored, and those behind them.
        """
        writers = [one for one in (self.writer, self.following) if one is not None]
        self.stop()
        for writer in writers:
            writer.abandon(ClosedClientError("the log was given up"))
        stored: list[LeaderAppend] = []
        behind: list[LeaderAppend] = []
        for entry in self.flights:
            (stored if entry.done and not behind else behind).extend(entry.appends)
        self.flights.clear()
        return stored, behind

    def _switch(self, following: LedgerWriter) -> None:
        before, last, crc = self.writer, self.last, self.crc
        assert before is not None
        self.following = None
        self.begin(following, last, crc)
        self._on_switched(before, last, crc)

    def _send(self, writer: LedgerWriter, entry: Outgoing) -> None:
        lsn = LSN(writer.ledger_id, writer.last_add_pushed + 1)
        data, crc = encode_entry(lsn, self.last, self.crc, writer.last_add_confirmed, entry.parts)
        try:
            writer.send(data, _Outcome(self, writer, entry))
        except BackPressureError:
            self._queue.put_back([entry])
            self._room = self._loop.create_task(self._wait_for_room(writer))
            return
        except BookKeeperError as error:
            self._queue.put_back([entry])
            self._fail(writer, error)
            return
        entry.lsn, entry.crc, entry.sent_s = lsn, crc, perf_counter()
        self.last, self.crc = lsn, crc
        self.flights.append(entry)

    async def _wait_for_room(self, writer: LedgerWriter) -> None:
        await writer.room()
        self._room = None
        self.pump()

    def stored(self, writer: LedgerWriter, entry: Outgoing) -> None:
        """The bookies have an entry, and all before it."""
        if writer is not self.writer:
            return  # it failed, and what it had in flight is being seen to
        entry.done = True
        try:
            self._on_done()
        except Exception as error:  # noqa: BLE001 - told; the writer has others to tell
            self._loop.call_exception_handler(
                {"message": "an entry that is stored could not be acknowledged", "exception": error}
            )

    def not_stored(self, writer: LedgerWriter, error: BaseException) -> None:
        """The writer has ended: unknown what the bookies have."""
        assert isinstance(error, BookKeeperError)
        self._loop.call_soon(self._fail, writer, error)  # it is not to be closed while it still tells

    def _fail(self, writer: LedgerWriter, error: BookKeeperError) -> None:
        if self.writer is writer:
            self.stop_writing()
            self._on_failed(writer, error)

    def stop_writing(self) -> None:
        """Hold everything that is not yet sent, until ``begin``."""
        self.writer = None
        if self._room is not None:
            self._room.cancel()
            self._room = None
