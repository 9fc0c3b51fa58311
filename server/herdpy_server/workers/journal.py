"""What flushes moved out of memory, for as long as a worker may ask: so columns that it keeps can be patched.

Beside ``shipping``. Only tables that a worker was asked about are written down, and only so much of it;
of the rest it is known up to which flush nothing is known.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping

from herdpy_server.store.layers import Chain, Delta

_LIMIT_BYTES = 64 << 20


class FlushJournal:
    """Deltas by table and flush. ``flushed`` is for the flushing thread, all else for the loop's."""

    def __init__(self, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._watched: set[int] = set()
        self._entries: deque[tuple[int, int, Chain]] = deque()  # (flush, table, what it moved)
        self._nbytes = 0
        self._forgotten: dict[int, int] = {}  # by table: nothing is known of the flushes up to this one

    def flushed(self, number: int, frozen: Mapping[int, Chain]) -> None:
        """Flush ``number`` moved these deltas."""
        with self._lock:
            for table, chain in frozen.items():
                if table in self._watched:
                    self._entries.append((number, table, chain))
                    self._nbytes += _size(chain)
                else:
                    self._forgotten[table] = number
            while self._nbytes > self._limit_bytes:
                number, table, chain = self._entries.popleft()
                self._nbytes -= _size(chain)
                self._forgotten[table] = number

    def watch(self, tables: Iterable[int]) -> None:
        """Write down what happens to these tables from now on."""
        with self._lock:
            self._watched.update(tables)

    def forget(self) -> None:
        """No worker keeps anything."""
        with self._lock:
            for number, table, _ in self._entries:
                self._forgotten[table] = number
            self._watched.clear()
            self._entries.clear()
            self._nbytes = 0

    def between(self, table: int, after: int, until: int) -> list[Delta] | None:
        """The deltas of ``table`` that flushes in (after, until] moved; None when that is not known."""
        with self._lock:
            if self._forgotten.get(table, 0) > after:
                return None
            return [
                delta
                for number, of, chain in self._entries
                if of == table and after < number <= until
                for delta in chain
            ]


def _size(chain: Chain) -> int:
    return sum(delta.nbytes for delta in chain)
