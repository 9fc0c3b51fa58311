"""The entries in flight and the bookies they go to: who has what, and what is therefore confirmed.

The core of the write path, with no clock, socket or metadata in it. ``Pipeline`` owns the order of the
entries; ``Add`` is one entry, until each of its bookies has answered. Every reply comes in at ``Add``, so
this is the hot path: an entry counts its acknowledgements as bits of one integer, one bit for each index of
the ensemble. In: entries in order (``push``), what
bookies answered (``Add.on_add_reply``), a changed ensemble (``use``), an end (``fail``). Out: frames handed
to bookies, futures resolved strictly in entry order, and calls of the hooks below.

The rules, from BookKeeper's client/PendingAddOp.java and LedgerHandle.java:

- an entry is complete when A bookies of its write set, in the ensemble of now, have it; it is confirmed when
  it and all before it are complete;
- when a bookie fails, nothing more is confirmed until it is replaced: the entries behind the last add
  confirmed belong to the new ensemble and must have A of *its* bookies. Each is sent to the successors of
  failed bookies in its write set, and what those had acknowledged counts no more, even if that undoes a
  completion;
- a bookie that fails an entry which has its A acknowledgements already is only *suspect*: it is replaced
  before the next entry goes out, so that a ledger nobody appends to any more is left as it is.
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from herdpy.bookkeeper.errors import BookKeeperError, Outcome, error_of
from herdpy.bookkeeper.placement import write_set
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.protocol import ReplyStatus

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie.handle import Bookie
    from herdpy.bookkeeper.bookie.pending import AddReceiver, AnsweringBookie


class Milestones:
    """Futures by the entry that they wait for.

    Attributes:
        waiting: those, with their entries.
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def wait_for(self, entry_id: int) -> None:
        """Return when ``passed`` is called for this entry or a later one, or ``ended`` is called."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append((entry_id, future))
        await future

    def passed(self, confirmed: int) -> None:
        """The entries up to this one are complete."""
        waiting, self.waiting = self.waiting, []
        for entry_id, future in waiting:
            if confirmed < entry_id:
                self.waiting.append((entry_id, future))
            elif not future.done():
                future.set_result(None)

    def ended(self) -> None:
        """Nothing more will be complete."""
        waiting, self.waiting = self.waiting, []
        for _, future in waiting:
            if not future.done():
                future.set_result(None)


_EUA = int(ReplyStatus.EUA)
_EFENCED = int(ReplyStatus.EFENCED)


class Pipeline:
    """The state machine of one ledger's writer.

    Attributes:
        pending: entries not yet confirmed, in order.
        pushed, pushed_length: the last entry given a place; data bytes up to it.
        confirmed, confirmed_length: the last entry that is complete with all before it.
        lac, lac_length: the last add confirmed: as ``confirmed``, but moved by ``advance`` alone when
            ``deferred`` (entries are then complete before they are on disk).
        carried: the last add confirmed that the newest entry sent carries.
        in_flight_bytes: frames of the entries pending.
        max_bookie_bytes, max_bookie_entries: what may wait for one bookie before there is no room.
        failed: index -> id of bookies to be replaced in the change under way.
        suspects: the same, for a change that can wait for the next entry.
        changing: nothing is confirmed, because the ensemble is about to change.
        cause: what the last bookie that failed said.
        failure: why this pipeline has ended, or None.
        waiting: set while ``wake`` is to be called after every answer.
    """

    __slots__ = (
        "_ack_quorum",
        "_deferred",
        "_ensemble_size",
        "_ledger_id",
        "_max_bytes",
        "_max_entries",
        "_milestones",
        "_on_bookie_failed",
        "_on_failed",
        "_on_lac",
        "_sends",
        "_targets",
        "_watched",
        "_write_sets",
        "bit_of",
        "bookies",
        "carried",
        "cause",
        "changing",
        "confirmed",
        "confirmed_length",
        "failed",
        "failure",
        "in_flight_bytes",
        "lac",
        "lac_length",
        "max_bookie_bytes",
        "max_bookie_entries",
        "pending",
        "pushed",
        "pushed_length",
        "suspects",
        "waiting",
        "wake",
    )

    def __init__(
        self,
        ledger_id: int,
        bookies: Sequence[Bookie],
        write_quorum: int,
        ack_quorum: int,
        *,
        settings: ClientSettings,
        deferred: bool = False,
        on_lac: Callable[[], None],
        on_bookie_failed: Callable[[], None],
        on_failed: Callable[[], None],
    ) -> None:
        """``on_lac``: the last add confirmed moved. ``on_bookie_failed``: ``failed`` has to be seen to.
        ``on_failed``: the pipeline has ended.
        """
        self._ledger_id = ledger_id
        self._ensemble_size = len(bookies)
        self._ack_quorum = ack_quorum
        self._deferred = deferred
        self._max_bytes = settings.max_in_flight_bytes
        self._max_entries = settings.max_in_flight_entries
        self.max_bookie_bytes = settings.max_bookie_pending_bytes
        self.max_bookie_entries = settings.max_bookie_pending_entries
        self._on_lac = on_lac
        self._on_bookie_failed = on_bookie_failed
        self._on_failed = on_failed
        self._milestones = Milestones()
        self._write_sets = [write_set(e, len(bookies), write_quorum) for e in range(len(bookies))]
        self._targets = [sum(1 << index for index in indexes) for indexes in self._write_sets]
        self.pending: deque[Add] = deque()
        self.pushed = self.confirmed = self.lac = self.carried = -1
        self.pushed_length = self.confirmed_length = self.lac_length = 0
        self.in_flight_bytes = 0
        self.failed: dict[int, str] = {}
        self.suspects: dict[int, str] = {}
        self.changing = False
        self.cause = BookKeeperError("no bookie failed")
        self.failure: BookKeeperError | None = None
        self.waiting = False
        self.wake: Callable[[], None] = _nothing
        self.bookies: tuple[Bookie, ...] = ()
        self._watched: tuple[Bookie, ...] = ()
        self.bit_of: dict[AnsweringBookie, int] = {}
        self._adopt(bookies)

    def has_room(self) -> bool:
        """Whether less than the limits is in flight and waits for the slowest bookie: then one entry fits."""
        if self.in_flight_bytes >= self._max_bytes or len(self.pending) >= self._max_entries:
            return False
        most_bytes, most_entries = self.max_bookie_bytes, self.max_bookie_entries
        for bookie in self._watched:  # all() takes twice as long
            if bookie.pending_bytes >= most_bytes or len(bookie.unanswered) >= most_entries:
                return False
        return True

    def push(self, add: Add, watch: AddWatch | None = None) -> None:
        """Take the next entry and hand it to the bookies of its write set that have not failed.

        ``watch`` hears of their answers.
        """
        turn = add.entry_id % self._ensemble_size
        add.targets = self._targets[turn]
        self.pending.append(add)
        self.pushed = add.entry_id
        self.pushed_length = add.length
        self.in_flight_bytes += add.size_bytes
        self.carried = self.lac
        txn, frame = add.txn, add.frame
        receiver: AddReceiver = add if watch is None else WatchedAdd(add, watch)
        for send in self._sends[turn]:
            send(txn, frame, receiver)

    def settle(self) -> None:
        """After one answer, or many of one bookie: see what they confirm, and who has waited for them."""
        self.confirm()
        if self.waiting:
            self.wake()

    def confirm(self) -> None:
        """Resolve the entries at the head that are complete."""
        if self.changing:
            return
        pending, quorum = self.pending, self._ack_quorum
        complete: list[Add] = []
        while pending and pending[0].acked.bit_count() >= quorum:
            add = pending.popleft()
            self.in_flight_bytes -= add.size_bytes
            add.frame = b""
            complete.append(add)
        if not complete:
            return
        last = complete[-1]
        self.confirmed = last.entry_id
        self.confirmed_length = last.length
        if not self._deferred:
            self.lac = last.entry_id
            self.lac_length = last.length
            self._on_lac()
        if self._milestones.waiting:
            self._milestones.passed(self.confirmed)
        for add in complete:  # they may append, so everything here is as it is to be
            if not add.future.done():
                add.future.set_result(add.entry_id)

    def advance(self, entry_id: int, length: int) -> None:
        """The entries up to this one are on disk: the last add confirmed moves (deferred sync)."""
        if entry_id > self.lac and self.failure is None:
            self.lac = entry_id
            self.lac_length = length
            self._on_lac()

    def refused(self, add: Add, bookie: AnsweringBookie, status: int) -> None:
        """A replica did not take an entry: the ledger is lost to us, or that bookie has to be replaced."""
        if self.failure is not None:
            return
        error = error_of(status, bookie=bookie.id, ledger_id=self._ledger_id, entry_id=add.entry_id)
        if status == _EFENCED:
            # Whoever fences knows the ledger's key, so this holds also from a bookie that was replaced.
            self.fail(error)
            return
        bit = self.bit_of.get(bookie, 0)
        if not bit & add.targets:
            return
        if status == _EUA:
            self.fail(error)
            return
        self.cause = error
        index = bit.bit_length() - 1
        if not self.changing and add.acked.bit_count() >= self._ack_quorum:
            self.suspects[index] = bookie.id
            self._watched = tuple(one for one in self._watched if one is not bookie)
        elif index not in self.failed:
            self.failed[index] = bookie.id
            self.start_change()

    def start_change(self) -> None:
        """Stop confirming, and stop sending to the bookies known to have failed, suspects among them."""
        self.failed |= self.suspects
        self.suspects = {}
        self._route()
        self.changing = True
        self._on_bookie_failed()

    def use(self, bookies: Sequence[Bookie], deadline_s: float) -> None:
        """Go on with a changed ensemble: entries whose write set has a changed index are sent there again."""
        changed = [index for index, old in enumerate(self.bookies) if old is not bookies[index]]
        self._adopt(bookies)
        self.failed = {}
        kept = ~sum(1 << index for index in changed)
        for add in self.pending:
            for index in changed:
                if add.targets >> index & 1:
                    add.acked &= kept
                    bookies[index].send_add(add.txn, add.frame, Resent(add, deadline_s))
        self.changing = False
        self.confirm()

    def fail(self, error: BookKeeperError) -> None:
        """End: what is in flight fails with this error and an unknown outcome; only the first end counts."""
        if self.failure is not None:
            return
        self.failure = error
        pending, self.pending = self.pending, deque()
        self.in_flight_bytes = 0
        for add in pending:
            add.frame = b""
            if not add.future.done():
                add.future.set_exception(restated(error, Outcome.UNKNOWN, add.entry_id))
        self._milestones.ended()
        self._on_failed()

    async def reached(self, entry_id: int) -> None:
        """Return when the entries up to this one are complete, or the pipeline has ended."""
        if self.failure is None and self.confirmed < entry_id:
            await self._milestones.wait_for(entry_id)

    def write_set_of(self, entry_id: int) -> list[Bookie]:
        """The bookies that hold an entry, in the ensemble of now."""
        return [self.bookies[index] for index in self._write_sets[entry_id % self._ensemble_size]]

    def _adopt(self, bookies: Sequence[Bookie]) -> None:
        self.bookies = tuple(bookies)
        self.bit_of = {bookie: 1 << index for index, bookie in enumerate(self.bookies)}
        self.failed = {}
        self._route()

    def _route(self) -> None:
        failed, bookies = self.failed, self.bookies
        self._sends = [
            tuple(bookies[index].send_add for index in indexes if index not in failed)
            for indexes in self._write_sets
        ]
        self._watched = tuple(bookie for index, bookie in enumerate(bookies) if index not in failed)


def restated(error: BookKeeperError, outcome: Outcome, entry_id: int | None = None) -> BookKeeperError:
    """The same error, said of one entry."""
    again = copy.copy(error)
    again.outcome = outcome
    again.entry_id = entry_id
    again.__cause__ = error.__cause__
    return again


def _nothing() -> None:
    pass


class AppendSink(Protocol):
    """Receives what became of an entry: a future, or code that acts on it at once (``LedgerWriter.send``)."""

    def done(self) -> bool:
        """Whether nobody wants to know any more; then it is not called."""

    def set_result(self, entry_id: int, /) -> None:
        """The entry is confirmed."""

    def set_exception(self, error: BaseException, /) -> None:
        """The ledger's writer has ended before."""


class Add:
    """An entry, from its place in the ledger until its last replica has answered.

    Attributes:
        entry_id: its place.
        length: data bytes in the ledger up to and including it.
        txn, frame: the request as sent, the same to every replica; the frame is dropped once it is confirmed.
        size_bytes: of the frame.
        targets: the bits of its write set.
        acked: the bits of those bookies, of the present ensemble, that have it.
        future: the caller's; its result is the entry id.
        deadline_s: when a bookie that was sent it has not answered in time (loop time).
    """

    __slots__ = (
        "acked",
        "deadline_s",
        "entry_id",
        "frame",
        "future",
        "length",
        "pipeline",
        "size_bytes",
        "targets",
        "txn",
    )

    def __init__(
        self,
        pipeline: Pipeline,
        entry_id: int,
        length: int,
        txn: int,
        frame: bytes,
        future: AppendSink,
        deadline_s: float,
    ) -> None:
        self.pipeline = pipeline
        self.entry_id = entry_id
        self.length = length
        self.txn = txn
        self.frame = frame
        self.size_bytes = len(frame)
        self.targets = 0
        self.acked = 0
        self.future = future
        self.deadline_s = deadline_s

    def on_add_reply(self, bookie: AnsweringBookie, status: int) -> None:
        """A replica answered; called once for each time the entry was sent."""
        pipeline = self.pipeline
        if status:
            pipeline.refused(self, bookie, status)
        else:
            # A bookie that left the ensemble has no bit, so it counts for nothing.
            self.acked |= pipeline.bit_of.get(bookie, 0) & self.targets
            unsettled = bookie.unsettled
            if unsettled is not None:
                unsettled[pipeline] = None
                return
        pipeline.settle()


class AddWatch(Protocol):
    """Looks on while bookies answer; it raises nothing."""

    def answered(self, bookie_id: str, status: int) -> None:
        """A bookie has answered; status 0: it has the entry."""


class WatchedAdd:
    """An entry whose bookies' answers are looked at."""

    __slots__ = ("_add", "_watch", "deadline_s", "size_bytes")

    def __init__(self, add: Add, watch: AddWatch) -> None:
        self._add = add
        self._watch = watch
        self.deadline_s = add.deadline_s
        self.size_bytes = add.size_bytes

    def on_add_reply(self, bookie: AnsweringBookie, status: int) -> None:
        """A bookie answered."""
        self._watch.answered(bookie.id, status)
        self._add.on_add_reply(bookie, status)


class Resent:
    """An entry sent again, to the successor of a bookie that failed; it has a time-out of its own."""

    __slots__ = ("_add", "deadline_s", "size_bytes")

    def __init__(self, add: Add, deadline_s: float) -> None:
        self._add = add
        self.deadline_s = deadline_s
        self.size_bytes = add.size_bytes

    def on_add_reply(self, bookie: AnsweringBookie, status: int) -> None:
        """The successor answered."""
        self._add.on_add_reply(bookie, status)


# Room: the bound on what a writer holds in memory.


class Room:
    """Who waits for room in a pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._asked: set[Bookie] = set()
        self._closed = False
        pipeline.wake = self.wake

    async def wait(self) -> None:
        """Return when there is room, after all who came before; also when the writer has ended.

        Nothing is reserved: append before the loop goes on.
        """
        if not self._waiters and self._is_free():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(turn)
        self._listen()
        try:
            await turn
            while not self._is_free():
                turn = self._waiters[0] = asyncio.get_running_loop().create_future()
                self._listen()
                await turn
        finally:
            # The next one looks for itself, after this one has appended.
            self._waiters.remove(turn)
            self.wake()

    def wake(self) -> None:
        """Let the first one look whether there is room now; all of them when the writer has ended."""
        waiters = self._waiters
        if self._is_over():
            for turn in waiters:
                if not turn.done():
                    turn.set_result(None)
        elif waiters and not waiters[0].done():
            if self._pipeline.has_room():
                waiters[0].set_result(None)
            elif not self._pipeline.pending:
                # No answer to this ledger's entries may be left to come.
                self._listen()
        self._pipeline.waiting = bool(waiters)

    def close(self) -> None:
        """Let everybody go: the writer takes nothing more."""
        self._closed = True
        self.wake()

    def _is_over(self) -> bool:
        return self._closed or self._pipeline.failure is not None

    def _is_free(self) -> bool:
        return self._is_over() or self._pipeline.has_room()

    def _listen(self) -> None:
        """See to it that ``wake`` is called when there may be room."""
        pipeline = self._pipeline
        pipeline.waiting = True
        most_bytes, most_entries = pipeline.max_bookie_bytes - 1, pipeline.max_bookie_entries - 1
        for bookie in pipeline.bookies:
            # What it owes to other ledgers counts, too, and their writers tell this one nothing.
            is_full = bookie.pending_bytes > most_bytes or len(bookie.unanswered) > most_entries
            if is_full and bookie not in self._asked:
                self._asked.add(bookie)
                bookie.when_room(most_bytes, most_entries, partial(self._bookie_has_room, bookie))

    def _bookie_has_room(self, bookie: Bookie) -> None:
        self._asked.discard(bookie)
        self.wake()
