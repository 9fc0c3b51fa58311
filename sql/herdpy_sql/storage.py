"""The storage protocol: all that a plan may ask of the world while it runs.

Plans run against a :class:`View`: committed rows, then changes logged but not yet applied, then
the transaction's own. Reading and writing are synchronous and never block: where a row is locked by
another transaction the view raises :class:`MustWait`, the statement is undone, and the session runs
it again once the lock is free. The store implements this; tests may with a dict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Catalog, Index, Table


class MustWait(Exception):  # noqa: N818 - a signal to the session, not an error
    """The statement needs a lock that another transaction holds; nothing of it has happened.

    ``wait`` is what to await before running it again (a herdpy.log Wait, opaque here).
    """

    def __init__(self, wait: object) -> None:
        super().__init__("lock held by another transaction")
        self.wait = wait


class Clock(NamedTuple):
    """The time that a statement may see, evaluated once by the leader and passed in.

    Both are TIMESTAMPTZ datums: microseconds since 1970-01-01 00:00 UTC. ``zone`` is the session's
    time zone by its IANA name.
    """

    transaction_us: int
    statement_us: int
    zone: str = "UTC"


class Reader(Protocol):
    """Rows and index entries in key order. Bounds: ``low`` inclusive, ``high`` exclusive, None open."""

    def get(self, table: Table, key: bytes) -> bytes | None:
        """The row image under ``key``, or None."""

    def scan(
        self, table: Table, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Pairs of key and row image, in key order."""

    def index_scan(
        self,
        table: Table,
        index: Index,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Pairs of index key and row key, in index order."""


class Snapshot(Reader, Protocol):
    """A view that stays as it is while others write; may be read from another thread. Close it."""

    def arrow(
        self,
        table: Table,
        positions: Sequence[int],
        low: bytes | None = None,
        high: bytes | None = None,
    ) -> pa.Table:
        """These columns of the rows with keys in the range, named by their column names.

        Types are those of ``herdpy.codec.arrow.arrow_type``. The order of rows is not promised.
        """

    def close(self) -> None:
        """Give back what the snapshot holds."""


class View(Reader, Protocol):
    """What one statement of a transaction reads and writes.

    Writes take the locks they need (MustWait when another transaction has one), maintain indexes,
    and raise SqlError 23505 naming the constraint when a key or unique index entry exists already.
    They are visible to later reads of the same view at once. NOT NULL, CHECK and coercion are the
    plan's business and come before.
    """

    @property
    def catalog(self) -> Catalog:
        """The catalog that this statement sees."""

    def lock_row(self, table: Table, key: bytes) -> None:
        """Make sure no other transaction writes the row under ``key`` until this one ends."""

    def lock_rows(self, table: Table, keys: Collection[bytes]) -> None:
        """As :meth:`lock_row` for many keys, all of them or none."""

    def insert(self, table: Table, values: Sequence[Datum]) -> None:
        """Add a row: a datum for every physical column of ``table`` (None for dropped ones)."""

    def insert_many(self, table: Table, rows: Iterable[Sequence[Datum]]) -> int:
        """Add rows, as :meth:`insert` does, faster; returns how many."""

    def insert_batch(self, table: Table, batch: pa.RecordBatch) -> int:
        """Add the rows of an Arrow batch that has every physical column, checked already."""

    def update(self, table: Table, key: bytes, image: bytes, values: Sequence[Datum]) -> None:
        """Replace the row ``image`` under ``key`` by ``values``; the key may change with them."""

    def delete(self, table: Table, key: bytes, image: bytes) -> None:
        """Remove the row ``image`` under ``key``."""

    def next_row_id(self, table: Table) -> int:
        """A fresh value for the hidden key."""

    def truncate(self, table: Table) -> None:
        """Remove every row."""

    def create_table(self, table: Table) -> None:
        """Define ``table`` (its id from ``catalog.next_id``)."""

    def drop_table(self, table: Table) -> None:
        """Remove ``table``, its rows and its indexes."""

    def alter_table(self, table: Table, changed: Table) -> None:
        """Give ``table`` another definition; name, columns, key and indexes stay as they are."""

    def create_index(self, table: Table, index: Index) -> None:
        """Define ``index`` and fill it from the rows; SqlError 23505 when they are not unique."""

    def create_index_slowly(self, table: Table, index: Index) -> Iterator[None]:
        """As :meth:`create_index`, in steps of few rows. Its locks keep other writers away in between."""

    def drop_index(self, table: Table, index: Index) -> None:
        """Remove ``index``."""

    def snapshot(self) -> Snapshot:
        """What this view sees now, held fast."""
