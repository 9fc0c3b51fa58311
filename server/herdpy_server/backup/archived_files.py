"""A log in files that is archived; see ``archiver.LogToArchive``, and ``replica`` for logs on bookies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from herdpy.log.file_log import FileLog
from herdpy.log.ledger_list import LedgerInfo
from herdpy.log.lsn import LSN
from herdpy_server.backup.archiver_messages import ArchivedPlace, Upto


class ArchivedFiles:
    """A log in files that this process writes.

    Args:
        directory: of the log.
    """

    def __init__(self, tablespace: str, log: FileLog, directory: Path) -> None:
        self._log = log
        self.place = ArchivedPlace(tablespace=tablespace, log_id=log.state.log_id, directory=str(directory))

    @property
    def base(self) -> LSN:
        return self._log.base

    def ledgers(self) -> Sequence[LedgerInfo]:
        return self._log.ledgers()

    def confirmed(self) -> Upto:
        found = self._log.confirmed
        return Upto(found.lac, found.ledger_id, found.length)

    def written_bytes(self) -> int:
        return self._log.counts.bytes
