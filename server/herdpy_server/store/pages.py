"""Store layer, inside: LMDB's tree as it lies in its file, by which scans have their pages read ahead.

Below ``disk``. LMDB maps its file, and a scan of what is not in memory would wait for each of its pages in
turn. A branch page names its leaves in the order of their keys, so a scan can have them read ahead, wherever
in the file they are. And a table is cut into ranges of keys, with the number of rows in each, by its leaves.

A tree is of one state of LMDB, and never changes while somebody reads that state. Pages are as LMDB 0.9
writes them (mdb.c: MDB_page, MDB_node, MDB_db), in this machine's byte order.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from pathlib import Path

_DB = struct.Struct("=IHHQQQQQ")  # padding, flags, depth, branch, leaf and overflow pages, entries, root
_NODE = struct.Struct("=HHHH")  # halves of a size or page number, flags or the number's rest, size of the key
_LOWER = struct.Struct("=12xH")  # of a page's header: where its pointers end
_POINTER = struct.Struct("=H")
_HEADER_BYTES = 16
_KEPT_BRANCHES = 1024
"""Of one tree; each has some hundred keys."""
_BRANCHES_AHEAD = 6
"""Of a scan; the leaves of one are some hundred."""
_GAP = 8
"""So few pages between two that are wanted are read with them."""

_Branch = tuple[list[bytes], list[int]]
"""The least key under each child (of the first: none), and the children's page numbers."""


class Pages:
    """The file of an environment, read beside LMDB's map of it."""

    _file = -1
    _map: mmap.mmap | bytes = b""

    def __init__(self, path: Path, page_bytes: int) -> None:
        """OSError when the file cannot be opened."""
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._bytes = page_bytes

    def read(self, number: int) -> bytes:
        """A page."""
        return os.pread(self._file, self._bytes, number * self._bytes)

    def read_count(self, number: int) -> int:
        """How many nodes a page has. OSError."""
        at, mapped = number * self._bytes, self._map
        if at + self._bytes > len(mapped):
            self._map = mapped = mmap.mmap(self._file, 0, access=mmap.ACCESS_READ)
            if at + self._bytes > len(mapped):
                raise OSError(errno.EIO, "the file is shorter than its tree")
        (lower,) = _LOWER.unpack_from(mapped, at)
        return int(lower - _HEADER_BYTES) >> 1

    def close(self) -> None:
        """Nothing is read any more."""
        self._map = b""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    __del__ = close  # a store may be left without a word, as one is that was found to be damaged

    def want(self, first: int, count: int) -> None:
        """Have the system read so many pages soon."""
        self.want_bytes(first * self._bytes, count * self._bytes)

    def want_bytes(self, at: int, size: int) -> None:
        """Have the system read a piece of the file soon."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file, at, size, os.POSIX_FADV_WILLNEED)


class PageTree:
    """The tree of one named database in one state. For one thread at a time.

    Attributes:
        leaf_pages: how many leaves there are. ``entries``: how many entries they have together.
    """

    def __init__(self, pages: Pages, record: bytes) -> None:
        """``record``: what LMDB's main database has under the name."""
        self._pages = pages
        _, _, self._depth, _, self.leaf_pages, _, self.entries, self._root = _DB.unpack(record)
        self._branches: dict[int, _Branch] = {}

    def leaves(self) -> Iterator[tuple[bytes, int]]:
        """The leaves in the order of their keys: where each begins, and how many entries it has. OSError.

        It begins with a key that none of its own is below, and all of those of the leaf before are; the first
        with none.
        """
        if self._depth:
            yield from self._leaves_under(self._root, self._depth, b"")

    def _leaves_under(self, number: int, depth: int, least: bytes) -> Iterator[tuple[bytes, int]]:
        if depth == 1:
            yield least, self._pages.read_count(number)
            return
        for key, child in zip(*self._branch(number), strict=True):
            if depth == 2:
                yield key or least, self._pages.read_count(child)
            else:
                yield from self._leaves_under(child, depth - 1, key or least)

    def want(self, key: bytes) -> bytes | None:
        """Have the system read the leaves from that of ``key`` on that are under the same branch.

        Returns:
            The least key behind them; None where there is none.
        """
        number, end = self._root, None
        if self._depth < 2:
            return None
        for _ in range(self._depth - 2):
            keys, children = self._branch(number)
            at = bisect_right(keys, key)
            number = children[at - 1]
            if at < len(keys):
                end = keys[at]
        keys, children = self._branch(number)
        for first, last in _runs(children[bisect_right(keys, key) - 1 :]):
            self._pages.want(first, last - first + 1)
        return end

    def _branch(self, number: int) -> _Branch:
        return self._branches.get(number) or self._keep(number, self._pages.read(number))

    def _keep(self, number: int, page: bytes) -> _Branch:
        if len(self._branches) >= _KEPT_BRANCHES:
            self._branches.clear()
        keys, children = [], []
        for nth in range(_count(page)):
            at, low, high, rest, key_bytes = _node(page, nth)
            keys.append(page[at : at + key_bytes] if nth else b"")
            children.append(low | high << 16 | rest << 32)
        self._branches[number] = branch = keys, children
        return branch


class ReadAhead:
    """Has the system read the leaves of a scan before the scan is there: those under some branches."""

    def __init__(self, tree: PageTree, key: bytes) -> None:
        """The scan has come to ``key``."""
        self._tree = tree
        self._ends: deque[bytes | None] = deque([tree.want(key)])
        self._want()

    def reached(self, key: bytes) -> None:
        """The scan has come to ``key``: for each branch that it has left one more is wanted."""
        ends = self._ends
        while len(ends) > 1 and (first := ends[0]) is not None and key >= first:
            ends.popleft()
            self._want()

    def _want(self) -> None:
        ends = self._ends
        while len(ends) < _BRANCHES_AHEAD and (last := ends[-1]) is not None:
            ends.append(self._tree.want(last))


def _count(page: bytes) -> int:
    """How many nodes a page has."""
    (lower,) = _LOWER.unpack_from(page)
    return int(lower - _HEADER_BYTES) >> 1


def _node(page: bytes, nth: int) -> tuple[int, int, int, int, int]:
    """Where a node's key begins in a page, and its four numbers."""
    (at,) = _POINTER.unpack_from(page, _HEADER_BYTES + 2 * nth)
    low, high, flags, key_bytes = _NODE.unpack_from(page, at)
    return at + _NODE.size, low, high, flags, key_bytes


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """The first and last pages of runs that cover these pages."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and number - runs[-1][1] <= _GAP:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs
