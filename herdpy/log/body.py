"""The bytes of a transaction: in memory, or, of a large one, most of them in a file. Below ``transaction``.

Whoever writes them to the log asks for their length and for one stretch after the other.
"""

from __future__ import annotations

from typing import Protocol


class StoredRecords(Protocol):
    """Encoded records in a file that does not change any more.

    Attributes:
        count: how many there are.
        size_bytes: their length.
    """

    count: int
    size_bytes: int

    def read(self, offset: int, size: int) -> bytes:
        """So many bytes from ``offset`` on."""


class StoredBody:
    """The bytes of a transaction: ``head``, then those of the stored records, then ``tail``."""

    __slots__ = ("_head", "_stored", "_tail")

    def __init__(self, head: bytes, stored: StoredRecords, tail: bytes) -> None:
        self._head = head
        self._stored = stored
        self._tail = tail

    def __len__(self) -> int:
        return len(self._head) + self._stored.size_bytes + len(self._tail)

    def __getitem__(self, stretch: slice) -> bytes:
        start, stop, step = stretch.indices(len(self))
        assert step == 1
        head, middle = len(self._head), len(self._head) + self._stored.size_bytes
        parts = [self._head[start:stop]] if start < head else []
        first, last = max(start, head), min(stop, middle)
        if first < last:
            parts.append(self._stored.read(first - head, last - first))
        if stop > middle:
            parts.append(self._tail[max(start - middle, 0) : stop - middle])
        return b"".join(parts)


Body = bytes | StoredBody
"""What a transaction is encoded to."""
