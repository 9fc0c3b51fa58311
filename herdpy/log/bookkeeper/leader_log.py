"""The log of a tablespace as its leader writes it: ledgers in BookKeeper. Top of the package.

On the loop: an append is encoded and queued; at the end of the loop's pass what waited becomes an entry
(``sender``); bookies acknowledge it; the hook is called, and the appends are resolved, in order
(Acknowledger; the state machine's hook may fail, then nothing more can be acknowledged). Beside that, in
tasks: the next ledger is made before this one is full, ledgers are closed behind the writing, and one whose
bookies are gone is replaced (``succession``). Threads call LoopLog, whose methods block until the loop has
done it.

When another node has taken the log over, or nothing can be written any more, everything that is under
way fails, in order: unknown what the bookies may have, not done what was never sent.
"""

from __future__ import annotations

import asyncio
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.write import LedgerWriter
from herdpy.log.bookkeeper import succession
from herdpy.log.bookkeeper.followed_log import OwnView
from herdpy.log.bookkeeper.own_ledgers import OwnLedgers
from herdpy.log.bookkeeper.pacing import nothing_open
from herdpy.log.bookkeeper.recent_entries import RecentEntries
from herdpy.log.bookkeeper.sender import AppendQueue, LeaderAppend, Pauses, Sender
from herdpy.log.bookkeeper.settings import LedgerLogSettings, Quorums
from herdpy.log.bookkeeper.spare_ledger import SpareLedger
from herdpy.log.bookkeeper.succession import Succession
from herdpy.log.bookkeeper.znode_list import ZnodeLedgerList
from herdpy.log.commit_log import Acknowledge, Append, CommitLog, LogWatch
from herdpy.log.entry import LogEntry, LoggedTransaction
from herdpy.log.errors import (
    LogBusyError,
    LogClosedError,
    LogError,
    LogUnavailableError,
    LogWriteError,
    Outcome,
)
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from herdpy.log.log_counts import LogCounts
from herdpy.log.lsn import LSN
from herdpy.log.wait import Wait
from herdpy.machine import boot_time_s


class Acknowledger:
    """That of one log.

    Args:
        hook: as ``LeaderLog``'s ``acknowledge``.
    """

    def __init__(self, hook: Acknowledge | None) -> None:
        self._hook = hook

    def acknowledge(self, appends: Sequence[Append], lsn: LSN) -> None:
        """Have the hook know that these took effect at ``lsn``; raises what it raises."""
        for append in appends:
            append.lsn = lsn
        if self._hook is not None:
            self._hook(appends, None)

    def fail(self, appends: Sequence[Append], error: LogError, cause: LogError) -> None:
        """The log can write no more, because of ``cause``: ``error`` says what that means for these."""
        if not appends:
            return
        error.__cause__ = cause
        try:
            if self._hook is not None:
                self._hook(appends, error)
        finally:
            for append in appends:
                append.fail(error)

    def break_down(self, appends: Sequence[Append], error: BaseException) -> LogError:
        """The hook failed with ``error`` at these: it is called no more. Returns why the log is lost."""
        failure = LogError(f"the log failed while it acknowledged: {error!r}", outcome="unknown")
        failure.__cause__ = error
        self._hook = None
        for append in appends:
            append.fail(failure)
        return failure


def outcome_of(error: LogError, outcome: Outcome, note: str = "") -> LogError:
    """The error of appends when the log was lost by ``error``, of its class where one can be made of a
    message."""
    kind = type(error)
    fits = kind.__init__ is LogError.__init__ and kind is not LogClosedError
    return (kind if fits else LogError)(f"{error}{note}", outcome=outcome)


T = TypeVar("T")


class LoopLog(CommitLog):
    """To be made on the loop that it lives on.

    What is blocking in ``CommitLog`` has a twin with an a before its name, to be awaited on the loop. There
    the blocking one raises RuntimeError: it would wait for itself.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    @abstractmethod
    async def aflush(self) -> None:
        """As ``flush``."""

    @abstractmethod
    async def aroll(self) -> None:
        """As ``roll``."""

    @abstractmethod
    async def atrim(self, before: LSN) -> list[int]:
        """As ``trim``."""

    @abstractmethod
    async def aclose(self) -> None:
        """As ``close``."""

    def flush(self) -> None:
        self._from_thread(self.aflush())

    def roll(self) -> None:
        self._from_thread(self.aroll())

    def trim(self, before: LSN) -> list[int]:
        return self._from_thread(self.atrim(before))

    def close(self) -> None:
        self._from_thread(self.aclose())

    def _from_thread(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if asyncio._get_running_loop() is self._loop:
            coroutine.close()
            raise RuntimeError("this would block the loop: await the method with an a before its name")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


_log = logging.getLogger("herdpy.log.leader")


class LeaderLog(LoopLog):
    """The log that this node leads; ``Takeover.lead`` makes it.

    Attributes:
        counts: what was written since it was opened; its seconds are those from sending to acknowledging.
            Others may be put in their place.
    """

    def __init__(
        self,
        bk: BookKeeper,
        ledger_list: ZnodeLedgerList,
        settings: LedgerLogSettings,
        state: LedgerListState,
        *,
        acknowledge: Acknowledge | None = None,
        on_lost: Callable[[LogError], None] | None = None,
        clock: Callable[[], float] = boot_time_s,
        open_transactions: Callable[[], int] = nothing_open,
    ) -> None:
        super().__init__()
        self.counts = LogCounts()
        self._settings = settings
        self._clock = clock
        self._acknowledger = Acknowledger(acknowledge)
        self._on_lost = on_lost
        self._refusal: LogError | None = None
        self._lost = False
        self._closing: asyncio.Task[None] | None = None
        self._lac, self._lac_crc = state.settled_end
        self._recent = RecentEntries()
        self._queue = AppendQueue(settings.max_entry_bytes, settings.enough_transactions)
        self._sender = Sender(
            self._queue,
            settings,
            self._lac,
            self._lac_crc,
            clock=clock,
            open_transactions=open_transactions,
            on_done=self.deliver,
            on_unreadable=self._unreadable,
            on_failed=lambda writer, error: self._succession.replace(writer, error),
            on_switched=self._switched,
        )
        self._ledgers = OwnLedgers(
            bk, ledger_list, settings, state, clock=clock, on_change=lambda: self._view.list_changed()
        )
        self._view = OwnView(bk, ledger_list, settings, self)
        self._pauses = Pauses(self._queue, self._sender, settings.max_queued_bytes, lambda: self._lost)
        self._succession = Succession(bk, self._ledgers, self._sender, self._pauses, settings, self)

    async def begin(self, spare: SpareLedger | None = None) -> None:
        """Make and list the first ledger, and write its header; see ``Takeover.lead``."""
        made = None if spare is None else spare.take(self.state, self._settings)
        on_lost, self._on_lost = self._on_lost, None  # what is lost before it is won is raised here
        try:
            async with asyncio.timeout(self._settings.write_patience_s):
                writer = await succession.make(self._ledgers, made)
                self._sender.begin(writer, self._lac, self._lac_crc)
                self._succession.begun()
                await self._pauses.quiet()
        except TimeoutError:
            self.lose(LogUnavailableError("no ledger could be begun in time"))
        except LogError as error:
            self.lose(error)
        except BaseException:
            self.lose(LogClosedError("it was abandoned before it began"))
            raise
        if self._refusal is not None:
            raise self._refusal
        self._on_lost = on_lost
        self._succession.start()

    # Appending.

    @property
    def failure(self) -> LogError | None:
        """Why the log takes no more appends: it failed, was taken over, or closed. None: it takes them."""
        return self._refusal

    def look_on(self, watch: LogWatch) -> None:
        """See CommitLog."""
        self._sender.watch = watch

    def append(self, transaction: LoggedTransaction) -> Append:
        """As ``CommitLog.append``; cheapest on the loop's thread.

        Raises:
            LogBusyError: too much is queued; ``await room()`` tells when there is less.
        """
        append = LeaderAppend(transaction, transaction.body())
        if self._refusal is not None:
            raise LogClosedError(str(self._refusal)) from self._refusal
        if self.is_full:
            raise LogBusyError(f"{self._queue.size_bytes} bytes wait to be written to the log already")
        if asyncio._get_running_loop() is self._loop:
            self._queue.put(append)
            self._sender.schedule()
        else:
            self._loop.call_soon_threadsafe(self._append_late, append)
        return append

    def _append_late(self, append: LeaderAppend) -> None:
        if self._refusal is not None:
            append.fail(LogClosedError(str(self._refusal)))
            return
        self._queue.put(append)
        self._sender.schedule()

    @property
    def is_full(self) -> bool:
        return self._queue.size_bytes > self._settings.max_queued_bytes

    def when_roomy(self, callback: Callable[[], object]) -> None:
        self._pauses.when_roomy(callback)

    def hurry(self) -> None:
        """As ``CommitLog.hurry``: what waits goes as soon as no entry is in flight."""
        self._sender.want()

    def confirm(self) -> Wait[None]:
        """Resolved once an entry is acknowledged that was sent after this call: no other leader has
        acknowledged anything up to the call, since it fences the log first. To be called on the loop.

        What is on its way to be sent counts; with nothing of that an entry without content is written, one
        for all who wait. Fails with LogClosedError when the log ends first.
        """
        if self._refusal is not None:
            ended: Wait[None] = Wait()
            ended.fail(LogClosedError(str(self._refusal)))
            return ended
        return self._sender.confirm()

    async def room(self) -> None:
        """Return when less is queued than ``max_queued_bytes``, or the log takes no more appends."""
        await self._pauses.room()

    def deliver(self) -> None:
        """Acknowledge what is done at the head of the flights."""
        flights = self._sender.flights
        if flights and flights[0].done and self._queue and self._ledgers.is_proven():
            self._sender.pump()  # first the next entry goes out, then those of this one are answered
        while flights and flights[0].done:
            if not self._ledgers.is_proven():
                self._succession.prove()
                return
            self._succession.went_well()
            entry = flights.popleft()
            self._ledgers.prove_by_entry(entry.sent_s)
            self._lac, self._lac_crc = entry.lsn, entry.crc
            self._recent.add(entry.lsn, entry.data)
            appends = entry.appends
            watch = entry.watch
            if watch is not None:
                watch.confirmed()
            if appends:
                try:
                    self._acknowledger.acknowledge(appends, entry.lsn)
                except BaseException as error:
                    self.lose(self._acknowledger.break_down(appends, error))
                    raise
                if watch is not None:
                    watch.applied()
                for append in appends:
                    append.resolve(entry.lsn)
            for wait in entry.confirms:
                wait.resolve(None)
            self.counts.group(len(appends), entry.size_bytes, self._clock() - entry.sent_s)
        self._sender.pump()
        self._succession.look()
        self._view.lac_moved()
        if self._pauses.anybody:
            self._pauses.wake()

    # Failing.

    def ledger_ended(self, ledger_id: int, last_entry_id: int) -> tuple[LSN, int]:
        """The ledger in which writing failed was closed at this entry: what was sent behind it is to be sent
        again; returns the last entry of the log, and its CRC.

        Raises:
            LogError: that is not where it can end.
        """
        again, flights = self._sender.cut(LSN(ledger_id, last_entry_id)), self._sender.flights
        last, crc = (flights[-1].lsn, flights[-1].crc) if flights else (self._lac, self._lac_crc)
        reached = last.entry_id if last.ledger_id == ledger_id else -1
        if reached != last_entry_id:
            raise LogError(f"ledger {ledger_id} was closed at entry {last_entry_id}, but {last} is confirmed")
        self._queue.put_back([entry for entry in again if entry.parts])
        self._view.ended(LSN(ledger_id, last_entry_id))
        self.deliver()
        return last, crc

    def lose(self, error: LogError, outcome: Outcome = "unknown") -> None:
        """The log can write no more: fail everything that is under way, in order.

        ``outcome`` is that of entries in flight that the bookies may not have. Of those that they have nobody
        knows whether they are in the log: another leader may have the ledger, or its place in the list.
        """
        if self._lost:
            return
        self._lost = True
        if self._refusal is None:
            self._refusal = error
        stored, in_flight = self._sender.abandon()
        self._succession.stop()
        answer = self._acknowledger
        answer.fail(stored, outcome_of(error, "unknown"), error)
        answer.fail(in_flight, outcome_of(error, outcome), error)
        answer.fail(self._queue.drain(), outcome_of(error, "not done", " (never sent)"), error)
        _log.warning("the log is lost", extra={"error": str(error)})
        self._view.end()
        self._pauses.wake()
        if self._on_lost is not None:
            self._loop.call_soon(self._on_lost, error)

    def _unreadable(self, error: Exception) -> None:
        lost = LogWriteError(f"what is to be written to the log cannot be read: {error}")
        lost.__cause__ = error
        self.lose(lost)

    def abandon(self, error: LogError | None = None) -> None:
        """Stop at once and leave the ledgers open, for a takeover to close: this node steps down."""
        self.lose(error or LogClosedError("the log was abandoned"))

    # Ledgers.

    def _switched(self, writer: LedgerWriter, last: LSN, crc: int) -> None:
        self._view.ended(last)
        self._succession.retire(writer, last, crc)

    @property
    def state(self) -> LedgerListState:
        """The ledger list as this leader wrote it last."""
        return self._ledgers.state

    def ledgers(self) -> Sequence[LedgerInfo]:
        return self._ledgers.state.ledgers

    @property
    def lac(self) -> LSN:
        return self._lac

    async def lac_after(self, position: LSN) -> LSN:
        """Wait until an entry after this one is acknowledged; the newest, or ``lac`` when the log ended."""
        return await self._view.lac_after(position)

    def recent_entries(self, after: LSN, upto: LSN) -> tuple[bytes, ...]:
        """The last acknowledged entries behind ``after`` and up to ``upto``, as far as they are in memory."""
        return self._recent.between(after, upto)

    @property
    def end(self) -> LSN:
        return self._sender.last

    @property
    def quorums(self) -> Quorums | None:
        """How many bookies the log is written to now; None while no ledger can be."""
        return self._succession.quorums

    @property
    def list_share(self) -> float:
        """How full the ledger list is: 1 is what ZooKeeper takes."""
        return self._ledgers.list_share

    def note_lac(self) -> None:
        """Nothing to do: the client tells the bookies by itself when the writing pauses."""

    def roll_if_due(self) -> bool:
        """Have the ledger followed by another if it is past its size or age, in the background."""
        return self._succession.look()

    async def aflush(self) -> None:
        """Wait until everything appended so far is acknowledged; raises what the last one got."""
        last = self._queue.last()
        if last is None:
            for entry in self._sender.flights:
                last = entry.appends[-1] if entry.appends else last
        if last is not None:
            self._sender.hurry()
            await last

    async def aroll(self) -> None:
        """Have the ledger followed by another; returns when the first one is closed in the list.

        A ledger that has nothing but its header stays.
        """
        await self._succession.roll()

    async def atrim(self, before: LSN) -> list[int]:
        """As ``trim``: first the list, then the ledgers; those of earlier leaders somewhat later.

        Raises:
            LedgerListConflictError: another node owns the log.
        """
        if self._refusal is not None:
            raise LogClosedError(str(self._refusal)) from self._refusal
        return await self._succession.trim(before)

    async def asweep(self) -> list[int]:
        """Delete the log's orphans, see ``OwnLedgers.sweep``; their ids. Slow: for a rare cadence."""
        return await self._ledgers.sweep()

    async def aclose(self) -> None:
        """Flush, close the ledgers in BookKeeper and in the list, refuse further appends; may be repeated.

        Raises:
            LogError: the last append's, or what kept the ledgers from being closed (a takeover closes them).
        """
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
            # Callers that were cancelled do not hear of its end; the next call does.
            self._closing.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._refusal is None:
            self._refusal = LogClosedError("the log is closed")
        try:
            self._sender.hurry()
            await self._pauses.quiet()
            if not self._lost:
                await self._succession.close()
        finally:
            self._lost = True
            self._succession.stop()
            self._sender.stop()
            self._view.end()

    # Reading.

    def read(self, after: LSN, upto: LSN | None = None) -> AsyncIterator[tuple[LSN, LogEntry]]:
        return self._view.read(after, upto)

    def tail(self, after: LSN) -> AsyncIterator[tuple[LSN, LogEntry]]:
        return self._view.tail(after)
