"""A snapshot's changes on their way to a worker: the messages that make a question of what is open there.

Above ``messages``, below ``pool``. The worker has LMDB; here is what lies over it, as the snapshot holds it
fast: the deltas that the worker does not have yet, in slices, so that the loop is free in between. Where all
scans of a table are of key ranges, only the rows in them are sent.

The :class:`FlushJournal` knows what flushes moved out of memory, for as long as a worker may ask: so columns
that the worker keeps can be patched. Only tables that a worker was asked about are written down, and only so
much of it; of the rest it is known up to which flush nothing is known. Of a dropped table nothing stays.
"""

from __future__ import annotations

import pickle
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import msgspec

from herdpy_server.store.layers import Chain, Delta, showing
from herdpy_server.workers.messages import AskQuestion, Chains, DeltaRows, FlushedDelta, WorkerReady
from herdpy_sql.catalog import Table
from herdpy_sql.definitions import decode_table, encode_table

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.store import StoreSnapshot
    from herdpy_sql.columnar import ColumnarQuery, Scan


_LIMIT_BYTES = 64 << 20
_SLICE_ROWS = 2048
_SLICE_KEYS = 8192
_QUERIES = 256
Range = tuple[bytes | None, bytes | None]
_private = count(-1, -1)  # serial numbers that no delta has


class FlushJournal:
    """Deltas by table and flush. ``flushed`` is for the flushing thread, all else for the loop's.

    Args:
        tables: gives the tables that there are as of the newest flush, by their ids.
    """

    def __init__(self, tables: Callable[[], Mapping[int, object]], limit_bytes: int = _LIMIT_BYTES) -> None:
        self._tables = tables
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._watched: set[int] = set()
        self._entries: deque[tuple[int, int, Chain]] = deque()  # (flush, table, what it moved)
        self._nbytes = 0
        self._forgotten: dict[int, int] = {}  # by table: nothing is known of the flushes up to this one
        self._dropped = 0  # the same of all tables that are no more

    def flushed(self, number: int, frozen: Mapping[int, Chain]) -> None:
        """Flush ``number`` moved these deltas."""
        tables = self._tables()
        with self._lock:
            self._drop(number, (self._watched | self._forgotten.keys()) - tables.keys())
            for table, chain in frozen.items():
                if table not in tables:  # an index, or dropped by this flush
                    self._dropped = number
                    continue
                if table in self._watched:
                    self._entries.append((number, table, chain))
                    self._nbytes += _size(chain)
                else:
                    self._forgotten[table] = number
            while self._nbytes > self._limit_bytes:
                number, table, chain = self._entries.popleft()
                self._nbytes -= _size(chain)
                self._forgotten[table] = number

    def _drop(self, number: int, gone: Collection[int]) -> None:
        if not gone:
            return
        self._dropped = number
        self._watched.difference_update(gone)
        for table in gone:
            self._forgotten.pop(table, None)
        kept = deque(one for one in self._entries if one[1] not in gone)
        self._nbytes = sum(_size(chain) for _, _, chain in kept)
        self._entries = kept

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
            until_here = self._forgotten.get(table, 0) if table in self._tables() else self._dropped
            if until_here > after:
                return None
            return [
                delta
                for number, of, chain in self._entries
                if of == table and after < number <= until
                for delta in chain
            ]


def _size(chain: Chain) -> int:
    return sum(delta.nbytes for delta in chain)


class Queries:
    """Queries as pickles, each with a number; made once for as long as it is used, and there."""

    def __init__(self) -> None:
        self._made: OrderedDict[int, tuple[weakref.ref[ColumnarQuery], int, bytes]] = OrderedDict()
        self._numbers = count(1)

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._made)

    def pickled(self, query: ColumnarQuery) -> tuple[int, bytes]:
        """The number and the pickle of a query."""
        if query.handed:  # it will not come again
            return next(self._numbers), _pickled(query)
        key, made = id(query), self._made
        found = made.get(key)
        if found is None:
            there = weakref.ref(query, lambda _: made.pop(key, None))
            found = made[key] = there, next(self._numbers), _pickled(query)
        made.move_to_end(key)
        if len(self._made) > _QUERIES:
            self._made.popitem(last=False)
        return found[1], found[2]


class _Pickler(pickle.Pickler):
    """Tables go as the log has them: what they have made for themselves cannot be pickled."""

    def reducer_override(self, value: Any) -> Any:
        if type(value) is Table:
            return decode_table, (encode_table(value),)
        return NotImplemented


def _pickled(query: ColumnarQuery) -> bytes:
    made = BytesIO()
    _Pickler(made, pickle.HIGHEST_PROTOCOL).dump(query)
    return made.getvalue()


class Shipment:
    """The messages of one question, after what the worker said it has."""

    def __init__(
        self,
        number: int,
        query: ColumnarQuery,
        values: Sequence[Datum],
        snapshot: StoreSnapshot,
        ready: WorkerReady,
        journal: FlushJournal,
    ) -> None:
        self._number = number
        self._snapshot = snapshot
        self._kept = ready.kept
        self._held = set(ready.held)
        self._journal = journal
        self._scans = _by_table(query.scans, values)
        self._chains: list[Chains] = []

    @property
    def tables(self) -> Collection[int]:
        """The ids of tables that are read."""
        return self._scans.keys()

    def pieces(self) -> Iterator[msgspec.Struct | None]:
        """What goes before the question; None where there is nothing to send but time has passed."""
        for table, ranges in self._scans.items():
            yield from self._flushed(table)
            yield from self._deltas(table, ranges)

    def question(self, query: tuple[int, bytes], inputs: bytes) -> AskQuestion:
        """The question itself, once all pieces were sent."""
        snapshot = self._snapshot
        return AskQuestion(self._number, *query, inputs, self._chains, snapshot.sequence, snapshot.flushes)

    def _flushed(self, table: int) -> Iterator[msgspec.Struct | None]:
        after = self._kept.get(table)
        if after is None:
            return
        moved = self._journal.between(table, after, self._snapshot.flushes)
        if moved is None:
            yield FlushedDelta(table, next(_private), True, [])
            return
        for delta in moved:
            if delta.serial in self._held:
                yield FlushedDelta(table, delta.serial, delta.cleared, None)
                continue
            keys = iter(delta.rows)
            first = True
            while (some := list(islice(keys, _SLICE_KEYS))) or first:
                yield FlushedDelta(table, delta.serial, delta.cleared, some)
                first = False

    def _deltas(self, table: int, ranges: Sequence[Range]) -> Iterator[msgspec.Struct | None]:
        snapshot = self._snapshot
        unapplied, applied = snapshot.unapplied_chain(table), snapshot.applied_chain(table)
        seen, _ = showing(unapplied + applied)
        serials: dict[int, int] = {}
        for delta in seen:
            if delta.serial in self._held or delta.serial in serials:
                serials[delta.serial] = delta.serial
            elif not ranges:
                serials[delta.serial] = delta.serial
                yield from _whole(delta)
            else:
                serials[delta.serial] = serial = next(_private)
                yield from _within(delta, serial, ranges)

        def numbers(chain: Chain) -> list[int]:
            return [serials[delta.serial] for delta in chain if delta.serial in serials]

        self._chains.append(Chains(table, numbers(unapplied), numbers(applied)))


def _whole(delta: Delta) -> Iterator[DeltaRows]:
    items = iter(delta.rows.items())
    first = True
    while (some := list(islice(items, _SLICE_ROWS))) or first:
        yield DeltaRows(
            delta.serial, delta.cleared, True, [key for key, _ in some], [value for _, value in some]
        )
        first = False


def _within(delta: Delta, serial: int, ranges: Sequence[Range]) -> Iterator[DeltaRows | None]:
    """The rows in the ranges, as a delta of its own."""
    yield DeltaRows(serial, delta.cleared, False, [], [])
    items = iter(delta.rows.items())
    while some := list(islice(items, _SLICE_ROWS)):
        chosen = [(key, value) for key, value in some if any(_is_in(key, one) for one in ranges)]
        if chosen:
            keys = [key for key, _ in chosen]
            yield DeltaRows(serial, delta.cleared, False, keys, [value for _, value in chosen])
        else:
            yield None


def _is_in(key: bytes, bounds: Range) -> bool:
    low, high = bounds
    return (low is None or key >= low) and (high is None or key < high)


def _by_table(scans: Sequence[Scan], values: Sequence[Datum]) -> dict[int, list[Range]]:
    """The ranges in which each table is read; none for one that is read from end to end."""
    found: dict[int, list[Range]] = {}
    whole: set[int] = set()
    for scan in scans:
        bounds = scan.bounds(values)
        found.setdefault(scan.table.id, []).append(bounds)
        if bounds == (None, None):
            whole.add(scan.table.id)
    return {table: [] if table in whole else ranges for table, ranges in found.items()}
