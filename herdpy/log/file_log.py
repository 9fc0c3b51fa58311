"""The commit log over file ledgers: the one in a directory, for one process. Top of the log.

``group_commit`` decides who flushes; here a group becomes entries, one write and one fdatasync, on
the ledger that ``file_ledgers`` gives; readers follow up to the last add confirmed.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterator
from time import perf_counter

from herdpy.log.commit_log import Acknowledge, Append, CommitLog, LogSettings
from herdpy.log.entry import LogEntry, Transaction, encode_entry, encode_part, fits, pack
from herdpy.log.errors import LogClosedError, LogError
from herdpy.log.file_ledger import Confirmed, FileLedgerWriter, frame
from herdpy.log.file_ledgers import FileLedgers, LogCursor, refused
from herdpy.log.files import Files
from herdpy.log.group_commit import DeliveredCommit, GroupCommit, QueuedAppend
from herdpy.log.ledger_list import LedgerList, LedgerListState
from herdpy.log.lsn import LSN
from herdpy.log.wait import OwnWait

GROUP_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Upper bounds of the histogram of transactions a group."""

SYNC_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
"""Upper bounds of the histogram of seconds a sync."""


class LogCounts:
    """Counts of one log.

    Attributes:
        transactions, bytes: made durable.
        sync_s: seconds spent in syncs, one a group.
        sizes: groups by how many transactions they had, one number for each of GROUP_SIZES and one for more.
        syncs: syncs by how long they took, one number for each of SYNC_S and one for longer.
    """

    __slots__ = ("bytes", "sizes", "sync_s", "syncs", "transactions")

    def __init__(self) -> None:
        self.transactions = self.bytes = 0
        self.sync_s = 0.0
        self.sizes = [0] * (len(GROUP_SIZES) + 1)
        self.syncs = [0] * (len(SYNC_S) + 1)

    def group(self, transactions: int, size_bytes: int, sync_s: float) -> None:
        """A group was written and synced."""
        self.transactions += transactions
        self.bytes += size_bytes
        self.sync_s += sync_s
        self.sizes[bisect_left(GROUP_SIZES, transactions)] += 1
        self.syncs[bisect_left(SYNC_S, sync_s)] += 1


class FileLog(FileLedgers, CommitLog):
    """A tablespace's log in a directory. Open it with :meth:`open`.

    The caller holds the lock on the directory; two writers are detected late, by the ledger list.

    Attributes:
        counts: what was written since it was opened.
    """

    def __init__(
        self,
        directory: str,
        acknowledge: Acknowledge | None = None,
        *,
        settings: LogSettings | None = None,
        files: Files | None = None,
        ledger_list: LedgerList | None = None,
        read_only: bool = False,
        now_us: Callable[[], int] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """As :meth:`open`."""
        FileLedgers.__init__(self, directory, settings, files, ledger_list, now_us, read_only=read_only)
        self._waiting: list[OwnWait[None]] = []
        self.counts = LogCounts()
        limit = self._settings.max_group_bytes
        self._group: GroupCommit
        if loop is None:
            self._group = GroupCommit(self._write, acknowledge, limit)
        else:
            self._group = DeliveredCommit(self._write, acknowledge, limit, loop)
        if read_only:
            self._group.refuse(LogClosedError("the log was opened for reading only"))

    @property
    def failure(self) -> LogError | None:
        """Why the log takes no more appends: it failed, or was closed; None while it takes them."""
        return self._group.refusal

    def _refuse(self, error: LogError) -> bool:
        return self._group.refuse(error)

    @classmethod
    def open(
        cls,
        directory: str,
        acknowledge: Acknowledge | None = None,
        *,
        settings: LogSettings | None = None,
        files: Files | None = None,
        ledger_list: LedgerList | None = None,
        read_only: bool = False,
        now_us: Callable[[], int] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> FileLog:
        """Open the log of ``directory``, after recovering it; an empty directory is an empty log.

        Args:
            acknowledge: see :data:`~herdpy.log.commit_log.Acknowledge`.
            read_only: change nothing: a torn tail is reported, not cut; appends are refused.
            now_us: the clock for ledgers' ages and created times, microseconds since 1970.
            loop: given, a thread of the log writes, and what it wrote is acknowledged and resolved
                on this loop (see ``group_commit``). Without it the threads that wait do the writing and
                all that follows.

        Raises:
            CorruptLedgerError: the log is damaged where no crash can have damaged it.
            OSError: the directory cannot be read or, when recovery is needed, written.
        """
        return cls(
            directory,
            acknowledge,
            settings=settings,
            files=files,
            ledger_list=ledger_list,
            read_only=read_only,
            now_us=now_us,
            loop=loop,
        )

    # Appending.

    def append(self, transaction: Transaction) -> Append:
        return self._group.append(transaction)

    def flush(self) -> None:
        self._group.flush()

    def _write(self, group: list[QueuedAppend]) -> None:
        """One group to disk: the flusher's work, see ``GroupCommit``."""
        with self._io:
            try:
                ledger = self._writable()
                pieces = self._encode(ledger, group)
                data, last, crc = next(pieces)
                ledger.reserve(len(data))
            except LogError:
                raise
            except BaseException as error:  # nothing of the group is written
                raise refused(error, "not done") from error
            syncing = False
            try:
                ledger.write(data)
                size = len(data)
                for piece in pieces:
                    data, last, crc = piece
                    ledger.reserve(size + len(data))
                    ledger.write(data, size)
                    size += len(data)
                syncing = True
                began = perf_counter()
                ledger.sync()
                self.counts.group(len(group), size, perf_counter() - began)
            except BaseException as error:
                # After a failed sync nobody knows what is on disk, and syncing again may only
                # seem to work: the ledger ends at its last confirmed entry.
                spoilt = syncing and isinstance(error, Exception)
                raise refused(error, self._undo(ledger, keep=not spoilt)) from error
            ledger.confirm(size, last, crc)
            self._confirmed = Confirmed(ledger.ledger_id, ledger.length, last)
        if self._waiting:
            self._wake_tails()

    def _encode(
        self, ledger: FileLedgerWriter, group: list[QueuedAppend]
    ) -> Iterator[tuple[bytes, LSN, int]]:
        """The group's entries as bytes, in pieces to be written one behind the other.

        With each the position and CRC of its last entry. Sets the appends' positions.
        """
        limit, most = self._settings.max_entry_bytes, self._settings.max_group_bytes
        before, crc, ledger_id, lac = ledger.last, ledger.crc, ledger.ledger_id, ledger.last_entry_id
        if len(group) == 1 and fits(len(group[0].body), limit):
            append = group[0]
            append.lsn = lsn = LSN(ledger_id, lac + 1)
            data, crc = encode_entry(lsn, before, crc, lac, [encode_part(append.body[:])])
            yield frame(data), lsn, crc
            return
        frames, size = [], 0
        for number, (parts, ending) in enumerate(pack([one.body for one in group], limit), lac + 1):
            lsn = LSN(ledger_id, number)
            data, crc = encode_entry(lsn, before, crc, lac, parts)
            before = lsn
            for place in ending:
                group[place].lsn = lsn
            frames.append(frame(data))
            size += len(data)
            if size >= most:
                yield b"".join(frames), before, crc
                frames, size = [], 0
        if frames:
            yield b"".join(frames), before, crc

    def close(self) -> None:
        first = self._group.refuse(LogClosedError("the log is closed"))
        if self._closed:
            return
        try:
            if first:
                self._group.flush()
        finally:
            self._group.stop()
            try:
                self._close_ledgers()
            finally:
                self._closed = True
                self._wake_tails()

    # Reading.

    @property
    def lac(self) -> LSN:
        return self._confirmed.lac

    @property
    def end(self) -> LSN:
        return self._confirmed.lac

    def cursor(self, after: LSN) -> LogCursor:
        """A place to read from without an event loop; close it."""
        return LogCursor(self._files, self._directory, self._view, after)

    def _view(self) -> tuple[Confirmed, LedgerListState]:
        confirmed = self._confirmed  # first: the list is then at least as new
        return confirmed, self._state

    async def read(self, after: LSN, upto: LSN | None = None) -> AsyncIterator[tuple[LSN, LogEntry]]:
        limit = self.lac if upto is None else min(upto, self.lac)
        cursor = self.cursor(after)
        try:
            while (entry := cursor.next(limit)) is not None:
                yield entry.lsn, entry
        finally:
            cursor.close()

    async def tail(self, after: LSN) -> AsyncIterator[tuple[LSN, LogEntry]]:
        cursor = self.cursor(after)
        try:
            while True:
                wait: OwnWait[None] = OwnWait()
                self._waiting.append(wait)  # before the look, so that no entry slips in between
                try:
                    closed = self._closed
                    while (entry := cursor.next(self.lac)) is not None:
                        yield entry.lsn, entry
                    if closed:
                        return
                    await wait
                finally:
                    if wait in self._waiting:
                        self._waiting.remove(wait)
        finally:
            cursor.close()

    def _wake_tails(self) -> None:
        waiting, self._waiting = self._waiting, []
        for wait in waiting:
            wait.resolve(None)
