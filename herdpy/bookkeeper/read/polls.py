"""Waiting at bookies for news of a ledger: long polls, at more than one bookie when one keeps silent.

Below ``tail``. A bookie answers a long poll once its last add confirmed has moved, with the next entry if
it has that. The bookie asked first is the one that the entry *after* the next one starts at: that entry
brings it the news, and it has the next entry to send along. One that says nothing for a while is joined by
another, because silence may mean that it is dead or that there is no news. The number that comes with the
answer is only a hint (see ``view``): the bodies behind it are fetched and checked before it counts.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from herdpy.bookkeeper.digest import Digest, Entry
from herdpy.bookkeeper.errors import (
    BookKeeperError,
    DigestMismatchError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
)
from herdpy.bookkeeper.read.last_confirmed import ask_one
from herdpy.bookkeeper.read.replicas import ReplicaOrder
from herdpy.bookkeeper.read.view import LedgerView
from herdpy.bookkeeper.settings import ClientSettings

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import BookiePool
    from herdpy.bookkeeper.wire.replies import ReadReply

log = logging.getLogger("herdpy.bookkeeper.tail")


class PollRound:
    """Long polls for one entry at one bookie after another, until one has news or has waited in vain.

    Attributes:
        was_quiet: a bookie waited its time and had nothing new.
    """

    def __init__(
        self,
        view: LedgerView,
        pool: BookiePool,
        order: ReplicaOrder,
        settings: ClientSettings,
        digest: Digest,
        next_id: int,
    ) -> None:
        self.was_quiet = False
        self._view = view
        self._pool = pool
        self._order = order
        self._settings = settings
        self._digest = digest
        self._next_id = next_id
        self._polls: dict[asyncio.Task[Entry | None], str] = {}
        self._asked_at: dict[str, float] = {}
        self._loop = asyncio.get_running_loop()

    async def run(self, changed: asyncio.Event) -> Entry | None:
        """Poll; returns early when ``changed`` is set.

        Returns the next entry if a bookie sent it along; it need not be confirmed.

        Raises:
            UnauthorizedError: a bookie does not let this client read.
        """
        metadata = self._view.metadata
        waiting: asyncio.Task[object] = self._loop.create_task(changed.wait())
        candidates = list(reversed(self._candidates()))
        join_s = self._settings.speculative_read_s
        wanted = metadata.write_quorum - metadata.ack_quorum + 1
        try:
            while True:
                while len(self._polls) < wanted and candidates:
                    self._poll(candidates.pop())
                if not self._polls:
                    return None
                if len(self._polls) < wanted:
                    # Others, which have not heard of the ledger yet, may be first to have news.
                    timeout_s: float | None = 2 * self._settings.backoff_first_s
                else:
                    timeout_s = join_s if candidates else None
                done, _ = await asyncio.wait(
                    [waiting, *self._polls], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    if not candidates:
                        return None
                    self._poll(candidates.pop())
                    join_s *= 2
                for poll in [poll for poll in self._polls if poll in done]:
                    bookie_id = self._polls.pop(poll)
                    sent_along = poll.result()
                    if self._view.last_add_confirmed >= self._next_id:
                        self._blame_the_silent(self._asked_at[bookie_id])
                        return sent_along
                if self.was_quiet:
                    patience_s = self._settings.long_poll_s + self._settings.speculative_read_s / 2
                    self._blame_the_silent(self._loop.time() - patience_s)
                    return None
                if changed.is_set():
                    return None
        finally:
            for task in (waiting, *self._polls):
                task.cancel()

    def _candidates(self) -> tuple[str, ...]:
        """The ensemble in the order to ask."""
        members = self._view.members_at(self._next_id).members
        first = self._next_id + 1
        self._order.refresh()
        return self._order.ordered(members[(first + step) % len(members)] for step in range(len(members)))

    def _poll(self, bookie_id: str) -> None:
        self._asked_at[bookie_id] = self._loop.time()
        self._polls[self._loop.create_task(self._wait_at(bookie_id))] = bookie_id

    async def _wait_at(self, bookie_id: str) -> Entry | None:
        """Wait at one bookie and prove what it then hints at; the entry it sent along."""
        view = self._view
        bookie = self._pool.get(bookie_id)
        try:
            reply = await bookie.long_poll(view.ledger_id, self._next_id - 1, self._settings.long_poll_s)
            sent_along = self._checked(reply)
            if view.last_add_confirmed < self._next_id:
                if reply.max_lac is not None and reply.max_lac >= self._next_id:
                    await ask_one(bookie_id, view, self._pool, self._digest)
                elif sent_along is None:
                    self.was_quiet = True
            return sent_along
        except (NoSuchEntryError, NoSuchLedgerError):
            return None
        except UnauthorizedError:
            raise
        except BookKeeperError as error:
            self._order.doubt(bookie_id)
            log.info(
                "a bookie failed a long poll",
                extra={"ledger_id": view.ledger_id, "bookie": bookie_id, "error": str(error)},
            )
            return None

    def _checked(self, reply: ReadReply) -> Entry | None:
        """The entry sent along, if there is one and it is what it must be."""
        if not reply.body:
            return None
        entry = self._digest.open(reply.body, self._view.ledger_id, None)
        if entry.entry_id != self._next_id:
            raise DigestMismatchError(
                f"a long poll gave entry {entry.entry_id} instead of another",
                ledger_id=self._view.ledger_id,
                entry_id=self._next_id,
            )
        self._view.prove(entry.lac)
        return entry

    def _blame_the_silent(self, asked_before: float) -> None:
        """Who was asked before that time and still keeps silent is asked last for a while."""
        for bookie_id in self._polls.values():
            if self._asked_at[bookie_id] < asked_before:
                self._order.doubt(bookie_id)
