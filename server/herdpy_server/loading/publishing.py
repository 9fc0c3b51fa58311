"""Publishing a load: its rows become the table's by one transaction, or nothing happens.

Top of the package. In this order: nobody else is busy with the load's id; it was not published before; the
rows are read, looked at and put into a transaction's view, some at a time, so that others have their turn in
between; the transaction is committed with a word that this load is done, which is what is remembered of it.

Where the rows stand in ledgers, the log names those and says of each row whether its key was there. A table
that keeps images of before in the log has its rows logged one by one, and so has a log without such ledgers,
and a load whose columns are not all staged (``plan``): what DEFAULT gives each row is only known here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from herdpy.log import LogError
from herdpy.log.records import LoadBatch, LoadDone, LoadOp, StagedPart
from herdpy_server.loading.effects import Effects
from herdpy_server.loading.load import LoadMode
from herdpy_server.loading.pace import Pace
from herdpy_server.loading.rows import RowMaker
from herdpy_server.tablespace import sql_error
from herdpy_server.tablespace.work import Pause
from herdpy_sql.errors import SqlError
from herdpy_sql.plan.drop import truncated
from herdpy_sql.plan.foreign_keys import noting
from herdpy_sql.storage import MustWait

if TYPE_CHECKING:
    from herdpy_server.loading.load import BulkLoad
    from herdpy_server.loading.source import StagedBatch, StagedRowsSource
    from herdpy_server.sessions import Session
    from herdpy_server.store.loads import LoadOutcome
    from herdpy_server.tablespace import Transaction
    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.references import ReferenceView
    from herdpy_sql.storage import Clock


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
        clock = transaction.clock(self._session.settings.zone)
        maker = RowMaker(table, load.mode, clock)
        noted = noting(view, table)
        settle = None if noted is None else partial(_settle, noted, clock)
        if load.mode is LoadMode.OVERWRITE:
            truncated(view.catalog, (table,), cascade=False)
            await self._locked(transaction, lambda: view.truncate(table))
        staged = await self._source.next()
        if staged is not None:
            maker.check_schema(staged.batch.schema)
        names_ledgers = names_ledgers and not maker.computes
        effects = Effects(view, table, load.mode.op, logs_rows=not names_ledgers, noting=noted)
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
