"""Store layer, inside: what one transaction reads.

Its own changes (``changes``) come first, then what is visible to everyone: pending transactions,
the memtable, LMDB. What it read of pending ones is remembered, because an answer must wait for
them. Scans are lazy: finish one before writing to the table it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from herdpy_server.store.changes import WATCHED, Changes
from herdpy_server.store.layers import MISSING, Chain, Item, Missing, overlay, showing
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Catalog, Index, Table
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.store.store import Store
    from herdpy_sql.storage import Reader


def watched(items: Iterator[Item], watch: Callable[[], None]) -> Iterator[Item]:
    """``items``, with ``watch`` called now and then."""
    for count, item in enumerate(items):
        if not count & WATCHED:
            watch()
        yield item


class Reading(Changes):
    """A transaction's view.

    Attributes:
        read_position: the highest token of a pending transaction it has read from: answer nobody
            before that one is durable. 0 when there is none.
        losses: how often pending transactions had been dropped when all that it had read was known
            to be durable.
    """

    def __init__(self, store: Store) -> None:
        Changes.__init__(self)
        self._store = store
        self._visible = store.memory
        self.read_position = 0
        self.losses = store.memory.losses

    @property
    def catalog(self) -> Catalog:
        """Everybody's catalog, with what the transaction has defined itself."""
        catalog, token = self._store.visible_catalog
        self.read_position = max(self.read_position, token)
        if self._catalog is None:
            return catalog
        if self._base is not catalog and self._catalog is not catalog:  # and it was not pushed
            with suppress(KeyError):  # they are about what another leader dropped: the commit is refused
                self._rebase(catalog)
        return self._catalog

    def _rebase(self, base: Catalog) -> None:
        """Others have defined something since: put the own definitions over that."""
        catalog = base
        for change in self._definitions:
            catalog = change(catalog)
        self._catalog, self._base, self._ops = catalog, base, {}

    @property
    def own_catalog(self) -> Catalog | None:
        """The catalog to push with the layer; None when the transaction defined nothing.

        Raises:
            SqlError: 40001, what it has defined something about is not there any more; 53400, there would be
                more tables and indexes than there may be.
        """
        newest = self._store.visible_catalog[0]
        if self._catalog is None:
            return None
        if self._base is not newest:
            try:
                self._rebase(newest)
            except KeyError as error:
                raise SqlError("40001", "the catalog was changed concurrently") from error
        catalog = self._catalog
        if self._store.databases(catalog) > self._store.databases(newest):
            self._store.check_databases(catalog)
        return catalog

    @property
    def next_id(self) -> int:
        """See ``View``."""
        return max(self._store.visible_catalog[0].next_id, self._store.id_head)

    @property
    def rests_on_loss(self) -> bool:
        """Whether it may have read a pending transaction that was dropped since."""
        memory = self._store.memory
        if self.losses == memory.losses:
            return False
        first = memory.lost_since(self.losses)
        return first is not None and self.read_position >= first

    def verified(self) -> None:
        """All that it has read so far is durable: losses to come do not touch it."""
        self.losses = self._store.memory.losses

    @property
    def newest(self) -> Reader:
        """All that is committed by now, with the own changes: what a snapshot must not hide from a check."""
        return self

    def get(self, table: Table, key: bytes) -> bytes | None:
        """The row image under ``key``, or None."""
        return self._get(table.id, key)

    def _get(self, db: int, key: bytes) -> bytes | None:
        delta = self.layer.get(db)
        if delta is not None:
            value: bytes | Missing | None = delta.rows.get(key, MISSING)
            if value is not MISSING:
                return value  # type: ignore[return-value]
            if delta.cleared:
                return None
        chain = self._visible.visible.get(db)
        if chain is not None:
            for delta in chain:
                value = delta.rows.get(key, MISSING)
                if value is not MISSING:
                    self.read_position = max(self.read_position, delta.token)
                    return value  # type: ignore[return-value]
                if delta.cleared:
                    self.read_position = max(self.read_position, delta.token)
                    return None
        return self._store.disk.current.get(db, key)

    def _chain(self, db: int) -> Chain:
        """Every delta over LMDB, newest first, the own one included."""
        chain = self._visible.visible.get(db, ())
        if chain and chain[0].token > self.read_position:
            self.read_position = chain[0].token
        own = self.layer.get(db)
        return chain if own is None else (own, *chain)

    def _scan(
        self, db: int, low: bytes | None, high: bytes | None, reverse: bool, may_be_long: bool
    ) -> Iterator[Item]:
        found = self._scan_all(db, low, high, reverse, may_be_long)
        return found if self.watch is None else watched(found, self.watch)

    def _scan_all(
        self, db: int, low: bytes | None, high: bytes | None, reverse: bool, may_be_long: bool
    ) -> Iterator[Item]:
        chain = self._chain(db)
        disk = self._store.disk.current
        if not chain:
            return disk.scan(db, low, high, reverse=reverse, may_be_long=may_be_long)
        deltas, through = showing(chain)
        under: Iterator[Item] = iter(())
        if through:
            under = disk.scan(db, low, high, reverse=reverse, may_be_long=may_be_long)
        return overlay(deltas, under, low, high, reverse)

    def scan(
        self, table: Table, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Item]:
        """Pairs of key and row image, in key order."""
        return self._scan(table.id, low, high, reverse, self.ops(table).may_be_long)

    def index_scan(
        self,
        table: Table,
        index: Index,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[Item]:
        """Pairs of index key and row key, in index order."""
        return self._scan(index.id, low, high, reverse, self.ops(table).index(index.id).may_be_long)

    def ops(self, table: Table) -> TableOps:
        """How rows of ``table`` are kept.

        Raises:
            SqlError: 40001 when the definition is not the one in force (the plan is out of date).
        """
        known = self._store.table_ops if self._ops is None else self._ops
        ops = known.get(table.id)
        if ops is None or ops.table is not table:
            if self.catalog.tables.get(table.id) != table:
                raise SqlError("40001", f'the definition of table "{table.name}" was changed concurrently')
            ops = known[table.id] = TableOps(table)
        return ops

    def next_row_id(self, table: Table) -> int:
        """A fresh value for the hidden key."""
        return self.next_row_ids(table, 1)

    def next_row_ids(self, table: Table, count: int) -> int:
        """The first of so many fresh values for the hidden key, which follow one another."""
        ids = self._store.row_ids
        value = ids.get(table.id)
        if value is None:
            value = 1
            for key, _ in self._scan(table.id, None, None, True, self.ops(table).may_be_long):
                value = int(table.key_codec.decode(key)[0]) + 1  # type: ignore[arg-type]
                break
        ids[table.id] = value + count
        return value
