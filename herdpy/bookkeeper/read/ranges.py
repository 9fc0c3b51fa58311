"""Ranges of entries: windows over the replicas, repeated where the metadata have moved.

Between ``reader`` and ``tail``, which know what may be read, and ``window``, which reads.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from herdpy.bookkeeper.digest import Entry
from herdpy.bookkeeper.errors import BookKeeperError, ClosedClientError, NoSuchEntryError, NoSuchLedgerError
from herdpy.bookkeeper.read.ahead import Ahead
from herdpy.bookkeeper.read.entry_read import EntryRead, EntryReader
from herdpy.bookkeeper.read.view import LedgerView
from herdpy.bookkeeper.read.window import ReadWindow
from herdpy.bookkeeper.settings import ClientSettings


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

    async def read(self, first: int, last: int, *, growing: bool = False) -> AsyncGenerator[Entry, None]:
        """Entries first to last in order; ``growing``: go on as far as the view is confirmed meanwhile."""
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
                for entry in taken:
                    if entries.is_closed:
                        raise entries.closed_error()
                    if entry.lac > view.last_add_confirmed:
                        view.prove(entry.lac)
                    if entry.length > view.length_bytes:
                        self._seen(entry)
                    if growing and view.last_add_confirmed > window.last:
                        window.extend(view.last_add_confirmed)
                    yield entry
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
