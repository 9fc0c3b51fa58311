"""Reading a log that is made of file ledgers: across ledgers, from any position. Above ``file_ledger``."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from herdpy.log.entry import LogEntry
from herdpy.log.errors import LogTrimmedError
from herdpy.log.file_ledger import BLOCK_BYTES, FileLedgerReader, ledger_path
from herdpy.log.files import Files
from herdpy.log.ledger_list import LedgerInfo, LedgerListState
from herdpy.log.lsn import LSN, START


class Confirmed(NamedTuple):
    """How far the ledger that is written to may be read."""

    ledger_id: int
    length: int
    lac: LSN


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


def predecessor_of(state: LedgerListState, ledger_id: int) -> tuple[LSN, int]:
    """Position and running CRC of the entry before a ledger's first."""
    before, crc = state.base, state.base_crc
    for ledger in state.ledgers:
        if ledger.ledger_id >= ledger_id:
            break
        before, crc = ledger.last, ledger.crc
    return before, crc


def _limit(reader: FileLedgerReader, confirmed: Confirmed, state: LedgerListState) -> tuple[int, bool]:
    """Up to which byte a ledger may be read now, and whether that is its end for good."""
    for ledger in state.ledgers:
        if ledger.ledger_id == reader.ledger_id:
            if ledger.closed:
                return ledger.length, True
            return (confirmed.length if confirmed.ledger_id == ledger.ledger_id else BLOCK_BYTES), False
    # Trimmed while it was read: so it was closed, and its file cut to its length.
    return reader.size(), True


NOTHING = Confirmed(0, BLOCK_BYTES, START)
