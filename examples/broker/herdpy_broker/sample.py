"""The tasks that finished lately, each read once: what rates and histograms are made of.

Layer 1. ``Finishes`` reads along the index of ``finished_at``, so the length of the history costs nothing. It
stays ``SETTLE_S`` behind, since a transaction may commit a little after the time that it wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from herdpy_broker.transactions import Connection

SETTLE_S = 2.0
"""How long after its time a finish is taken to be visible."""
LONGEST_S = 60.0
"""How far back it reads: what is older when it is read first, or after a pause, is left out."""
MOST = 5_000
"""How many finishes one call reads; the next call goes on from there."""
_QUERY = """
SELECT finished_at, group_name, outcome, started_at, submitted_at FROM broker.finished
WHERE finished_at >= %s AND finished_at < %s ORDER BY finished_at LIMIT %s
"""
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Finish:
    """A task that is over, and when it was what."""

    finished_at: datetime
    group: str
    outcome: str
    started_at: datetime | None
    submitted_at: datetime

    @property
    def wait_s(self) -> float | None:
        """Seconds from its submission to the start of its last attempt; None: it was never started."""
        if self.started_at is None:
            return None
        return max(0.0, (self.started_at - self.submitted_at).total_seconds())

    @property
    def run_s(self) -> float | None:
        """Seconds of its last attempt; None: it was never started."""
        if self.started_at is None:
            return None
        return max(0.0, (self.finished_at - self.started_at).total_seconds())


class Finishes:
    """A reader that goes along the finishes.

    Args:
        most: how many one call reads.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._since: datetime | None = None

    def read(self, connection: Connection, now: datetime) -> Sequence[Finish]:
        """The finishes since the call before, the oldest first; ``now`` is the leader's time."""
        first = now - timedelta(seconds=LONGEST_S)
        since = max(self._since or first, first)
        until = now - timedelta(seconds=SETTLE_S)
        if until <= since:
            return []
        rows = [Finish(*row) for row in connection.execute(_QUERY, (since, until, self._most))]
        if len(rows) < self._most:
            self._since = until
            return rows
        # More may have the time of the last one: they are left to the next call. Where all here have it, what
        # is beyond the limit is left out.
        last = rows[-1].finished_at
        whole = [one for one in rows if one.finished_at < last]
        self._since = last if whole else last + _TICK
        return whole or rows
