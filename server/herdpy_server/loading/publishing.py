"""Publishing a load: its rows become the table's by one transaction, or nothing happens.

Above ``rows``. In this order: nobody else is busy with the load's id; it was not published before; the rows
are read, looked at and put into a transaction's view, some at a time (:class:`Pace`), so that others have
their turn in between; the transaction is committed with a word that this load is done, which is what is
remembered of it.

Where the rows stand in ledgers, the log names those and says of each row whether its key was there when its
turn came. A table that keeps images of before in the log has its rows logged one by one, as statements would,
and so has a log without such ledgers, and a load whose columns are not all staged (``plan_load``): what
DEFAULT gives each row is only known here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from herdpy.log import LogError
from herdpy.log.records import Delete, Insert, InsertBatch, LoadBatch, LoadDone, LoadOp, StagedPart, Update
from herdpy.log.wait import Pause
from herdpy_server.loading.load import LoadMode
from herdpy_server.loading.rows import KeptRows, RowMaker
from herdpy_server.store.batches import Expanded, to_stream
from herdpy_server.tablespace import sql_error
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.references import check_children, lock_children
from herdpy_sql.plan.rules import TOOLS, noting
from herdpy_sql.storage import MustWait

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.loading.load import BulkLoad
    from herdpy_server.loading.rows import StagedBatch, StagedRowsSource
    from herdpy_server.sessions import Session
    from herdpy_server.store import Workspace
    from herdpy_server.store.loads import LoadOutcome
    from herdpy_server.tablespace import Transaction
    from herdpy_sql.catalog import Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.references import ReferenceView
    from herdpy_sql.storage import View


FIRST_ROWS, LEAST_ROWS, MOST_ROWS = 256, 32, 8192
_LONG_S, _SHORT_S = 0.003, 0.001
Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Pace:
    """Follows the time that the last rows took.

    Attributes:
        rows: to be taken next.
    """

    def __init__(self) -> None:
        self.rows = FIRST_ROWS

    def took(self, seconds: float) -> None:
        """The last rows took so long: fewer or more, until they take one to three milliseconds."""
        if seconds > _LONG_S:
            self.rows = max(self.rows // 2, LEAST_ROWS)
        elif seconds < _SHORT_S:
            self.rows = min(self.rows * 2, MOST_ROWS)


class Keeping(NamedTuple):
    """What an upsert does not change in rows that are there: the columns that its rows lack.

    Attributes:
        positions: of these columns.
        clock: for CHECK and generated columns of the row that comes of it.
    """

    positions: Sequence[int]
    clock: Clock

    def kept(self, table: Table, row: Sequence[Datum], before: Sequence[Datum]) -> list[Datum]:
        """A row that takes the place of another one. SqlError 23502, 23514."""
        whole = list(row)
        for at in self.positions:
            whole[at] = before[at]
        TOOLS.complete(table, whole, self.clock)
        return whole


class Effects:
    """Writes into one transaction's view.

    Attributes:
        inserted, updated, deleted, skipped: rows so far.

    Args:
        logs_rows: what each row does is to be logged.
        noting: gets every row that foreign keys may be about; None where none are.
        keeps: what rows that are there keep of an upsert; None: nothing.
    """

    def __init__(
        self,
        view: Workspace,
        table: Table,
        op: LoadOp,
        *,
        logs_rows: bool,
        noting: ReferenceView | None = None,
        keeps: Keeping | None = None,
    ) -> None:
        self._view = view
        self._noting = noting
        self._writing: View = view if noting is None else cast("View", noting)
        self._table = table
        self._op = op
        self._logs_rows = logs_rows
        self._keeps = keeps
        self._row_by_row = (
            bool(table.indexes) or table.identity_full or noting is not None or keeps is not None
        )
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
            values: Sequence[Datum] = decode(rows.expanded.images[at])
            if before is None:
                view.insert(table, values)
                return False
            if self._keeps is not None:
                values = self._keeps.kept(table, values, decode(before))
            view.update(table, rows.expanded.keys[at], before, values)
            return True

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


class Publishing:
    """One load on its way into its table.

    Attributes:
        rows: how many were looked at so far.

    Args:
        session: of its own; it is of no use for anything else.
        source: the rows; closed when :meth:`run` returns.
        ledgers: where the rows stand, in the order of ``source``; None where they cannot be named in the log.
    """

    def __init__(
        self,
        session: Session,
        load: BulkLoad,
        source: StagedRowsSource,
        ledgers: Sequence[StagedPart] | None = None,
    ) -> None:
        self.load = load
        self.rows = 0
        self._session = session
        self._source = source
        self._ledgers = ledgers
        self._pace = Pace()

    @property
    def total_rows(self) -> int:
        """How many rows there are, as far as that is known."""
        return self._source.rows or self.rows

    async def run(self) -> LoadOutcome:
        """Publish, or tell what the load came to when it was published before.

        Raises:
            SqlError: nothing was added: 22..., 23... a row does not fit (the field ``where`` says which);
                42P01, 42P10, 42804, 55000 table and rows do not fit together; 25006 another node leads;
                54000 it is too large; 53..., 57P0. Or 08007: it may have been published, a repetition tells.
        """
        session = self._session
        session.begins(f"publish load {self.load.id} into {self.load.table}")
        session.checks.take_basis()
        try:
            async with session.tablespace.load_turns.turn(self.load.id, session.waits.until):
                known = session.tablespace.store.load(self.load.id)
                if known is None:
                    known = await self._published()
            return known
        finally:
            session.is_running = False
            await self._source.close()
            await session.close()

    async def _published(self) -> LoadOutcome:
        """Publish, and see that meanwhile nobody takes the ledgers for left over."""
        busy = self._session.tablespace.load_turns.ledgers
        own = {part.ledger_id for part in self._ledgers or ()}
        busy |= own
        try:
            return await self._publish()
        finally:
            busy -= own

    async def _publish(self) -> LoadOutcome:
        session = self._session
        session.check_writable("a load")
        await session.waits.room()
        session.begin()
        transaction = session.transaction
        assert transaction is not None
        transaction.workspace.watch = session.waits.check
        try:
            await self._fill(transaction)
        except BaseException as error:
            await session.rollback()
            if isinstance(error, LogError):
                raise sql_error(error) from error
            await session.checks.confirm(error, transaction.workspace)
            raise
        await session.commit()
        done = session.tablespace.store.load(self.load.id)
        assert done is not None
        return done

    async def _fill(self, transaction: Transaction) -> None:
        view, load = transaction.workspace, self.load
        table = load.find(view.catalog)
        names_ledgers = self._ledgers is not None and not table.identity_full
        if load.mode.op in {LoadOp.UPSERT, LoadOp.DELETE} and table.id in view.catalog.referencing:
            names_ledgers = False  # what others' rows go through comes between: the log has the order
        clock = transaction.clock(self._session.settings.style)
        maker = RowMaker(table, load.mode, clock)
        noted = noting(view, table)
        settle = None if noted is None else partial(_settle, noted, clock)
        if load.mode is LoadMode.OVERWRITE:
            await self._locked(transaction, lambda: lock_children(view, table))
            await self._locked(transaction, lambda: view.truncate(table))
        staged = await self._source.next()
        if staged is not None:
            maker.check_schema(staged.batch.schema)
        names_ledgers = names_ledgers and not maker.left_out
        keeps = Keeping(maker.left_out, clock) if maker.left_out and load.mode.op is LoadOp.UPSERT else None
        effects = Effects(view, table, load.mode.op, logs_rows=not names_ledgers, noting=noted, keeps=keeps)
        first_row_id, total = -1, self._source.rows
        if table.has_hidden_key and total is not None:
            first_row_id = view.next_row_ids(table, total)
        while staged is not None:
            maker.check_schema(staged.batch.schema)
            await self._take(transaction, staged, table, maker, effects, first_row_id, settle)
            staged = await self._source.next()
        if total is not None and self.rows != total:
            raise SqlError("22023", f"{self.rows} rows are staged, and {total} were announced")
        if settle is not None:
            await self._locked(transaction, partial(settle, within=False))
        if load.mode is LoadMode.OVERWRITE:
            for _ in check_children(view, table):
                self._session.waits.check()
                await Pause()
        if names_ledgers and total:
            view.records.append(
                LoadBatch(
                    table.id, load.mode.op, first_row_id, tuple(self._ledgers or ()), effects.present_bits()
                )
            )
        view.records.append(
            LoadDone(load.id, table.id, effects.inserted, effects.updated, effects.deleted, effects.skipped)
        )

    async def _take(
        self,
        transaction: Transaction,
        staged: StagedBatch,
        table: Table,
        maker: RowMaker,
        effects: Effects,
        first_row_id: int,
        settle: Callable[..., None] | None,
    ) -> None:
        batch, at, pace = staged.batch, 0, self._pace
        while at < batch.num_rows:
            self._session.waits.check()
            some = batch.slice(at, pace.rows)
            began = perf_counter()
            try:
                if table.has_hidden_key and self._source.rows is None:
                    row_id = transaction.workspace.next_row_ids(table, some.num_rows)
                else:
                    row_id = first_row_id + self.rows
                kept = maker.make(some, self.rows, row_id)
                await self._locked(transaction, lambda kept=kept: effects.take(kept, self.rows))  # type: ignore[misc]
                if settle is not None:
                    await self._locked(transaction, partial(settle, within=True))
            except SqlError as error:
                raise self._located(error, staged, at) from error.__cause__
            pace.took(perf_counter() - began)
            at += some.num_rows
            self.rows += some.num_rows
            await Pause()

    async def _locked(self, transaction: Transaction, write: Callable[[], None]) -> None:
        """Write, again and again until no lock has to be waited for."""
        view = transaction.workspace
        mark = view.mark()
        while True:
            try:
                write()
            except MustWait as conflict:
                view.undo(mark)
                await self._session.waits.for_lock(transaction, conflict)
            else:
                return

    def _located(self, error: SqlError, staged: StagedBatch, at: int) -> SqlError:
        """With the row that it is about, as people count it, if it is about one."""
        fields = error.fields
        if (nth := fields.pop("nth", None)) is not None:
            fields["row"] = str(self.rows + int(nth) + 1)
        if "row" in fields:
            row = int(fields["row"])
            fields["where"] = f"row {row} of the load"
            if staged.part:
                fields["part"] = str(staged.part)
                in_part = staged.first + at + row - self.rows
                fields["where"] += f": row {in_part} of part {staged.part}"
        return error


def _settle(noted: ReferenceView, clock: Clock, *, within: bool) -> None:
    """Check and do what foreign keys ask for; an error has its row's number in the load, from 1."""
    try:
        noted.settle(clock, within=within)
    except SqlError as error:
        nth = error.fields.pop("nth", None)
        if nth is not None:
            error.fields["row"] = str(int(nth) + 1)
            error.fields["where"] = f"row {int(nth) + 1} of the load"
        raise
