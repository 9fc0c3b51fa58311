"""The newest confirmed entries of a leader's log, for the followers that hear of them.

Beside ``leader_log``, which adds each entry when it acknowledges it; the leader's reports
(``herdpy_server.replica.lac_reports``) carry them. Of one ledger at a time, without gaps, and few: a follower
reads what is no longer here from the bookies.
"""

from __future__ import annotations

from collections import deque

from herdpy.log.lsn import LSN, START

MAX_ENTRIES = 64
MAX_BYTES = 256 << 10
"""Of all of them. An entry of more than a quarter of that is not kept: it costs its own journey."""


class RecentEntries:
    """Those of one log."""

    def __init__(self) -> None:
        self._last = START
        self._entries: deque[bytes] = deque()
        self._size_bytes = 0

    @staticmethod
    def is_kept(size_bytes: int) -> bool:
        """Whether an entry of that size would be kept."""
        return size_bytes <= MAX_BYTES // 4

    def add(self, lsn: LSN, data: bytes) -> None:
        """The next entry is confirmed; empty: it is not to be kept."""
        entries, (ledger_id, entry_id) = self._entries, self._last
        if not data or lsn.ledger_id != ledger_id or lsn.entry_id != entry_id + 1:
            entries.clear()
            self._size_bytes = 0
        self._last = lsn
        if data:
            entries.append(data)
            self._size_bytes += len(data)
            while self._size_bytes > MAX_BYTES or len(entries) > MAX_ENTRIES:
                self._size_bytes -= len(entries.popleft())

    def between(self, after: LSN, upto: LSN) -> tuple[bytes, ...]:
        """The last entries behind ``after``, to ``upto``, as many as are here; none when ``upto`` is not."""
        newer = self._last.entry_id - upto.entry_id
        if upto.ledger_id != self._last.ledger_id or not 0 <= newer < len(self._entries):
            return ()
        count = upto.entry_id - after.entry_id if after.ledger_id == upto.ledger_id else upto.entry_id + 1
        entries = list(self._entries)
        stop = len(entries) - newer
        return tuple(entries[max(stop - max(count, 0), 0) : stop])
