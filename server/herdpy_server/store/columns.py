"""Store layer, inside: columns of tables as Arrow, kept and brought up to date.

The first time that columns of a whole table are asked for they are built by a scan of the applied state, in
blocks, and kept (``KeptColumns``, by table in ``ColumnCache``). From then on an answer is the kept blocks
without the rows whose keys may have changed since, and those rows read anew from the snapshot and
decoded. Which keys those are:

* those in deltas of the snapshot (its own, pending or applied) that the kept columns do not
  include; deltas that a snapshot holds never change, so their serial numbers tell;
* those that flushes moved to LMDB out of deltas that were not included.

To take a key for changed when it is not only costs the reading of it, so the set only grows, until
it is a few percent of the table and the columns are built again. A snapshot older than the columns does not
use them: then, and for ranges of what is not kept, rows are read one by one.

Where there are ``segments``, columns that were built become a file (``SegmentDraft``), and columns that are
built again, after a start or in another worker, come out of one, with the keys that changed since.

Columns of texts that repeat are kept as Arrow's dictionaries (``with_dictionaries``): of all that could be
said of a column, its distinct values are what DuckDB takes of Arrow. It then compares, groups and computes by
value instead of by row, and four bytes a row are kept instead of the text.

An answer is kept, too, for as long as nothing has changed: the same request gets the same table, by which
``columnar.ready_cursors`` knows that what it made of it still holds.

``SortedKeys`` finds the rows that changed: the key columns of a table come in, block by block; keys are
looked for by binary search, and the rows' own columns serve as their keys until so many were asked for that
packing all pays.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from herdpy.codec.arrow import array_to_datums, full_width
from herdpy.codec.arrow_bytes import batch_to_keys
from herdpy.codec.kinds import Kind
from herdpy.imports import lazy_module
from herdpy_server.store.layers import Chain, Delta
from herdpy_server.store.segment_file import SegmentDraft
from herdpy_server.store.segments import FoundColumns, SegmentFiles, kept_form, worn_after
from herdpy_server.store.snapshot import StoreSnapshot
from herdpy_sql.catalog import Column, Table

pc: Any = lazy_module("pyarrow.compute")
_SEARCHED = 16  # so many keys are looked for before all are packed
_MANY = 2000  # from so many keys on, one pass over all rows beats a search for each
_INTEGERS = frozenset({Kind.INT16, Kind.INT32, Kind.INT64})


class SortedKeys:
    """The sorted keys of many rows, from the rows' key columns.

    A few keys are looked for by encoding the rows that a binary search meets; when there are more,
    all keys are made and packed, once.
    """

    def __init__(self, table: Table, width: int | None, block_rows: int) -> None:
        """``width``: bytes of every key, None when they differ; ``block_rows``: rows of a full block."""
        self._codec = table.key_codec
        self._fields = [table.fields[at] for at in table.key_positions]
        self._width = width
        self._block_rows = block_rows
        self._blocks: list[list[pa.Array[Any]]] = []
        self._count = self._looked_for = 0
        self._packed: Any = None

    def add(self, columns: list[pa.Array[Any]]) -> None:
        """The next block of rows, by their key columns; all but the last one are full."""
        self._blocks.append(
            [full_width(field, column) for field, column in zip(self._fields, columns, strict=True)]
        )
        self._count += len(columns[0])

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> bytes:
        if self._packed is not None:
            if self._width is not None:
                return bytes(self._packed[row : row + 1].tobytes())
            return bytes(self._packed[row].as_py())
        block, within = divmod(row, self._block_rows)
        columns = zip(self._fields, self._blocks[block], strict=True)
        return self._codec.encode(
            [array_to_datums(field, column.slice(within, 1))[0] for field, column in columns]
        )

    @property
    def nbytes(self) -> int:
        """What the packed keys take."""
        return 0 if self._packed is None else int(self._packed.nbytes)

    def _pack(self) -> None:
        if all(one.kind in _INTEGERS and not one.nullable for one in self._codec.fields):
            parts = [self._packed_integers(columns) for columns in self._blocks]
            self._packed = np.concatenate(parts)
            return
        made = [batch_to_keys(self._codec.fields, columns) for columns in self._blocks]
        if self._width is not None:
            self._packed = np.frombuffer(b"".join(map(b"".join, made)), f"S{self._width}")
        else:
            self._packed = pa.concat_arrays([pa.array(part, pa.large_binary()) for part in made])

    def _packed_integers(self, columns: list[pa.Array[Any]]) -> Any:
        """The keys of a block as ``herdpy.codec.keys`` has them: big-endian, sign bit flipped."""
        keys = np.empty((len(columns[0]), self._width or 0), np.uint8)
        at = 0
        for one, column in zip(self._codec.fields, columns, strict=True):
            values = column.to_numpy()
            width = values.dtype.itemsize
            piece = values.astype(f">i{width}").view(np.uint8).reshape(-1, width)
            if one.descending:
                piece = ~piece
            keys[:, at : at + width] = piece
            keys[:, at] ^= 0x80
            at += width
        return keys.view(f"S{self._width}").reshape(-1)

    def first_from(self, key: bytes) -> int:
        """The first row whose key is ``key`` or greater."""
        return bisect_left(self, key)

    def rows_of(self, keys: Sequence[bytes]) -> list[int]:
        """The row of each key, -1 where there is none."""
        if not self._count or not keys:
            return [-1] * len(keys)
        self._looked_for += len(keys)
        if self._packed is None and self._looked_for > _SEARCHED:
            self._pack()
        if self._packed is not None and self._width is not None:
            wanted = np.array(keys, self._packed.dtype)
            places = np.searchsorted(self._packed, wanted)
            found = self._packed[np.minimum(places, self._count - 1)] == wanted
            rows: list[int] = np.where(found, places, -1).tolist()
            return rows
        if self._packed is not None and len(keys) > _MANY:
            hits = pc.index_in(self._packed, value_set=pa.array(keys, pa.large_binary()))
            placed = np.full(len(keys), -1, np.int64)
            placed[hits.drop_null().to_numpy()] = np.flatnonzero(
                hits.is_valid().to_numpy(zero_copy_only=False)
            )
            at: list[int] = placed.tolist()
            return at
        slots = [self.first_from(key) for key in keys]
        pairs = zip(slots, keys, strict=True)
        return [row if row < self._count and self[row] == key else -1 for row, key in pairs]


_BLOCK_ROWS = 65_536
_FEW = 2000
_ANSWERS = 32  # answers that are kept of one table
_REPEATED = 8  # so often must values of a text column repeat within a block


def blocks(table: Table, positions: Sequence[int], images: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
    """Columns of row images, a block at a time."""
    while taken := list(islice(images, _BLOCK_ROWS)):
        yield kept_form(table, positions, taken)


def _coded(arrays: Sequence[pa.Array[Any]]) -> list[pa.Array[Any]] | None:
    """The blocks of a column, each with a dictionary; None when it is no text, or texts do not repeat."""
    if not arrays or not pa.types.is_string(arrays[0].type):
        return None
    most = len(arrays[0]) // _REPEATED
    found: list[pa.Array[Any]] = []
    for array in arrays:
        coded: Any = pc.dictionary_encode(array)
        if len(coded.dictionary) > most:
            return None
        found.append(coded)
    return found


def with_dictionaries(blocks: Sequence[pa.RecordBatch], places: Sequence[int]) -> list[pa.RecordBatch]:
    """The same rows; columns at ``places`` whose texts repeat are dictionaries, a block each."""
    found = list(blocks)
    for place in places:
        coded = _coded([block.column(place) for block in blocks])
        if coded is not None:
            pairs = zip(found, coded, strict=True)
            found = [block.set_column(place, block.schema.names[place], array) for block, array in pairs]
    return found


def _in_form(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with dictionaries for the columns that have them in a schema."""
    for place, field in enumerate(schema):
        if pa.types.is_dictionary(field.type):
            batch = batch.set_column(place, field, pc.dictionary_encode(batch.column(place)))
    return batch


def _with_key(table: Table, positions: Sequence[int]) -> tuple[int, ...]:
    """The positions, and those of the key."""
    return tuple(dict.fromkeys((*positions, *table.key_positions)))


class _SeenState(NamedTuple):
    """What a snapshot sees of a table, where others may see the same.

    Attributes:
        serials: of the applied deltas that lie over LMDB for it; none others do.
        moved_at: the last flush that moved deltas of the table, which it takes account of.
    """

    serials: tuple[int, ...]
    moved_at: int


class _Answer(NamedTuple):
    """An answer, what it was given for, and what it takes that the kept columns have not."""

    state: _SeenState
    table: pa.Table
    fresh_bytes: int


class KeptColumns:
    """Columns of one table as of one moment, and what may have changed since.

    Args:
        found: they come out of a segment; None: they are to be read row by row.
    """

    def __init__(
        self,
        snapshot: StoreSnapshot,
        table: Table,
        positions: Sequence[int],
        found: FoundColumns | None = None,
    ) -> None:
        self.lock = threading.Lock()
        self.table = table
        self.is_drafted = found is not None  # a segment has them, or was to have them
        self.spoilt = False  # the table was truncated or dropped since
        self.definition: tuple[Column, ...] = table.columns
        self.positions = _with_key(table, positions)
        self.sequence = snapshot.sequence
        chain = snapshot.applied_chain(table.id)
        # A short memtable is taken for changes: what is under it is read faster alone.
        self.alone = found is not None or (
            sum(len(delta.rows) for delta in chain) <= _FEW and not any(delta.cleared for delta in chain)
        )
        self.included = set() if self.alone else {delta.serial for delta in chain}
        self.seen: set[int] = set()
        self.unplaced: deque[Collection[bytes]] = deque()  # appended to by flushes
        self._found = found
        if found is not None and found.changed:
            self.unplaced.append(found.changed)
        self.changed: dict[bytes, int] = {}  # possibly changed keys, and their rows here (-1: none)
        self.dead: dict[int, list[int]] = {}  # the rows of those by block
        self._thinned: dict[tuple[int, int], tuple[int, pa.Array[Any]]] = {}
        self._answers: dict[tuple[Any, ...], _Answer] = {}  # by the request; never changed, but replaced
        self._moved_at = 0  # the last flush that moved deltas of the table
        self.blocks: list[pa.RecordBatch] = []
        self._coded_bytes = 0  # of columns that are dictionaries
        self.keys = SortedKeys(table, snapshot.ops(table).fixed_key, _BLOCK_ROWS)

    def fill(self, snapshot: StoreSnapshot, table: Table) -> None:
        """Read the rows. Flushes are taken note of from before."""
        places = [self.positions.index(at) for at in table.key_positions]
        found: list[pa.RecordBatch] = []
        for block in self._read(snapshot, table) if self._found is None else self._found.blocks:
            found.append(block)
            self.keys.add([block.column(place) for place in places])
        others = [place for place, at in enumerate(self.positions) if at not in table.key_positions]
        self.blocks = with_dictionaries(found, others)
        self._coded_bytes = sum(
            column.nbytes
            for block in self.blocks
            for column in block.columns
            if pa.types.is_dictionary(column.type)
        )

    def _read(self, snapshot: StoreSnapshot, table: Table) -> Iterator[pa.RecordBatch]:
        """The columns, row by row."""
        if self.alone and not snapshot.ops(table).may_be_long:
            images = snapshot.disk.values(table.id)
        elif self.alone:
            images = (image for _, image in snapshot.disk_scan(table))
        else:
            images = (image for _, image in snapshot.applied_scan(table))
        return blocks(table, self.positions, images)

    @property
    def nbytes(self) -> int:
        """What it takes of memory. What is mapped out of a file takes none that is not free to be taken."""
        fresh = sum(answer.fresh_bytes for answer in tuple(self._answers.values()))
        held = self.block_bytes if self._found is None else self._coded_bytes
        return self.keys.nbytes + fresh + held

    @property
    def block_bytes(self) -> int:
        """What the columns take, wherever they lie."""
        return sum(block.nbytes for block in self.blocks)

    def serves(self, table: Table, positions: Sequence[int]) -> bool:
        """Whether these columns are here."""
        return self.definition == table.columns and set(positions) <= set(self.positions)

    @property
    def worn(self) -> bool:
        """Whether so much has changed that it pays to build anew."""
        count = len(self.changed) + sum(map(len, tuple(self.unplaced)))
        return count > worn_after(len(self.keys))

    def flushed(self, number: int, chain: Chain) -> None:
        """With that flush these deltas left the chains for LMDB. Runs in the checkpointer's thread."""
        if chain:
            self._moved_at = number
        for delta in chain:
            if delta.serial not in self.included and delta.serial not in self.seen:
                self.unplaced.append(delta.rows.keys())

    def difference(self, snapshot: StoreSnapshot) -> set[bytes] | None:
        """The keys whose rows may differ between these columns and the state of LMDB under a snapshot.

        None when that is not known: the table was emptied since, or the snapshot does not have all changes.
        """
        with self.lock:
            chain = snapshot.applied_chain(self.table.id)
            if self.sequence > snapshot.sequence:
                return None
            if any(delta.cleared or delta.is_large for delta in snapshot.chain(self.table.id)):
                return None
            if any(delta.serial < 0 for delta in chain):  # one that was cut to a range of keys
                return None
            keys = set(self.changed)
            # Of what lies over LMDB it may have the newest already, and these columns may have it, too.
            for rows in (*tuple(self.unplaced), *(delta.rows for delta in chain)):
                keys.update(rows)
            return keys

    def _note(self, deltas: Collection[Delta]) -> bool:
        """Add to the keys that may have changed; False when they are too many."""
        if self.worn or any(delta.is_large and delta.serial not in self.included for delta in deltas):
            return False
        fresh: dict[bytes, None] = {}
        while self.unplaced:
            fresh.update(dict.fromkeys(self.unplaced.popleft()))
        for delta in deltas:
            if delta.serial not in self.included and delta.serial not in self.seen:
                self.seen.add(delta.serial)
                fresh.update(dict.fromkeys(delta.rows))
        keys = [key for key in fresh if key not in self.changed]
        for key, row in zip(keys, self.keys.rows_of(keys), strict=True):
            self.changed[key] = row
            if row >= 0:
                block, within = divmod(row, _BLOCK_ROWS)
                self.dead.setdefault(block, []).append(within)
        return not self.worn

    def answer(
        self,
        snapshot: StoreSnapshot,
        table: Table,
        positions: Sequence[int],
        low: bytes | None,
        high: bytes | None,
    ) -> pa.Table | None:
        """The columns as the snapshot has them; None when too much has changed."""
        request = tuple(positions), low, high
        state = self._seen_by(snapshot)
        kept = None if state is None else self._answers.get(request)
        if kept is not None and kept.state == state:
            return kept.table
        batches = self._batches(snapshot, table, positions, low, high)
        if batches is None:
            return None
        answer = pa.Table.from_batches([batch for batch in batches if batch.num_rows] or batches[-1:])
        # What is left of a part of a block without its dead rows is a copy, that nobody counts.
        if state is not None and (not self.dead or low is high is None):
            self._keep(request, _Answer(state, answer, batches[-1].nbytes))
        return answer

    def _seen_by(self, snapshot: StoreSnapshot) -> _SeenState | None:
        """What a snapshot sees of the table; None where it alone sees that."""
        moved_at = self._moved_at
        if snapshot.unapplied_chain(self.table.id) or snapshot.flushes < moved_at:
            return None
        serials = tuple([delta.serial for delta in snapshot.applied_chain(self.table.id)])
        if any(serial < 0 for serial in serials):  # cut to a range of keys
            return None
        return _SeenState(serials, moved_at)

    def _keep(self, request: tuple[Any, ...], answer: _Answer) -> None:
        """Keep an answer, and others of the same state."""
        with self.lock:
            others = [one for one in self._answers.items() if one[1].state == answer.state]
            self._answers = dict([*others, (request, answer)][-_ANSWERS:])

    def _batches(
        self,
        snapshot: StoreSnapshot,
        table: Table,
        positions: Sequence[int],
        low: bytes | None,
        high: bytes | None,
    ) -> list[pa.RecordBatch] | None:
        """The blocks without the rows that have changed, and as the last one those rows as they are now."""
        with self.lock:
            chain = snapshot.applied_chain(table.id)
            if any(delta.cleared and delta.serial not in self.included for delta in chain):
                return None
            if not self._note(chain):
                return None
            extra = self._extra(snapshot.unapplied_chain(table.id))
            start = 0 if low is None else self.keys.first_from(low)
            stop = len(self.keys) if high is None else self.keys.first_from(high)
            batches = list(self._unchanged(positions, start, stop, extra))
            changed = [*self.changed, *extra]
        if low is not None or high is not None:
            changed = [key for key in changed if (low is None or key >= low) and (high is None or key < high)]
        changed.sort()  # so that rows that were added come in the order of their keys
        found = [image for key in changed if (image := snapshot.get(table, key)) is not None]
        batches.append(self._fresh(table, positions, found))
        return batches

    def _fresh(self, table: Table, positions: Sequence[int], images: Sequence[bytes]) -> pa.RecordBatch:
        """Columns of rows that are not in the blocks, in the form that these have."""
        made = kept_form(table, positions, images)
        if not self.blocks:
            return made
        return _in_form(made, self.blocks[0].select([self.positions.index(at) for at in positions]).schema)

    def _extra(self, chain: Chain) -> dict[bytes, int]:
        """The keys that only this snapshot sees changed, and their rows."""
        if not chain:
            return {}
        keys = list({key for delta in chain for key in delta.rows} - self.changed.keys())
        return dict(zip(keys, self.keys.rows_of(keys), strict=True))

    def _unchanged(
        self, positions: Sequence[int], start: int, stop: int, extra: Mapping[bytes, int]
    ) -> Iterator[pa.RecordBatch]:
        """The rows from ``start`` to ``stop`` that nothing has changed, block by block."""
        also: dict[int, list[int]] = {}
        for row in extra.values():
            if row >= 0:
                also.setdefault(row // _BLOCK_ROWS, []).append(row % _BLOCK_ROWS)
        places = [self.positions.index(at) for at in positions]
        for nth, block in enumerate(self.blocks):
            first = nth * _BLOCK_ROWS
            begin, end = max(start - first, 0), min(stop - first, block.num_rows)
            if begin >= end:
                continue
            chosen = block.select(places)
            dead, more = self.dead.get(nth), also.get(nth)
            if not dead and not more:
                yield chosen.slice(begin, end - begin)
            elif dead and not more and positions and end - begin == block.num_rows:
                arrays = [self._thin(nth, block, place, dead) for place in places]
                yield pa.RecordBatch.from_arrays(arrays, schema=chosen.schema)
            else:
                mask = np.ones(block.num_rows, np.bool_)
                mask[[*(dead or ()), *(more or ())]] = False
                yield chosen.slice(begin, end - begin).filter(pa.array(mask[begin:end]))

    def _thin(self, nth: int, block: pa.RecordBatch, place: int, dead: list[int]) -> pa.Array[Any]:
        """A column of a block without its dead rows, made again when there are more of them."""
        kept = self._thinned.get((nth, place))
        if kept is None or kept[0] != len(dead):
            mask = np.ones(block.num_rows, np.bool_)
            mask[dead] = False
            kept = self._thinned[nth, place] = len(dead), block.column(place).filter(pa.array(mask))
        return kept[1]


class ColumnCache:
    """Columns of tables by table id, the least recently used ones dropped beyond a limit.

    Attributes:
        flushes: how many flushes it was called for.
        on_flush: is called for each flush too, with its number, in the thread that flushes, while no snapshot
            can be taken: it must be quick.
    """

    def __init__(self, limit_bytes: int, segments: SegmentFiles | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.segments = segments
        self.flushes = 0
        self.on_flush: Callable[[int, Mapping[int, Chain]], object] | None = None
        self._kept: OrderedDict[int, KeptColumns] = OrderedDict()
        self._building: list[tuple[int, KeptColumns]] = []
        self._too_large: list[tuple[int, KeptColumns]] = []  # for memory; they wait for their segments
        self._lock = threading.Lock()

    def arrow(
        self,
        snapshot: StoreSnapshot,
        table: Table,
        positions: Sequence[int],
        low: bytes | None,
        high: bytes | None,
    ) -> pa.Table:
        """The columns of the rows with keys in the range, in no certain order."""
        if self.segments is not None:
            self.segments.used((table.id,))
        with self._lock:
            kept = self._kept.get(table.id)
            if kept is not None:
                self._kept.move_to_end(table.id)
        hides = snapshot.hides_applied(table.id)
        usable = not hides and (kept is None or kept.sequence <= snapshot.sequence)
        if kept is not None and usable and kept.serves(table, positions):
            answer = kept.answer(snapshot, table, positions, low, high)
            if answer is not None:
                return answer
        if not usable or low is not None or high is not None:
            return scanned(snapshot, table, positions, low, high)
        wanted = set(positions)
        if kept is not None and kept.definition == table.columns:
            wanted |= set(kept.positions)
        built = self._build(snapshot, table, sorted(wanted))
        answer = built.answer(snapshot, table, positions, low, high)
        return scanned(snapshot, table, positions, low, high) if answer is None else answer

    def _build(self, snapshot: StoreSnapshot, table: Table, positions: Sequence[int]) -> KeptColumns:
        built = KeptColumns(snapshot, table, positions, self._found(snapshot, table, positions))
        with self._lock:
            # What a flush moved before anyone took note of it for these columns cannot be known.
            complete = snapshot.flushes == self.flushes
            self._building.append((table.id, built))
        filled = False
        try:
            built.fill(snapshot, table)
            filled = True
        finally:
            with self._lock:
                self._building.remove((table.id, built))
                if filled and complete and not built.spoilt:
                    self._keep(table.id, built)
        return built

    def _found(self, snapshot: StoreSnapshot, table: Table, positions: Sequence[int]) -> FoundColumns | None:
        """The columns out of a segment, if there is one and not too much has changed since."""
        chain = snapshot.applied_chain(table.id)
        if self.segments is None or any(delta.cleared or delta.is_large for delta in chain):
            return None
        found = self.segments.find(snapshot.disk, table, _with_key(table, positions))
        if found is None:
            return None
        changed = len(found.changed) + sum(len(delta.rows) for delta in chain)
        rows = sum(block.num_rows for block in found.blocks)
        return found if changed <= worn_after(rows) else None

    def _keep(self, table_id: int, built: KeptColumns) -> None:
        other = self._kept.get(table_id)
        if other is not None and other.sequence > built.sequence:
            return
        if built.nbytes > self.limit_bytes:
            if self.segments is not None and self._is_due(self.segments, built):
                self._too_large = [one for one in self._too_large if one[0] != table_id]
                self._too_large.append((table_id, built))
            return
        self._kept[table_id] = built
        self._kept.move_to_end(table_id)
        while sum(one.nbytes for one in self._kept.values()) > self.limit_bytes:
            self._kept.popitem(last=False)

    def flushed(self, frozen: Mapping[int, Chain]) -> None:
        """These deltas leave the chains for LMDB, at once with this call."""
        with self._lock:
            self.flushes += 1
            for table_id, kept in (*self._kept.items(), *self._building, *self._too_large):
                chain = frozen.get(table_id, ())
                kept.spoilt |= any(delta.cleared and delta.serial not in kept.included for delta in chain)
                kept.flushed(self.flushes, chain)
            for table_id, kept in list(self._kept.items()):
                if kept.spoilt or kept.worn:
                    del self._kept[table_id]
        if self.on_flush is not None:
            self.on_flush(self.flushes, frozen)

    @property
    def tables(self) -> list[int]:
        """The ids of tables of which columns are kept."""
        with self._lock:
            return list(self._kept)

    @property
    def has_drafts(self) -> bool:
        """Whether ``drafts`` may give anything."""
        with self._lock:
            return bool(self._too_large or self._undrafted())

    def _undrafted(self) -> list[KeptColumns]:
        segments = self.segments
        if segments is None:
            return []
        built = [kept for _, kept in self._too_large] + list(self._kept.values())
        return [kept for kept in built if self._is_due(segments, kept)]

    @staticmethod
    def _is_due(segments: SegmentFiles, kept: KeptColumns) -> bool:
        is_good = not (kept.is_drafted or kept.spoilt or kept.worn)
        return is_good and segments.may_write(kept.table, len(kept.keys), kept.block_bytes)

    def drafts(self, snapshot: StoreSnapshot, tables: Collection[int] | None = None) -> list[SegmentDraft]:
        """Columns that are in no segment, as differences from the state of LMDB under a snapshot.

        Each is given once; those whose difference is not known come another time.

        Args:
            tables: of which the snapshot knows what is over LMDB; None: of all.
        """
        with self._lock:
            undrafted = self._undrafted()
            self._too_large.clear()
        found = []
        for kept in undrafted:
            assert self.segments is not None
            if tables is not None and kept.table.id not in tables:
                continue
            changed = kept.difference(snapshot)
            if changed is not None and len(changed) <= worn_after(len(kept.keys)):
                kept.is_drafted = True
                lsn, stamp = self.segments.stamp(snapshot.disk, kept.table)
                found.append(SegmentDraft(kept.table, kept.positions, kept.blocks, lsn, stamp, changed))
        return found

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self._too_large.clear()


def scanned(
    snapshot: StoreSnapshot,
    table: Table,
    positions: Sequence[int],
    low: bytes | None,
    high: bytes | None,
) -> pa.Table:
    """The columns of the rows with keys in the range, read row by row."""
    images = (image for _, image in snapshot.scan(table, low, high))
    found = list(blocks(table, positions, images))
    return pa.Table.from_batches(found or [kept_form(table, positions, [])])
