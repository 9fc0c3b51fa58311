"""The log's part of a backup: what is written after an image goes into the archive of the repository.

Beside ``image``, below ``making``. Entries come from ``herdpy.log.detached``, that is from files or bookies,
without the process that writes them. What is archived already, by earlier backups or by the server's
archiver, is not read again. Where the log is trimmed meanwhile, the image is too old: LogTrimmedError.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from herdpy.backup.archive import (
    ArchiveWriter,
    LogSegment,
    chain,
    commit_times,
    decode_segment,
    entries_directory,
    segments,
)
from herdpy.backup.errors import BackupError, MissingPartError
from herdpy.backup.pages import RateLimit
from herdpy.backup.repository import Repository
from herdpy.backup.staged_parts import CutTransactionError, StagedParts
from herdpy.log import FileLog, LogEntry, LogTrimmedError
from herdpy.log.detached import DirectoryLedgers, LogAddress, LogLedgers, confirmed_from, opened
from herdpy.log.errors import CorruptLedgerError
from herdpy.log.file_ledger import FileLedgerReader, ledger_path
from herdpy.log.files import OsFiles
from herdpy.log.ledger_list import FileLedgerList, LedgerListState
from herdpy.log.lsn import LSN, START
from herdpy.log.records import StagedPart
from herdpy.log.recovery import scan_open_ledger
from herdpy_server.tablespace import Directory

Progress = Callable[[int], object]
"""Called with the bytes of the log that were read so far."""

_CONFIRM_PATIENCE_S = 15.0
_GLANCE_S = 0.02
_LISTINGS = 5


@dataclass(frozen=True, slots=True)
class ArchivedLog:
    """What the archive has after an image.

    Attributes:
        end: it has every entry from the image to here.
        end_time_us: commit time of the newest transaction up to there, after the image; 0: there is none.
        raw_bytes, stored_bytes: that were added, before and after compression.
    """

    end: LSN
    end_time_us: int
    raw_bytes: int
    stored_bytes: int


def archive(
    repository: Repository,
    log_id: str,
    log: LogLedgers,
    after: LSN,
    *,
    least: LSN = START,
    limit: RateLimit | None = None,
    progress: Progress = lambda _bytes: None,
) -> ArchivedLog:
    """Have every entry from ``after`` to the log's end in the archive.

    Args:
        least: the log's end is at least there: it is waited for until readers may know that.

    Raises:
        LogTrimmedError: entries after ``after`` are in the archive no more than in the log.
        LogError: the log cannot be read.
        BackupError, PlaceError: the repository.
    """
    end = confirmed_from(log, max(after, least))
    begin = continuous_end(repository, log_id, after)
    writer = ArchiveWriter(repository, log_id, begin)
    if begin < end:
        _copy(repository, log_id, log, begin, end, writer, limit or RateLimit(), progress)
    end = max(begin, end)
    if continuous_end(repository, log_id, after) < end:
        raise BackupError(f"the archive does not lead from {after} to {end}: files of it were removed")
    newest_us = newest_time_us(repository, log_id, after, end)
    return ArchivedLog(end, newest_us, writer.raw_bytes, writer.stored_bytes)


def _copy(
    repository: Repository,
    log_id: str,
    log: LogLedgers,
    begin: LSN,
    end: LSN,
    writer: ArchiveWriter,
    limit: RateLimit,
    progress: Progress,
) -> None:
    """Archive entries; rows that they name in staged ledgers come before them."""
    staged, spent = StagedParts(), 0
    for entry in log.read(begin, end):
        try:
            parts = staged.of(entry)
        except CutTransactionError:
            staged.go_back(repository, log_id, begin)
            parts = staged.of(entry)
        for part in parts:
            writer.add_staged(part, log.part(part))
        writer.add(entry)
        limit.spend(writer.stored_bytes - spent)
        spent = writer.stored_bytes
        progress(writer.raw_bytes)
    writer.flush()


# What is archived.


def continuous_end(repository: Repository, log_id: str, after: LSN) -> LSN:
    """Up to where the archive has every entry after ``after``, across ledgers too.

    A ledger's first entry names the one before it. DamagedPartError; PlaceError.
    """
    for _ in range(_LISTINGS):
        at = after
        try:
            for segment in chain(segments(repository, log_id), after):
                if segment.ledger_id != at.ledger_id:
                    first = next(_entries(repository, log_id, segment), None)
                    if first is None or first.header.predecessor != at:
                        break
                at = LSN(segment.ledger_id, segment.last)
        except MissingPartError:  # merged with others since it was listed
            continue
        return at
    return after


def newest_time_us(repository: Repository, log_id: str, after: LSN, upto: LSN) -> int:
    """Commit time of the newest archived transaction between two positions; 0: there is none."""
    for segment in reversed(chain(segments(repository, log_id), after)):
        entries = _entries(repository, log_id, segment)
        times = list(commit_times(entry for entry in entries if after < entry.lsn <= upto))
        if times:
            return times[-1]
    return 0


def _entries(repository: Repository, log_id: str, segment: LogSegment) -> Iterator[LogEntry]:
    name = f"{entries_directory(log_id)}/{segment.name}"
    return decode_segment(name, repository.read(name))


def crc_at(repository: Repository, log_id: str, log: LogLedgers, lsn: LSN, end: LSN) -> int | None:
    """The running CRC of the entry at ``lsn``, from which the archive goes on; None: nothing says it."""
    state = log.state()
    if lsn == state.base:
        return state.base_crc
    for ledger in state.ledgers:
        if ledger.closed and ledger.last == lsn:
            return ledger.crc
    for segment in chain(segments(repository, log_id), lsn)[:1] if lsn < end else ():
        for entry in _entries(repository, log_id, segment):
            if entry.lsn > lsn:
                return entry.header.predecessor_crc
    with suppress(LogTrimmedError):
        for entry in log.read(_before(state, lsn), lsn):
            return entry.header.crc
    return None


def _before(state: LedgerListState, lsn: LSN) -> LSN:
    """The position before an entry of the log."""
    if lsn.entry_id > 0:
        return LSN(lsn.ledger_id, lsn.entry_id - 1)
    earlier = [one.last for one in state.ledgers if one.ledger_id < lsn.ledger_id and one.last_entry_id >= 0]
    return max(earlier, default=state.base)


# The log of a directory.


@contextmanager
def opened_log(address: LogAddress) -> Generator[tuple[LogLedgers, LSN], None, None]:
    """A log for reading, and what is surely in it: every commit that was answered before this is up to there.

    Of a directory that nobody has open, that is all that recovery would find. Of one that a process has open,
    it is what has been written: readers may have it as soon as the process says that it is on the disk.

    Raises as ``herdpy.log.detached.opened``.
    """
    if not address.directory:
        with opened(address) as bookies:
            yield bookies, START
        return
    log = _DirectoryLog(address)
    try:
        yield log, log.confirmed() if log.is_left else _written_end(address.directory, log)
    finally:
        log.close()


class _DirectoryLog:
    """See ``LogLedgers``: the log of a directory, whether a process has it open or not.

    One that nobody has open ends where recovery would find its end. When a process opens it, it is read as
    another's log from then on, that is as soon as its ledger list has changed.
    """

    def __init__(self, address: LogAddress) -> None:
        self._address = address
        self._left = _left_log(address)
        self._log: LogLedgers = self._left or DirectoryLedgers(address)

    @property
    def is_left(self) -> bool:
        """Nobody has it open, as far as is known."""
        return self._left is not None

    def state(self) -> LedgerListState:
        return self._log.state()

    def confirmed(self) -> LSN:
        if self._left is not None:
            found = FileLedgerList(self._address.directory, OsFiles()).read()
            if found is not None and found.version != self._left.state().version:
                self.close()
                self._log, self._left = DirectoryLedgers(self._address), None
        return self._log.confirmed()

    def read(self, after: LSN, upto: LSN) -> Generator[LogEntry, None, None]:
        return self._log.read(after, upto)

    def part(self, part: StagedPart) -> Generator[bytes, None, None]:
        return self._log.part(part)

    def close(self) -> None:
        """Close what is open."""
        if self._left is not None:
            self._left.close()


def _left_log(address: LogAddress) -> _LeftLog | None:
    """The log of a directory that nobody has open; None when somebody has."""
    try:
        lock = Directory(Path(address.directory).parent).path / "LOCK"
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return _LeftLog(address.directory)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return _LeftLog(address.directory)
    except BlockingIOError:
        return None
    finally:
        os.close(descriptor)


class _LeftLog:
    """See ``LogLedgers``: a log whose last writer has ended, as it was when this was made."""

    def __init__(self, directory: str) -> None:
        self._log = FileLog(directory, read_only=True)
        # What a killed process has written is the log's, and is to be on the disk before it is archived.
        ledgers = self._log.ledgers()
        if ledgers and not ledgers[-1].closed:
            descriptor = os.open(ledger_path(directory, ledgers[-1].ledger_id), os.O_RDONLY)
            try:
                os.fdatasync(descriptor)
            finally:
                os.close(descriptor)

    def state(self) -> LedgerListState:
        return self._log.state

    def confirmed(self) -> LSN:
        return self._log.lac

    def read(self, after: LSN, upto: LSN) -> Generator[LogEntry, None, None]:
        try:
            cursor = self._log.cursor(after)
            try:
                while (entry := cursor.next(upto)) is not None:
                    yield entry
            finally:
                cursor.close()
        except CorruptLedgerError as error:
            if not error.file or os.path.exists(error.file):
                raise
            raise LogTrimmedError(f"the entries after {after} were trimmed meanwhile") from error

    def part(self, part: StagedPart) -> Generator[bytes, None, None]:
        raise CorruptLedgerError(part.ledger_id, None, "", "a log in files stages no rows in ledgers")

    def close(self) -> None:
        self._log.close()


def _written_end(directory: str, log: LogLedgers) -> LSN:
    """The last whole entry of a log that another process writes; it waits until that is confirmed, a while.

    An entry that never is confirmed was written by a process that stands still, or could not bring it to the
    disk: nobody was answered then.
    """
    state = log.state()
    end, _ = state.settled_end
    if not state.ledgers or state.ledgers[-1].closed:
        return end
    ledger_id = state.ledgers[-1].ledger_id
    try:
        reader = FileLedgerReader(OsFiles(), ledger_path(directory, ledger_id), ledger_id, state.log_id)
    except CorruptLedgerError:  # it was trimmed meanwhile, so readers know its end
        return log.confirmed()
    with suppress(CorruptLedgerError):  # its last entry is being written
        scan_open_ledger(reader)
    end = reader.last
    reader.close()
    late_s = time.monotonic() + _CONFIRM_PATIENCE_S
    while (confirmed := log.confirmed()) < end and time.monotonic() < late_s:
        time.sleep(_GLANCE_S)  # another process writes it: there is nothing to await
    return min(end, confirmed)
