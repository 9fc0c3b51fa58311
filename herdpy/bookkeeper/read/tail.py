"""Following a ledger while it is written: each entry as soon as it is known to be confirmed.

Between ``reader`` and three things: the ledger's view (metadata that change, the proven last add
confirmed), ``ranges`` (reading what is confirmed), and long polls at the bookies (waiting for more).

What is confirmed is read at full speed, and the range grows while it is read. When there is nothing left,
bookies are polled for news (``polls``), and the entries that they tell of are fetched (``ahead``) while it is
being proven that they are confirmed. A follower that rests between its questions (``tail_interval_s``) asks
one bookie what has gathered instead (``glances``), and polls when that is nothing. When those polled have
none the whole ensemble is asked, because in a striped ledger the news may be at others. While another client
recovers the ledger nothing is asked: what bookies say then may be the recoverer's writing, and the end is
what the metadata will say.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from herdpy.bookkeeper.digest import Digest, Entry
from herdpy.bookkeeper.errors import (
    BookieUnavailableError,
    BookKeeperError,
    NoSuchLedgerError,
    TimedOutError,
    TooManyRequestsError,
    UnauthorizedError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerState
from herdpy.bookkeeper.read.polls import Glances, Polls
from herdpy.bookkeeper.read.quorum import read_last_confirmed
from herdpy.bookkeeper.read.ranges import RangeReader
from herdpy.bookkeeper.read.view import LedgerView, ReplicaOrder
from herdpy.bookkeeper.settings import ClientSettings

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import BookiePool

log = logging.getLogger("herdpy.bookkeeper.tail")

PASSING = (BookieUnavailableError, TimedOutError, TooManyRequestsError)
"""Errors of reads that may be over when the read is tried again."""


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
    ) -> None:
        self._view = view
        self._ranges = ranges
        self._pool = pool
        self._settings = settings
        self._digest = digest
        self._ahead = ranges.ahead()
        self._polls = Polls(view, pool, order, settings, digest, self._ahead)
        self._glances = Glances(view, pool, order, digest, self._ahead)
        self._is_lively = False  # there was news when it was looked for last
        self._fruitless = 0
        self._heard_s = -math.inf

    async def entries(self, next_id: int) -> AsyncGenerator[Entry, None]:
        """The entries from ``next_id`` on; ends behind the last one of a closed ledger."""
        view, ahead = self._view, self._ahead
        try:
            while True:
                if next_id <= view.last_add_confirmed:
                    await ahead.arrival(next_id)
                    fetched = ahead.pop(next_id)
                    if fetched is not None:
                        self._fruitless = 0
                        next_id += 1
                        if not view.is_closed:
                            view.length_bytes = max(view.length_bytes, fetched.length)
                        yield fetched
                        continue
                    confirmed = self._ranges.read(next_id, view.last_add_confirmed, growing=True)
                    try:
                        async for entry in confirmed:
                            self._fruitless = 0
                            next_id += 1
                            yield entry
                    except PASSING as error:
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
        if self._settings.tail_interval_s is not None:
            if await self._rested(changed) and not view.is_hurried:
                return
            view.is_hurried = False
            changed = view.next_change()
            if self._is_lively:
                self._is_lively = await self._glances.news(next_id)
                if self._is_lively:
                    self._heard_s = asyncio.get_running_loop().time()
                if self._is_lively or changed.is_set():
                    return
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
