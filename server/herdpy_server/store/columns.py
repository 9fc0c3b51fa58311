"""Store layer, inside: columns of tables as Arrow, kept and brought up to date.

The first time that columns of a whole table are asked for they are built and kept; from then on an
answer is what was kept, with what changed since (``kept_columns``). A snapshot older than the
columns does not use them: then, and for ranges of what is not kept, rows are read one by one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from herdpy_server.store.kept_columns import KeptColumns, blocks, decoded
from herdpy_server.store.layers import Chain
from herdpy_sql.catalog import Table

if TYPE_CHECKING:
    from herdpy_server.store.snapshot import StoreSnapshot


class ColumnCache:
    """Columns of tables by table id, the least recently used ones dropped beyond a limit.

    Attributes:
        flushes: how many flushes have been told of.
        on_flush: is told of each flush too, with its number, in the thread that flushes, while no snapshot
            can be taken: it must be quick.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.flushes = 0
        self.on_flush: Callable[[int, Mapping[int, Chain]], object] | None = None
        self._kept: OrderedDict[int, KeptColumns] = OrderedDict()
        self._building: list[tuple[int, KeptColumns]] = []
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
        built = KeptColumns(snapshot, table, positions)
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
                if filled and complete and not built.spoilt and built.nbytes <= self.limit_bytes:
                    self._keep(table.id, built)
        return built

    def _keep(self, table_id: int, built: KeptColumns) -> None:
        other = self._kept.get(table_id)
        if other is not None and other.sequence > built.sequence:
            return
        self._kept[table_id] = built
        self._kept.move_to_end(table_id)
        while sum(one.nbytes for one in self._kept.values()) > self.limit_bytes:
            self._kept.popitem(last=False)

    def flushed(self, frozen: Mapping[int, Chain]) -> None:
        """These deltas leave the chains for LMDB, at once with this call."""
        with self._lock:
            self.flushes += 1
            for table_id, kept in (*self._kept.items(), *self._building):
                chain = frozen.get(table_id, ())
                kept.spoilt |= any(delta.cleared and delta.serial not in kept.included for delta in chain)
                kept.flushed(chain)
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

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()


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
    return pa.Table.from_batches(found or [decoded(table, positions, [])])
