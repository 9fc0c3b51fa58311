"""Recovery: taking a ledger from a writer that is gone, finding where it truly ends, and closing it there.

Between ``BookKeeper.open_ledger(recover=True)`` and the parts: the ledger store (state changes by
compare-and-set), ``quorum`` (the fence), ``entry_read`` through ``ranges`` (forward reads). The steps:

1. The state becomes IN_RECOVERY, so that the writer cannot change the ensemble or close. A ledger that
   already is in recovery may belong to a recoverer that is alive or dead: this one goes on all the same.
2. The last ensemble is fenced (``fence``). From here on nothing new can be confirmed. The same request
   returns the last entry each bookie has, whose header says what was confirmed when it was sent. Steps 1
   and 2 are under way together: the fence counts when step 1 has found that it was the ensemble.
3. From the highest last add confirmed on, entries are read one after the other, each read fencing the
   bookie it asks, until enough replicas lack one: that one and all behind it were never confirmed.
4. What was found is written again (``ReAdds``), so that an ack quorum has it.
5. The state becomes CLOSED with the last entry and the length.

A bookie whose disks were lost, and that is back empty under its name, has forgotten what it acknowledged:
in all of this its "nothing" is no answer (``LedgerStore.remade``). When one comes back so on the way, it is
begun again. And who knows of entries of the ledger says so: it is not closed below them.

Why several recoverers agree: every confirmed entry is found by each of them; about others they may differ
(an unconfirmed entry may be seen by one and not by another), and the one compare-and-set of step 5 decides.
Everybody else takes what it wrote.

Writing again: each entry goes, as it was sealed by its writer, to its whole write set; entries count as
safe in order. When a bookie fails, another takes its place from the first entry that is not yet safe, and
gets all those under way; such changes are kept here and published when the ledger is closed, not before, so
that several recoverers can work at the same time without disturbing each other. When there is no other
bookie, those left must do, as long as they are an ack quorum. The body is sent byte for byte (the Java
client seals it anew with a higher last add confirmed): so no last add confirmed ever comes from a recoverer
whose end is not the one that is published (rules: client/PendingAddOp.java).

Source of the algorithm: BookKeeper's client/LedgerRecoveryOp.java, client/ReadOnlyLedgerHandle.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from herdpy.bookkeeper.digest import Digest, Entry, master_key
from herdpy.bookkeeper.errors import (
    BookieUnavailableError,
    BookKeeperError,
    DigestMismatchError,
    LostEntriesError,
    NoSuchEntryError,
    NotEnoughBookiesError,
    RecoveryError,
    UnauthorizedError,
    error_of,
)
from herdpy.bookkeeper.metadata.ledger_metadata import NO_ENTRY, LedgerMetadata, LedgerState, Segment
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore, Versioned, update
from herdpy.bookkeeper.placement import write_set
from herdpy.bookkeeper.read.entry_read import EntryRead, EntryReader
from herdpy.bookkeeper.read.quorum import BookieBackoff, EnsembleQuestion
from herdpy.bookkeeper.read.ranges import ReadWindow
from herdpy.bookkeeper.read.view import ReplicaOrder, span_at
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.entries import AddEncoder
from herdpy.bookkeeper.wire.protocol import ReplyStatus

if TYPE_CHECKING:
    from typing import Self

    from herdpy.bookkeeper.bookie import AnsweringBookie, BookiePool
    from herdpy.bookkeeper.placement import Placement


log = logging.getLogger("herdpy.bookkeeper.recovery")

LAST_ENTRY = -1


@dataclass(frozen=True, slots=True)
class Fenced:
    """What a fenced ensemble said.

    Attributes:
        last_add_confirmed: the highest one that a stored entry carries or the segments imply.
        last_entries: the last entry of each bookie that has one.
    """

    last_add_confirmed: int
    last_entries: tuple[Entry, ...]


async def fence(
    ledger_id: int,
    metadata: LedgerMetadata,
    pool: BookiePool,
    digest: Digest,
    fence_key: bytes,
    remade: Awaitable[frozenset[str]],
    patience_s: float,
) -> Fenced:
    """Fence the last ensemble until no ack quorum can be formed without a fenced bookie.

    Bookies that have not answered by then are not waited for: what they may still accept cannot be
    confirmed, and every later read of a recovery fences them as well. Needed ones that cannot be reached
    are asked again for ``patience_s``.

    Args:
        remade: gives the bookies that began with empty disks after the ledger was made: that they have
            nothing of it is no answer. Awaited as often as there are such answers.

    Raises:
        UnauthorizedError: a bookie holds the ledger under another password.
        RecoveryError: too few bookies answered; names what each said.
    """

    async def ask(bookie_id: str) -> Entry | None:
        reply = await pool.get(bookie_id).read(ledger_id, LAST_ENTRY, fence_key=fence_key)
        try:
            return digest.open(reply.body or b"", ledger_id, None)
        except DigestMismatchError as error:
            # It is fenced all the same; what it does not tell, the forward reads find.
            log.warning(
                "a bookie's last entry does not match its digest",
                extra={"ledger_id": ledger_id, "bookie": bookie_id, "error": str(error)},
            )
            return None

    async def was_remade(bookie_id: str) -> bool:
        return bookie_id in await remade

    question = EnsembleQuestion(metadata, ask, was_remade, BookieBackoff(pool, patience_s))
    try:
        if not await question.covered():
            raise RecoveryError(
                f"too few bookies could be fenced: {question.what_was_said()}", ledger_id=ledger_id
            )
    finally:
        question.close()
    entries = tuple(entry for entry in question.answers.values() if entry is not None)
    # A segment starts right behind what its writer knew to be confirmed.
    known = max((entry.lac for entry in entries), default=NO_ENTRY)
    return Fenced(max(known, metadata.last_segment.first_entry_id - 1), entries)


class ReAdds:
    """The re-adds of one recovery.

    Args:
        confirmed: the last entry that needs no re-add.

    Attributes:
        confirmed: the last entry that is safe, with all before it.
        segments: ensembles that took the place of the last one, by first entry id; empty when all went well.
    """

    def __init__(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        confirmed: int,
        pool: BookiePool,
        placement: Placement,
        settings: ClientSettings,
        digest: Digest,
        master_key: bytes,
    ) -> None:
        self.confirmed = confirmed
        self.segments: dict[int, tuple[str, ...]] = {}
        self._ledger_id = ledger_id
        self._metadata = metadata
        self._pool = pool
        self._placement = placement
        self._settings = settings
        self._encoder = AddEncoder(ledger_id, master_key, digest, recovery=True)
        self._loop = asyncio.get_running_loop()
        self._members = list(metadata.last_segment.members)
        self._failed: dict[str, BookKeeperError] = {}
        self._under_way: dict[int, _ReAdd] = {}
        self._bytes = 0
        self._error: BookKeeperError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def add(self, entry_id: int, body: bytes) -> None:
        """Send an entry, the one after the last one given, to its write set."""
        indexes = write_set(entry_id, len(self._members), self._metadata.write_quorum)
        readd = self._under_way[entry_id] = _ReAdd(self, entry_id, body, indexes)
        self._bytes += readd.size_bytes
        txn = self._pool.next_txn()
        frame = self._encoder.encode_body(txn, entry_id, body)
        readd.deadline_s = self._loop.time() + self._settings.request_timeout_s
        for index in indexes:
            self._send(readd, self._members[index], txn, frame)
        self._check_enough(readd)

    async def room(self) -> None:
        """Wait until another entry may be added.

        Raises:
            RecoveryError: an entry cannot reach an ack quorum.
        """
        limits = self._settings
        await self._until(
            lambda: (
                self._bytes < limits.max_in_flight_bytes
                and len(self._under_way) < limits.max_in_flight_entries
            )
        )

    async def finish(self) -> None:
        """Wait until every entry added is safe.

        Raises:
            RecoveryError: an entry cannot reach an ack quorum.
        """
        await self._until(lambda: not self._under_way)

    def close(self) -> None:
        """Want no more answers."""
        self._under_way.clear()

    def answered(self, readd: _ReAdd, bookie: AnsweringBookie, status: int) -> None:
        """A bookie answered an add; for _ReAdd."""
        if self._under_way.get(readd.entry_id) is not readd or self._error is not None:
            return
        index = next((i for i in readd.indexes if self._members[i] == bookie.id), None)
        if index is None:
            return  # replaced meanwhile: its copy does not count
        if status == ReplyStatus.EOK:
            readd.acks.add(index)
            self._advance()
        else:
            self._bookie_failed(index, error_of(status, bookie=bookie.id, ledger_id=self._ledger_id))

    def _send(self, readd: _ReAdd, bookie_id: str, txn: int, frame: bytes) -> None:
        if bookie_id not in self._failed:
            self._pool.get(bookie_id).send_add(txn, frame, readd)

    def _bookie_failed(self, index: int, error: BookKeeperError) -> None:
        bookie_id = self._members[index]
        if bookie_id in self._failed:
            return
        log.warning(
            "a bookie failed a recovery's add",
            extra={"ledger_id": self._ledger_id, "bookie": bookie_id, "error": str(error)},
        )
        if isinstance(error, UnauthorizedError):
            self._fail(error)
            return
        self._failed[bookie_id] = error
        self._placement.quarantine(bookie_id)
        try:
            chosen = self._placement.replace(self._members, [index], self._failed)[index]
        except NotEnoughBookiesError:
            for readd in self._under_way.values():
                self._check_enough(readd)
            return
        self._members[index] = chosen
        self.segments[self.confirmed + 1] = tuple(self._members)
        deadline_s = self._loop.time() + self._settings.request_timeout_s
        for readd in self._under_way.values():
            if index in readd.indexes:
                readd.deadline_s = deadline_s
                readd.acks.discard(index)
                txn = self._pool.next_txn()
                frame = self._encoder.encode_body(txn, readd.entry_id, readd.body)
                self._send(readd, chosen, txn, frame)

    def _check_enough(self, readd: _ReAdd) -> None:
        """Where a failed bookie could not be replaced: are those left an ack quorum of this entry?"""
        left = sum(self._members[index] not in self._failed for index in readd.indexes)
        if left < self._metadata.ack_quorum:
            said = "; ".join(f"{bookie}: {error.message}" for bookie, error in self._failed.items())
            self._fail(
                RecoveryError(
                    f"entry {readd.entry_id} needs {self._metadata.ack_quorum} bookies, {left} of its "
                    f"write set are left and there are no others: {said}",
                    ledger_id=self._ledger_id,
                    entry_id=readd.entry_id,
                )
            )

    def _advance(self) -> None:
        """Entries are safe in order."""
        quorum = self._metadata.ack_quorum
        while True:
            readd = self._under_way.get(self.confirmed + 1)
            if readd is None or len(readd.acks) < quorum:
                break
            del self._under_way[readd.entry_id]
            self._bytes -= readd.size_bytes
            self.confirmed += 1
        self._wake()

    def _fail(self, error: BookKeeperError) -> None:
        if self._error is None:
            self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _until(self, reached: Callable[[], bool]) -> None:
        while True:
            if self._error is not None:
                raise self._error
            if reached():
                return
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None


class _ReAdd:
    """One entry on its way; gets the replies of its write set."""

    __slots__ = ("_owner", "acks", "body", "deadline_s", "entry_id", "indexes", "size_bytes")

    def __init__(self, owner: ReAdds, entry_id: int, body: bytes, indexes: tuple[int, ...]) -> None:
        self._owner = owner
        self.entry_id = entry_id
        self.body = body
        self.indexes = indexes
        self.acks: set[int] = set()
        self.size_bytes = len(body)
        self.deadline_s = 0.0

    def on_add_reply(self, bookie: AnsweringBookie, status: int) -> None:
        """A bookie's answer."""
        self._owner.answered(self, bookie, status)


async def recover_ledger(
    ledger_id: int,
    versioned: Versioned,
    store: LedgerStore,
    pool: BookiePool,
    placement: Placement,
    settings: ClientSettings,
    digest: Digest,
    password: bytes,
    known_entry_id: int | asyncio.Future[int] = NO_ENTRY,
    *,
    accept_loss: bool = False,
) -> Versioned:
    """Fence a ledger and close it at its true end; returns its closed metadata.

    A ledger closed already, or closed by someone else meanwhile, is returned as it is.

    Args:
        versioned: the metadata as read; they may be old.
        password: the ledger's.
        known_entry_id: an entry that certainly was confirmed, because somebody has applied it; -1: none is.
            A future is awaited when the end was found.
        accept_loss: believe bookies that lost their disks, too: an operator's word.

    Raises:
        LostEntriesError: the bookies have the ledger's entries up to one below ``known_entry_id`` only. It
            stays IN_RECOVERY.
        RecoveryError: too few bookies answered to know the end, or to keep it; the message says which and
            why. The ledger stays IN_RECOVERY and can be recovered again.
        UnauthorizedError: a bookie holds the ledger under another password.
        NoSuchLedgerError: it was deleted.
        ZooKeeperUnavailableError, SessionExpiredError: the state could not be changed.
    """
    while not versioned.metadata.is_closed:
        before = versioned.metadata.last_segment
        bookies = () if accept_loss else before.members
        key = master_key(password)
        async with _Beginning(ledger_id, versioned, store, bookies, pool, settings, digest, key) as beginning:
            versioned = await beginning.started
            metadata = versioned.metadata
            if metadata.is_closed or metadata.last_segment != before:
                continue
            remade, fenced = await beginning.remade, await beginning.fenced
        log.info("recovering", extra={"ledger_id": ledger_id, "segments": len(metadata.segments)})
        recovery = _Recovery(ledger_id, metadata, remade, pool, placement, settings, digest, key)
        end, remade_now = await recovery.run(fenced, partial(store.remade, ledger_id, bookies))
        if remade_now != remade:
            continue
        known = known_entry_id if isinstance(known_entry_id, int) else await known_entry_id
        if end.last_entry_id < known:
            raise LostEntriesError(
                f"the bookies have nothing after entry {end.last_entry_id}, and entry {known} was confirmed",
                ledger_id=ledger_id,
                entry_id=known,
            )
        versioned = await _publish(ledger_id, versioned, store, before, end)
        if versioned.metadata.is_closed:
            _verify(ledger_id, versioned.metadata, end)
        # Else the last ensemble was rewritten under us (by auto recovery): what was found must be kept there.
    return versioned


class _Beginning:
    """Steps 1 and 2 at the same time; what is left of them ends with the block, however that ends.

    Attributes:
        started: the metadata, in recovery or closed.
        remade: the bookies whose "nothing" is no answer.
        fenced: what the last ensemble of the metadata as they were given said; see ``fence``.
    """

    def __init__(
        self,
        ledger_id: int,
        versioned: Versioned,
        store: LedgerStore,
        bookies: Iterable[str],
        pool: BookiePool,
        settings: ClientSettings,
        digest: Digest,
        key: bytes,
    ) -> None:
        self.started = asyncio.ensure_future(update(store, ledger_id, versioned, _start))
        self.remade = asyncio.ensure_future(store.remade(ledger_id, bookies))
        patience_s = settings.request_timeout_s
        self.fenced = asyncio.ensure_future(
            fence(ledger_id, versioned.metadata, pool, digest, key, self.remade, patience_s)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = (self.started, self.remade, self.fenced)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _End:
    """Where a ledger ends, and which ensembles took the place of the last one on the way."""

    start: int
    last_entry_id: int
    length_bytes: int
    segments: tuple[tuple[int, tuple[str, ...]], ...]


def _start(metadata: LedgerMetadata) -> LedgerMetadata | None:
    return metadata.in_recovery() if metadata.state is LedgerState.OPEN else None


async def _publish(
    ledger_id: int, versioned: Versioned, store: LedgerStore, recovered: Segment, end: _End
) -> Versioned:
    """Close, unless someone else has, or the last segment is not the one that was recovered."""

    def close(metadata: LedgerMetadata) -> LedgerMetadata | None:
        if metadata.state is LedgerState.CLOSED or metadata.last_segment != recovered:
            return None
        if metadata.state is LedgerState.OPEN:
            raise RecoveryError("the ledger was opened again during its recovery", ledger_id=ledger_id)
        for first_entry_id, members in end.segments:
            metadata = metadata.with_segment(first_entry_id, members)
        return metadata.closed(end.last_entry_id, end.length_bytes)

    return await update(store, ledger_id, versioned, close)


def _verify(ledger_id: int, closed: LedgerMetadata, end: _End) -> None:
    """A ledger that someone else closed must hold at least what was known to be confirmed."""
    if closed.last_entry_id < end.start:
        raise RecoveryError(
            f"the ledger was closed at entry {closed.last_entry_id}, below the confirmed entry {end.start}",
            ledger_id=ledger_id,
        )
    if closed.last_entry_id == end.last_entry_id and closed.length_bytes != end.length_bytes:
        log.warning(
            "the ledger was closed with another length",
            extra={
                "ledger_id": ledger_id,
                "length_bytes": closed.length_bytes,
                "found_bytes": end.length_bytes,
            },
        )


class _Recovery:
    """One attempt on one version of the metadata."""

    def __init__(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        remade: frozenset[str],
        pool: BookiePool,
        placement: Placement,
        settings: ClientSettings,
        digest: Digest,
        key: bytes,
    ) -> None:
        self._ledger_id = ledger_id
        self._metadata = metadata
        self._pool = pool
        self._placement = placement
        self._settings = settings
        self._digest = digest
        self._key = key
        order = ReplicaOrder(asyncio.get_running_loop(), settings.quarantine_s)
        quorums = metadata.write_quorum, metadata.ack_quorum
        self._forward = EntryReader(
            ledger_id, *quorums, pool, settings, digest, order, fence_key=key, remade=remade
        )
        self._plain = EntryReader(ledger_id, *quorums, pool, settings, digest, order)

    async def run(
        self, fenced: Fenced, remade: Callable[[], Coroutine[Any, Any, frozenset[str]]]
    ) -> tuple[_End, frozenset[str]]:
        """Read forward, and write again; the end, and what ``remade`` gave after all had been read."""
        try:
            readds = ReAdds(
                self._ledger_id,
                self._metadata,
                fenced.last_add_confirmed,
                self._pool,
                self._placement,
                self._settings,
                self._digest,
                self._key,
            )
            try:
                last = await self._read_forward(fenced.last_add_confirmed + 1, readds)
                _, remade_now = await asyncio.gather(readds.finish(), remade())
            finally:
                readds.close()
            length_bytes = last.length if last is not None else await self._length_at(fenced)
            segments = tuple(sorted(readds.segments.items()))
            return _End(fenced.last_add_confirmed, readds.confirmed, length_bytes, segments), remade_now
        finally:
            self._forward.close()
            self._plain.close()

    async def _read_forward(self, first: int, readds: ReAdds) -> Entry | None:
        """Add again every entry from ``first`` on until one is missing; returns the last one found."""
        last: Entry | None = None
        # The ensembles as they were: replacements chosen here have only what was added again.
        window = ReadWindow(self._forward, partial(span_at, self._metadata), self._settings, first, first)
        patience: BookieBackoff | None = None
        try:
            while True:
                # As far ahead as entries were found, so that the end of a short tail costs few reads.
                found = 0 if last is None else last.entry_id - first + 1
                window.extend(first + 2 * found + 1)
                await window.ready()
                read = window.head()
                assert read is not None
                if isinstance(read.error, NoSuchEntryError):
                    return last
                if read.error is not None:
                    patience = patience or self._patience()
                    if await self._may_be_repeated(read, patience):
                        window.again(read.members)
                        continue
                    raise RecoveryError(
                        f"the end of the ledger cannot be known: {read.error}",
                        ledger_id=self._ledger_id,
                        entry_id=read.entry_id,
                    ) from read.error
                assert read.entry is not None
                assert read.body is not None
                await readds.room()
                patience = None
                window.pop()
                last = read.entry
                readds.add(last.entry_id, read.body)
        finally:
            window.close()

    def _patience(self) -> BookieBackoff:
        return BookieBackoff(self._pool, self._settings.request_timeout_s)

    async def _may_be_repeated(self, read: EntryRead, patience: BookieBackoff) -> bool:
        """Whether a read failed only because a bookie could not be reached; then waits for that bookie."""
        if not isinstance(read.error, BookieUnavailableError):
            return False
        return await patience.pause(replica.id for replica in read.replicas)

    def _members_of(self, entry_id: int) -> tuple[str, ...]:
        return self._metadata.ensemble_at(entry_id).members

    async def _length_at(self, fenced: Fenced) -> int:
        """The length at the last add confirmed: in that entry's own header, and nowhere else."""
        end = fenced.last_add_confirmed
        if end == NO_ENTRY:
            return 0
        for entry in fenced.last_entries:
            if entry.entry_id == end:
                return entry.length
        patience = self._patience()
        read = await self._plain.read(end, self._members_of(end))
        while read.entry is None and await self._may_be_repeated(read, patience):
            read = await self._plain.read(end, self._members_of(end))
        if read.entry is None:
            assert read.error is not None
            raise RecoveryError(
                f"the ledger's length cannot be known without its last entry: {read.error}",
                ledger_id=self._ledger_id,
                entry_id=end,
            ) from read.error
        return read.entry.length
