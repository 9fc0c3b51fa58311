"""Reading a log over file ledgers, entry by entry. Above ``file_ledger`` and ``ledger_list``.

A cursor follows the ledger list from ledger to ledger, up to the last add confirmed, and checks that each
entry continues the one before it.
"""

from __future__ import annotations

from collections.abc import Callable

from herdpy.log.entry import LogEntry
from herdpy.log.errors import LogTrimmedError
from herdpy.log.file_ledger import BLOCK_BYTES, Confirmed, FileLedgerReader, ledger_path
from herdpy.log.files import Files
from herdpy.log.ledger_list import LedgerInfo, LedgerListState, predecessor_of
from herdpy.log.lsn import LSN


class LedgerPlaces:
    """Where confirmed entries end in the files of a log, as cursors have found: others begin there.

    A cursor that begins in the middle of a ledger would read it from its front. Threads may share it.
    """

    _MOST = 8

    def __init__(self) -> None:
        self._places: list[tuple[LSN, int, int]] = []

    def note(self, last: LSN, crc: int, end: int) -> None:
        """An entry, its running CRC, and where the next one begins in the file."""
        if all(place[0] != last for place in self._places):
            self._places = [*self._places[1 - self._MOST :], (last, crc, end)]

    def before(self, ledger_id: int, after: LSN) -> tuple[LSN, int, int] | None:
        """The last place in a ledger that is not behind ``after``."""
        found = [one for one in self._places if one[0].ledger_id == ledger_id and one[0] <= after]
        return max(found, default=None)


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
        places: LedgerPlaces | None = None,
    ) -> None:
        """``view`` gives what is confirmed, and then the ledger list, as they are now.

        ``places``: of this log, to begin at and to note.
        """
        self._files, self._directory, self._view = files, directory, view
        self._places = places
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
        while (found := self._reach(upto)) is not None:
            reader, limit = found
            self.offset = reader.offset
            entry = reader.next(limit)
            if self._passes(reader, entry.lsn):
                return entry
        return None

    def next_bytes(self, upto: LSN) -> tuple[LSN, bytes] | None:
        """As ``next``, with the entry as it stands in its ledger. Raises as ``next``."""
        while (found := self._reach(upto)) is not None:
            reader, limit = found
            self.offset = reader.offset
            lsn, data = reader.next_bytes(limit)
            if self._passes(reader, lsn):
                return lsn, data
        return None

    def _passes(self, reader: FileLedgerReader, lsn: LSN) -> bool:
        """Whether an entry that was read is one that is to be given."""
        if lsn == self._after:
            self._note(reader)
        if lsn <= self._after:
            return False
        self._after = lsn
        return True

    def _reach(self, upto: LSN) -> tuple[FileLedgerReader, int] | None:
        """The reader of the next entry, and up to where it may read; None: there is none up to there."""
        while self._after < upto:
            confirmed, state = self._view()
            reader = self._reader
            if reader is None:
                reader = self._open(state)
                if reader is None:
                    return None
            limit, closed = _limit(reader, confirmed, state)
            if reader.offset < limit:
                return reader, limit
            if not closed:
                return None
            self._step(reader, state)
            if self._reader is None:
                return None
        return None

    def _note(self, reader: FileLedgerReader) -> None:
        if self._places is not None and reader.last.ledger_id == reader.ledger_id:
            self._places.note(reader.last, reader.crc, reader.offset)

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
        place = None if self._places is None else self._places.before(ledger.ledger_id, self._after)
        if place is not None:
            reader.last, reader.crc, reader.offset = place
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
            self._note(self._reader)
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
