"""The log of a replica that does not lead: it takes nothing, and says who would.

In the place of a log, so that a commit that comes too late (its transaction began while this replica led)
is refused like any other write. Reading is the follower's business, which has the real log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from herdpy.log import LSN, Append, CommitLog, LedgerInfo, LogEntry, Transaction
from herdpy_sql.errors import SqlError


class StandbyLog(CommitLog):
    """Takes no appends.

    Args:
        refusal: makes the error for them.
        position: up to where the replica has the log.
    """

    failure = None

    def __init__(self, refusal: Callable[[], SqlError], position: Callable[[], LSN]) -> None:
        self._refusal = refusal
        self._position = position

    def append(self, transaction: Transaction) -> Append:
        """Raise SqlError 25006, which names the leader: certainly nothing was done."""
        raise self._refusal()

    def flush(self) -> None:
        """There is nothing to be flushed."""

    @property
    def lac(self) -> LSN:
        return self._position()

    @property
    def end(self) -> LSN:
        return self._position()

    def read(self, after: LSN, upto: LSN | None = None) -> AsyncIterator[tuple[LSN, LogEntry]]:
        raise NotImplementedError("a follower has a log of its own to read")

    def tail(self, after: LSN) -> AsyncIterator[tuple[LSN, LogEntry]]:
        raise NotImplementedError("a follower has a log of its own to read")

    def roll(self) -> None:
        """Its leader rolls the log."""

    def roll_if_due(self) -> bool:
        return False

    def note_lac(self) -> None:
        """Its leader tells it."""

    def trim(self, before: LSN) -> list[int]:
        """Its leader trims the log."""
        return []

    def ledgers(self) -> Sequence[LedgerInfo]:
        return ()

    def close(self) -> None:
        """There is nothing to be closed."""
