"""The log of a directory, for a backup: whether a process has it open or not, and what is surely in it.

Beside ``log_part``, below ``making``. A reader of another process's log believes what that has confirmed.
Here more is known: a log that nobody has open ends where recovery would find its end, and what stands in an
open one unchanged for a while is no write that may still fail.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from herdpy.log import FileLog, LogEntry, LogTrimmedError
from herdpy.log.detached import DirectoryLedgers, LogAddress, LogLedgers, opened
from herdpy.log.errors import CorruptLedgerError
from herdpy.log.file_ledger import Confirmed, FileLedgerReader, ledger_path
from herdpy.log.files import OsFiles
from herdpy.log.ledger_list import FileLedgerList, LedgerListState
from herdpy.log.log_cursor import LogCursor
from herdpy.log.lsn import LSN, START
from herdpy.log.records import StagedPart
from herdpy.log.recovery import scan_open_ledger
from herdpy.machine import sync_data
from herdpy_server.tablespace import Directory

_CONFIRM_PATIENCE_S = 5.0
_GLANCE_S = 0.02


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

    Attributes:
        accepted: where its open ledger may be read to although its process has not said so.
    """

    def __init__(self, address: LogAddress) -> None:
        self.accepted: Confirmed | None = None
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
            now = FileLedgerList(self._address.directory, OsFiles()).read()
            if now is not None and now.version != self._left.state().version:
                self.close()
                self._log, self._left = DirectoryLedgers(self._address), None
        found = self._log.confirmed()
        return found if self.accepted is None else max(found, self.accepted.lac)

    def read(self, after: LSN, upto: LSN) -> Generator[LogEntry, None, None]:
        accepted = self.accepted
        if accepted is None or upto <= self._log.confirmed():
            return self._log.read(after, upto)
        return self._read_accepted(accepted, after, upto)

    def _read_accepted(self, accepted: Confirmed, after: LSN, upto: LSN) -> Generator[LogEntry, None, None]:
        def view() -> tuple[Confirmed, LedgerListState]:
            return accepted, self._log.state()

        cursor = LogCursor(OsFiles(), self._address.directory, view, after)
        try:
            while (entry := cursor.next(upto)) is not None:
                yield entry
        finally:
            cursor.close()

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
            _bring_to_disk(ledger_path(directory, ledgers[-1].ledger_id))

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


class _Written(NamedTuple):
    """Where the whole entries of an open ledger end, as if all were confirmed, and the CRC there."""

    upto: Confirmed
    crc: int


def _written(directory: str, state: LedgerListState) -> _Written | None:
    """What stands in the ledger that is open; None: none is, or it was trimmed meanwhile."""
    if not state.ledgers or state.ledgers[-1].closed:
        return None
    ledger_id = state.ledgers[-1].ledger_id
    try:
        reader = FileLedgerReader(OsFiles(), ledger_path(directory, ledger_id), ledger_id, state.log_id)
    except CorruptLedgerError:
        return None
    try:
        with suppress(CorruptLedgerError):  # its last entry is being written
            scan_open_ledger(reader)
        return _Written(Confirmed(ledger_id, reader.offset, reader.last), reader.crc)
    finally:
        reader.close()


def _written_end(directory: str, log: _DirectoryLog) -> LSN:
    """The last whole entry of a log that another process writes, once it is confirmed.

    The process says so with the next entry, or with its next checkpoint. One that writes nothing may say it
    late: then what stands there unchanged is on the disk, and no failed write any more, which would have been
    cut off.
    """
    found = _written(directory, log.state())
    if found is None:
        return log.confirmed()
    late_s = time.monotonic() + _CONFIRM_PATIENCE_S
    while log.confirmed() < found.upto.lac:
        if time.monotonic() > late_s:
            _bring_to_disk(ledger_path(directory, found.upto.ledger_id))
            if _written(directory, log.state()) != found:
                break
            log.accepted = found.upto
        else:
            time.sleep(_GLANCE_S)  # another process writes it: there is nothing to await
    return min(found.upto.lac, log.confirmed())


def _bring_to_disk(path: str) -> None:
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            sync_data(descriptor)
        finally:
            os.close(descriptor)
