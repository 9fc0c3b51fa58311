"""Recovery: taking a ledger from a writer that is gone, finding where it truly ends, and closing it there.

Between ``BookKeeper.open_ledger(recover=True)`` and the parts: the ledger store (state changes by
compare-and-set), ``fencing``, ``entry_read`` through ``window`` (forward reads), ``readds``. The steps:

1. The state becomes IN_RECOVERY, so that the writer cannot change the ensemble or close. A ledger that
   already is in recovery may belong to a recoverer that is alive or dead: this one goes on all the same.
2. The last ensemble is fenced. From here on nothing new can be confirmed.
3. From the highest last add confirmed on, entries are read one after the other, each read fencing the
   bookie it asks, until enough replicas lack one: that one and all behind it were never confirmed.
4. What was found is written again, so that an ack quorum has it.
5. The state becomes CLOSED with the last entry and the length.

A bookie whose disks were lost, and that is back empty under its name, has forgotten what it acknowledged: in
all of this its "nothing" is no answer (``LedgerStore.remade``). When one comes back so on the way, it is
begun again. And who knows of entries of the ledger says so: it is not closed below them.

Why several recoverers agree: every confirmed entry is found by each of them; about others they may differ
(an unconfirmed entry may be seen by one and not by another), and the one compare-and-set of step 5 decides.
Everybody else takes what it wrote.

Source of the algorithm: BookKeeper's client/LedgerRecoveryOp.java, client/ReadOnlyLedgerHandle.java.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from herdpy.bookkeeper.digest import Digest, Entry, master_key
from herdpy.bookkeeper.errors import (
    BookieUnavailableError,
    LostEntriesError,
    NoSuchEntryError,
    RecoveryError,
)
from herdpy.bookkeeper.metadata.ledger_metadata import NO_ENTRY, LedgerMetadata, LedgerState, Segment
from herdpy.bookkeeper.metadata.ledger_store import LedgerStore, Versioned, update
from herdpy.bookkeeper.read.entry_read import EntryRead, EntryReader
from herdpy.bookkeeper.read.fencing import Fenced, fence
from herdpy.bookkeeper.read.patience import BookieBackoff
from herdpy.bookkeeper.read.readds import ReAdds
from herdpy.bookkeeper.read.replicas import ReplicaOrder
from herdpy.bookkeeper.read.view import span_at
from herdpy.bookkeeper.read.window import ReadWindow
from herdpy.bookkeeper.settings import ClientSettings

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import BookiePool
    from herdpy.bookkeeper.placement import Placement

log = logging.getLogger("herdpy.bookkeeper.recovery")


async def recover_ledger(
    ledger_id: int,
    versioned: Versioned,
    store: LedgerStore,
    pool: BookiePool,
    placement: Placement,
    settings: ClientSettings,
    digest: Digest,
    password: bytes,
    known_entry_id: int = NO_ENTRY,
    *,
    accept_loss: bool = False,
) -> Versioned:
    """Fence a ledger and close it at its true end; returns its closed metadata.

    A ledger closed already, or closed by someone else meanwhile, is returned as it is.

    Args:
        versioned: the metadata as read; they may be old.
        password: the ledger's.
        known_entry_id: an entry that certainly was confirmed, because somebody has applied it; -1: none is.
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
    while True:
        versioned = await update(store, ledger_id, versioned, _start)
        metadata = versioned.metadata
        if metadata.state is LedgerState.CLOSED:
            return versioned
        log.info("recovering", extra={"ledger_id": ledger_id, "segments": len(metadata.segments)})
        members = metadata.last_segment.members
        asked = () if accept_loss else members
        remade = await store.remade(ledger_id, asked)
        key = master_key(password)
        recovery = _Recovery(ledger_id, metadata, remade, pool, placement, settings, digest, key)
        end = await recovery.run()
        if await store.remade(ledger_id, asked) != remade:
            continue
        if end.last_entry_id < known_entry_id:
            raise LostEntriesError(
                f"the bookies have nothing after entry {end.last_entry_id}, and entry {known_entry_id} was"
                " confirmed",
                ledger_id=ledger_id,
                entry_id=known_entry_id,
            )
        closed = await _publish(ledger_id, versioned, store, metadata.last_segment, end)
        if closed.metadata.state is LedgerState.CLOSED:
            _verify(ledger_id, closed.metadata, end)
            return closed
        # The last ensemble was rewritten under us (by auto recovery): what was found is to be kept there.
        versioned = closed


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
        self._remade = remade
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

    async def run(self) -> _End:
        """Fence, read forward, write again."""
        try:
            patience_s = self._settings.request_timeout_s
            fenced = await fence(
                self._ledger_id,
                self._metadata,
                self._pool,
                self._digest,
                self._key,
                self._remade,
                patience_s,
            )
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
                await readds.finish()
            finally:
                readds.close()
            length_bytes = last.length if last is not None else await self._length_at(fenced)
            return _End(
                fenced.last_add_confirmed,
                readds.confirmed,
                length_bytes,
                tuple(sorted(readds.segments.items())),
            )
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
