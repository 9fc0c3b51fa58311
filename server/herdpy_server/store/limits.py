"""Store layer, bottom: what a store may use up, how far it is, and its part of the address space.

LMDB maps all that a file may ever be, and a process has an address space of 128 TiB. So a store gets a part
of what is left, which is large while there are few, and at least four times what it has.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from herdpy_sql.errors import SqlError

ADDRESS_SPACE_BYTES = 112 << 40
"""Of 128 TiB; the rest is for everything else."""
_SHARES = 112
_MOST_BYTES = 1 << 40
_LEAST_BYTES = 1 << 30
_GROWTH = 4


class Limit(NamedTuple):
    """How much there is of something, and how much there may be.

    Attributes:
        sqlstate: what one more is refused with.
    """

    name: str
    used: int
    most: int
    sqlstate: str

    @property
    def is_near(self) -> bool:
        """Whether half of it is used: time to do something about it."""
        return 2 * self.used >= self.most


class AddressSpace:
    """What LMDB's maps have of the address space of this process. For any thread."""

    def __init__(self, total_bytes: int = ADDRESS_SPACE_BYTES) -> None:
        self.total_bytes = total_bytes
        self.used_bytes = 0
        self._lock = threading.Lock()

    def take(self, file_bytes: int) -> int:
        """The size of the map of a store whose file has so many bytes.

        Raises:
            SqlError: 53400, there is no room for it.
        """
        with self._lock:
            free = self.total_bytes - self.used_bytes
            size = max(min(free // _SHARES, _MOST_BYTES), _GROWTH * file_bytes, _LEAST_BYTES) >> 20 << 20
            if size > free:
                raise SqlError(
                    "53400",
                    "too many stores are open in this process: its address space is used up",
                    detail=f"A map of {size} bytes is needed, and {free} are left.",
                    hint="Move tablespaces to other nodes.",
                )
            self.used_bytes += size
            return size

    def give_back(self, size_bytes: int) -> None:
        """A store was closed."""
        with self._lock:
            self.used_bytes -= size_bytes


ADDRESS_SPACE = AddressSpace()
