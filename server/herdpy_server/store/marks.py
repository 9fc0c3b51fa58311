"""Store layer, inside: old states of LMDB that are kept, so that the past can be read.

LMDB never writes over what a state that somebody reads needs. A mark is such a state with its position in the
log, kept on purpose: the state at a later position is the newest mark before it, and what the log has from
there to the position (``past``). A flush gives the state that it replaces to :meth:`Marks.flushed`; a few of
those, in even distances, are kept for as long as the settings say. So the log after the oldest of them is
needed, too: see ``Store.floor``.

What a mark costs is the pages that LMDB may not use again, and the log since. Both grow by what is written,
so a mark is let go when that becomes too much, whatever its age.

For the flushing thread and the engine's turn, both under the store's lock.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from herdpy.log.lsn import LSN
from herdpy_server.store.disk_view import DiskView
from herdpy_sql.catalog import Catalog

logger = logging.getLogger("herdpy.store")

FLASHBACK_BYTES = 1 << 30
"""How much may be written after a mark before it is let go, where no setting says otherwise."""
_MOST = 8
"""Marks that the time, and so many that the bytes, are divided into."""
_SHARE_OF_MAP = 8
"""Of LMDB's map, marks may make its file grow by one part in so many."""


class StateMark(NamedTuple):
    """A state of LMDB.

    Attributes:
        lsn: its position in the log.
        committed_us: the newest commit's time in all that it has; what comes later in the log and is no newer
            may be missing. Microseconds since 1970.
        view: None once the store is closed.
        catalog, sequences: the definitions then, and the states of sequences by id.
        taken_s: when it was written (time.monotonic).
        written_bytes, file_bytes: what had been written by then in all, and how large the file was.
    """

    lsn: LSN
    committed_us: int
    view: DiskView | None
    catalog: Catalog
    sequences: Mapping[int, bytes]
    taken_s: float
    written_bytes: int
    file_bytes: int


class KeptPast(NamedTuple):
    """How far the past is kept.

    Attributes:
        flashback_s: for how long it is to be; 0: not at all.
        oldest_lsn, oldest_us: the oldest moment that can be read; 0: the beginning.
        marks: how many states there are, with the newest.
        used_bytes, most_bytes: what the oldest costs, and may cost.
    """

    flashback_s: float
    oldest_lsn: LSN
    oldest_us: int
    marks: int
    used_bytes: int
    most_bytes: int


class Marks:
    """The marks of one store.

    Attributes:
        keep_s: for how long states are kept; 0: none are.
        limit_bytes: how much may be written after a mark, in memory's bytes or of growth of LMDB's file.
        newest: the state that LMDB has now.
        written_bytes: what flushes have written since the store was opened.
        on_let_go: called with the position of the oldest mark there is now, when older ones were let go.
    """

    def __init__(self, newest: StateMark) -> None:
        self.keep_s = 0.0
        self.limit_bytes = FLASHBACK_BYTES
        self.newest = newest
        self.written_bytes = 0
        self.on_let_go: Callable[[LSN], object] = lambda _oldest: None
        self._kept: list[StateMark] = []  # older than the newest, the oldest first
        self._is_short = False  # marks go before their time

    @property
    def oldest(self) -> StateMark:
        """The oldest state that there is."""
        return self._kept[0] if self._kept else self.newest

    @property
    def count(self) -> int:
        """How many states there are, with the newest."""
        return len(self._kept) + 1

    def newest_where(self, reaches: Callable[[StateMark], bool]) -> StateMark | None:
        """The newest state of which that is true."""
        return next((one for one in (self.newest, *reversed(self._kept)) if reaches(one)), None)

    def held_bytes(self, file_bytes: int) -> int:
        """What the oldest mark costs, as it is bounded: see ``limit_bytes``."""
        return self._cost(self.oldest, file_bytes) if self._kept else 0

    def _cost(self, mark: StateMark, file_bytes: int) -> int:
        return max(self.written_bytes - mark.written_bytes, file_bytes - mark.file_bytes)

    def most_bytes(self, map_bytes: int) -> int:
        """How much a mark may cost, where LMDB's map is of that size."""
        return min(self.limit_bytes, map_bytes // _SHARE_OF_MAP)

    def flushed(self, mark: StateMark, map_bytes: int) -> None:
        """LMDB has this state now. The one before is kept if it is far enough from the last that is."""
        before, self.newest = self.newest, mark
        if self.keep_s and self._is_far(before, self.most_bytes(map_bytes)):
            self._kept.append(before)
        self.expire(map_bytes)

    def _is_far(self, mark: StateMark, most_bytes: int) -> bool:
        if not self._kept:
            return True
        last = self._kept[-1]
        return (
            mark.taken_s - last.taken_s >= self.keep_s / _MOST
            or self._cost(last, mark.file_bytes) >= most_bytes // _MOST
        )

    def expire(self, map_bytes: int) -> None:
        """Let go of marks that are too old, or after which too much was written."""
        before, now_s = len(self._kept), time.monotonic()
        while self._kept and self._after_oldest.taken_s < now_s - self.keep_s:
            del self._kept[0]
            self._is_short = False
        most, size = self.most_bytes(map_bytes), self.newest.file_bytes
        while self._kept and self._cost(self._kept[0], size) > most:
            kept_s = now_s - self._after_oldest.taken_s
            del self._kept[0]
            if not self._is_short:
                self._is_short = True
                logger.warning(
                    "more was written than old states may cost: the past is kept for %.0f s, not %.0f s"
                    " (flashback_bytes is %d)",
                    kept_s, self.keep_s, self.limit_bytes,
                )  # fmt: skip
        if len(self._kept) != before:
            self.on_let_go(self.oldest.lsn)

    @property
    def _after_oldest(self) -> StateMark:
        return self._kept[1] if len(self._kept) > 1 else self.newest

    def close(self) -> None:
        """Let go of all of them: the store is closed."""
        self.let_go()
        self.newest = self.newest._replace(view=None)

    def let_go(self) -> None:
        """Let go of all but the newest."""
        if self._kept:
            self._kept.clear()
            self.on_let_go(self.newest.lsn)
