"""The storage protocol: all that a plan may ask of the world while it runs.

Plans run against a :class:`View`: committed rows, then changes logged but not yet applied, then
the transaction's own. Reading and writing are synchronous and never block: where a row is locked by
another transaction the view raises :class:`MustWait`, the statement is undone, and the session runs
it again once the lock is free. The store implements this; tests may with a dict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from herdpy_sql.lock_modes import ACCESS_EXCLUSIVE, UPDATE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_sql.catalog import Catalog, Index, Table
    from herdpy_sql.deferred import Deferred
    from herdpy_sql.objects import CatalogObject
    from herdpy_sql.sequences import SequenceState

BATCH_ROWS, BATCH_BYTES = 8192, 16 << 20
"""Whoever inserts batches makes none larger than this, but for one of a single row: it is one record of the
log, and one step of a turn."""

Rows = TypeVar("Rows", "pa.RecordBatch", "pa.Table")


def parts_of(rows: Rows, most: int | None = None) -> Iterator[Rows]:
    """The rows in slices, in order: of up to ``most``, and so many as one batch may be."""
    step = BATCH_ROWS if most is None else most
    for start in range(0, rows.num_rows, step):
        yield from _halves(rows.slice(start, step))


def _halves(part: Rows) -> Iterator[Rows]:
    if part.num_rows < 2 or part.nbytes <= BATCH_BYTES:
        yield part
        return
    half = part.num_rows // 2
    yield from _halves(part.slice(0, half))
    yield from _halves(part.slice(half))


class MustWait(Exception):  # noqa: N818 - a signal to the session, not an error
    """The statement needs a lock that another transaction holds; nothing of it has happened.

    ``wait`` is what to await before running it again (a herdpy.log Wait, opaque here).
    """

    def __init__(self, wait: object) -> None:
        super().__init__("lock held by another transaction")
        self.wait = wait


class Reader(Protocol):
    """Rows and index entries in key order. Bounds: ``low`` inclusive, ``high`` exclusive, None open.

    A partitioned table's row is found by its key in the partition that has it; scans are of one table alone.
    """

    @property
    def catalog(self) -> Catalog:
        """The catalog that is seen here."""

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

    Attributes:
        deferred: checks that the transaction has put off; None as long as there never was one.
        watch: asked now and then in long loops; raises when the statement shall end.
    """

    deferred: Deferred | None
    watch: Callable[[], None] | None

    @property
    def catalog(self) -> Catalog:
        """The catalog that this statement sees."""

    @property
    def next_id(self) -> int:
        """The first id from which on nothing has one, not even what others are about to define."""

    @property
    def newest(self) -> Reader:
        """All that is committed by now, with the own changes, whatever snapshot the transaction stands on."""

    def lock_row(self, table: Table, key: bytes, mode: int = UPDATE) -> None:
        """Keep others from the row under ``key`` until this transaction ends, as far as ``mode`` does.

        Modes are those of rows in ``herdpy_sql.lock_modes``; UPDATE: nobody else locks or writes it.
        """

    def try_lock_row(self, table: Table, key: bytes, mode: int = UPDATE) -> bool:
        """As :meth:`lock_row`; False where that would have to wait for another transaction."""

    def lock_table(self, table: Table, mode: int = ACCESS_EXCLUSIVE, *, wait: bool = True) -> bool:
        """Lock a whole table in one of its modes; False where others are in the way, unless ``wait``."""

    def lock_rows(self, table: Table, keys: Collection[bytes]) -> None:
        """As :meth:`lock_row` for many keys, all of them or none."""

    def lock_many(self, db: int, keys: Collection[bytes]) -> None:
        """As :meth:`lock_rows`, for the keys of any database: the entries of an index, by its id."""

    def existing(self, db: int, keys: Collection[bytes]) -> set[bytes]:
        """Those of the ``keys`` of a database that are visible."""

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

    def next_row_ids(self, table: Table, count: int) -> int:
        """The first of so many fresh values for the hidden key, which follow one another."""

    def truncate(self, table: Table) -> None:
        """Remove every row."""

    def create_table(self, table: Table) -> None:
        """Define ``table`` (its id from :attr:`next_id`)."""

    def drop_table(self, table: Table) -> None:
        """Remove ``table``, its rows and its indexes."""

    def lock_definition(self, table: Table) -> None:
        """Keep others from writing to ``table`` and from defining it anew, until the transaction ends."""

    def alter_table(self, table: Table, changed: Table) -> None:
        """Give ``table`` another definition: the same id and indexes of the same ids.

        Its rows must be ones of the new definition, too, or be none.
        """

    def create_index(self, table: Table, index: Index) -> None:
        """Define ``index`` and fill it from the rows; SqlError 23505 when they are not unique."""

    def create_index_slowly(self, table: Table, index: Index) -> Iterator[None]:
        """As :meth:`create_index`, in steps of few rows. Its locks keep other writers away in between."""

    def create_index_online(self, table: Table, index: Index) -> Iterator[MustWait | None]:
        """As :meth:`create_index_slowly`, but others may write to the table in between.

        Its locks it takes at the end; it gives what must be waited for then.
        """

    def drop_index(self, table: Table, index: Index) -> None:
        """Remove ``index``."""

    def put_object(self, one: CatalogObject) -> None:
        """Define an object that is no table (a new id from :attr:`next_id`), or change it."""

    def drop_object(self, one: CatalogObject) -> None:
        """Remove an object that is there."""

    def sequence_state(self, one: CatalogObject) -> SequenceState:
        """How far a sequence has come."""

    def restart_sequence(self, one: CatalogObject, state: SequenceState) -> None:
        """Give a sequence a state as part of the transaction: others see it, or not, with the commit."""

    def snapshot(self) -> Snapshot:
        """What this view sees now, which later writes do not change."""
