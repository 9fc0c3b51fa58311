"""Store layer, top: one state of the store, read by any thread while others write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from herdpy.log.lsn import LSN, START
from herdpy_server.store.disk_view import DiskView
from herdpy_server.store.layers import Chain, Item, Layer, Missing, find, overlay, showing
from herdpy_server.store.pages import PageTree
from herdpy_server.store.routing import holder
from herdpy_server.store.tables import TableOps
from herdpy_sql.catalog import Catalog, Index, Table

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnSource(Protocol):
    """What gives a snapshot the columns of tables: ``columns.ColumnCache``, shared by snapshots.

    Attributes:
        flushes: the number of flushes that it has been notified of.
    """

    flushes: int

    def arrow(
        self,
        snapshot: StoreSnapshot,
        table: Table,
        positions: Sequence[int],
        low: bytes | None,
        high: bytes | None,
    ) -> pa.Table:
        """The columns of the rows with keys in the range, as a snapshot has them."""


class StoreSnapshot:
    """What a workspace (or everybody) saw at one moment. For one thread at a time.

    Attributes:
        catalog: the definitions at that moment.
        sequence: how many entries of the log had been applied.
        flushes: how many flushes its chains and LMDB take account of.
        durable: its chains have everything after this position; any state of LMDB from there on, up to what
            they have, may lie under them.
        until: the position up to which they have it, where the snapshot may be of long ago; None: the newest.
    """

    def __init__(
        self,
        disk: DiskView,
        applied: Mapping[int, Chain],
        pending: Mapping[int, Chain],
        own: Layer,
        catalog: Catalog,
        sequence: int,
        columns: ColumnSource,
        durable: LSN = START,
        until: LSN | None = None,
    ) -> None:
        self.catalog = catalog
        self.sequence = sequence
        self.flushes = columns.flushes
        self.durable = durable
        self.until = until
        self._disk: DiskView | None = disk
        self._applied = applied
        self._pending = pending
        self._own = own
        self._columns = columns
        self._ops: dict[int, TableOps] = {}

    def with_own(self, own: Layer, catalog: Catalog) -> StoreSnapshot:
        """The same state with other changes of the transaction over it; closed on its own."""
        twin = StoreSnapshot(
            self.disk,
            self._applied,
            self._pending,
            own,
            catalog,
            self.sequence,
            self._columns,
            self.durable,
            self.until,
        )
        twin.flushes = self.flushes
        return twin

    @property
    def disk(self) -> DiskView:
        """What lies under the chains; ValueError once the snapshot was closed."""
        if self._disk is None:
            raise ValueError("the snapshot was closed")
        return self._disk

    def applied_chain(self, db: int) -> Chain:
        """The applied deltas over LMDB, newest first."""
        return self._applied.get(db, ())

    def unapplied_chain(self, db: int) -> Chain:
        """The deltas over the applied ones: the workspace's own, then pending ones."""
        pending = self._pending.get(db, ())
        own = self._own.get(db)
        return pending if own is None else (own, *pending)

    def applied_and_pending(self, db: int) -> Chain:
        """All deltas over LMDB but the own one, newest first."""
        return self._pending.get(db, ()) + self._applied.get(db, ())

    def chain(self, db: int) -> Chain:
        """The deltas over LMDB, newest first."""
        return self.unapplied_chain(db) + self.applied_chain(db)

    def hides_applied(self, db: int) -> bool:
        """Whether nothing of the applied state shows."""
        return any(delta.cleared for delta in self.unapplied_chain(db))

    def ops(self, table: Table) -> TableOps:
        """How rows of ``table`` are kept."""
        ops = self._ops.get(table.id)
        if ops is None or ops.table is not table:
            ops = self._ops[table.id] = TableOps(table)
        return ops

    def get(self, table: Table, key: bytes) -> bytes | None:
        """The row image under ``key``, or None."""
        if table.partition_key is not None:
            found = holder(self.catalog, table, key)
            return None if found is None else self.get(found, key)
        value = find(self.chain(table.id), key)
        return self.disk.get(table.id, key) if isinstance(value, Missing) else value

    def scan(
        self, table: Table, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Item]:
        """Pairs of key and row image, in key order."""
        return self._scan(self.chain(table.id), table.id, low, high, reverse, self.ops(table).may_be_long)

    def keys(self, table: Table, low: bytes | None = None, high: bytes | None = None) -> Iterator[bytes]:
        """The keys of :meth:`scan`. Of rows that are all in LMDB they cost a third."""
        if high is None and self._is_plain(table):
            return self.disk.keys(table.id, low)
        return (key for key, _ in self.scan(table, low, high))

    def images(
        self, table: Table, low: bytes | None = None, high: bytes | None = None, count: int | None = None
    ) -> Iterator[bytes]:
        """The row images of :meth:`scan`. Of rows that are all in LMDB they cost half.

        Args:
            count: how many there are, where that is known: then nobody looks for ``high``.
        """
        if (high is None or count is not None) and self._is_plain(table):
            return islice(self.disk.values(table.id, low), count)
        return (image for _, image in self.scan(table, low, high))

    def tree(self, table: Table) -> PageTree | None:
        """LMDB's tree of a table's rows, by their keys; None where it is not all, or cannot be read."""
        return self.disk.tree(table.id) if self._is_plain(table) else None

    def _is_plain(self, table: Table) -> bool:
        """Whether all rows are in LMDB, under their own keys."""
        return not self.chain(table.id) and not self.ops(table).may_be_long

    def applied_scan(self, table: Table) -> Iterator[Item]:
        """All rows of the applied state, in key order."""
        chain = self.applied_chain(table.id)
        return self._scan(chain, table.id, None, None, False, self.ops(table).may_be_long)

    def disk_scan(self, table: Table) -> Iterator[Item]:
        """All rows in LMDB, in key order."""
        return self._scan((), table.id, None, None, False, self.ops(table).may_be_long)

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
        may_be_long = self.ops(table).index(index.id).may_be_long
        return self._scan(self.chain(index.id), index.id, low, high, reverse, may_be_long)

    def _scan(
        self, chain: Chain, db: int, low: bytes | None, high: bytes | None, reverse: bool, may_be_long: bool
    ) -> Iterator[Item]:
        deltas, through = showing(chain)
        under: Iterator[Item] = iter(())
        if through:
            under = self.disk.scan(db, low, high, reverse=reverse, may_be_long=may_be_long)
        return overlay(deltas, under, low, high, reverse) if deltas else under

    def arrow(
        self,
        table: Table,
        positions: Sequence[int],
        low: bytes | None = None,
        high: bytes | None = None,
    ) -> pa.Table:
        """These columns of the rows with keys in the range, named by their column names."""
        return self._columns.arrow(self, table, positions, low, high)

    def close(self) -> None:
        """Let go of the state; scans that are under way keep it until they end."""
        self._disk = None
        self._applied = {}
        self._pending = {}
        self._own = {}
