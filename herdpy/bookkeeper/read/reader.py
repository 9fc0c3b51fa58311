"""A ledger opened for reading: entries by id, in order, or as they come while it is written.

The top of the reading layer: the object that ``BookKeeper.open_ledger`` gives. Bounds are checked here,
against what is known to be confirmed; a range becomes a ``ReadWindow`` over the ``EntryReader``; when all
replicas of an entry failed, the metadata are read again, because auto recovery moves the entries of closed
ledgers, too, and the read is repeated if their ensemble has changed.

:class:`Tail` follows a ledger. What is confirmed is read at full speed, and the range grows while it is read.
When there is nothing left, bookies are polled for news (``polls``), and the entries that they tell of are
fetched (``ahead``) while it is being proven that they are confirmed. A follower that rests between its
questions (``tail_interval_s``) asks one bookie what has gathered instead (``glances``), and polls when that
is nothing. When those polled have none the whole ensemble is asked, because in a striped ledger the news may
be at others. As long as the ledger's writer reports how far it is confirmed (``LedgerReader.report``),
bookies are asked for entries only, and not for those that came with a report (``give``). While another client
recovers the ledger nothing is asked: what bookies say then may be the recoverer's writing, and the end is
what the metadata will say.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from herdpy.bookkeeper.digest import Digest, Entry
from herdpy.bookkeeper.errors import (
    BookieUnavailableError,
    BookKeeperError,
    ClosedClientError,
    NoSuchEntryError,
    NoSuchLedgerError,
    TimedOutError,
    TooManyRequestsError,
    UnauthorizedError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore, Versioned
from herdpy.bookkeeper.read.entry_read import EntryReader
from herdpy.bookkeeper.read.polls import LATE_S, Glances, Polls
from herdpy.bookkeeper.read.quorum import read_last_confirmed
from herdpy.bookkeeper.read.ranges import RangeReader
from herdpy.bookkeeper.read.view import LedgerView, ReplicaOrder
from herdpy.bookkeeper.settings import ClientSettings

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import BookiePool


log = logging.getLogger("herdpy.bookkeeper.tail")

PASSING = (BookieUnavailableError, TimedOutError, TooManyRequestsError)
"""Errors of reads that may be over when the read is tried again."""


HURRIED_LOOKS = 4
"""So often a reader in a hurry looks at bookies while it waits for a report: by then they know what an idle
writer has confirmed.
"""


class Tail:
    """One follower of one ledger. ``reader`` is what has to live as long."""

    reader: object = None

    def __init__(
        self,
        view: LedgerView,
        ranges: RangeReader,
        pool: BookiePool,
        order: ReplicaOrder,
        settings: ClientSettings,
        digest: Digest,
        tails: list[Tail],
    ) -> None:
        """``tails`` has it while it gives out entries."""
        self._view = view
        self._ranges = ranges
        self._pool = pool
        self._settings = settings
        self._digest = digest
        self._ahead = ranges.ahead()
        self._polls = Polls(view, pool, order, settings, digest, self._ahead)
        self._glances = Glances(view, pool, order, digest, self._ahead)
        self._tails = tails
        self._is_lively = False  # there was news when it was looked for last
        self._fruitless = 0
        self._heard_s = -math.inf

    def give(self, first: int, entries: Sequence[bytes]) -> None:
        """As :meth:`LedgerReader.give`."""
        self._ahead.give(first, entries)

    def _confirmed_and_not_held(self) -> int:
        return self._ahead.before(self._view.last_add_confirmed)

    async def entries(self, next_id: int) -> AsyncGenerator[Entry, None]:
        """The entries from ``next_id`` on; ends behind the last one of a closed ledger."""
        async with aclosing(self.runs(next_id)) as runs:
            async for run in runs:
                for entry in run:
                    yield entry

    async def runs(self, next_id: int) -> AsyncGenerator[list[Entry], None]:
        """As :meth:`entries`, as many at a time as are there."""
        view, ahead = self._view, self._ahead
        self._tails.append(self)
        try:
            while True:
                ahead.next_id = next_id
                if next_id <= view.last_add_confirmed:
                    await ahead.arrival(next_id)
                    run = ahead.pop_run(next_id, view.last_add_confirmed)
                    if run:
                        self._fruitless = 0
                        next_id += len(run)
                        if not view.is_closed:
                            view.length_bytes = max(view.length_bytes, *[one.length for one in run])
                        yield run
                        continue
                    last = self._confirmed_and_not_held()
                    confirmed = self._ranges.runs(next_id, last, growing=self._confirmed_and_not_held)
                    try:
                        async for run in confirmed:
                            self._fruitless = 0
                            next_id += len(run)
                            yield run
                    except PASSING as error:
                        await self._no_replica(error)
                    except NoSuchEntryError as error:
                        # A report may be newer than the metadata, which then name bookies that never had it.
                        if next_id <= view.proven:
                            raise
                        await self._no_replica(error)
                    finally:
                        await confirmed.aclose()
                elif view.is_closed:
                    return
                elif view.is_deleted:
                    raise NoSuchLedgerError("the ledger was deleted", ledger_id=view.ledger_id)
                elif self._ranges.is_closed:
                    raise self._ranges.closed_error()
                else:
                    await self._news(next_id)
        finally:
            self._tails.remove(self)
            self._polls.close()
            self._glances.close()
            ahead.close()

    async def _no_replica(self, error: BookKeeperError) -> None:
        """No replica of a confirmed entry can be reached: wait for one to be back."""
        self._fruitless += 1
        log.warning(
            "no replica gave a confirmed entry",
            extra={"ledger_id": self._view.ledger_id, "entry_id": error.entry_id, "error": str(error)},
        )
        await self._pause(self._view.next_change())

    async def _news(self, next_id: int) -> None:
        """Wait until something may have changed."""
        view, polls = self._view, self._polls
        changed = view.next_change()
        if view.metadata.state is LedgerState.IN_RECOVERY:
            polls.stop()
            await changed.wait()
            return
        if view.is_reported:
            await self._reported(next_id, changed)
            return
        if self._settings.tail_interval_s is not None:
            if await self._rested(changed) and not view.is_hurried:
                return
            changed = view.next_change()
            view.is_hurried = False
            if self._is_lively:
                self._is_lively = await self._glances.news(next_id)
                if self._is_lively:
                    self._heard_s = asyncio.get_running_loop().time()
                if self._is_lively or changed.is_set():
                    return
        view.is_hurried = False
        await polls.news(next_id, changed)
        self._heard_s = asyncio.get_running_loop().time()
        self._is_lively = True
        if view.last_add_confirmed >= next_id:
            return
        if polls.was_quiet:
            await self._ask_everybody()
        elif polls.in_vain:
            self._fruitless += 1
        else:
            return
        polls.restart()
        if view.last_add_confirmed < next_id and self._fruitless:
            await self._pause(view.next_change())

    async def _reported(self, next_id: int, changed: asyncio.Event) -> None:
        """Wait for the writer's next report. Who waits for it in a hurry has bookies looked at meanwhile."""
        view = self._view
        looks, view.is_hurried = HURRIED_LOOKS if view.is_hurried else 0, False
        for _ in range(looks):
            if await self._glances.news(next_id):
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LATE_S):
                    await changed.wait()
            if changed.is_set():
                break
        else:
            await changed.wait()
        if view.last_add_confirmed >= next_id:
            self._ahead.fetch(next_id, view.last_add_confirmed)

    async def _rested(self, changed: asyncio.Event) -> bool:
        """Let news gather, if there were some a moment ago; whether something changed meanwhile."""
        assert self._settings.tail_interval_s is not None
        rest_s = self._heard_s + self._settings.tail_interval_s - asyncio.get_running_loop().time()
        if rest_s > 0:
            try:
                async with asyncio.timeout(rest_s):
                    await changed.wait()
            except TimeoutError:
                pass
        return changed.is_set()

    async def _ask_everybody(self) -> None:
        """Nobody polled has news: look at the whole ensemble, as a striped ledger needs it."""
        try:
            # Each answer proves something by itself, so there is no need to wait for the last of them.
            async with asyncio.timeout(self._settings.speculative_read_s):
                await read_last_confirmed(self._view, self._pool, self._digest)
        except TimeoutError:
            pass
        except (NoSuchLedgerError, UnauthorizedError):
            raise
        except BookKeeperError as error:
            self._fruitless += 1
            log.warning(
                "cannot ask how far the ledger is confirmed",
                extra={"ledger_id": self._view.ledger_id, "error": str(error)},
            )

    async def _pause(self, changed: asyncio.Event) -> None:
        """Before asking bookies again that had no answer to wait for: not at once, never long."""
        settings = self._settings
        longest = min(settings.backoff_max_s, settings.long_poll_s / 4)
        pause_s = min(settings.backoff_first_s * 2 ** min(self._fruitless - 1, 16), longest)
        try:
            async with asyncio.timeout(pause_s):
                await changed.wait()
        except TimeoutError:
            pass


class LedgerReader:
    """Reads one ledger; any number of its methods may run at the same time.

    Args:
        versioned: the ledger's metadata, as just read.
        preferred: bookies to read from first, where they have the entry (ids).

    Attributes:
        ledger_id: which ledger.
    """

    def __init__(
        self,
        ledger_id: int,
        versioned: Versioned,
        store: LedgerStore,
        pool: BookiePool,
        settings: ClientSettings,
        digest: Digest,
        *,
        preferred: Iterable[str] = (),
    ) -> None:
        self.ledger_id = ledger_id
        self._pool = pool
        self._settings = settings
        self._digest = digest
        metadata = versioned.metadata
        self._view = LedgerView(ledger_id, versioned, store)
        self._order = ReplicaOrder(asyncio.get_running_loop(), settings.quarantine_s, preferred)
        self._entries = EntryReader(
            ledger_id, metadata.write_quorum, metadata.ack_quorum, pool, settings, digest, self._order
        )
        self._ranges = RangeReader(self._view, self._entries, settings)
        self._is_released = False
        self._tails: list[Tail] = []
        self._view.follow()

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata, as new as is known; they change while the ledger is open, and when auto
        recovery moves entries."""
        return self._view.metadata

    @property
    def last_add_confirmed(self) -> int:
        """The last entry known to be confirmed, -1 for none; of a closed ledger the last there is.

        It moves by what is read: ``read_last_add_confirmed`` and ``tail`` ask for it.
        """
        return self._view.last_add_confirmed

    @property
    def last_stored(self) -> int:
        """The newest entry that bookies said they have, confirmed or not; -1 for none.

        Right after ``read_last_add_confirmed`` no entry that was confirmed to a writer lies behind both.
        """
        return self._view.last_stored

    @property
    def is_closed(self) -> bool:
        """Whether the ledger is closed: no entry will follow ``last_add_confirmed``."""
        return self._view.is_closed

    @property
    def length_bytes(self) -> int:
        """Data bytes of the ledger if it is closed, else up to the furthest entry read from bookies."""
        return self._view.length_bytes

    @property
    def digest_mismatches(self) -> int:
        """How many replicas were passed over because their entry did not match its digest or its ids."""
        return self._entries.digest_mismatches

    @property
    def speculative_reads(self) -> int:
        """How many replicas were asked because another one was late."""
        return self._entries.speculative_reads

    async def get(self, entry_id: int) -> Entry:
        """One confirmed entry.

        Raises:
            ValueError: a negative id.
            NoSuchEntryError: it is beyond the last add confirmed, or all replicas lack it.
            DigestMismatchError, TimedOutError, BookieUnavailableError and other BookKeeperErrors: no
                replica gave it; the message names what each of them said.
        """
        self._check(entry_id, entry_id)
        return await self._ranges.get(entry_id)

    def read(self, first: int, last: int) -> AsyncGenerator[Entry, None]:
        """Confirmed entries from ``first`` to ``last``, both included, in order.

        Reads ahead of the loop that takes them, within ``read_ahead_bytes`` and ``read_ahead_entries``; a
        loop that stops early leaves nothing behind. ``read(n, n - 1)`` is empty.

        Raises, at once:
            ValueError: negative or reversed bounds.
            NoSuchEntryError: ``last`` is beyond the last add confirmed.

        Raises, while taking entries: what ``get`` raises.
        """
        self._check(first, last)
        return self._ranges.read(first, last)

    def read_unconfirmed(self, first: int, last: int) -> AsyncGenerator[Entry, None]:
        """As ``read``, also beyond the last add confirmed.

        What is not confirmed may not be there yet (NoSuchEntryError), and may be gone after a recovery.
        Of a closed ledger nothing beyond its end is read.
        """
        self._check(first, last, unconfirmed=True)
        return self._ranges.read(first, last)

    def unconfirmed_runs(self, first: int, last: int) -> AsyncGenerator[list[Entry], None]:
        """As :meth:`read_unconfirmed`, as many entries at a time as are there."""
        self._check(first, last, unconfirmed=True)
        return self._ranges.runs(first, last)

    async def read_last_add_confirmed(self) -> int:
        """Ask the bookies how far the ledger is confirmed; -1 when it has no confirmed entry.

        At least every entry is counted whose confirmation a writer had sent to an ack quorum of bookies.

        Raises:
            BookieUnavailableError: too few bookies answered; the message names what each said.
            UnauthorizedError: this client may not read the ledger.
            NoSuchLedgerError: the ledger was deleted.
        """
        self._check_usable()
        patience_s = self._settings.request_timeout_s
        return await read_last_confirmed(self._view, self._pool, self._digest, patience_s)

    def tail(self, from_entry: int) -> AsyncGenerator[Entry, None]:
        """Entries from ``from_entry`` on, each as soon as it is confirmed; ends behind the last one of a
        closed ledger.

        Lost and silent bookies are passed over as long as others have the entries; while nobody can be
        reached it waits (and logs) and tries again. While another client recovers the ledger it waits for
        the end of that.

        Raises:
            ValueError: a negative id (at once).
            NoSuchLedgerError: the ledger was deleted.
            NoSuchEntryError, DigestMismatchError and the like: the replicas of a confirmed entry answered,
                and none of them gave it.
        """
        return self._tail(from_entry).entries(from_entry)

    def tail_runs(self, from_entry: int) -> AsyncGenerator[list[Entry], None]:
        """As :meth:`tail`, as many entries at a time as are there: at a high rate that costs much less."""
        return self._tail(from_entry).runs(from_entry)

    def _tail(self, from_entry: int) -> Tail:
        self._check_usable()
        if from_entry < 0:
            raise ValueError(f"no entry has the id {from_entry}")
        tail = Tail(
            self._view, self._ranges, self._pool, self._order, self._settings, self._digest, self._tails
        )
        # The client ends tails by closing their readers, which it refers to weakly.
        tail.reader = self
        return tail

    def report(self, last_add_confirmed: int, silent_s: float) -> None:
        """Say what the ledger's writer reports: that every entry up to there is confirmed.

        The caller vouches for it. That a writer was fenced since makes it no less true: the entry and all
        before it are on an ack quorum of bookies, so whoever recovers the ledger keeps them. Lower ones than
        are known, and those of a ledger that is closed or in recovery, change nothing.

        Args:
            silent_s: the writer reports again within that time, if only the same. Until then a tail asks
                bookies for entries only, and for news not before :meth:`hurry`. 0: it reports no more.
        """
        self._view.report(last_add_confirmed, silent_s)

    def give(self, first: int, entries: Sequence[bytes]) -> None:
        """Have tails take the data of these entries, from ``first`` on, instead of reading them from bookies.

        The caller vouches for them, as for what it reports: no digest covers them. They are given out once
        they are confirmed; tails that have no room read them from bookies all the same.
        """
        for tail in self._tails:
            tail.give(first, entries)

    def hurry(self) -> None:
        """Have a tail that rests (``tail_interval_s``), or waits for a report, look for news now: somebody
        waits for them.
        """
        self._view.hurry()

    async def close(self) -> None:
        """Let go of the ledger: watches end, reads under way are dropped. May be repeated."""
        self._is_released = True
        self._entries.close()
        self._view.release()

    def _check_usable(self) -> None:
        if self._is_released:
            raise ClosedClientError("the reader is closed", ledger_id=self.ledger_id)

    def _check(self, first: int, last: int, *, unconfirmed: bool = False) -> None:
        self._check_usable()
        if first < 0 or last < first - 1:
            raise ValueError(f"entries {first} to {last} are no range")
        confirmed = self._view.last_add_confirmed
        if last <= confirmed or last < first:
            return
        if self._view.is_closed:
            raise NoSuchEntryError(
                f"the ledger is closed and ends at entry {confirmed}", ledger_id=self.ledger_id, entry_id=last
            )
        if not unconfirmed:
            raise NoSuchEntryError(
                f"not known to be confirmed (the last such entry is {confirmed}): "
                "read_last_add_confirmed() asks for newer ones",
                ledger_id=self.ledger_id,
                entry_id=last,
            )
