"""The ledgers of a log in a directory: one that is written, those before it, and reading across them.

Above ``file_ledger``, ``ledger_list`` and ``recovery``, below ``file_log``, which writes entries to the
ledger that it gets here. Ledgers are begun, rolled, sealed after a failure, trimmed and closed; each such
step is one compare-and-set of the list, before or after which a crash may come. DESIGN.md says why.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from herdpy.log.commit_log import LogSettings
from herdpy.log.entry import LogEntry
from herdpy.log.errors import LogClosedError, LogError, LogFullError, LogTrimmedError, LogWriteError, Outcome
from herdpy.log.file_ledger import (
    BLOCK_BYTES,
    Confirmed,
    FileHeader,
    FileLedgerReader,
    FileLedgerWriter,
    ledger_path,
)
from herdpy.log.files import Files, OsFiles
from herdpy.log.ledger_list import FileLedgerList, LedgerInfo, LedgerList, LedgerListState, predecessor_of
from herdpy.log.lsn import LSN
from herdpy.log.recovery import TornTail, open_ledgers


class LogCursor:
    """A place in the log. ``next`` gives the entry behind it, checked against the one before.

    It holds one file open; ``close`` it. The file stays readable when its ledger is trimmed.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        view: Callable[[], tuple[Confirmed, LedgerListState]],
        after: LSN,
    ) -> None:
        """``view`` gives what is confirmed, and then the ledger list, as they are now."""
        self._files, self._directory, self._view = files, directory, view
        self._after = after
        self._reader: FileLedgerReader | None = None
        self.offset = 0  # where in its file the entry that ``next`` gave last begins
        _, state = view()
        if after < state.base:
            raise LogTrimmedError(f"the entries after {after} are trimmed, the log begins after {state.base}")

    def next(self, upto: LSN) -> LogEntry | None:
        """The next entry, or None when none is confirmed up to ``upto``.

        Raises:
            CorruptLedgerError: the entry is damaged or does not continue the chain.
            LogTrimmedError: the next ledger was trimmed meanwhile.
        """
        while self._after < upto:
            confirmed, state = self._view()
            reader = self._reader
            if reader is None:
                reader = self._open(state)
                if reader is None:
                    return None
            limit, closed = _limit(reader, confirmed, state)
            if reader.offset >= limit:
                if not closed:
                    return None
                self._step(reader, state)
                if self._reader is None:
                    return None
                continue
            self.offset = reader.offset
            entry = reader.next(limit)
            if entry.lsn > self._after:
                self._after = entry.lsn
                return entry
        return None

    def _open(self, state: LedgerListState) -> FileLedgerReader | None:
        """The reader of the first ledger that may hold what comes next."""
        for ledger in state.ledgers:
            if not ledger.closed or ledger.last > self._after:
                return self._open_ledger(ledger, state)
        return None

    def _open_ledger(self, ledger: LedgerInfo, state: LedgerListState) -> FileLedgerReader:
        path = ledger_path(self._directory, ledger.ledger_id)
        reader = FileLedgerReader(self._files, path, ledger.ledger_id, state.log_id)
        self._reader = reader
        before, crc = predecessor_of(state, ledger.ledger_id)
        if (reader.last, reader.crc) != (before, crc):
            raise reader.corrupt(
                f"the ledger continues {reader.last}, but the list's ledgers end at {before}"
            )
        return reader

    def _step(self, reader: FileLedgerReader, state: LedgerListState) -> None:
        """From the end of a closed ledger to the next one of the list."""
        following = [ledger for ledger in state.ledgers if ledger.ledger_id > reader.ledger_id]
        if not following:
            return self._drop()
        last, crc = reader.last, reader.crc
        if state.base > last:
            raise LogTrimmedError(f"the entries after {last} are trimmed, the log begins after {state.base}")
        self._drop()
        new = self._open_ledger(following[0], state)
        if (new.last, new.crc) != (last, crc):
            raise new.corrupt(f"the ledger continues {new.last}, not {last}: the chain is broken")
        return None

    def _drop(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def close(self) -> None:
        self._drop()


def _limit(reader: FileLedgerReader, confirmed: Confirmed, state: LedgerListState) -> tuple[int, bool]:
    """Up to which byte a ledger may be read now, and whether that is its end for good."""
    for ledger in state.ledgers:
        if ledger.ledger_id == reader.ledger_id:
            if ledger.closed:
                return ledger.length, True
            return (confirmed.length if confirmed.ledger_id == ledger.ledger_id else BLOCK_BYTES), False
    # Trimmed while it was read: so it was closed, and its file cut to its length.
    return reader.size(), True


# The ledgers.

_logger = logging.getLogger("herdpy.log")


class FileLedgers:
    """The half of a ``FileLog`` that begins and ends ledgers.

    Attributes:
        recovered: the torn tails that opening found (at most one) and, unless read-only, cut off.
    """

    def __init__(
        self,
        directory: str,
        settings: LogSettings | None,
        files: Files | None,
        ledger_list: LedgerList | None,
        now_us: Callable[[], int] | None,
        *,
        read_only: bool,
    ) -> None:
        """Open and recover them; see ``FileLog.open``."""
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

    def _refuse(self, error: LogError) -> object:
        """Take no appends from now on."""
        raise NotImplementedError

    def _writable(self) -> FileLedgerWriter:
        """The ledger to write to, begun when there is none or the one there is due to end."""
        if self._unsettled is not None:
            self._seal(self._unsettled)
        if self._ledger is None or self._due(self._ledger):
            return self._begin()
        return self._ledger

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
        except LogError as error:
            self._refuse(error)
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
        except (OSError, LogError) as error:
            _logger.warning("ledger %d cannot be closed: %s", ledger.ledger_id, error)
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


def _now_us() -> int:
    return time.time_ns() // 1000


def _closed(info: LedgerInfo, last_entry_id: int, length: int, crc: int) -> LedgerInfo:
    return replace(info, closed=True, last_entry_id=last_entry_id, length=length, crc=crc)


def refused(error: BaseException, outcome: Outcome) -> LogError:
    """What an append or a change of ledgers that failed raises; ``outcome`` says what became of it."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return LogFullError(f"no space is left for the log: {error}", outcome=outcome)
    return LogWriteError(f"the log cannot be written: {error!r}", outcome=outcome)
