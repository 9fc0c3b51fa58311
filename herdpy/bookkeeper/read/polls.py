"""Waiting at bookies for news of a ledger: long polls, looks at one bookie, and entries fetched meanwhile.

Below ``reader``; there are no tasks here: answers come to sinks, which wake the follower. A bookie answers a
long poll once its last add confirmed has moved, with the next entry if it has that. The bookie asked first is
the one that the entry *after* the next one starts at: that entry brings it the news, and it has the next
entry to send along. One that says nothing for a while is joined by another, because silence may mean that it
is dead or that there is no news. The number that comes with the answer is only a hint (see ``view``). When it
tells of more than is proven, three requests leave at once: for the proof (READ_LAC), for the entries
(``Ahead``), and the next poll. So news take one round trip more than they would with blind trust, however
many entries they are about. Ahead gives each entry out once its confirmation is proven, never before; what
was fetched in vain, because the hint was wrong or a replica failed, the tail reads as any other entry.

A follower that rests between two looks uses Glances: by then there is news as a rule, so one READ_LAC proves
how far the ledger is confirmed, and brings the newest entry that the bookie has. What lies between is asked
for at once. The same bookie is asked as long as it has news; where it has none, fails or is late, the
follower polls as any other, and the next glance goes to another bookie.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from herdpy.bookkeeper.digest import Digest, Entry
from herdpy.bookkeeper.errors import (
    BookKeeperError,
    NoSuchEntryError,
    NoSuchLedgerError,
    ProtocolError,
    UnauthorizedError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import NO_ENTRY, LedgerState
from herdpy.bookkeeper.read.entry_read import EntryRead, EntryReader
from herdpy.bookkeeper.read.quorum import proven_lac
from herdpy.bookkeeper.read.view import LedgerView, ReplicaOrder
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.messages import LacReply, ReadReply

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import BookiePool

MAX_AHEAD: Final = 64
"""Entries held or under way; behind them reading in order is as fast."""


class Ahead:
    """Entries of one ledger behind its proven last add confirmed, held for one follower.

    Attributes:
        next_id: the follower wants none before it.
    """

    def __init__(self, view: LedgerView, entries: EntryReader, settings: ClientSettings) -> None:
        self._view = view
        self._entries = entries
        self._limit_entries = min(MAX_AHEAD, settings.read_ahead_entries)
        self._limit_bytes = settings.read_ahead_bytes
        self.next_id = 0
        self._entry_bytes = 1
        self._held: dict[int, Entry] = {}
        self._reads: dict[int, EntryRead] = {}
        self._waiter: asyncio.Future[None] | None = None

    def put(self, entry: Entry) -> None:
        """An entry came along with an answer."""
        self._entry_bytes = max(1, len(entry.data))
        if len(self._held) < self._limit_entries:
            self._held[entry.entry_id] = entry

    def give(self, first: int, entries: Sequence[bytes]) -> None:
        """Entries from ``first`` on came from somebody who knows them to be confirmed."""
        if self._view.metadata.state is not LedgerState.OPEN:
            return
        ledger_id = self._view.ledger_id
        for entry_id, data in enumerate(entries, first):
            if entry_id >= self.next_id and entry_id not in self._reads:
                self.put(Entry(ledger_id, entry_id, NO_ENTRY, 0, data))

    def before(self, last: int) -> int:
        """The last entry, up to ``last``, before the first one that is here."""
        return min(last, next(iter(self._held), last + 1) - 1)

    def fetch(self, first: int, last: int) -> None:
        """Begin to read these, as far as they are wanted and the bounds allow."""
        held, reads = self._held, self._reads
        room = min(self._limit_entries, self._limit_bytes // self._entry_bytes) - len(held) - len(reads)
        stop = min(last + 1, first + room)
        while first < stop:
            if first in held or first in reads:
                first += 1
                continue
            members, end = self._view.span_at(first)
            end = stop if end is None else min(stop, end)
            end = next((one for one in range(first, end) if one in held or one in reads), end)
            for read in self._entries.begin_many(first, end, members, self._on_done):
                reads[read.entry_id] = read
            first = end

    def pop(self, entry_id: int) -> Entry | None:
        """Take an entry out; None when it is not here. Those before it are not wanted any more."""
        entry = self._held.pop(entry_id, None)
        if entry is None and (self._held or self._reads):
            for one in [one for one in self._held if one < entry_id]:
                del self._held[one]
            for one in [one for one in self._reads if one < entry_id]:
                self._reads.pop(one).cancel()
        return entry

    def pop_run(self, first: int, last: int) -> list[Entry]:
        """Take out the entries from ``first`` on, up to ``last``, as far as they are here without a gap."""
        run: list[Entry] = []
        entry = self.pop(first)
        while entry is not None:
            run.append(entry)
            first += 1
            entry = self._held.pop(first, None) if first <= last else None
        return run

    async def arrival(self, entry_id: int) -> None:
        """Return when the entry is not under way (any more)."""
        while entry_id in self._reads:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def close(self) -> None:
        """Want nothing more."""
        for read in self._reads.values():
            read.cancel()
        self._reads.clear()
        self._held.clear()

    def _on_done(self, read: EntryRead) -> None:
        del self._reads[read.entry_id]
        entry = read.entry
        if entry is not None:
            self._held[entry.entry_id] = entry
            # Bodies that a recoverer sealed may tell of more than another one lets stand.
            if self._view.metadata.state is LedgerState.OPEN:
                self._view.prove(entry.lac)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


# Long polls.

log = logging.getLogger("herdpy.bookkeeper.tail")


class Polls:
    """The long polls of one follower. They outlive a round: who has not answered yet is not asked again.

    Attributes:
        was_quiet: a bookie waited its time and had nothing new.
        in_vain: nobody is left to ask, or there was news without proof.
        is_over: nothing is wanted any more.
    """

    def __init__(
        self,
        view: LedgerView,
        pool: BookiePool,
        order: ReplicaOrder,
        settings: ClientSettings,
        digest: Digest,
        ahead: Ahead,
    ) -> None:
        self.was_quiet = self.in_vain = self.is_over = False
        self._view = view
        self._pool = pool
        self._order = order
        self._settings = settings
        self._digest = digest
        self._ahead = ahead
        metadata = view.metadata
        self._wanted = metadata.write_quorum - metadata.ack_quorum + 1
        self._is_striped = metadata.ensemble_size > metadata.write_quorum
        self._is_paced = settings.tail_interval_s is not None
        self._loop = asyncio.get_running_loop()
        self._next_id = NO_ENTRY
        self._members: tuple[str, ...] = ()
        self._polls: dict[str, LongPoll] = {}
        self._spent: set[str] = set()  # had no answer to wait for, since `restart`
        self._hints: dict[str, int] = {}  # what each bookie said last, until it proves wrong
        self._hint_asked = NO_ENTRY  # the highest hint whose proof is under way
        self._refusal: BookKeeperError | None = None
        self._is_waiting = False
        self._join_s = settings.speculative_read_s
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def news(self, next_id: int, changed: asyncio.Event) -> None:
        """Wait for ``changed``, which is set by any proof, or until ``was_quiet`` or ``in_vain``.

        Raises:
            UnauthorizedError: a bookie does not let this client read.
        """
        self._ask(next_id)
        if not (self.was_quiet or self.in_vain):
            self._is_waiting = True
            try:
                await changed.wait()
            finally:
                self._is_waiting = False
        if self._refusal is not None:
            raise self._refusal

    def restart(self) -> None:
        """Ask also those again who had no answer."""
        self.was_quiet = self.in_vain = False
        self._spent.clear()

    def stop(self) -> None:
        """Ignore what the polls under way will answer."""
        for poll in self._polls.values():
            poll.is_over = True
        self._polls.clear()
        self._hints.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Want nothing more."""
        self.stop()
        self.is_over = True

    # Asking.

    def _ask(self, next_id: int) -> None:
        """See to it that enough bookies are polled for news of an entry."""
        members = self._view.members_at(next_id).members
        if members != self._members:
            self.stop()
            self.restart()
            self._members = members
        if next_id != self._next_id:
            self._next_id = next_id
            self.restart()
            self._join_s = self._settings.speculative_read_s
            self._drop_the_late()
            if self._is_striped:
                best = self._ordered()[: self._wanted]
                for bookie_id in [one for one in self._polls if one not in best]:
                    self._polls.pop(bookie_id).is_over = True
        self._fill()

    def _ordered(self) -> tuple[str, ...]:
        """The ensemble in the order to ask."""
        members = self._members
        first = self._next_id + 1
        self._order.refresh()
        return self._order.ordered(members[(first + step) % len(members)] for step in range(len(members)))

    def _fill(self) -> None:
        polls, before = self._polls, self._next_id - 1
        candidates = [one for one in self._ordered() if one not in polls and one not in self._spent]
        # Who lags behind counts as polled, but not as the only one.
        while candidates and (
            len(polls) < self._wanted or all(poll.previous_lac < before for poll in polls.values())
        ):
            bookie_id = candidates.pop(0)
            self._poll(bookie_id, max(before, self._hints.get(bookie_id, NO_ENTRY)))
        if not polls:
            self._note_in_vain()
        elif len(polls) < self._wanted:
            # Others, which have not heard of the ledger yet, may be first to have news.
            self._wake_in(2 * self._settings.backoff_first_s)
        elif candidates:
            self._wake_in(self._join_s)
        else:
            self._due_s = 0.0

    def _poll(self, bookie_id: str, previous_lac: int) -> None:
        poll = self._polls[bookie_id] = LongPoll(self, bookie_id, previous_lac, self._loop.time())
        bookie = self._pool.get(bookie_id)
        bookie.send_long_poll(self._view.ledger_id, previous_lac, self._settings.long_poll_s, poll)

    def _wake_in(self, delay_s: float) -> None:
        """One timer, which is mostly let run and then set anew, because news come far more often."""
        self._due_s = due_s = self._loop.time() + delay_s
        if self._timer is not None and self._timer.when() > due_s:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(due_s, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if not self._due_s or not self._is_waiting:
            return
        if self._loop.time() < self._due_s:
            self._timer = self._loop.call_at(self._due_s, self._on_time)
            return
        candidates = [one for one in self._ordered() if one not in self._polls and one not in self._spent]
        if not candidates:
            self.stop()
            self._note_in_vain()
            return
        self._poll(candidates[0], self._next_id - 1)
        self._join_s *= 2
        if len(candidates) > 1:
            self._wake_in(self._join_s)

    def _note_in_vain(self) -> None:
        self.in_vain = True
        self._view.wake()

    # What bookies answer.

    def poll_answered(self, poll: LongPoll, reply: object) -> None:
        """A bookie has news, or waited in vain."""
        del self._polls[poll.bookie_id]
        view = self._view
        if view.metadata.state is not LedgerState.OPEN:
            return  # what bookies say then may be a recoverer's writing
        if self._is_paced and not self._is_waiting:
            return  # the follower rests: the bookie is asked again, for all that there is by then
        try:
            if not isinstance(reply, ReadReply):
                raise ProtocolError("a long poll was answered without a ReadReply", bookie=poll.bookie_id)
            entry = self._sent_along(poll, reply)
        except BookKeeperError as error:
            self._failed(poll, error)
            return
        hint = NO_ENTRY if reply.max_lac is None else reply.max_lac
        if hint <= poll.previous_lac and entry is None:
            self._quiet(poll)
            return
        self._hints[poll.bookie_id] = hint
        if hint > view.last_add_confirmed:
            if hint > self._hint_asked:
                self._ask_for_proof(poll.bookie_id, hint)
            if self._is_waiting:
                self._ahead.fetch(self._next_id, hint)
        if self._is_waiting and not self._is_striped and poll.bookie_id not in self._polls:
            self._poll(poll.bookie_id, max(view.last_add_confirmed, poll.previous_lac, hint))

    def poll_failed(self, poll: LongPoll, error: BookKeeperError) -> None:
        """A bookie cannot be polled."""
        del self._polls[poll.bookie_id]
        self._failed(poll, error)

    def lac_answered(self, question: LacQuestion, reply: object) -> None:
        """A bookie says how far the ledger is confirmed, with proof."""
        view = self._view
        try:
            if not isinstance(reply, LacReply):
                raise ProtocolError("READ_LAC was answered without its reply", bookie=question.bookie_id)
            lac = proven_lac(reply, view.ledger_id, self._digest)
        except BookKeeperError as error:
            self.lac_failed(question, error)
            return
        if view.metadata.state is LedgerState.OPEN:
            view.prove(lac)
        self._proof_ended(question)

    def lac_failed(self, question: LacQuestion, error: BookKeeperError) -> None:
        """A bookie that had news does not prove them."""
        self._order.doubt(question.bookie_id)
        self._log(question.bookie_id, error)
        if not self._proof_ended(question):
            self._note_in_vain()

    def _proof_ended(self, question: LacQuestion) -> bool:
        """If there are hints above what is proven now, have another bookie prove its own; whether one can."""
        lac, hints = self._view.last_add_confirmed, self._hints
        if question.hint == self._hint_asked:
            self._hint_asked = lac
        if hints.get(question.bookie_id, lac) == question.hint > lac:
            del hints[question.bookie_id]
        best = max(hints, key=lambda bookie_id: hints[bookie_id], default=None)
        if best is None or hints[best] <= max(lac, self._hint_asked):
            return self._hint_asked > lac or lac >= question.hint
        self._ask_for_proof(best, hints[best])
        return True

    def _ask_for_proof(self, bookie_id: str, hint: int) -> None:
        self._hint_asked = hint
        self._pool.get(bookie_id).send_read_lac(self._view.ledger_id, LacQuestion(self, bookie_id, hint))

    def _sent_along(self, poll: LongPoll, reply: ReadReply) -> Entry | None:
        """The entry sent along, if there is one and it is what it must be."""
        if not reply.body:
            return None
        entry_id = poll.previous_lac + 1
        entry = self._digest.open(reply.body, self._view.ledger_id, entry_id)
        if entry_id >= self._next_id:
            self._ahead.put(entry)
        self._view.prove(entry.lac)
        return entry

    def _quiet(self, poll: LongPoll) -> None:
        self._hints.pop(poll.bookie_id, None)
        if poll.previous_lac < self._next_id - 1:  # it lags behind the others
            self._order.doubt(poll.bookie_id)
            if self._is_waiting:
                self._fill()
            return
        patience_s = self._settings.long_poll_s + self._settings.speculative_read_s / 2
        asked_before = self._loop.time() - patience_s
        for one in self._polls.values():
            if one.asked_s < asked_before:
                self._order.doubt(one.bookie_id)
        self.stop()
        self.was_quiet = True
        self._view.wake()

    def _failed(self, poll: LongPoll, error: BookKeeperError) -> None:
        self._hints.pop(poll.bookie_id, None)
        self._spent.add(poll.bookie_id)
        if isinstance(error, UnauthorizedError):
            self._refusal = error
            self._view.wake()
            return
        if not isinstance(error, NoSuchEntryError | NoSuchLedgerError):
            self._order.doubt(poll.bookie_id)
            self._log(poll.bookie_id, error)
        if self._is_waiting:
            self._fill()

    def _drop_the_late(self) -> None:
        """Who still says nothing a while after others had news is asked last, and not waited for."""
        now_s = self._loop.time()
        for poll in list(self._polls.values()):
            if poll.previous_lac < self._next_id - 1:
                if not poll.late_s:
                    poll.late_s = now_s
                elif now_s - poll.late_s > self._settings.speculative_read_s:
                    self._order.doubt(poll.bookie_id)
                    poll.is_over = True
                    del self._polls[poll.bookie_id]

    def _log(self, bookie_id: str, error: BookKeeperError) -> None:
        log.info(
            "a bookie failed a long poll",
            extra={"ledger_id": self._view.ledger_id, "bookie": bookie_id, "error": str(error)},
        )


class LongPoll:
    """A long poll under way.

    Attributes:
        bookie_id: where.
        previous_lac: the bookie answers once it knows of more.
        asked_s: when (loop time).
        late_s: when it was first seen that others know of more; 0: not yet.
        is_over: its answer is not wanted any more.
    """

    __slots__ = ("_polls", "asked_s", "bookie_id", "is_over", "late_s", "previous_lac")

    def __init__(self, polls: Polls, bookie_id: str, previous_lac: int, asked_s: float) -> None:
        self.bookie_id = bookie_id
        self.previous_lac = previous_lac
        self.asked_s = asked_s
        self.late_s = 0.0
        self.is_over = False
        self._polls = polls

    def done(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.is_over

    def set_result(self, reply: object, /) -> None:
        """The bookie answered."""
        self.is_over = True
        self._polls.poll_answered(self, reply)

    def set_exception(self, error: BaseException, /) -> None:
        """The bookie refused, or could not be reached."""
        self.is_over = True
        if not isinstance(error, BookKeeperError):
            raise error
        self._polls.poll_failed(self, error)


class LacQuestion:
    """A question for the proof of a hint."""

    __slots__ = ("_polls", "bookie_id", "hint")

    def __init__(self, polls: Polls, bookie_id: str, hint: int) -> None:
        self.bookie_id = bookie_id
        self.hint = hint
        self._polls = polls

    def done(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._polls.is_over

    def set_result(self, reply: object, /) -> None:
        """The bookie answered."""
        self._polls.lac_answered(self, reply)

    def set_exception(self, error: BaseException, /) -> None:
        """The bookie refused, or could not be reached."""
        if not isinstance(error, BookKeeperError):
            raise error
        self._polls.lac_failed(self, error)


# Looks at one bookie.

LATE_S: Final = 0.03
"""A bookie that takes longer is not waited for alone."""


class Glances:
    """The glances of one follower; one at a time is waited for."""

    def __init__(
        self, view: LedgerView, pool: BookiePool, order: ReplicaOrder, digest: Digest, ahead: Ahead
    ) -> None:
        self.is_over = False
        self._view = view
        self._pool = pool
        self._order = order
        self._digest = digest
        self._ahead = ahead
        self._loop = asyncio.get_running_loop()
        self._turn = 0

    async def news(self, next_id: int) -> bool:
        """Look once; whether entry ``next_id`` is confirmed, as far as was learned."""
        view = self._view
        members = view.members_at(next_id).members
        self._order.refresh()
        # By the ledger, so that those who follow several do not all look at the same bookie.
        first = view.ledger_id + self._turn
        candidates = self._order.ordered(
            members[(first + step) % len(members)] for step in range(len(members))
        )
        glance = _Glance(self, candidates[0], next_id, self._loop.create_future())
        late = self._loop.call_later(LATE_S, glance.end)
        self._pool.get(glance.bookie_id).send_read_lac(view.ledger_id, glance)
        try:
            await glance.waiter
        finally:
            late.cancel()
        if view.last_add_confirmed >= next_id:
            return True
        self._turn += 1
        return False

    def close(self) -> None:
        """Want nothing more."""
        self.is_over = True

    def answered(self, glance: _Glance, reply: object) -> None:
        """A bookie says how far the ledger is confirmed, with proof."""
        view = self._view
        try:
            if not isinstance(reply, LacReply):
                raise ProtocolError("READ_LAC was answered without its reply", bookie=glance.bookie_id)
            lac = NO_ENTRY
            if reply.lac_body:
                lac = self._digest.open_lac(reply.lac_body, view.ledger_id)
            newest = None
            if reply.last_entry_body:
                newest = self._digest.open(reply.last_entry_body, view.ledger_id, None)
                lac = max(lac, newest.lac)
        except BookKeeperError as error:
            self.failed(glance, error)
            return
        if view.metadata.state is LedgerState.OPEN:  # else it may be a recoverer's writing
            if not glance.waiter.done():
                if newest is not None and newest.entry_id >= glance.next_id:
                    self._ahead.put(newest)
                self._ahead.fetch(glance.next_id, lac)
            view.prove(lac)
        glance.end()

    def failed(self, glance: _Glance, error: BookKeeperError) -> None:
        """It does not say: polling finds out what is the matter."""
        if not isinstance(error, NoSuchEntryError | NoSuchLedgerError):
            self._order.doubt(glance.bookie_id)
        log.info(
            "a bookie failed a read of the last add confirmed",
            extra={"ledger_id": self._view.ledger_id, "bookie": glance.bookie_id, "error": str(error)},
        )
        glance.end()


class _Glance:
    """A question under way; takes the answer."""

    __slots__ = ("_glances", "bookie_id", "next_id", "waiter")

    def __init__(self, glances: Glances, bookie_id: str, next_id: int, waiter: asyncio.Future[None]) -> None:
        self.bookie_id = bookie_id
        self.next_id = next_id
        self.waiter = waiter
        self._glances = glances

    def end(self) -> None:
        """Nobody waits for it any more."""
        if not self.waiter.done():
            self.waiter.set_result(None)

    def done(self) -> bool:
        """Whether the answer is of no use any more."""
        return self._glances.is_over

    def set_result(self, reply: object, /) -> None:
        """The bookie answered."""
        self._glances.answered(self, reply)

    def set_exception(self, error: BaseException, /) -> None:
        """The bookie refused, or could not be reached."""
        if not isinstance(error, BookKeeperError):
            raise error
        self._glances.failed(self, error)
