"""Many entries in order: windows over the replicas, repeated where metadata have moved; missing copies.

Between ``reader``, which knows what may be read, or recovery, and ``entry_read``. A ReadWindow
reads ahead of its consumer within a bound of bytes and of entries. There is no task: taking an entry makes
room and starts further reads, replies wake the consumer only when it waits. So a consumer that stops leaves
nothing behind but replies that nobody looks at. The size of an entry is known only when it is there. What
is under way is counted at the largest size seen lately, and the first reads are few, so that the bound
holds unless sizes jump. ``missing_copies`` asks every bookie for all that it should have, for operators.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from herdpy.bookkeeper.digest import Digest, Entry
from herdpy.bookkeeper.errors import BookKeeperError, ClosedClientError, NoSuchEntryError, NoSuchLedgerError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from herdpy.bookkeeper.placement import write_set
from herdpy.bookkeeper.read.entry_read import EntryRead, EntryReader
from herdpy.bookkeeper.read.polls import Ahead
from herdpy.bookkeeper.read.view import LedgerView, ReplicaOrder
from herdpy.bookkeeper.settings import ClientSettings

if TYPE_CHECKING:
    from herdpy.bookkeeper.bookie import BookiePool

MAX_TAKEN: Final = 32
"""Entries given to the consumer at a time."""

FIRST_READS: Final = 4
"""Reads started before the size of any entry is known; doubled with each answer."""


class ReadWindow:
    """The reads of entries ``first`` to ``last``, started in order and taken in order.

    Args:
        members_of: the ensemble of an entry, as known when its read starts, and where the next one begins.
        last: may grow (``extend``) while entries are taken.
    """

    __slots__ = (
        "_expected_bytes",
        "_given",
        "_given_bytes",
        "_held_bytes",
        "_limit_bytes",
        "_limit_entries",
        "_members_of",
        "_next",
        "_reader",
        "_reads",
        "_started_at_most",
        "_under_way",
        "_waiter",
        "last",
    )

    def __init__(
        self,
        reader: EntryReader,
        members_of: Callable[[int], tuple[tuple[str, ...], int | None]],
        settings: ClientSettings,
        first: int,
        last: int,
    ) -> None:
        self.last = last
        self._reader = reader
        self._members_of = members_of
        self._limit_bytes = settings.read_ahead_bytes
        self._limit_entries = settings.read_ahead_entries
        self._next = first
        self._reads: deque[EntryRead] = deque()
        self._held_bytes = 0
        self._given = self._given_bytes = 0
        self._under_way = 0
        self._expected_bytes = 0
        self._started_at_most = min(FIRST_READS, self._limit_entries)
        self._waiter: asyncio.Future[None] | None = None
        self._fill()

    @property
    def is_empty(self) -> bool:
        """Whether every entry up to ``last`` was taken."""
        return not self._reads

    def extend(self, last: int) -> None:
        """Read further than was said at first."""
        if last > self.last:
            self.last = last
            self._fill()

    def head(self) -> EntryRead | None:
        """The next read in order if it is done, else None."""
        read = self._reads[0]
        return read if read.is_done else None

    async def ready(self) -> None:
        """Wait until the next read in order is done."""
        while not self._reads[0].is_done:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def take(self) -> list[Entry]:
        """Take out the next entries that are there, some at most; none when the next read is not done or
        failed. They count for the bounds until the next call.
        """
        reads = self._reads
        taken: list[Entry] = []
        size_bytes = 0
        while reads and len(taken) < MAX_TAKEN:
            entry = reads[0].entry
            if entry is None:
                break
            reads.popleft()
            size_bytes += len(entry.data)
            taken.append(entry)
        self._held_bytes -= self._given_bytes
        self._given, self._given_bytes = len(taken), size_bytes
        if self._next <= self.last and (
            not reads or 4 * (len(reads) + self._given) <= 3 * self._started_at_most
        ):
            self._fill()
        return taken

    def pop(self) -> None:
        """Take the next read out, which makes room for more (started several at a time)."""
        reads = self._reads
        read = reads.popleft()
        if read.entry is not None:
            self._held_bytes -= len(read.entry.data)
        if self._next <= self.last and 4 * len(reads) <= 3 * self._started_at_most:
            self._fill()

    def again(self, members: tuple[str, ...]) -> None:
        """Read the next entry in order once more, from these bookies, because it failed."""
        failed = self._reads[0]
        self._under_way += 1
        self._reads[0] = self._reader.begin(failed.entry_id, members, self._on_done)

    def close(self) -> None:
        """Want no more entries."""
        for read in self._reads:
            read.cancel()
        self._reads.clear()

    def _fill(self) -> None:
        reads = self._reads
        room = self._started_at_most - len(reads) - self._given
        if self._expected_bytes:
            free_bytes = self._limit_bytes - self._held_bytes - self._under_way * self._expected_bytes
            room = min(room, free_bytes // self._expected_bytes)
        if not reads:
            room = max(room, 1)  # an entry larger than the bound is read alone
        first = entry_id = self._next
        stop = min(first + room, self.last + 1)
        while entry_id < stop:
            members, end = self._members_of(entry_id)
            end = stop if end is None else min(stop, end)
            reads.extend(self._reader.begin_many(entry_id, end, members, self._on_done))
            entry_id = end
        if entry_id > first:
            self._next = entry_id
            self._under_way += entry_id - first

    def _on_done(self, read: EntryRead) -> None:
        self._under_way -= 1
        entry = read.entry
        if entry is not None:
            size = len(entry.data)
            self._held_bytes += size
            self._expected_bytes = max(size, self._expected_bytes - (self._expected_bytes >> 4))
            if self._started_at_most < self._limit_entries:
                self._started_at_most = min(2 * self._started_at_most, self._limit_entries)
        waiter = self._waiter
        if waiter is not None and self._reads[0].is_done and not waiter.done():
            waiter.set_result(None)


class RangeReader:
    """Reads entries of one ledger as its view knows it."""

    def __init__(self, view: LedgerView, entries: EntryReader, settings: ClientSettings) -> None:
        self._view = view
        self._entries = entries
        self._settings = settings

    def ahead(self) -> Ahead:
        """Where a follower keeps what it fetches before it is confirmed."""
        return Ahead(self._view, self._entries, self._settings)

    @property
    def is_closed(self) -> bool:
        """Whether the reader let go of the ledger."""
        return self._entries.is_closed

    def closed_error(self) -> ClosedClientError:
        """What reads end with then."""
        return self._entries.closed_error()

    async def get(self, entry_id: int) -> Entry:
        """One entry; raises why no replica gave it."""
        read = await self._entries.read(entry_id, self._members_of(entry_id))
        while read.entry is None:
            read = await self._entries.read(entry_id, await self._moved_to(read))
        self._seen(read.entry)
        return read.entry

    async def read(self, first: int, last: int) -> AsyncGenerator[Entry, None]:
        """Entries first to last in order."""
        async with aclosing(self.runs(first, last)) as runs:
            async for run in runs:
                for entry in run:
                    if self._entries.is_closed:
                        raise self._entries.closed_error()
                    yield entry

    async def runs(
        self, first: int, last: int, *, growing: Callable[[], int] | None = None
    ) -> AsyncGenerator[list[Entry], None]:
        """Entries first to last in order, as many at a time as are there.

        Args:
            growing: how far to go on by now, if that is further.
        """
        view = self._view
        entries = self._entries
        window = ReadWindow(entries, view.span_at, self._settings, first, last)
        try:
            while not window.is_empty:
                taken = window.take()
                if not taken:
                    read = window.head()
                    if read is None:
                        await window.ready()
                    else:
                        window.again(await self._moved_to(read))
                    continue
                if entries.is_closed:
                    raise entries.closed_error()
                for entry in taken:
                    if entry.lac > view.last_add_confirmed:
                        view.prove(entry.lac)
                    if entry.length > view.length_bytes:
                        self._seen(entry)
                if growing is not None:
                    window.extend(growing())
                yield taken
        finally:
            window.close()

    def _members_of(self, entry_id: int) -> tuple[str, ...]:
        return self._view.members_at(entry_id).members

    async def _moved_to(self, read: EntryRead) -> tuple[str, ...]:
        """Where a failed read's entry is now, if that is elsewhere; else raises the read's error."""
        error = read.error
        assert error is not None
        members = self._members_of(read.entry_id)
        if members == read.members and not isinstance(error, ClosedClientError):
            try:
                await self._view.refresh()
            except NoSuchLedgerError as gone:
                raise gone from error
            except BookKeeperError as trouble:
                if isinstance(error, NoSuchEntryError):
                    # Old metadata can name bookies that never had it, so nothing is proven.
                    raise trouble from error
                raise error from trouble
            members = self._members_of(read.entry_id)
        if members == read.members:
            raise error
        return members

    def _seen(self, entry: Entry) -> None:
        self._view.prove(entry.lac)
        if not self._view.is_closed:
            self._view.length_bytes = max(self._view.length_bytes, entry.length)


# Missing copies.

_AT_ONCE = 64


async def missing_copies(
    ledger_id: int, metadata: LedgerMetadata, pool: BookiePool, settings: ClientSettings, digest: Digest
) -> dict[str, list[int]]:
    """The entries that each bookie should have and does not give, by its id; empty when all are there."""
    order = ReplicaOrder(asyncio.get_running_loop(), settings.quarantine_s)
    reader = EntryReader(ledger_id, 1, 1, pool, settings, digest, order)
    missing: dict[str, list[int]] = {}
    try:
        for first in range(0, metadata.last_entry_id + 1, _AT_ONCE):
            entries = range(first, min(first + _AT_ONCE, metadata.last_entry_id + 1))
            places = [(entry_id, bookie) for entry_id in entries for bookie in _holders(metadata, entry_id)]
            reads = await asyncio.gather(*(reader.read(entry_id, (bookie,)) for entry_id, bookie in places))
            for (entry_id, bookie), read in zip(places, reads, strict=True):
                if read.entry is None:
                    missing.setdefault(bookie, []).append(entry_id)
    finally:
        reader.close()
    return missing


def _holders(metadata: LedgerMetadata, entry_id: int) -> list[str]:
    members = metadata.ensemble_at(entry_id).members
    return [members[index] for index in write_set(entry_id, len(members), metadata.write_quorum)]
