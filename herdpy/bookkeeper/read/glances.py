"""Looking at one bookie for news of a ledger that is written to all the time: a question, no long poll.

Beside ``polls``, for a follower that rests between two looks. By then there is news as a rule, so waiting at
several bookies for it, then asking for a proof and for the entries would be three questions where one does:
READ_LAC proves how far the ledger is confirmed, and brings the newest entry that the bookie has, which is
kept for when its own confirmation is proven. What lies between is asked for at once.

The same bookie is asked as long as it has news. Where it has none, fails or is late, the follower polls as
any other, and the next glance goes to another bookie.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from herdpy.bookkeeper.digest import Digest
from herdpy.bookkeeper.errors import BookKeeperError, NoSuchEntryError, NoSuchLedgerError, ProtocolError
from herdpy.bookkeeper.metadata.ledger_metadata import NO_ENTRY, LedgerState
from herdpy.bookkeeper.read.ahead import Ahead
from herdpy.bookkeeper.read.replicas import ReplicaOrder
from herdpy.bookkeeper.read.view import LedgerView
from herdpy.bookkeeper.wire.replies import LacReply

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import BookiePool

log = logging.getLogger("herdpy.bookkeeper.tail")

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
            "a bookie failed a glance",
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
