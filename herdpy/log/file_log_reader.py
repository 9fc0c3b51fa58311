"""The readers of an open log over file ledgers. Above ``log_cursor``, below ``file_log``, which wakes them.

Who reads gets entries up to the last add confirmed; a tail then waits for the next group. Apart from
``file_log`` also because mypyc compiles no asynchronous generators.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from herdpy.log.entry import LogEntry
from herdpy.log.file_ledger import Confirmed
from herdpy.log.files import Files
from herdpy.log.ledger_list import LedgerListState
from herdpy.log.log_cursor import LogCursor
from herdpy.log.lsn import LSN
from herdpy.log.wait import OwnWait


class FileLogReader:
    """Reads one log, for any number of readers.

    Attributes:
        waiting: the tails that wait for the next entry.
    """

    def __init__(
        self, files: Files, directory: str, view: Callable[[], tuple[Confirmed, LedgerListState]]
    ) -> None:
        """``view``: see :class:`LogCursor`."""
        self._files, self._directory, self._view = files, directory, view
        self._ended = False
        self.waiting: list[OwnWait[None]] = []

    def cursor(self, after: LSN) -> LogCursor:
        """A place to read from without an event loop; close it. LogTrimmedError: see :class:`LogCursor`."""
        return LogCursor(self._files, self._directory, self._view, after)

    async def read(self, after: LSN, upto: LSN | None = None) -> AsyncIterator[tuple[LSN, LogEntry]]:
        """See ``CommitLog.read``."""
        lac = self._lac()
        limit = lac if upto is None else min(upto, lac)
        cursor = self.cursor(after)
        try:
            while (entry := cursor.next(limit)) is not None:
                yield entry.lsn, entry
        finally:
            cursor.close()

    async def tail(self, after: LSN) -> AsyncIterator[tuple[LSN, LogEntry]]:
        """See ``CommitLog.tail``."""
        cursor = self.cursor(after)
        try:
            while True:
                wait: OwnWait[None] = OwnWait()
                self.waiting.append(wait)  # before the look, so that no entry slips in between
                try:
                    ended = self._ended
                    while (entry := cursor.next(self._lac())) is not None:
                        yield entry.lsn, entry
                    if ended:
                        return
                    await wait
                finally:
                    if wait in self.waiting:
                        self.waiting.remove(wait)
        finally:
            cursor.close()

    def _lac(self) -> LSN:
        return self._view()[0].lac

    def wake(self) -> None:
        """There is more to read: tails go on."""
        waiting, self.waiting = self.waiting, []
        for wait in waiting:
            wait.resolve(None)

    def end(self) -> None:
        """The log is closed: tails end with what there is."""
        self._ended = True
        self.wake()
