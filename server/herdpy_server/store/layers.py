"""Store layer, inside: changes held in memory above LMDB, newest first: layers, and the memtable.

A :class:`Delta` is what changed in one database of the store (a table's rows or an index's entries): new
values by key, None where a key was deleted. A transaction has a dict of them, its layer. Reads go through a
chain of them until one delta knows the key; scans merge the sorted keys of all with what lies under them.
Those of a large transaction are :class:`LargeRows`, most of which lie in a file.

:class:`Memory` has the chains of each database: ``applied`` has the deltas that are applied but not in LMDB,
and ``pending`` those of transactions that have their place in the log and are not durable yet; ``visible`` is
both, which is what a reader goes through before it asks LMDB. Chains are tuples, replaced and never changed;
of the deltas only the newest applied one is written to, and only until something holds it fast (a snapshot or
a flush), which is one number, the epoch.
"""

from __future__ import annotations

import heapq
from abc import abstractmethod
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping, Sequence
from itertools import chain as chained
from itertools import count, islice
from time import sleep
from typing import Final

from mypy_extensions import mypyc_attr

from herdpy_sql.catalog import Catalog

Item = tuple[bytes, bytes]
Layer = dict[int, "Delta"]
"""The changes of one transaction: a delta for each database (table id or index id) it changed."""
Chain = tuple["Delta", ...]
"""Deltas of one database, newest first."""

ENTRY_BYTES: Final = 150
"""What a key and a value cost beside their own bytes: two bytes objects and a place in a dict."""
SEQUENCE_KEY = b""
"""The one key of a sequence's database, under which its state is."""
_TAIL = 512
_PIECE = 4096
_serials: Final = count()


class Missing:
    """The class of :data:`MISSING`, in the place of the value of a key that a delta knows nothing of."""


MISSING: Final = Missing()


@mypyc_attr(allow_interpreted_subclasses=True)
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
    gone: Callable[[bytes], None] | None = None,
) -> Iterator[Item]:
    """The items of ``under`` in [low, high) as the deltas (newest first) change them, in order.

    ``gone`` is called with each key that is deleted.
    """
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
            elif gone is not None:
                gone(upper)
            upper = next(keys, None)
        if upper == key:
            value = single[key] if single is not None else find(deltas, key)
            if value is not None:
                yield key, value  # type: ignore[misc]
            elif gone is not None:
                gone(key)
            upper = next(keys, None)
        else:
            yield item
    while upper is not None:
        value = single[upper] if single is not None else find(deltas, upper)
        if value is not None:
            yield upper, value  # type: ignore[misc]
        elif gone is not None:
            gone(upper)
        upper = next(keys, None)


_ADOPT_ROWS: Final = 256
_MERGE_ROWS: Final = 65_536
_PENDING_CHAIN: Final = 8
_LOSSES_KEPT = 64


class Pending:
    """A transaction that has its place in the log and is not durable yet."""

    __slots__ = ("catalog", "layer", "token")

    def __init__(self, token: int, layer: Layer, catalog: Catalog | None) -> None:
        self.token = token
        self.layer = layer
        self.catalog = catalog


class Memory:
    """Chains of deltas by database id."""

    def __init__(self) -> None:
        self.applied: dict[int, Chain] = {}
        self.pending: dict[int, Chain] = {}
        self.visible: dict[int, Chain] = {}
        self.transactions: deque[Pending] = deque()
        self.losses = 0  # how often pending transactions were dropped
        self._lost_from: deque[int] = deque(maxlen=_LOSSES_KEPT)  # the first token of each time
        self.epoch = 0
        self.generation = 0
        self._token = 0
        self.rows = 0
        self.nbytes = 0

    @property
    def last_token(self) -> int:
        """Of the newest transaction that took its place in the log."""
        return self._token

    @property
    def newest_token(self) -> int:
        """Of the newest one that is not durable yet; 0 when all are."""
        return self.transactions[-1].token if self.transactions else 0

    # The applied state.

    def head(self, db: int) -> Delta:
        """The delta that takes the next change of a database."""
        chain = self.applied.get(db, ())
        if chain and chain[0].epoch == self.epoch:
            return chain[0]
        delta = Delta(epoch=self.epoch, generation=self.generation)
        self._set_applied(db, (delta, *self._compacted(chain)))
        return delta

    def put(self, delta: Delta, key: bytes, value: bytes | None) -> None:
        """Change one key in a delta that :meth:`head` gave."""
        before = len(delta.rows)
        delta.rows[key] = value
        size = len(key) + (len(value) if value is not None else 0)
        if len(delta.rows) != before:
            size += ENTRY_BYTES
            self.rows += 1
        delta.nbytes += size
        self.nbytes += size

    def clear(self, db: int) -> None:
        """Let nothing of a database show: it was truncated, dropped or just made."""
        delta = Delta(cleared=True, epoch=self.epoch, generation=self.generation)
        older = self.applied.get(db, ())
        kept = tuple(one for one in older if one.generation != self.generation)
        for one in older:
            if one.generation == self.generation:
                self._count(one, -1)
        self._set_applied(db, (delta, *kept))

    def adopt(self, layer: Layer) -> None:
        """Apply a whole transaction's changes; a big delta is taken over as it is."""
        for db, delta in layer.items():
            if delta.cleared:
                self.clear(db)
            if len(delta.rows) > _ADOPT_ROWS or type(delta.rows) is not dict:
                self._take_over(db, delta)
                continue
            chain = self.applied.get(db)
            head = chain[0] if chain and chain[0].epoch == self.epoch else self.head(db)
            before = len(head.rows)
            head.rows.update(delta.rows)
            head.nbytes += delta.nbytes
            self.rows += len(head.rows) - before
            self.nbytes += delta.nbytes

    def adopt_rows(self, db: int, rows: dict[bytes, bytes | None], size_bytes: int) -> None:
        """Apply changes of one database; ``size_bytes``: of the keys and values."""
        if len(rows) > _ADOPT_ROWS:
            delta = Delta()
            delta.rows, delta.nbytes = rows, size_bytes + ENTRY_BYTES * len(rows)
            self._take_over(db, delta)
            return
        head = self.head(db)
        before = len(head.rows)
        head.rows.update(rows)
        fresh = len(head.rows) - before
        size_bytes += ENTRY_BYTES * fresh
        head.nbytes += size_bytes
        self.rows += fresh
        self.nbytes += size_bytes

    def adopt_delta(self, db: int, delta: Delta) -> None:
        """Apply one transaction's changes of one database."""
        self.adopt({db: delta})

    def _take_over(self, db: int, delta: Delta) -> None:
        # Sealed by its epoch (-1). Reading it as pending or applied makes no difference, so that a
        # snapshot may hold the same object.
        taken = Delta(generation=self.generation)
        taken.rows, taken.nbytes, taken._runs = delta.rows, delta.nbytes, delta._runs
        self._count(taken, 1)
        self._set_applied(db, (taken, *self._compacted(self.applied.get(db, ()))))

    def _compacted(self, chain: Chain) -> Chain:
        """The chain with neighbours of like size merged, so that it stays short."""
        while len(chain) > 1:
            newer, older = chain[0], chain[1]
            if (
                newer.generation != self.generation
                or older.generation != self.generation
                or newer.is_large
                or older.is_large
                or len(older.rows) > 2 * len(newer.rows)
                or len(older.rows) + len(newer.rows) > _MERGE_ROWS
            ):
                break
            one = merged(newer, older)
            self.rows += len(one.rows) - len(newer.rows) - len(older.rows)
            chain = (one, *chain[2:])
        return chain

    def _count(self, delta: Delta, sign: int) -> None:
        self.rows += sign * len(delta.rows)
        self.nbytes += sign * delta.resident_bytes

    def _set_applied(self, db: int, chain: Chain) -> None:
        self.applied[db] = chain
        self.visible[db] = self.pending.get(db, ()) + chain

    def hold(self) -> None:
        """Write no more to what is here now: a snapshot or a flush holds it."""
        self.epoch += 1

    # Flushing.

    def freeze(self) -> dict[int, Chain]:
        """What a flush has to write. Frozen deltas stay in their chains until :meth:`release`."""
        self.hold()
        self.generation += 1
        return dict(self.applied)

    def release(self, frozen: dict[int, Chain]) -> None:
        """Let go of what a flush wrote."""
        for db, chain in frozen.items():
            now = self.applied[db]
            kept = now[: len(now) - len(chain)]
            for delta in chain:
                self._count(delta, -1)
            self._set_applied(db, kept)
            if not kept:
                del self.applied[db]
                if not self.visible[db]:
                    del self.visible[db]

    # Pending transactions.

    def push(self, layer: Layer, catalog: Catalog | None) -> int:
        """Show the changes of a transaction that took its place in the log."""
        self._token += 1
        token = self._token
        self.transactions.append(Pending(token, layer, catalog))
        for db, delta in layer.items():
            delta.token = token
            chain = (delta, *self.pending.get(db, ()))
            if len(chain) > _PENDING_CHAIN:
                chain = _compacted_pending(chain)
            self.pending[db] = chain
            self.visible[db] = chain + self.applied.get(db, ())
        return token

    def pop(self, token: int) -> None:
        """The transactions up to ``token`` are applied: they need not show as pending any more."""
        transactions = self.transactions
        while transactions and transactions[0].token <= token:
            for db in transactions.popleft().layer:
                chain = self.pending.get(db)
                if chain is None:
                    continue
                # A merged delta stays until its newest transaction is applied; until then it shows
                # what the applied state will be, so it hides nothing.
                below = self.applied.get(db, ())
                if chain[0].token <= token:  # the newest: all of them
                    del self.pending[db]
                    if not below:
                        del self.visible[db]
                        continue
                    self.visible[db] = below
                else:
                    self.pending[db] = chain = tuple(delta for delta in chain if delta.token > token)
                    self.visible[db] = chain + below

    def drop_pending(self) -> None:
        """No pending transaction will ever be durable: none shows any more."""
        if self.transactions:
            self.losses += 1
            self._lost_from.append(self.transactions[0].token)
        self.transactions.clear()
        self.pending.clear()
        self.visible = dict(self.applied)

    def lost_since(self, losses: int) -> int | None:
        """The first token that was dropped since ``losses`` was what it says; None when none was.

        Tokens rise, so whatever was dropped since is at or above it.
        """
        behind = self.losses - losses
        if not behind:
            return None
        return self._lost_from[-behind] if behind <= len(self._lost_from) else 1


def _compacted_pending(chain: Chain) -> Chain:
    """The chain with small neighbours merged from the oldest end on, doubling in size."""
    result: list[Delta] = []
    for delta in reversed(chain):
        current = delta
        while (
            result
            and len(result[-1].rows) <= len(current.rows) <= _MERGE_ROWS
            and not (result[-1].is_large or current.is_large)
        ):
            current = merged(current, result.pop())
        result.append(current)
    return tuple(reversed(result))
