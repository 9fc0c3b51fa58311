"""A log in the files of a directory, read beside the process that writes it, or without any.

What counts as confirmed is what the files witness: closed ledgers to their end, the open one as far as its
header notes. Nothing beyond is looked at, since it may be in the middle of being written.
"""

from __future__ import annotations

from collections.abc import Generator

from herdpy.log import LSN, CorruptLedgerError, LogClosedError, LogEntry, LogTrimmedError
from herdpy.log.file_ledger import BLOCK_BYTES, FileLedgerReader, ledger_path
from herdpy.log.file_reading import NOTHING, Confirmed, LogCursor
from herdpy.log.files import OsFiles
from herdpy.log.ledger_list import FileLedgerList, LedgerListState
from herdpy.log.records import StagedPart
from herdpy_spark.log.address import LogAddress


class DirectoryLedgers:
    """The ledgers of a directory as they were when ``confirmed`` was asked last, or when this was made."""

    def __init__(self, address: LogAddress) -> None:
        """Raises CorruptLedgerError, LogClosedError (there is no log)."""
        self._address = address
        self._files = OsFiles()
        self._list = FileLedgerList(address.directory, self._files)
        self._look()

    def _look(self) -> None:
        while True:
            self._state = self._read_list()
            try:
                self._confirmed = self._witnessed(self._state)
                return
            except CorruptLedgerError:
                # Closed, or trimmed, between the look at the list and at the file?
                if self._read_list().version == self._state.version:
                    raise

    def state(self) -> LedgerListState:
        return self._state

    def confirmed(self) -> LSN:
        self._look()
        return self._confirmed.lac

    def read(self, after: LSN, upto: LSN) -> Generator[LogEntry, None, None]:
        cursor = LogCursor(self._files, self._address.directory, self._view, after)
        try:
            while (entry := cursor.next(upto)) is not None:
                yield entry
        except CorruptLedgerError as error:
            base = self._read_list().base
            if error.ledger_id is not None and error.ledger_id <= base.ledger_id:
                raise LogTrimmedError(
                    f"the entries after {after} were trimmed meanwhile, the log begins after {base}"
                ) from error
            raise
        finally:
            cursor.close()

    def part(self, part: StagedPart) -> Generator[bytes, None, None]:
        path = ledger_path(self._address.directory, part.ledger_id)
        raise CorruptLedgerError(part.ledger_id, None, path, "a log in files stages no rows in ledgers")

    def _view(self) -> tuple[Confirmed, LedgerListState]:
        return self._confirmed, self._state

    def _read_list(self) -> LedgerListState:
        state = self._list.read()
        if state is None:
            raise LogClosedError(f"{self._address} is not there: there is no file {self._list.path}")
        return state

    def _witnessed(self, state: LedgerListState) -> Confirmed:
        """How far the ledger that is open may be read."""
        end, _ = state.settled_end
        if not state.ledgers or state.ledgers[-1].closed:
            return NOTHING._replace(lac=end)
        ledger_id = state.ledgers[-1].ledger_id
        path = ledger_path(self._address.directory, ledger_id)
        reader = FileLedgerReader(self._files, path, ledger_id, state.log_id)
        try:
            slot = reader.slot
        finally:
            reader.close()
        if slot is None or slot.entry_id < 0:
            return Confirmed(ledger_id, BLOCK_BYTES, end)
        return Confirmed(ledger_id, slot.end, LSN(ledger_id, slot.entry_id))
