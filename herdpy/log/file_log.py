"""The commit log over file ledgers: the one in a directory, for one process. Top of the log.

``group_commit`` decides who flushes; here a group becomes entries, one write and one fdatasync, on the ledger
that is open. Here ledgers begin and end, as the ledger list says; ``file_log_reader`` follows across them, up
to the last add confirmed.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from time import perf_counter

from herdpy.log.commit_log import Acknowledge, Append, CommitLog, LogSettings, LogWatch
from herdpy.log.entry import LogEntry, LoggedTransaction, encode_entry, encode_part, fits, pack
from herdpy.log.errors import LogClosedError, LogError, LogFullError, LogWriteError, Outcome
from herdpy.log.file_ledger import (
    BLOCK_BYTES,
    Confirmed,
    FileHeader,
    FileLedgerWriter,
    frame,
    ledger_path,
)
from herdpy.log.file_log_reader import FileLogReader
from herdpy.log.files import Files, OsFiles
from herdpy.log.group_commit import DeliveredCommit, GroupCommit, QueuedAppend
from herdpy.log.ledger_list import FileLedgerList, LedgerInfo, LedgerList, LedgerListState
from herdpy.log.log_counts import LogCounts
from herdpy.log.log_cursor import LogCursor
from herdpy.log.lsn import LSN
from herdpy.log.recovery import TornTail, open_ledgers
from herdpy.log.write_place import WritePlace

_logger = logging.getLogger("herdpy.log")


class _LoopWrites:
    """Lets the loop write a group while the disk is quick, and nothing else has to be done first."""

    def __init__(self, log: FileLog) -> None:
        self._log = log

    def enter(self, size_bytes: int) -> bool:
        """See ``LoopWriting``: a thread may be changing ledgers, which takes long."""
        log = self._log
        if not log.write_place.takes(size_bytes) or not log._io.acquire(blocking=False):
            return False
        if log._is_ready(size_bytes):
            return True
        log._io.release()
        return False

    def leave(self) -> None:
        """See ``LoopWriting``."""
        self._log._io.release()


class FileLog(CommitLog):
    """A tablespace's log in a directory.

    The caller holds the lock on the directory; two writers are detected late, by the ledger list.

    Attributes:
        counts: what was written since it was opened.
        recovered: the torn tails that opening found (at most one) and, unless read-only, cut off.
        write_place: where groups are written, of a log on a loop.
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
        """Open the log of ``directory``, after recovering it; an empty directory is an empty log.

        Args:
            acknowledge: see :data:`~herdpy.log.commit_log.Acknowledge`.
            read_only: change nothing: a torn tail is reported, not cut; appends are refused.
            now_us: the clock for ledgers' ages and created times, microseconds since 1970.
            loop: given, a thread of the log writes, or this loop while the disk is quick, and what was
                written is acknowledged and resolved on this loop (see ``group_commit``). Without it the
                threads that wait do the writing and all that follows.

        Raises:
            CorruptLedgerError: the log is damaged where no crash can have damaged it.
            OSError: the directory cannot be read or, when recovery is needed, written.
        """
        self._directory = directory
        self._settings = settings or LogSettings()
        self._files: Files = files or OsFiles()
        self._list: LedgerList = ledger_list or FileLedgerList(directory, self._files)
        self._now_us = now_us or _now_us
        self.read_only = read_only
        self._io = threading.RLock()  # who changes ledgers; taken before GroupCommit.mutex, never after
        self._ledger: FileLedgerWriter | None = None
        self._unsettled: FileLedgerWriter | None = None  # failed, and not yet sealed in the list
        self._closed = False
        if not read_only:
            self._files.make_directory(directory)
        opened = open_ledgers(directory, self._files, self._list, read_only=read_only)
        self._state: LedgerListState = opened.state
        self.recovered: list[TornTail] = opened.torn
        self._confirmed: Confirmed = opened.confirmed
        for torn in self.recovered:
            _logger.warning("%s", torn)
        self._reader = FileLogReader(self._files, directory, self._view)
        self.counts = LogCounts()
        self.write_place = WritePlace()
        limit = self._settings.max_group_bytes
        self._group: GroupCommit
        if loop is None:
            self._group = GroupCommit(self._write, acknowledge, limit)
        else:
            self._group = DeliveredCommit(self._write, acknowledge, limit, loop, _LoopWrites(self))
        if read_only:
            self._group.refuse(LogClosedError("the log was opened for reading only"))

    def look_on(self, watch: LogWatch) -> None:
        """See CommitLog; a log of threads is not looked at."""
        if isinstance(self._group, DeliveredCommit):
            self._group.watch = watch

    @property
    def failure(self) -> LogError | None:
        """Why the log takes no more appends: it failed, or was closed; None while it takes them."""
        return self._group.refusal

    def _refuse(self, error: LogError) -> bool:
        return self._group.refuse(error)

    # Appending.

    def append(self, transaction: LoggedTransaction) -> Append:
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
            began = perf_counter()
            try:
                ledger.write(data)
                size = len(data)
                for piece in pieces:
                    data, last, crc = piece
                    ledger.reserve(size + len(data))
                    ledger.write(data, size)
                    size += len(data)
                syncing = True
                written = perf_counter()
                ledger.sync()
                synced = perf_counter()
                self.counts.group(len(group), size, synced - written)
                self.write_place.took(synced - began)
            except BaseException as error:
                # After a failed sync nobody knows what is on disk, and syncing again may only
                # seem to work: the ledger ends at its last confirmed entry.
                spoilt = syncing and isinstance(error, Exception)
                raise refused(error, self._undo(ledger, keep=not spoilt)) from error
            ledger.confirm(size, last, crc)
            self._confirmed = Confirmed(ledger.ledger_id, ledger.length, last)
        if self._reader.waiting:
            self._reader.wake()

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
                self._reader.end()

    # Ledgers. Each step is one compare-and-set of the list, before or after which a crash may come.

    def _writable(self) -> FileLedgerWriter:
        """The ledger to write to, begun when there is none or the one there is due to end."""
        if self._unsettled is not None:
            self._seal(self._unsettled)
        if self._ledger is None or self._due(self._ledger):
            return self._begin()
        return self._ledger

    def _is_ready(self, size_bytes: int) -> bool:
        """Whether so many bytes of transactions can be written with nothing but one write and one sync."""
        ledger = self._ledger
        return (
            self._unsettled is None
            and ledger is not None
            and not self._due(ledger)
            and ledger.has_room(2 * size_bytes + BLOCK_BYTES)
        )

    def _due(self, ledger: FileLedgerWriter) -> bool:
        settings = self._settings
        return (
            ledger.length >= settings.max_ledger_bytes
            or self._now_us() - ledger.header.created_us >= settings.max_ledger_age_s * 1e6
        ) and ledger.last_entry_id >= 0

    def _begin(self) -> FileLedgerWriter:
        """Begin a ledger behind the present one, which ends: one change of the list does both."""
        old, state = self._ledger, self._settled(self._ledger)
        before, crc = state.settled_end
        header = FileHeader(state.next_ledger_id, self._now_us(), bytes.fromhex(state.log_id), before, crc)
        new = FileLedgerWriter(self._files, self._directory, header, self._settings.preallocate_bytes)
        info = LedgerInfo(new.ledger_id, header.created_us)
        try:
            self._change_list(
                replace(state, next_ledger_id=new.ledger_id + 1, ledgers=(*state.ledgers, info))
            )
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, LogError):
                new.abandon()
            else:
                new.release()  # the list may name it
            raise
        self._ledger = new
        if old is not None:
            self._drop_file(old)
        return new

    def _settled(self, ledger: FileLedgerWriter | None) -> LedgerListState:
        """The list with ``ledger`` closed at its last confirmed entry, or gone when it has none."""
        state = self._state
        if ledger is None:
            return state
        kept = []
        for info in state.ledgers:
            if info.ledger_id != ledger.ledger_id:
                kept.append(info)
            elif ledger.last_entry_id >= 0:
                kept.append(_closed(info, ledger.last_entry_id, ledger.length, ledger.crc))
        return replace(state, ledgers=tuple(kept))

    def _change_list(self, state: LedgerListState) -> None:
        """Compare-and-set the list. Of Exceptions, any but a LogError means that it is unchanged.

        Raises:
            LedgerListConflictError: another writer was here; the log refuses appends from now on.
            LogWriteError: nobody knows which list the disk has; so it does then too.
        """
        try:
            self._state = self._list.write(state, self._state.version)
        except LogError as conflict:
            self._refuse(conflict)
            raise
        except BaseException as error:
            if self._list_is_unchanged():
                raise
            failure = LogWriteError(f"the ledger list was changed, but perhaps not for good: {error!r}")
            self._refuse(failure)
            if not isinstance(error, Exception):
                raise  # an interrupt is its thread's own
            raise failure from error

    def _list_is_unchanged(self) -> bool:
        try:
            now = self._list.read()
        except BaseException as error:  # noqa: BLE001 - whatever it is, nothing is certain
            _logger.warning("the ledger list cannot be read back: %r", error)
            return False
        return now is not None and now.version == self._state.version

    def _undo(self, ledger: FileLedgerWriter, *, keep: bool) -> Outcome:
        """After a failed write: make sure that nothing of it is ever found; say whether it is so."""
        try:
            ledger.cut()
        except OSError as error:
            _logger.warning("ledger %d cannot be cut to its last entry: %s", ledger.ledger_id, error)
            keep = False
        if keep:
            return "not done"
        # The list is the other way: nobody reads a closed ledger beyond the length it has there.
        self._unsettled, self._ledger = ledger, None
        try:
            self._seal(ledger)
        except (OSError, LogError) as refusal:
            _logger.warning("ledger %d cannot be closed: %s", ledger.ledger_id, refusal)
            return "unknown"
        return "not done"

    def _seal(self, ledger: FileLedgerWriter) -> None:
        self._change_list(self._settled(ledger))
        self._unsettled = None
        self._drop_file(ledger)

    def _drop_file(self, ledger: FileLedgerWriter) -> None:
        """Close a settled ledger's file; its bytes no longer matter beyond what the list says."""
        try:
            if ledger.last_entry_id >= 0:
                ledger.finish()
            else:
                ledger.abandon()
        except OSError as error:
            _logger.warning("ledger %d keeps unused bytes: %s", ledger.ledger_id, error)

    def roll(self) -> None:
        with self._io:
            if self._unsettled is not None:
                self._seal(self._unsettled)
            ledger = self._ledger
            if ledger is not None and ledger.last_entry_id >= 0:
                self._change_list(self._settled(ledger))
                self._ledger = None
                self._drop_file(ledger)

    def roll_if_due(self) -> bool:
        with self._io:
            due = self._ledger is not None and self._due(self._ledger)
            if due:
                self.roll()
            return due

    def note_lac(self) -> None:
        # A flush that is under way will be followed by another call.
        if self._io.acquire(blocking=False):
            try:
                if self._ledger is not None:
                    self._ledger.note_lac()
            except OSError as error:
                raise refused(error, "not done") from error
            finally:
                self._io.release()

    def trim(self, before: LSN) -> list[int]:
        with self._io:
            if self.read_only or self._closed:
                raise LogClosedError("the log is not open for writing")
            state = self._state
            gone = [ledger for ledger in state.ledgers if ledger.closed and ledger.last <= before]
            if not gone:
                return []
            # The list first: a crash in between leaves files that no list names, not the reverse.
            self._change_list(
                replace(state, base=gone[-1].last, base_crc=gone[-1].crc, ledgers=state.ledgers[len(gone) :])
            )
            for ledger in gone:
                try:
                    self._files.remove(ledger_path(self._directory, ledger.ledger_id))
                except OSError as error:
                    if error.errno != errno.ENOENT:
                        raise
            return [ledger.ledger_id for ledger in gone]

    def _close_ledgers(self) -> None:
        """End the ledger in the list. Without it nothing is lost: the next opening does it."""
        with self._io:
            ledger = self._ledger or self._unsettled
            if ledger is None:
                return
            try:
                if self._unsettled is None:
                    ledger.note_lac()
                self._change_list(self._settled(ledger))
                self._drop_file(ledger)
            except OSError as error:
                raise refused(error, "done") from error
            finally:
                ledger.release()
                self._ledger = self._unsettled = None

    @property
    def base(self) -> LSN:
        """The last entry that was trimmed; START when the log reaches back to its beginning."""
        return self._state.base

    def ledgers(self) -> tuple[LedgerInfo, ...]:
        return self._state.ledgers

    @property
    def state(self) -> LedgerListState:
        """The ledger list with its version and where it begins."""
        return self._state

    def path(self, ledger_id: int) -> str:
        """The file of a ledger."""
        return ledger_path(self._directory, ledger_id)

    # Reading.

    @property
    def confirmed(self) -> Confirmed:
        """How far the ledger that is written to may be read, for readers in other processes."""
        return self._confirmed

    @property
    def lac(self) -> LSN:
        return self._confirmed.lac

    @property
    def end(self) -> LSN:
        return self._confirmed.lac

    def cursor(self, after: LSN) -> LogCursor:
        """A place to read from without an event loop; close it."""
        return self._reader.cursor(after)

    def _view(self) -> tuple[Confirmed, LedgerListState]:
        confirmed = self._confirmed  # first: the list is then at least as new
        return confirmed, self._state

    def read(self, after: LSN, upto: LSN | None = None) -> AsyncIterator[tuple[LSN, LogEntry]]:
        return self._reader.read(after, upto)

    def tail(self, after: LSN) -> AsyncIterator[tuple[LSN, LogEntry]]:
        return self._reader.tail(after)


def _now_us() -> int:
    return time.time_ns() // 1000


def _closed(info: LedgerInfo, last_entry_id: int, length: int, crc: int) -> LedgerInfo:
    return replace(info, closed=True, last_entry_id=last_entry_id, length=length, crc=crc)


def refused(error: BaseException, outcome: Outcome) -> LogError:
    """What an append or a change of ledgers that failed raises; ``outcome`` says what became of it."""
    failure: LogError
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        failure = LogFullError(f"no space is left for the log: {error}", outcome=outcome)
    else:
        failure = LogWriteError(f"the log cannot be written: {error!r}", outcome=outcome)
    failure.__cause__ = error  # compiled code does not set it by ``from``; an interrupt is found by it
    return failure
