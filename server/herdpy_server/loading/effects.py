"""What the rows of a load do to its table, some rows at a time. Above ``rows``; in the engine's turn.

Where the load is logged by the ledgers that its rows stand in, what is logged of the rows is whether their
keys were there when their turn came. Else each row is logged, as statements would.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from herdpy.log.records import Delete, Insert, InsertBatch, LoadOp, Update
from herdpy_server.loading.rows import KeptRows
from herdpy_server.store.batches import Expanded, to_stream
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.store import Workspace
    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.references import ReferenceView
    from herdpy_sql.storage import View

Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Effects:
    """Writes into one transaction's view.

    Attributes:
        inserted, updated, deleted, skipped: rows so far.

    Args:
        logs_rows: what each row does is to be logged.
        noting: is told of every row that foreign keys may be about; None where none are.
    """

    def __init__(
        self,
        view: Workspace,
        table: Table,
        op: LoadOp,
        *,
        logs_rows: bool,
        noting: ReferenceView | None = None,
    ) -> None:
        self._view = view
        self._noting = noting
        self._writing: View = view if noting is None else cast("View", noting)
        self._table = table
        self._op = op
        self._logs_rows = logs_rows
        self._row_by_row = bool(table.indexes) or table.identity_full or noting is not None
        self._present: list[Mask] = []
        self._first = 0
        self.inserted = self.updated = self.deleted = self.skipped = 0
        self._do = {
            LoadOp.INSERT: self._insert,
            LoadOp.UPSERT: self._upsert_each if self._row_by_row else self._upsert,
            LoadOp.IGNORE: self._ignore,
            LoadOp.DELETE: self._delete_each if self._row_by_row else self._delete,
        }[op]

    def take(self, rows: KeptRows, first: int = 0) -> None:
        """Do what these rows do; ``first``: the first one's number in the load, from 0.

        Raises:
            MustWait: a row is locked. What was done is to be undone, to the mark before, and done again.
            SqlError: 23505; the row's number among these, from 0, is in the field ``nth``.
        """
        mark = self._view.mark()
        self._first = first
        present = self._do(rows)
        if not self._logs_rows:
            self._view.unlog(mark)
        there, count = int(present.sum()), len(present)
        match self._op:
            case LoadOp.INSERT:
                self.inserted += count
                return
            case LoadOp.UPSERT:
                self.updated, self.inserted = self.updated + there, self.inserted + count - there
            case LoadOp.IGNORE:
                self.skipped, self.inserted = self.skipped + there, self.inserted + count - there
            case LoadOp.DELETE:
                self.deleted, self.skipped = self.deleted + there, self.skipped + count - there
        self._present.append(present)

    def present_bits(self) -> bytes:
        """Of all rows, as a LoadBatch has them."""
        if not self._present:
            return b""
        return np.packbits(np.concatenate(self._present), bitorder="little").tobytes().rstrip(b"\0")

    # Each returns whether the rows' keys were there.

    def _insert(self, rows: KeptRows) -> Mask:
        assert rows.batch is not None
        view, expanded = self._view, rows.expanded
        view.add_batch(self._table, expanded)
        if self._logs_rows:
            count = len(expanded.keys)
            view.records.append(InsertBatch(self._table.id, to_stream(rows.batch), count, expanded))
        if self._noting is not None:
            self._noting.added(self._table, rows.batch, self._first)
        return np.zeros(len(expanded.keys), np.bool_)

    def _there(self, keys: Collection[bytes]) -> set[bytes]:
        """Those of the keys that are there, and stay until somebody here changes that."""
        self._view.lock_many(self._table.id, dict.fromkeys(keys))
        return self._view.existing(self._table.id, keys)

    def _upsert(self, rows: KeptRows) -> Mask:
        table_id = self._table.id
        keys, images = rows.expanded
        there = self._there(keys)
        present = _seen(keys, there, there.add)
        self._view.put_many(self._table, dict(zip(keys, images, strict=True)))
        if self._logs_rows:
            self._view.records += [
                Update(table_id, None, key, image) if was else Insert(table_id, key, image)
                for key, image, was in zip(keys, images, present, strict=True)
            ]
        return present

    def _upsert_each(self, rows: KeptRows) -> Mask:
        view, table, decode = self._writing, self._table, self._view.ops(self._table).decode

        def upsert(at: int) -> bool:
            before = view.get(table, rows.expanded.keys[at])
            values = decode(rows.expanded.images[at])
            if before is None:
                view.insert(table, values)
            else:
                view.update(table, rows.expanded.keys[at], before, values)
            return before is not None

        return self._each(rows, upsert)

    def _ignore(self, rows: KeptRows) -> Mask:
        keys, images = rows.expanded
        there = self._there(keys)
        present = _seen(keys, there, there.add)
        fresh = [at for at, was in enumerate(present) if not was]
        added = Expanded([keys[at] for at in fresh], [images[at] for at in fresh])
        try:
            self._view.add_batch(self._table, added)
        except SqlError as error:
            error.fields["nth"] = str(fresh[int(error.fields["nth"])])
            raise
        if self._logs_rows:
            table_id = self._table.id
            self._view.records += [Insert(table_id, *row) for row in zip(*added, strict=True)]
        if self._noting is not None and rows.batch is not None and fresh:
            for at in fresh:
                self._noting.added(self._table, rows.batch.slice(at, 1), self._first + at)
        return present

    def _delete(self, rows: KeptRows) -> Mask:
        keys = rows.expanded.keys
        there = self._there(keys)
        gone: dict[bytes, bytes | None] = dict.fromkeys(key for key in keys if key in there)
        present = _seen(keys, there, there.discard)
        self._view.put_many(self._table, gone)
        if self._logs_rows:
            self._view.records += [Delete(self._table.id, key) for key in gone]
        return present

    def _delete_each(self, rows: KeptRows) -> Mask:
        view, table = self._writing, self._table

        def delete(at: int) -> bool:
            key = rows.expanded.keys[at]
            image = view.get(table, key)
            if image is not None:
                view.delete(table, key, image)
            return image is not None

        return self._each(rows, delete)

    def _each(self, rows: KeptRows, do: Callable[[int], bool]) -> Mask:
        """Row after row, where a row's image before is needed: for index entries, or for the log."""
        keys = rows.expanded.keys
        self._view.lock_many(self._table.id, dict.fromkeys(keys))  # before they are looked at
        present = np.zeros(len(keys), np.bool_)
        for at in range(len(keys)):
            if self._noting is not None:
                self._noting.nth = self._first + at
            try:
                present[at] = do(at)
            except SqlError as error:
                error.fields["nth"] = str(at)
                raise
        return present


def _seen(keys: list[bytes], there: set[bytes], after: Callable[[bytes], None]) -> Mask:
    """Whether each key is in ``there`` when its turn comes; ``after`` it, the set is changed so."""
    present = np.zeros(len(keys), np.bool_)
    for at, key in enumerate(keys):
        present[at] = key in there
        after(key)
    return present
