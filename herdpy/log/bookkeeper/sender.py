"""From the queue to the bookies: entries get their place in the chain, a few are in flight at a time.

Below ``leader_log``. AppendQueue, which is pure, has what waits to be sent, in the order of the log. An
entry is formed as late as possible, of everything that waited and fits. A transaction too large for one is
cut: its parts have entries of their own, one behind the other. Once a pass of the loop, whenever an entry
was answered, and when a delay is over, what waits is formed into entries: when enough waits or ``pacing``
says that it is time, and fewer than ``max_in_flight`` are on their way. Another ledger is begun only when
nothing is in flight: all of the old one is acknowledged then, so a recovery finds the old ledger ending
exactly where the new one says that it continues.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from herdpy.bookkeeper.errors import BackPressureError, BookKeeperError, ClosedClientError
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.log.bookkeeper.pacing import Pacing
from herdpy.log.bookkeeper.recent_entries import RecentEntries
from herdpy.log.bookkeeper.settings import LedgerLogSettings
from herdpy.log.commit_log import Append, EntryWatch, LogWatch
from herdpy.log.entry import (
    FIRST,
    HEADER_BYTES,
    LAST,
    PART_BYTES,
    Body,
    LoggedTransaction,
    encode_entry,
    encode_part,
)
from herdpy.log.errors import LogClosedError
from herdpy.log.lsn import LSN
from herdpy.log.wait import Wait

_ENOUGH_BYTES = 1 << 16
"""So many bytes are worth an entry while others are on their way, however few transactions they are."""


class LeaderAppend(Append):
    """An append with its transaction's bytes."""

    __slots__ = ("body",)

    def __init__(self, transaction: LoggedTransaction, body: Body) -> None:
        super().__init__(transaction)
        self.body = body


class Outgoing:
    """An entry on its way out.

    Attributes:
        parts: its body.
        appends: those that take effect with it.
        size_bytes: of the transactions' bytes in it.
        lsn, crc: its place, once it is sent; another one when it had to be sent again in a new ledger.
        sent_s: when that was, by the log's clock.
        confirms: resolved once it is acknowledged: it was sent after each of them was made.
        data: the entry as it was sent, where it is small enough for ``RecentEntries``; else empty.
        done: whether the bookies have it.
        watch: is called for what becomes of it, if there is one.
    """

    __slots__ = (
        "appends",
        "confirms",
        "crc",
        "data",
        "done",
        "lsn",
        "parts",
        "sent_s",
        "size_bytes",
        "watch",
    )

    def __init__(self, parts: list[bytes], appends: list[LeaderAppend], size_bytes: int) -> None:
        self.parts = parts
        self.appends = appends
        self.size_bytes = size_bytes
        self.lsn = LSN(-1, -1)
        self.crc = 0
        self.data = b""
        self.sent_s = 0.0
        self.done = False
        self.watch: EntryWatch | None = None
        self.confirms: tuple[Wait[None], ...] = ()


class _Stretch:
    """A part of a large transaction that is not made yet."""

    __slots__ = ("_append", "_start", "_stop", "appends")

    def __init__(self, append: LeaderAppend, start: int, stop: int) -> None:
        self._append = append
        self._start, self._stop = start, stop
        self.appends = [append] if stop == len(append.body) else []

    def made(self) -> Outgoing:
        """The entry that it is."""
        start, stop = self._start, self._stop
        flags = (FIRST if start == 0 else 0) | (LAST if self.appends else 0)
        return Outgoing([encode_part(self._append.body[start:stop], flags)], self.appends, stop - start)


class AppendQueue:
    """The queue of one leader.

    Args:
        enough: as ``LedgerLogSettings.enough_transactions``.

    Attributes:
        size_bytes: transactions' bytes that are queued, or formed and not sent.
    """

    def __init__(self, max_entry_bytes: int, enough: int) -> None:
        self._enough = enough
        self._room = max(max_entry_bytes - HEADER_BYTES, PART_BYTES + 1)
        self._waiting: deque[LeaderAppend] = deque()
        self._formed: deque[Outgoing] = deque()
        self._cut: deque[_Stretch] = deque()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._formed) + len(self._cut)

    def is_worth_an_entry(self) -> bool:
        """Whether what waits is to be sent now, and not left to gather."""
        return (
            len(self._waiting) >= self._enough
            or self.size_bytes >= _ENOUGH_BYTES
            or bool(self._formed or self._cut)
        )

    def put(self, append: LeaderAppend) -> None:
        """The append takes its place behind all others."""
        self._waiting.append(append)
        self.size_bytes += len(append.body)

    def take(self) -> Outgoing | None:
        """The next entry to send.

        Raises:
            OSError, MemoryError: what a large transaction has in a file cannot be read. Its append, and all
                others, are still in the queue.
        """
        if self._formed:
            entry = self._formed.popleft()
        elif self._cut:
            entry = self._next_stretch()
        elif self._waiting:
            entry = self._form()
        else:
            return None
        self.size_bytes -= entry.size_bytes
        return entry

    def put_back(self, entries: list[Outgoing]) -> None:
        """Entries that were taken and are not in the log come before all others, in their order."""
        for entry in reversed(entries):
            entry.done = False
            self._formed.appendleft(entry)
            self.size_bytes += entry.size_bytes

    def drain(self) -> list[LeaderAppend]:
        """Empty the queue: the appends none of which can have taken effect, in order."""
        appends = [one for entry in self._formed for one in entry.appends]
        appends += [one for stretch in self._cut for one in stretch.appends]
        appends += self._waiting
        self._formed.clear()
        self._cut.clear()
        self._waiting.clear()
        self.size_bytes = 0
        return appends

    def last(self) -> LeaderAppend | None:
        """The append at the end of the queue."""
        if self._waiting:
            return self._waiting[-1]
        held = [*(one.appends for one in self._formed), *(one.appends for one in self._cut)]
        return next((appends[-1] for appends in reversed(held) if appends), None)

    def _form(self) -> Outgoing:
        waiting, room = self._waiting, self._room
        parts: list[bytes] = []
        appends: list[LeaderAppend] = []
        used = size_bytes = 0
        for append in waiting:
            size = PART_BYTES + len(append.body)
            if used + size > room:
                break
            parts.append(encode_part(append.body[:]))
            appends.append(append)
            used += size
            size_bytes += len(append.body)
        for _ in appends:
            waiting.popleft()
        if not parts:
            return self._cut_up(waiting.popleft())
        return Outgoing(parts, appends, size_bytes)

    def _cut_up(self, append: LeaderAppend) -> Outgoing:
        """The first part of a large transaction; the others are next."""
        length, step = len(append.body), self._room - PART_BYTES
        for start in range(0, length, step):
            self._cut.append(_Stretch(append, start, min(start + step, length)))
        return self._next_stretch()

    def _next_stretch(self) -> Outgoing:
        entry = self._cut[0].made()
        self._cut.popleft()
        return entry


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
        watch: is called for each entry, if there is one.
    """

    def __init__(
        self,
        queue: AppendQueue,
        settings: LedgerLogSettings,
        last: LSN,
        crc: int,
        *,
        clock: Callable[[], float],
        open_transactions: Callable[[], int],
        on_done: Callable[[], None],
        on_unreadable: Callable[[Exception], None],
        on_failed: Callable[[LedgerWriter, BookKeeperError], None],
        on_switched: Callable[[LedgerWriter, LSN, int], None],
    ) -> None:
        """Args:
        clock: that of the log; it runs also while the process is stopped.
        open_transactions: how many may commit soon; see ``pacing``.
        on_done: an entry at the head of the flights is done.
        on_unreadable: the next entry cannot be made: nothing behind it can be written either.
        on_failed: the writer can write no more; what is in flight stays so until its outcome is known.
        on_switched: called with the writer that was left, and the last entry and CRC of its ledger.
        """
        self.writer: LedgerWriter | None = None
        self.following: LedgerWriter | None = None
        self.watch: LogWatch | None = None
        self.last, self.crc = last, crc
        self.flights: deque[Outgoing] = deque()
        self._queue = queue
        self._clock = clock
        self._unconfirmed: tuple[Wait[None], ...] = ()
        self._max_in_flight = settings.max_in_flight
        self._pacing = Pacing(
            settings.commit_delay_s, settings.commit_siblings, open_transactions, lambda: self.pump()
        )
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

    def confirm(self) -> Wait[None]:
        """Resolved once an entry that is sent from now on is acknowledged, whatever it holds.

        Without anything to be sent an entry without content is, one for all waiters, once nothing is in
        flight. Fails with LogClosedError when the log ends before that.
        """
        wait: Wait[None] = Wait()
        self._unconfirmed += (wait,)
        self.schedule()
        return wait

    def hurry(self) -> None:
        """Send what waits without waiting for more."""
        if self._queue:
            self._pacing.hurry()

    def want(self) -> None:
        """Send what waits as soon as nothing is on its way, without waiting for more."""
        if self._queue:
            self._pacing.want()

    def pump(self) -> None:
        """Send what may be sent now."""
        if self.following is not None and not self.flights and self.writer is not None:
            self._switch(self.following)
        flights, queue, writer, pacing = self.flights, self._queue, self.writer, self._pacing
        under_way = sum(not entry.done for entry in flights)
        sent = False
        while (
            self._may_send(writer)
            and under_way < self._max_in_flight
            and len(flights) < 2 * self._max_in_flight
            and queue
            and (queue.is_worth_an_entry() or pacing.is_time(under_way))
            and (entry := self._next()) is not None
        ):
            assert writer is not None
            self._send(writer, entry)
            under_way += 1
            sent = True
        if self._unconfirmed and not flights and not queue and self._may_send(writer):
            assert writer is not None
            self._send(writer, Outgoing([], [], 0))
            sent = True
        if sent and writer is not None:
            writer.flush()

    def _may_send(self, writer: LedgerWriter | None) -> bool:
        return writer is not None and writer is self.writer and self.following is None and self._room is None

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
        self._pacing.stop()
        confirms, self._unconfirmed = self._unconfirmed, ()
        _fail(confirms)
        if self._room is not None:
            self._room.cancel()
            self._room = None

    def cut(self, end: LSN) -> list[Outgoing]:
        """The ledger ends at this entry, for certain: what is in flight up to there is done.

        Returns what was in flight behind it, which is not in the log.
        """
        behind = [entry for entry in self.flights if entry.lsn > end]
        for _ in behind:
            entry = self.flights.pop()
            if not entry.parts:  # it is not sent again
                self._unconfirmed += entry.confirms
                entry.confirms = ()
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
            writer.abandon(ClosedClientError("the log was abandoned"))
        stored: list[LeaderAppend] = []
        behind: list[LeaderAppend] = []
        for entry in self.flights:
            (stored if entry.done and not behind else behind).extend(entry.appends)
            _fail(entry.confirms)
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
        if self.watch is not None:
            entry.watch = self.watch.entry(entry.appends)
            if entry.watch is not None:
                entry.watch.sent(lsn, len(data))
        sent_s = self._clock()  # before it is: see ``OwnLedgers.prove_by_entry``
        try:
            writer.send(data, _Outcome(self, writer, entry), entry.watch)
        except BackPressureError:
            self._queue.put_back([entry])
            self._room = self._loop.create_task(self._wait_for_room(writer))
            return
        except BookKeeperError as error:
            self._queue.put_back([entry])
            self._fail(writer, error)
            return
        entry.lsn, entry.crc, entry.sent_s = lsn, crc, sent_s
        if self._unconfirmed:
            entry.confirms += self._unconfirmed
            self._unconfirmed = ()
        entry.data = data if RecentEntries.is_kept(len(data)) else b""
        self.last, self.crc = lsn, crc
        self.flights.append(entry)
        self._pacing.sent(len(entry.appends), not self._queue)

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
        except Exception as error:  # noqa: BLE001 - reported; the writer has others to call
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


def _fail(confirms: tuple[Wait[None], ...]) -> None:
    for wait in confirms:
        wait.fail(LogClosedError("the log ended before it could confirm a read"))


class Pauses:
    """Those who wait for one log's queue, on its loop.

    Args:
        max_queued_bytes: with no more than this queued there is room.
        is_lost: whether the log is lost; then nobody waits.
    """

    def __init__(
        self, queue: AppendQueue, sender: Sender, max_queued_bytes: int, is_lost: Callable[[], bool]
    ) -> None:
        self._queue = queue
        self._sender = sender
        self._max_queued_bytes = max_queued_bytes
        self._is_lost = is_lost
        self._loop = asyncio.get_running_loop()
        self._idle: list[asyncio.Future[None]] = []
        self._roomy: list[asyncio.Future[None]] = []

    @property
    def anybody(self) -> bool:
        """Whether somebody waits."""
        return bool(self._idle or self._roomy)

    @property
    def is_busy(self) -> bool:
        """Whether something is queued or in flight."""
        return not self._is_lost() and bool(self._sender.flights or self._queue)

    async def quiet(self) -> None:
        """Wait until nothing is queued or in flight."""
        while self.is_busy:
            waiter = self._loop.create_future()
            self._idle.append(waiter)
            await waiter

    async def room(self) -> None:
        """Wait until there is room."""
        while self._queue.size_bytes > self._max_queued_bytes and not self._is_lost():
            waiter = self._loop.create_future()
            self._roomy.append(waiter)
            await waiter

    def when_roomy(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` when there is room, at the earliest with the next :meth:`wake`."""
        waiter = self._loop.create_future()
        waiter.add_done_callback(lambda _waiter: callback())
        self._roomy.append(waiter)

    def wake(self) -> None:
        """Let those go on who need not wait any more."""
        if not self._sender.flights and not self._queue:
            idle, self._idle = self._idle, []
            _release(idle)
        if self._is_lost() or self._queue.size_bytes <= self._max_queued_bytes:
            roomy, self._roomy = self._roomy, []
            _release(roomy)


def _release(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
