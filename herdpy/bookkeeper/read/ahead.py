"""Entries fetched before they are known to be confirmed, so that they are there when they are.

Beside ``polls``, which hears of entries, and below ``tail``, which takes them out here and gives each on once
its confirmation is proven, never before. What was fetched in vain, because the hint was wrong or a replica
failed, is not here; then the tail reads the entry as any other, and what is wrong comes out.
"""

from __future__ import annotations

import asyncio
from typing import Final

from herdpy.bookkeeper.digest import Entry
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerState
from herdpy.bookkeeper.read.entry_read import EntryRead, EntryReader
from herdpy.bookkeeper.read.view import LedgerView
from herdpy.bookkeeper.settings import ClientSettings

MAX_AHEAD: Final = 64
"""Entries held or under way; behind them reading in order is as fast."""


class Ahead:
    """Entries of one ledger behind its proven last add confirmed, held for one follower."""

    def __init__(self, view: LedgerView, entries: EntryReader, settings: ClientSettings) -> None:
        self._view = view
        self._entries = entries
        self._limit_entries = min(MAX_AHEAD, settings.read_ahead_entries)
        self._limit_bytes = settings.read_ahead_bytes
        self._entry_bytes = 1
        self._held: dict[int, Entry] = {}
        self._reads: dict[int, EntryRead] = {}
        self._waiter: asyncio.Future[None] | None = None

    def put(self, entry: Entry) -> None:
        """An entry came along with an answer."""
        self._entry_bytes = max(1, len(entry.data))
        if len(self._held) < self._limit_entries:
            self._held[entry.entry_id] = entry

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
