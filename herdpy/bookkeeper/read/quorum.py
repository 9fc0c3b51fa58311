"""One question to every bookie of an ensemble, until the answers cover every write set: the fence, the LAC.

An entry is in a write set, and its ack quorum can be any A of that set's W bookies: so what all of the
answers do not show cannot have been confirmed only when fewer than A bookies of *every* write set are silent
(client/RoundRobinDistributionSchedule.java). Counting answers of the whole ensemble instead is right only
when every entry goes to every bookie.

After a failed connection a handle refuses requests for a while, also when the bookie has just come back.
Whoever needs that very bookie waits (``BookieBackoff``) until it may be asked again, instead of failing
because of a pause of this client's own. One that lost its disks and came back under its name has nothing of
what it acknowledged: that it has nothing is no answer (BookKeeper calls the state of such a ledger on such a
bookie "limbo").

A bookie tells the last add confirmed in two bodies, both sealed by the writer: its last explicit one, and the
last entry it stored, which carries the one known when it was sent. The greater of the two counts
(client/PendingReadLacOp.java). A body whose digest is wrong is no answer at all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from herdpy.bookkeeper.digest import Digest, entry_id_in
from herdpy.bookkeeper.errors import (
    BookieUnavailableError,
    BookKeeperError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnauthorizedError,
    UnknownLedgerStateError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import NO_ENTRY
from herdpy.bookkeeper.placement import Coverage
from herdpy.bookkeeper.read.view import LedgerView

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import BookiePool
    from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata
    from herdpy.bookkeeper.wire.messages import LacReply

MIN_PAUSE_S = 0.05
"""Before a bookie is asked again whose handle does not pause: its connection was lost just now."""


class BookieBackoff:
    """A deadline, and the pauses until then. Times are the loop's.

    Args:
        limit_s: how long to wait in all, from now on; 0: not at all.

    Attributes:
        deadline_s: when it ends.
    """

    def __init__(self, pool: BookiePool, limit_s: float) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self.deadline_s = self._loop.time() + limit_s

    @property
    def is_over(self) -> bool:
        """Whether no time is left for another pause."""
        return self._loop.time() + MIN_PAUSE_S >= self.deadline_s

    async def pause(self, bookie_ids: Iterable[str]) -> bool:
        """Wait until the first of these may be asked again; False (at once) when that is too late.

        A bookie that registers ends the wait.
        """
        ids = tuple(bookie_ids)
        pauses = [self._pool.get(bookie_id).pause_left_s for bookie_id in ids]
        pause_s = max(MIN_PAUSE_S, min((one for one in pauses if one > 0), default=0.0))
        if self._loop.time() + pause_s >= self.deadline_s:
            return False
        await self._pool.await_any(ids, pause_s)
        return True


T = TypeVar("T")


class EnsembleQuestion(Generic[T]):
    """A question that is with every member of a ledger's last ensemble.

    "No such entry" and "no such ledger" are answers: they say that there is nothing.

    Args:
        metadata: the ledger's: its last ensemble and its quorums.
        ask: puts the question to one bookie.
        was_remade: tells whether a bookie that has nothing began with empty disks after the ledger was made.
        patience: for bookies that cannot be reached; their last word counts.

    Attributes:
        answers: what bookies answered with something, by index.
        problems: what the others said, by bookie id.
    """

    def __init__(
        self,
        metadata: LedgerMetadata,
        ask: Callable[[str], Awaitable[T]],
        was_remade: Callable[[str], Awaitable[bool]],
        patience: BookieBackoff,
    ) -> None:
        quorums = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
        self.answers: dict[int, T] = {}
        self.problems: dict[str, BookKeeperError] = {}
        self._members = metadata.last_segment.members
        self._was_remade = was_remade
        self._patience = patience
        self._coverage = Coverage(*quorums)
        self._hope = Coverage(*quorums)  # what would be covered if all who may still answer did
        self._refusal: BookKeeperError | None = None
        loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._failure: BaseException | None = None
        self._tasks = set()
        for index in range(len(self._members)):
            self._hope.answered(index, True)
            self._tasks.add(loop.create_task(self._put(index, ask)))

    async def covered(self) -> bool:
        """Wait until the answers cover every write set (True), or cannot do so any more.

        Raises:
            UnauthorizedError: a bookie refused the ledger's key: the password is wrong.
        """
        while True:
            if self._failure is not None:
                raise self._failure
            if self._refusal is not None:
                raise self._refusal
            if self._coverage.is_covered():
                return True
            if not self._hope.is_covered():
                return False
            self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        """Wait for nobody any more."""
        for task in self._tasks:
            task.cancel()

    def what_was_said(self) -> str:
        """The bookies that failed to answer, and how, for an error's message."""
        return "; ".join(f"{bookie}: {error.message}" for bookie, error in self.problems.items())

    async def _put(self, index: int, ask: Callable[[str], Awaitable[T]]) -> None:
        try:
            self._coverage.answered(index, await self._answered(index, ask))
        except UnauthorizedError as error:
            self._refusal = error
        except Exception as error:  # noqa: BLE001 - given to whoever waits
            self._failure = error
        finally:
            self._news.set()

    async def _answered(self, index: int, ask: Callable[[str], Awaitable[T]]) -> bool:
        """Ask one bookie, again while it cannot be reached: whether it answered in the end."""
        bookie = self._members[index]
        attempt_s = None  # the first attempt has the time that requests have
        while True:
            try:
                async with asyncio.timeout_at(attempt_s):
                    self.answers[index] = await self._answer_of(bookie, ask)
            except (NoSuchEntryError, NoSuchLedgerError) as error:
                self.problems[bookie] = error
                return True
            except UnauthorizedError:
                raise
            except BookKeeperError as error:
                self.problems[bookie] = error
                if not isinstance(error, BookieUnavailableError):
                    break
            except TimeoutError:
                break  # what was said before remains
            else:
                self.problems.pop(bookie, None)
                return True
            if not await self._patience.pause([bookie]):
                break
            attempt_s = self._patience.deadline_s
        self._hope.answered(index, False)
        return False

    async def _answer_of(self, bookie: str, ask: Callable[[str], Awaitable[T]]) -> T:
        """What a bookie has; UnknownLedgerStateError when it has nothing because it was made anew."""
        try:
            return await ask(bookie)
        except (NoSuchEntryError, NoSuchLedgerError):
            if await self._was_remade(bookie):
                raise made_anew(bookie) from None
            raise


def made_anew(bookie: str) -> UnknownLedgerStateError:
    """What the "nothing" of a bookie means that lost what it had."""
    return UnknownLedgerStateError("its disks are newer than the ledger, and lack this", bookie=bookie)


# The last add confirmed.

log = logging.getLogger("herdpy.bookkeeper.reader")


def proven_lac(reply: LacReply, ledger_id: int, digest: Digest) -> int:
    """The last add confirmed that a reply proves; -1 when it has neither body.

    Raises:
        DigestMismatchError: one of its bodies is not what the writer sealed.
    """
    lac = NO_ENTRY
    if reply.lac_body:
        lac = max(lac, digest.open_lac(reply.lac_body, ledger_id))
    if reply.last_entry_body:
        lac = max(lac, digest.open(reply.last_entry_body, ledger_id, None).lac)
    return lac


async def ask_one(bookie_id: str, view: LedgerView, pool: BookiePool, digest: Digest) -> int:
    """Ask one bookie, and let the view know what it proves.

    Raises:
        BookKeeperError: it did not answer, has nothing of the ledger, or proves nothing.
    """
    reply = await pool.get(bookie_id).read_lac(view.ledger_id)
    lac = proven_lac(reply, view.ledger_id, digest)
    if reply.last_entry_body:
        view.last_stored = max(view.last_stored, entry_id_in(reply.last_entry_body))
    view.prove(lac)
    return lac


async def read_last_confirmed(
    view: LedgerView, pool: BookiePool, digest: Digest, patience_s: float = 0.0
) -> int:
    """Ask the whole last ensemble until every write set is covered; returns what the view then holds.

    When too few answer, the metadata are read again: the ensemble may be another one by now. If it is the
    same, bookies that cannot be reached are asked again, for ``patience_s`` in all.

    Raises:
        BookieUnavailableError: too few bookies answered.
        UnauthorizedError: a bookie wants another password.
        NoSuchLedgerError: the ledger was deleted.
    """
    none, all_of_it = BookieBackoff(pool, 0.0), BookieBackoff(pool, patience_s)
    patience = none
    while not view.is_closed:
        metadata = view.metadata
        question = EnsembleQuestion(
            metadata,
            lambda bookie_id: ask_one(bookie_id, view, pool, digest),
            view.was_remade,
            patience,
        )
        try:
            if await question.covered():
                break
        finally:
            question.close()
        await view.refresh()
        if view.metadata.last_segment != metadata.last_segment or view.is_closed:
            patience = none
        elif patience is none and not all_of_it.is_over:
            patience = all_of_it
        else:
            raise _not_covered(view.ledger_id, question)
    return view.last_add_confirmed


def _not_covered(ledger_id: int, question: EnsembleQuestion[int]) -> BookKeeperError:
    return BookieUnavailableError(
        f"too few bookies answered to know the last add confirmed: {question.what_was_said()}",
        ledger_id=ledger_id,
    )
