"""Store layer, inside: changes held in memory above LMDB, newest first.

A :class:`Delta` is what changed in one database of the store (a table's rows or an index's
entries): new values by key, None where a key was deleted. A transaction has a dict of them, its
layer; the memtable has a chain of them for each database. Reads go through the chain until one
delta knows the key; scans merge the sorted keys of all with what lies under them. Those of a large
transaction are :class:`LargeRows`, most of which lie in a file.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, MutableMapping, Sequence
from itertools import chain as chained
from itertools import count, islice
from time import sleep

Item = tuple[bytes, bytes]
Layer = dict[int, "Delta"]
"""The changes of one transaction: a delta for each database (table id or index id) it changed."""
Chain = tuple["Delta", ...]
"""Deltas of one database, newest first."""

ENTRY_BYTES = 150
"""What a key and a value cost beside their own bytes: two bytes objects and a place in a dict."""
SEQUENCE_KEY = b""
"""The one key of a sequence's database, under which its state is."""
_TAIL = 512
_PIECE = 4096
_serials = count()


class Missing:
    """The class of :data:`MISSING`, in the place of the value of a key that a delta knows nothing of."""


MISSING = Missing()


class LargeRows(MutableMapping[bytes, bytes | None]):
    """The rows of a delta that do not all lie in memory (``spilled``). ``len`` may count some twice."""

    __slots__ = ()

    @abstractmethod
    def keys_within(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[bytes]:
        """The keys in [low, high), each once, in order."""

    @abstractmethod
    def known(self, keys: Collection[bytes]) -> set[bytes]:
        """Those of the ``keys`` that are here."""

    @abstractmethod
    def copy(self) -> LargeRows:
        """Equal rows that do not change with these."""

    @property
    @abstractmethod
    def resident_bytes(self) -> int:
        """About what they take of memory."""


class Delta:
    """Changes in one database.

    Attributes:
        rows: new value by key, None for a deleted key. Keys are only added, so that the dict's
            order is the order in which keys were first changed here.
        cleared: nothing of what lies below shows through (truncated, dropped or just made).
        token: the rising number of the pending transaction it belongs to; 0 once applied.
        epoch: the state of the memtable in which it may still be written to.
        generation: the flush that will write it.
        serial: its number, unlike that of any other delta.
        nbytes: about what it would take of memory if all of it were there.
    """

    __slots__ = ("_runs", "cleared", "epoch", "generation", "nbytes", "rows", "serial", "token")

    def __init__(self, *, cleared: bool = False, epoch: int = -1, generation: int = -1) -> None:
        self.rows: dict[bytes, bytes | None] | LargeRows = {}
        self.serial = next(_serials)
        self.cleared = cleared
        self.token = 0
        self.epoch = epoch
        self.generation = generation
        self.nbytes = 0
        self._runs: tuple[list[bytes], list[bytes]] = ([], [])

    def runs(self) -> tuple[list[bytes], list[bytes]]:
        """All keys as two sorted lists, a long one and a short one of late comers.

        The lists are never changed afterwards: who iterates over one is not disturbed by writers.
        """
        main, tail = self._runs
        assert isinstance(self.rows, dict)
        fresh = len(self.rows) - len(main) - len(tail)
        if fresh:
            late = list(islice(reversed(self.rows), fresh))
            late.reverse()
            if len(tail) + fresh > _TAIL:
                main = [*main, *tail, *late]
                main.sort()  # timsort: cheap where runs are in order already
                tail = []
            else:
                tail = sorted([*tail, *late])
            self._runs = (main, tail)
        return main, tail

    @property
    def is_large(self) -> bool:
        """Whether most of it lies in a file."""
        return type(self.rows) is not dict

    @property
    def resident_bytes(self) -> int:
        """About what it takes of memory."""
        rows = self.rows
        return self.nbytes if isinstance(rows, dict) else rows.resident_bytes

    def known(self, keys: Collection[bytes]) -> set[bytes]:
        """Those of the ``keys``, a set or a dict's, that it knows."""
        rows = self.rows
        if not isinstance(rows, dict):
            return rows.known(keys)
        there = rows.keys()
        return set() if there.isdisjoint(keys) else there & keys

    def forget_order(self) -> None:
        """Sort anew next time: keys were taken out."""
        self._runs = ([], [])

    def copy(self) -> Delta:
        """An equal delta that does not change with this one."""
        twin = Delta(cleared=self.cleared)
        twin.rows = self.rows.copy()
        twin.nbytes = self.nbytes
        twin._runs = self._runs
        return twin


def merged(newer: Delta, older: Delta) -> Delta:
    """One delta in the place of both."""
    if newer.cleared:
        return newer
    assert isinstance(newer.rows, dict)
    assert isinstance(older.rows, dict)  # nobody merges large ones
    delta = Delta(cleared=older.cleared, generation=newer.generation)
    delta.token = max(newer.token, older.token)
    delta.rows = older.rows | newer.rows
    delta.nbytes = newer.nbytes + older.nbytes
    return delta


def showing(chain: Iterable[Delta]) -> tuple[list[Delta], bool]:
    """The deltas that can be seen, newest first, and whether what is under them shows."""
    seen: list[Delta] = []
    for delta in chain:
        seen.append(delta)
        if delta.cleared:
            return seen, False
    return seen, True


def find(chain: Iterable[Delta], key: bytes) -> bytes | Missing | None:
    """The newest value of ``key`` (None: deleted), or MISSING when the answer lies below."""
    for delta in chain:
        value = delta.rows.get(key, MISSING)
        if value is not MISSING:
            return value
        if delta.cleared:
            return None
    return MISSING


def changed_keys(
    deltas: Sequence[Delta], low: bytes | None, high: bytes | None, reverse: bool
) -> Iterator[bytes]:
    """The keys in [low, high) that any of the deltas knows, each once, in order."""
    slices: list[Iterator[bytes]] = []
    for delta in deltas:
        rows = delta.rows
        if not isinstance(rows, dict):
            slices.append(rows.keys_within(low, high, reverse))
            continue
        for run in delta.runs():
            start = 0 if low is None else bisect_left(run, low)
            stop = len(run) if high is None else bisect_left(run, high)
            if start < stop:
                part = range(stop - 1, start - 1, -1) if reverse else range(start, stop)
                slices.append(map(run.__getitem__, part))
    if len(slices) == 1:
        return slices[0]
    if not slices:
        return iter(())
    return distinct(heapq.merge(*slices, reverse=reverse))


def keys_in_pieces(deltas: Sequence[Delta]) -> Iterator[bytes]:
    """All keys that the deltas know, each once, in order; for a thread beside the engine.

    No step keeps the GIL for long, as one sort of everything would. The deltas must be frozen.
    """
    runs: list[list[list[bytes]]] = []  # each of pieces that follow one another
    large: list[Iterator[bytes]] = []
    last: bytes | None = None
    for delta in reversed(deltas):  # the oldest first: rows that came in order are one run
        if not isinstance(delta.rows, dict):
            large.append(delta.rows.keys_within(None, None, False))
            continue
        keys = iter(delta.rows)
        while piece := list(islice(keys, _PIECE)):
            piece.sort()
            if last is not None and last < piece[0]:
                runs[-1].append(piece)
            else:
                runs.append([piece])
            last = piece[-1]
            sleep(0)
    ordered: list[Iterator[bytes]] = [*(chained.from_iterable(run) for run in runs), *large]
    return ordered[0] if len(ordered) == 1 else distinct(heapq.merge(*ordered))


def distinct(keys: Iterable[bytes]) -> Iterator[bytes]:
    """Sorted keys, each once."""
    last: bytes | None = None
    for key in keys:
        if key != last:
            yield key
            last = key


def overlay(
    deltas: Sequence[Delta],
    under: Iterator[Item],
    low: bytes | None,
    high: bytes | None,
    reverse: bool,
) -> Iterator[Item]:
    """The items of ``under`` in [low, high) as the deltas (newest first) change them, in order."""
    keys = changed_keys(deltas, low, high, reverse)
    upper = next(keys, None)
    if upper is None:
        yield from under
        return
    single = deltas[0].rows if len(deltas) == 1 else None
    for item in under:
        key = item[0]
        while upper is not None and (upper > key if reverse else upper < key):
            value = single[upper] if single is not None else find(deltas, upper)
            if value is not None:
                yield upper, value  # type: ignore[misc]
            upper = next(keys, None)
        if upper == key:
            value = single[key] if single is not None else find(deltas, key)
            if value is not None:
                yield key, value  # type: ignore[misc]
            upper = next(keys, None)
        else:
            yield item
    while upper is not None:
        value = single[upper] if single is not None else find(deltas, upper)
        if value is not None:
            yield upper, value  # type: ignore[misc]
        upper = next(keys, None)
