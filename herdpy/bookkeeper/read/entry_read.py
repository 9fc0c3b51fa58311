"""One entry from one of its replicas: the next is asked when one fails, lacks it, lies, or is late.

Between those who want entries (``ranges``, ``recovery``) and the bookies. ``EntryReader`` holds what all
reads of a ledger share; ``EntryRead`` is one read, a receiver of replies rather than a task, because
reading is the path where microseconds count. The first body whose digest and ids are right wins; replies
that come later are ignored.

When no replica gave the entry, what was not heard decides which error it is. An entry that the ack quorum A
has can be missing on at most W - A of its W replicas: so only W - A + 1 replicas without it prove to a
recovery that it was never confirmed, and fewer leave it open (client/PendingReadOp.java,
client/ReadOpBase.java). A replica that lost its disks since is none of them. Who reads what was confirmed
has no use for that proof: as long as one replica is not heard, the entry may be there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from herdpy.bookkeeper.bookie.pending import AwaitedEntry
from herdpy.bookkeeper.digest import Digest, Entry
from herdpy.bookkeeper.errors import (
    BookieUnavailableError,
    BookKeeperError,
    ClosedClientError,
    DigestMismatchError,
    NoSuchEntryError,
    NoSuchLedgerError,
)
from herdpy.bookkeeper.placement import write_set
from herdpy.bookkeeper.read.quorum import made_anew
from herdpy.bookkeeper.read.view import ReplicaOrder
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.messages import ReadReply

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import Bookie, BookiePool

log = logging.getLogger("herdpy.bookkeeper.reader")


class EntryRead(AwaitedEntry):
    """One read. Exactly one of ``entry`` and ``error`` is set when it is done.

    Attributes:
        entry_id, members: what is read, from which ensemble.
        entry: the entry; body: as it was sealed (kept for recovery only).
        error: why no replica gave it, naming what each of them said.
    """

    __slots__ = (
        "_missing",
        "_on_done",
        "_pending",
        "_problems",
        "_reader",
        "asked",
        "body",
        "entry",
        "error",
        "is_done",
        "members",
        "replicas",
        "speculate_at",
    )

    def __init__(
        self,
        reader: EntryReader,
        entry_id: int,
        members: tuple[str, ...],
        on_done: Callable[[EntryRead], None],
    ) -> None:
        self.ledger_id = reader.ledger_id
        self.entry_id = entry_id
        self.members = members
        self.replicas: tuple[Bookie, ...] = ()
        self.asked = 0
        self.speculate_at = 0.0
        self.entry: Entry | None = None
        self.body: bytes | None = None
        self.error: BookKeeperError | None = None
        self.is_done = False
        self._reader = reader
        self._on_done = on_done
        self._pending = 0
        self._missing = 0
        self._problems: dict[str, BookKeeperError] | None = None

    def begun(self, replicas: tuple[Bookie, ...], speculate_at: float) -> None:
        """The first of these replicas is being asked by the caller."""
        self.replicas = replicas
        self.speculate_at = speculate_at
        self.asked = self._pending = 1

    def ask_next(self) -> None:
        """Send the read to the next replica."""
        asked = self.asked
        replica = self.replicas[asked]
        self.asked = asked + 1
        self._pending += 1
        reader = self._reader
        sink = _OtherReplica(self, replica) if asked else self
        replica.send_read(reader.ledger_id, self.entry_id, sink, fence_key=reader.fence_key)

    def cancel(self) -> None:
        """Want it no longer: replies are ignored, ``on_done`` is not called."""
        if not self.is_done:
            self.is_done = True
            del self._reader.outstanding[self]

    def fail(self, error: BookKeeperError) -> None:
        """End it with an error of the caller's."""
        if not self.is_done:
            self.error = error
            self._finish()

    # What a bookie's handle calls for the first replica asked (as it would a future).

    def done(self) -> bool:
        """Whether nobody waits for a reply any more."""
        return self.is_done

    def entry_arrived(self, frame: bytes, start: int, end: int) -> None:
        """The first replica replied, in the usual form."""
        reader = self._reader
        if self.is_done or self.asked > 1 or reader.fence_key is not None:
            self._arrived(self.replicas[0], frame, start, end)
            return
        try:
            self.entry = reader.digest.open_at(frame, start, end, self.ledger_id, self.entry_id)
        except DigestMismatchError as error:
            self._pending -= 1
            self._mismatch(self.replicas[0], error)
            return
        self.is_done = True
        del reader.outstanding[self]
        self._on_done(self)

    def set_result(self, reply: object, /) -> None:
        """The first replica replied."""
        self.replied(self.replicas[0], reply)

    def set_exception(self, error: BaseException, /) -> None:
        """The first replica refused, or could not be reached."""
        self.refused(self.replicas[0], error)

    def replied(self, bookie: Bookie, reply: object) -> None:
        """A replica gave something."""
        body = (reply.body if type(reply) is ReadReply else None) or b""
        self._arrived(bookie, body, 0, len(body))

    def _arrived(self, bookie: Bookie, frame: bytes, start: int, end: int) -> None:
        """Is this the entry?"""
        if self.is_done:
            return
        reader = self._reader
        try:
            self.entry = reader.digest.open_at(frame, start, end, self.ledger_id, self.entry_id)
        except DigestMismatchError as error:
            self._pending -= 1
            self._mismatch(bookie, error)
            return
        if reader.fence_key is not None:
            self.body = frame[start:end]
        if self.asked > 1:
            self._blame_the_late(bookie)
        self._finish()

    def refused(self, bookie: Bookie, error: BaseException) -> None:
        """A replica has not the entry, or failed."""
        if self.is_done:
            return
        if not isinstance(error, BookKeeperError):
            raise error
        self._pending -= 1
        self._failed(bookie, error)

    def _mismatch(self, bookie: Bookie, error: DigestMismatchError) -> None:
        reader = self._reader
        reader.digest_mismatches += 1
        log.warning(
            "a replica does not match its digest",
            extra={"ledger_id": reader.ledger_id, "entry_id": self.entry_id, "bookie": bookie.id},
        )
        error.bookie = bookie.id
        self._failed(bookie, error)

    def _blame_the_late(self, winner: Bookie) -> None:
        """Replicas asked earlier that have said nothing yet are slow."""
        problems = self._problems or {}
        for replica in self.replicas[: self.asked]:
            if replica is winner:
                break
            if replica.id not in problems:
                self._reader.order.doubt(replica.id)

    def _failed(self, bookie: Bookie, error: BookKeeperError) -> None:
        if self._problems is None:
            self._problems = {}
        if bookie.id in self._reader.remade and isinstance(error, NoSuchEntryError | NoSuchLedgerError):
            error = made_anew(bookie.id)
        self._problems[bookie.id] = error
        if isinstance(error, NoSuchEntryError | NoSuchLedgerError):
            self._missing += 1
            if self._reader.fence_key is not None and self._missing >= self._reader.missing_proof:
                self.error = self._outcome()
                self._finish()
                return
        elif not isinstance(error, DigestMismatchError):
            self._reader.order.doubt(bookie.id)
        if self._pending:
            return
        if self.asked < len(self.replicas):
            self.ask_next()
        else:
            self.error = self._outcome()
            self._finish()

    def _outcome(self) -> BookKeeperError:
        """The error for what all replicas said."""
        problems = self._problems or {}
        said = "; ".join(f"{bookie}: {error.message}" for bookie, error in problems.items())
        kinds = list(problems.values())
        kind: type[BookKeeperError]
        if self._missing >= self._reader.missing_proof:
            kind = NoSuchEntryError
        else:
            # What may pass counts more than what will not: trying again can help only then.
            others = [one for one in kinds if not isinstance(one, NoSuchEntryError | NoSuchLedgerError)]
            passing = [one for one in others if not isinstance(one, DigestMismatchError)]
            away = [one for one in passing if isinstance(one, BookieUnavailableError)]
            kind = type((away or passing or others)[0])
        return kind(
            f"no replica gave the entry: {said}", ledger_id=self._reader.ledger_id, entry_id=self.entry_id
        )

    def _finish(self) -> None:
        self.is_done = True
        del self._reader.outstanding[self]
        self._on_done(self)


class _OtherReplica:
    """Takes the reply of a replica asked after the first one."""

    __slots__ = ("_bookie", "_read")

    def __init__(self, read: EntryRead, bookie: Bookie) -> None:
        self._read = read
        self._bookie = bookie

    def done(self) -> bool:
        """Whether nobody waits for a reply any more."""
        return self._read.is_done

    def set_result(self, reply: object, /) -> None:
        """This replica replied."""
        self._read.replied(self._bookie, reply)

    def set_exception(self, error: BaseException, /) -> None:
        """This replica refused, or could not be reached."""
        self._read.refused(self._bookie, error)


class EntryReader:
    """Everything that the reads of one ledger share.

    Args:
        fence_key: for recovery: the master key. Each read then fences the bookie it asks, and ends as soon
            as enough replicas lack the entry.
        remade: for recovery: bookies that began with empty disks after the ledger was made. That they lack
            an entry says nothing.

    Attributes:
        digest_mismatches: replicas passed over because their body was not the requested entry.
        speculative_reads: replicas asked because another one was late.
        outstanding: the reads under way; each takes itself out at its end.
    """

    def __init__(
        self,
        ledger_id: int,
        write_quorum: int,
        ack_quorum: int,
        pool: BookiePool,
        settings: ClientSettings,
        digest: Digest,
        order: ReplicaOrder,
        *,
        fence_key: bytes | None = None,
        remade: frozenset[str] = frozenset(),
    ) -> None:
        self.ledger_id: Final = ledger_id
        self.write_quorum: Final = write_quorum
        self.pool: Final = pool
        self.digest: Final = digest
        self.order: Final = order
        self.fence_key: Final = fence_key
        self.remade: Final = remade
        # Who reads what is confirmed has lost it only when no replica is left that may have it.
        self.missing_proof: Final = write_quorum if fence_key is None else write_quorum - ack_quorum + 1
        self.digest_mismatches = 0
        self.speculative_reads = 0
        self.is_closed = False
        self._loop = asyncio.get_running_loop()
        self._speculative_s = settings.speculative_read_s
        self.outstanding: dict[EntryRead, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._orders: dict[int, tuple[Bookie, ...]] = {}
        self._orders_members: tuple[str, ...] = ()
        self._orders_version = -1

    def begin(
        self, entry_id: int, members: tuple[str, ...], on_done: Callable[[EntryRead], None]
    ) -> EntryRead:
        """Start to read an entry from the segment with these members; ``on_done`` is called later, once."""
        read = EntryRead(self, entry_id, members, on_done)
        read.replicas = self._replicas(entry_id, members)
        read.speculate_at = self._loop.time() + self._speculative_s
        self.outstanding[read] = None
        if self._timer is None:
            self._timer = self._loop.call_at(read.speculate_at, self._speculate)
        read.ask_next()
        return read

    def begin_many(
        self, first: int, stop: int, members: tuple[str, ...], on_done: Callable[[EntryRead], None]
    ) -> list[EntryRead]:
        """As ``begin`` for the entries from ``first`` to before ``stop``; each bookie is asked at once."""
        if self.fence_key is not None:
            return [self.begin(entry_id, members, on_done) for entry_id in range(first, stop)]
        speculate_at = self._loop.time() + self._speculative_s
        reads = [EntryRead(self, entry_id, members, on_done) for entry_id in range(first, stop)]
        turns = len(members)
        for turn in range(min(turns, len(reads))):
            replicas = self._replicas(first + turn, members)
            together = reads[turn::turns]
            for read in together:
                read.begun(replicas, speculate_at)
            self.outstanding.update(dict.fromkeys(together))
            replicas[0].send_reads(self.ledger_id, together)
        if self._timer is None and reads:
            self._timer = self._loop.call_at(speculate_at, self._speculate)
        return reads

    async def read(self, entry_id: int, members: tuple[str, ...]) -> EntryRead:
        """Read an entry and wait for the outcome, good or bad; nothing is raised for a bad one."""
        done: asyncio.Future[EntryRead] = self._loop.create_future()
        read = self.begin(entry_id, members, done.set_result)
        try:
            return await done
        finally:
            read.cancel()

    def closed_error(self) -> ClosedClientError:
        """What reads end with once this is closed."""
        return ClosedClientError("the reader is closed", ledger_id=self.ledger_id)

    def close(self) -> None:
        """End all reads under way with ClosedClientError."""
        self.is_closed = True
        for read in list(self.outstanding):
            read.fail(self.closed_error())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _replicas(self, entry_id: int, members: tuple[str, ...]) -> tuple[Bookie, ...]:
        """The bookies of the entry's write set in the order to ask them; the same few orders come again."""
        order = self.order
        order.refresh()
        if members is not self._orders_members:
            self._doubt_the_silent(members)
        if order.version != self._orders_version or members is not self._orders_members:
            self._orders.clear()
            self._orders_version = order.version
            self._orders_members = members
        key = entry_id % len(members)
        found = self._orders.get(key)
        if found is None:
            indexes = write_set(entry_id, len(members), self.write_quorum)
            get = self.pool.get
            found = tuple(get(bookie) for bookie in order.ordered(members[index] for index in indexes))
            self._orders[key] = found
        return found

    def _doubt_the_silent(self, members: tuple[str, ...]) -> None:
        """A bookie with a late answer to another request gets reads last, from the start: a takeover must not
        wait for one that fell silent together with the leader.
        """
        for bookie_id in set(members) - set(self._orders_members):
            if self.pool.get(bookie_id).is_silent:
                self.order.doubt(bookie_id)

    def _speculate(self) -> None:
        """Ask another replica for every read that is late; one timer serves them all."""
        now = self._loop.time()
        self._timer = None
        soonest = 0.0
        for read in list(self.outstanding):
            if read.speculate_at <= now:
                if read.asked == len(read.replicas):
                    continue
                self.speculative_reads += 1
                read.speculate_at = now + (self._speculative_s * (1 << read.asked))
                read.ask_next()
            if not soonest or read.speculate_at < soonest:
                soonest = read.speculate_at
        if soonest:
            self._timer = self._loop.call_at(soonest, self._speculate)
