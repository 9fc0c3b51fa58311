"""Store layer, inside: what one transaction has changed, and how it goes back to a place in it.

Below ``reading`` and ``workspace``: every write of a transaction comes through here into its own
layer, noted so that ``undo`` can take a statement back. The layer is what others will see once the
transaction has its place in the log; the records are what the log will carry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from herdpy.log.records import InsertBatch, Record
from herdpy.log.transaction import encode_records
from herdpy_server.store import bulk
from herdpy_server.store.layers import ENTRY_BYTES, MISSING, Delta, Layer
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Catalog
from herdpy_sql.execute.deferred import Deferred

_ENCODED_AT_ONCE = 256
_FORGOTTEN_AT_ONCE = 4096
_FEW_RECORDS = 1024

#: A loop asks at every 1,024th of its rows whether to go on.
WATCHED = 1023


class Mark(NamedTuple):
    """A place in a transaction to which :meth:`Changes.undo` goes back."""

    changes: int
    records: int
    catalog: Catalog | None
    deferred: Deferred | None = None


class Changes:
    """A transaction's own changes.

    Attributes:
        records: what to log, in order.
        layer: its changes; not to be written to once it was pushed.
        encoded: the bytes of the first ``encoded_count`` records, made ahead of the commit.
        watch: asked now and then in long loops; raises when the statement shall end.
        deferred: see ``herdpy_sql.storage.View``.
    """

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._ops: dict[int, TableOps] | None = None
        self._changes: list[tuple[Delta | int, object, object]] = []
        self._frozen: tuple[int, Layer] = (-1, {})
        self._writes = 0
        self.layer: Layer = {}
        self.records: list[Record] = []
        self.encoded: list[bytes] = []
        self.encoded_count = 0
        self.watch: Callable[[], None] | None = None
        self.deferred: Deferred | None = None

    @property
    def own_catalog(self) -> Catalog | None:
        """The catalog to push with the layer: None when the transaction defined nothing."""
        return self._catalog

    def _own(self, db: int) -> Delta:
        delta = self.layer.get(db)
        if delta is None:
            delta = self.layer[db] = Delta()
        return delta

    def _put(self, db: int, key: bytes, value: bytes | None) -> None:
        delta = self.layer.get(db)
        if delta is None:
            delta = self.layer[db] = Delta()
        rows = delta.rows
        self._changes.append((delta, key, rows.get(key, MISSING)))
        rows[key] = value
        delta.nbytes += len(key) + ENTRY_BYTES + (len(value) if value is not None else 0)
        self._writes += 1
        if not self._writes & WATCHED and self.watch is not None:
            self.watch()

    def add_fresh(self, db: int, fresh: Mapping[bytes, bytes | None], nbytes: int) -> None:
        """Put many items at once, which are about ``nbytes`` in memory, into the own layer."""
        delta = self._own(db)
        rows = delta.rows
        previous: dict[bytes, bytes | None] = {}
        if rows:
            if not fresh.keys().isdisjoint(rows.keys()):
                previous = {key: rows[key] for key in fresh.keys() & rows.keys()}
            rows.update(fresh)
        else:
            delta.rows = fresh  # type: ignore[assignment]  # a dict of the caller's, who lets go of it
        self._changes.append((delta, list(fresh), previous))
        delta.nbytes += nbytes
        self._writes += 1

    def _clear(self, db: int) -> None:
        self._changes.append((db, self.layer.get(db), None))
        self.layer[db] = Delta(cleared=True)
        self._writes += 1

    def _defined(self, catalog: Catalog, record: Record) -> None:
        self._catalog = catalog
        self._ops = {}
        self._writes += 1
        self.records.append(record)

    def mark(self) -> Mark:
        """Where the transaction is now."""
        return Mark(len(self._changes), len(self.records), self._catalog, self.deferred)

    def undo(self, mark: Mark) -> None:
        """Take back everything since ``mark``; the locks stay."""
        changes = self._changes
        while len(changes) > mark.changes:
            where, key, previous = changes.pop()
            if isinstance(where, int):
                if key is None:
                    del self.layer[where]
                else:
                    self.layer[where] = key  # type: ignore[assignment]
            elif isinstance(key, bytes):
                if previous is MISSING:
                    del where.rows[key]
                    where.forget_order()
                else:
                    where.rows[key] = previous  # type: ignore[assignment]
            else:
                bulk.take_back(where, key, previous)  # type: ignore[arg-type]
        self._undone(mark)

    def undo_some(self, mark: Mark) -> bool:
        """A step of :meth:`undo`: take back the newest of what came since ``mark``; whether there is more."""
        more = len(self._changes) - mark.changes > _FORGOTTEN_AT_ONCE
        self.undo(mark._replace(changes=len(self._changes) - _FORGOTTEN_AT_ONCE) if more else mark)
        return more

    def _undone(self, mark: Mark) -> None:
        self.deferred = mark.deferred
        if self.encoded_count > mark.records:
            self.encoded, self.encoded_count = [], 0
        del self.records[mark.records :]
        if self._catalog is not mark.catalog:
            self._catalog = mark.catalog
            self._ops = None if mark.catalog is None else {}
        self._writes += 1

    # What there is to do with many changes in steps, so that others have their turn in between.

    @property
    def change_count(self) -> int:
        """How many changes there are to be taken back or forgotten."""
        return len(self._changes)

    @property
    def logs_much(self) -> bool:
        """Whether it takes a while to encode the records."""
        records = self.records
        return len(records) > _FEW_RECORDS or (
            len(records) > 1 and any(type(one) is InsertBatch for one in records[-2:])
        )

    def encode_some(self) -> bool:
        """A step of encoding the records; whether there is more. RecordError as ``encode_records``."""
        records, at = self.records, self.encoded_count
        some = records[at : at + _ENCODED_AT_ONCE]
        batches = (nth for nth, record in enumerate(some) if type(record) is InsertBatch)
        some = some[: max(next(batches, len(some)), 1)]  # one of those at a time
        self.encoded.append(encode_records(some))
        self.encoded_count += len(some)
        return self.encoded_count < len(records)

    def forget_some(self) -> bool:
        """A step of letting go of what nobody needs after the transaction; whether there is more."""
        for held in (self._changes, self.records, self.encoded):
            del held[-_FORGOTTEN_AT_ONCE:]
        return bool(self._changes or self.records or self.encoded)

    def frozen_layer(self) -> Layer:
        """The own layer as it is now, which later writes do not change."""
        if self._frozen[0] != self._writes:
            self._frozen = (self._writes, {db: delta.copy() for db, delta in self.layer.items()})
        return self._frozen[1]
