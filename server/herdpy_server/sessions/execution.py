"""How a statement of a session is run, from its plan to its answer.

Above ``binding``, ``backend_queries`` and ``cursors``; given the table of the statements that a session
carries out itself (``control``). Below ``session`` and ``fast_path``.

text -> plan (``plans``, parsed and planned once) -> parameters to datums (``binding``) -> the plan runs
against the transaction's workspace, again when it had to wait for a lock -> commit, when the statement is
its own transaction -> the answer, once all that it rests on is durable (``answer_checks``). What must be
asked of DuckDB is asked first, with the engine free for others meanwhile. A plan that would keep others
waiting for long runs in slices.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

from herdpy.log import LogError
from herdpy_server.sessions.backend_queries import BackendQueries, RemoteQuery
from herdpy_server.sessions.binding import Binding, Bound, Rebind, Replan, session_closed
from herdpy_server.sessions.block import TransactionBlock
from herdpy_server.sessions.cursors import Cursors
from herdpy_server.sessions.notices import SessionNotice
from herdpy_server.sessions.result import Delivery, Result, RowStream
from herdpy_server.sessions.time_slices import (
    LIMITED,
    SLICED,
    STEPPED,
    Share,
    TooLong,
    in_slices,
    is_limited,
    is_sliced,
    let_go,
    prepare,
    undo,
)
from herdpy_server.store import NoLocks
from herdpy_server.tablespace import Transaction, now_us, sql_error
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.locking import LockTablePlan
from herdpy_sql.execute.query import SelectPlan
from herdpy_sql.execute.references import settle_deferred
from herdpy_sql.execute.stages import StagedPlan
from herdpy_sql.lock_modes import TABLE_MODES
from herdpy_sql.parse import makes_temporary
from herdpy_sql.plan import Plan, PlanOutcome, SourceChanged
from herdpy_sql.plan.columnar import ColumnarSelect
from herdpy_sql.storage import Clock, MustWait

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.result import Row


_NO_LOCKS = NoLocks()
_OPTIMISTIC_TRIES = 3
_WEAK = frozenset(TABLE_MODES[name] for name in ("ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE"))

Control = Callable[["Execution", Any, "Sequence[Datum]", Rebind], Awaitable[Result]]
"""Carries out a statement that the session itself does: called with its plan, the parameters of the statement
within it, and what binds it again."""


class Execution:
    """Runs the statements of one session, one at a time.

    Attributes:
        block, queries, cursors, binding: as given.
    """

    def __init__(
        self,
        block: TransactionBlock,
        binding: Binding,
        cursors: Cursors,
        queries: BackendQueries,
        controls: Mapping[type[Plan], Control],
    ) -> None:
        self.block = block
        self.binding = binding
        self.cursors = cursors
        self.queries = queries
        self._controls = controls
        self._tablespace = block.tablespace
        self._settings = block.settings
        self._waits = block.waits
        self._checks = block.checks
        self._share = Share(block.waits.check)

    async def at_once(self, prepared: Bound, params: Sequence[object]) -> Result | None:
        """The short way of an autocommit statement that need not wait before it has its effects.

        None when it is not such a statement, or a lock is in its way: then it goes the long way, from
        the start.
        """
        tablespace = self._tablespace
        if prepared.statement is not None and makes_temporary(prepared.statement):
            if self.block.exposed:
                return None
            self.block.make_temporary_schema()
        try:
            plan, values = prepared.plan(self.block.catalog, self._settings.engine, params)
            if self.block.checked_role is not None:
                self.binding.permit(prepared, plan)
        except SqlError as error:
            if self._checks.waits_to_read:
                return None
            await self._checks.durable_definitions(error)
            raise
        if plan.source is not None or type(plan) in self._controls or self._waits.is_closed:
            return None
        if self.block.exposed and not plan.read_only:
            return None
        if self.block.streams and isinstance(plan, STEPPED):
            return None
        watch = self._waits.check
        if type(plan) in LIMITED and self._is_limited(plan):
            watch = self._share.begin()
        if plan.read_only:
            if not self._checks.may_read(plan):
                return None
            workspace = tablespace.store.workspace(_NO_LOCKS, None)
            workspace.memory = self.block.sequences
            workspace.watch = watch
            now = now_us()
            try:
                outcome = plan.run(workspace, values, Clock(now, now, self._settings.zone, workspace))
            except TooLong:
                return await self._otherwise(plan, values, Rebind(self.binding, prepared, params))
            except SqlError as error:
                await self._checks.confirm(error, workspace)
                raise
            append = None
        elif tablespace.is_full:
            return None
        else:
            self.block.check_writable(plan.tag)
            self._checks.take_basis()
            transaction = tablespace.begin(instant=True)
            workspace = transaction.workspace
            workspace.role = self.block.effective_role.key
            workspace.memory = self.block.sequences
            workspace.watch = watch
            now = transaction.started_us
            try:
                outcome = plan.run(workspace, values, Clock(now, now, self._settings.zone, workspace))
                settle_deferred(workspace)
                append = tablespace.commit(transaction, self._settings.take_request_id())
            except (MustWait, TooLong, LogError, SqlError) as error:
                rebind = Rebind(self.binding, prepared, params)
                return await self._stopped(error, transaction, plan, values, rebind)
        if append is not None or workspace.read_position:
            await self._checks.durable(append, workspace, last=True)
        if append is None and tablespace.guard is not None:
            await self._checks.vouch(plan)
        return answer(self.block, plan, outcome)

    async def _stopped(
        self,
        error: Exception,
        transaction: Transaction,
        plan: Plan,
        values: Sequence[object],
        rebind: Rebind,
    ) -> Result | None:
        """What becomes of a statement that ``at_once`` could not run or commit; None: it goes the long
        way."""
        if isinstance(error, MustWait):
            transaction.workspace.give_back()
            self._tablespace.rollback(transaction)
            return None
        if isinstance(error, TooLong):
            self._tablespace.rollback(transaction)
            return await self._otherwise(plan, values, rebind)
        if isinstance(error, LogError):
            raise sql_error(error) from error
        self._settings.take_request_id()
        await self._checks.confirm(error, transaction.workspace)
        raise error

    async def statement(self, prepared: Bound, params: Sequence[object], *, many: bool = False) -> Result:
        """Run any statement, as the session's state demands it; ``params`` are rows of them if ``many``.

        Raises:
            SqlError: 08003 the session is closed, and whatever went wrong.
        """
        if self._waits.is_closed:
            raise session_closed()
        bound = self._reading(prepared, params) if self.block.exposed else None
        try:
            if bound is None:
                await self.block.covered()
                bound = await self.binding.bind_when_known(prepared, params, many=many)
            plan, values = bound
        except SqlError as error:
            await self._checks.durable_definitions(error)
            raise
        rebind = Rebind(self.binding, prepared, params, many=many)
        if type(plan) in self._controls:
            try:
                return await self._controls[type(plan)](self, plan, values, rebind)  # type: ignore[arg-type]
            except SqlError:
                self.block.failed = self.block.transaction is not None
                raise
        if plan.read_only and not self._checks.may_read(plan):
            try:
                await self._checks.admit(plan)
            except SqlError:
                self.block.failed = self.block.transaction is not None
                raise
            plan, values = rebind()
        return await self._carry_out(plan, values, many=many, rebind=rebind)

    def _reading(self, prepared: Bound, params: Sequence[object]) -> tuple[Plan, Sequence[object]] | None:
        """The plan and the parameters of what only reads, in a transaction that is open; None otherwise."""
        transaction = self.block.transaction
        if (
            transaction is None
            or transaction.workspace.has_snapshot
            or self.block.failed
            or self.block.checked_role is not None
        ):
            return None
        try:
            plan, values = prepared.plan(self.block.catalog, self._settings.engine, params)
        except SqlError:
            return None
        is_plain = plan.read_only and plan.source is None and type(plan) not in self._controls
        return (plan, values) if is_plain else None

    async def run_plan(
        self, plan: Plan, values: Sequence[object], rebind: Rebind, *, as_planned: bool = False
    ) -> Result:
        """Run a plan that is part of another one, as DECLARE does; ``rebind`` plans the whole.

        Args:
            as_planned: run this plan, however long it takes, as EXPLAIN ANALYZE must.
        """
        rebind = rebind.of_inner()
        if plan.read_only and not self._checks.may_read(plan):
            await self._checks.admit(plan)
            plan, values = rebind()
        return await self._carry_out(plan, values, many=False, rebind=rebind, limited=not as_planned)

    async def _otherwise(self, plan: Plan, values: Sequence[object], rebind: Rebind) -> Result:
        """Run a plan that has had its share of the loop, from the start and in another way."""
        if isinstance(plan, SelectPlan):
            columnar = rebind.columnar(plan)
            if columnar is not None:
                return self._stream(columnar, values, lambda: (columnar, values))
        return await self._carry_out(plan, values, many=False, rebind=rebind, limited=False)

    async def _carry_out(
        self,
        plan: Plan,
        values: Sequence[object],
        *,
        many: bool,
        rebind: Rebind,
        limited: bool = True,
    ) -> Result:
        """Run a plan in the open transaction, or in one of its own.

        Args:
            limited: not longer than its share, if it can be run otherwise.
        """
        if not plan.read_only:
            self._checks.take_basis()
        transaction = self.block.transaction
        if transaction is None and not self.block.autocommit:
            self.block.begin()
            transaction = self.block.transaction
        if self.block.streams and type(plan) is ColumnarSelect:
            return self._stream(plan, values, rebind)
        if transaction is not None:
            return await self._run_within(
                transaction, plan, values, many=many, rebind=rebind, limited=limited
            )
        return await self._run_alone(plan, values, many=many, rebind=rebind, limited=limited)

    async def _run_within(
        self,
        transaction: Transaction,
        plan: Plan,
        values: Sequence[object],
        *,
        many: bool,
        rebind: Rebind,
        limited: bool,
    ) -> Result:
        """Run a plan in the open transaction, which has failed if the plan does."""
        try:
            if not plan.read_only and self._tablespace.is_full:
                await self._waits.room()
                plan, values = rebind()
            outcome = await self.run(transaction, plan, values, many=many, rebind=rebind, limited=limited)
            if plan.columns is not None:
                await self._checks.durable(None, transaction.workspace)
            await self._checks.vouch(plan)
        except TooLong:
            return await self._otherwise(plan, values, rebind)
        except BaseException as error:
            await self.block.covered()
            self.block.failed = True
            await self._checks.confirm(error, transaction.workspace)
            raise
        return answer(self.block, plan, outcome)

    async def _run_alone(
        self, plan: Plan, values: Sequence[object], *, many: bool, rebind: Rebind, limited: bool
    ) -> Result:
        """Run a plan in a transaction of its own, and commit that."""
        if not plan.read_only and self._tablespace.is_full:
            await self._waits.room()
            plan, values = rebind()
        transaction = self._tablespace.begin(
            instant=True,
            lock_timeout_s=self._settings.lock_timeout_s,
            isolation="read committed" if plan.read_only else self._settings.isolation,
        )
        transaction.partner = self.block.advisory
        transaction.workspace.memory = self.block.sequences
        transaction.workspace.role = self.block.effective_role.key
        try:
            outcome = await self.run(transaction, plan, values, many=many, rebind=rebind, limited=limited)
            await self._waits.settle(transaction)
            await prepare(transaction)
            await self._waits.log_room()
            request_id = b"" if plan.read_only else self._settings.take_request_id()
            append = self._tablespace.commit(transaction, request_id)
        except TooLong:
            self._tablespace.rollback(transaction)
            return await self._otherwise(plan, values, rebind)
        except BaseException as error:
            self._tablespace.rollback(transaction)
            if not plan.read_only:
                self._settings.take_request_id()
            if isinstance(error, LogError):
                raise sql_error(error) from error
            await self._checks.confirm(error, transaction.workspace)
            raise
        await self._checks.durable(append, transaction.workspace)
        if append is None:
            await self._checks.vouch(plan)
        await let_go(transaction)
        return answer(self.block, plan, outcome)

    def _stream(self, plan: ColumnarSelect, values: Sequence[object], rebind: Replan) -> Result:
        """An answer whose rows are still to come; the question is put when they are first wanted."""
        result = Result(plan, -1, plan.columns)
        result.stream = Delivery(
            self.block,
            result,
            RowStream(
                plan,
                plan.columns,
                RemoteQuery(self.queries, plan, values, rebind),
                self._settings.max_result_bytes,
            ),
        )
        return result

    def _is_limited(self, plan: Plan) -> bool:
        return self.block.streams and self._settings.engine == "auto" and is_limited(plan)

    async def run(
        self,
        transaction: Transaction,
        plan: Plan,
        values: Sequence[object],
        *,
        many: bool,
        rebind: Replan,
        limited: bool,
    ) -> PlanOutcome:
        """Run the plan, again and again until it need not wait; on an error nothing of it is left."""
        if many and plan.source is not None:
            return await self._each(transaction, plan, values, rebind)
        if not isinstance(plan, LockTablePlan):
            transaction.begin_statement()
        workspace = transaction.workspace
        is_limited = limited and not many and type(plan) in LIMITED and self._is_limited(plan)
        in_parts = not limited and self.block.streams and is_sliced(plan)
        workspace.watch = self._share.begin() if is_limited else self._waits.check
        mark = workspace.mark()
        clock = transaction.clock(self._settings.zone)
        catalog = workspace.catalog
        stale = 0
        source = None
        try:
            while True:
                workspace.taken.clear()
                try:
                    if not plan.read_only and not self._only_locks(plan):
                        self._check_may_write(plan, transaction)
                    if many and plan.columns is not None:
                        return gathered(plan, (plan.run(workspace, row, clock) for row in values))  # type: ignore[arg-type]
                    if many:
                        return plan.run_many(workspace, values, clock)  # type: ignore[arg-type]
                    if in_parts:
                        return await self._in_slices(transaction, plan, values, clock, stale)
                    source = None
                    if plan.source is not None:
                        if stale >= _OPTIMISTIC_TRIES:
                            self._lock_targets(transaction, plan)
                        if isinstance(plan, StagedPlan):
                            source = plan.source  # others have their turns meanwhile
                            return await self._in_stages(transaction, plan, values, clock)
                        source = await self.queries.whole(transaction, plan, values, clock)  # type: ignore[arg-type]
                    if self.block.streams and isinstance(plan, STEPPED):
                        transaction.instant = False
                        steps = plan.slices(workspace, values, clock, source)  # type: ignore[arg-type]
                        wait = partial(self._waits.for_lock, transaction)
                        return await in_slices(steps, self._waits.check, wait)
                    return plan.run(workspace, values, clock, source)  # type: ignore[arg-type]
                except MustWait as conflict:
                    workspace.undo(mark)
                    if not in_parts and source is None:
                        workspace.give_back()  # nobody else had a turn since
                    await self._waits.for_lock(transaction, conflict)
                except SourceChanged:
                    workspace.undo(mark)
                    stale += 1
                if workspace.catalog is not catalog:
                    catalog = workspace.catalog
                    plan, values = rebind()
        except Exception:
            if transaction is self.block.transaction:  # else all of it goes
                await undo(workspace, mark)
            raise
        except BaseException:
            workspace.undo(mark)
            raise

    async def _each(
        self, transaction: Transaction, plan: Plan, rows: Sequence[Any], rebind: Replan
    ) -> PlanOutcome:
        """Run a plan that asks the columnar engine first, for each row of parameters."""
        transaction.instant = False  # it waits between writes
        mark = transaction.workspace.mark()
        outcomes: list[PlanOutcome] = []

        def again(at: int) -> tuple[Plan, Any]:
            plan, rows = rebind()
            return plan, rows[at]

        try:
            for at, row in enumerate(rows):
                outcomes.append(
                    await self.run(
                        transaction, plan, row, many=False, rebind=partial(again, at), limited=False
                    )
                )
        except Exception:
            await undo(transaction.workspace, mark)
            raise
        return gathered(plan, outcomes)

    async def _in_stages(
        self, transaction: Transaction, plan: StagedPlan, values: Sequence[object], clock: Clock
    ) -> PlanOutcome:
        """Run a plan that asks the columnar engine more than once."""
        transaction.instant = False
        steps = plan.asking(transaction.workspace, values, clock)  # type: ignore[arg-type]
        answer = None
        with closing(steps):
            while True:
                try:
                    asked = steps.send(answer)  # type: ignore[arg-type]
                except StopIteration as stop:
                    outcome: PlanOutcome = stop.value
                    return outcome
                answer = await self.queries.whole(transaction, asked, values, clock)  # type: ignore[arg-type]

    async def _in_slices(
        self, transaction: Transaction, plan: Plan, values: Sequence[object], clock: Clock, stale: int
    ) -> PlanOutcome:
        """Run an UPDATE or DELETE in slices: from now on the transaction has to take locks."""
        assert isinstance(plan, SLICED)
        transaction.instant = False
        if stale >= _OPTIMISTIC_TRIES:
            self._lock_targets(transaction, plan)
        snapshot = transaction.workspace.snapshot()
        try:
            # What a snapshot of the transaction's own gives is not noted as read.
            reader = transaction.workspace if transaction.workspace.has_snapshot else snapshot
            steps = plan.slices(transaction.workspace, reader, values, clock)  # type: ignore[arg-type]
            return await in_slices(steps, self._waits.check)
        finally:
            snapshot.close()

    def _only_locks(self, plan: Plan) -> bool:
        """Whether it is a LOCK TABLE that who only reads may carry out: on a standby of the weaker modes."""
        return isinstance(plan, LockTablePlan) and (not self._settings.standby or plan.mode in _WEAK)

    def _check_may_write(self, plan: Plan, transaction: Transaction) -> None:
        """SqlError 25006, or 25001 for CONCURRENTLY inside a transaction block."""
        self.block.check_writable(plan.tag)
        if plan.concurrently and transaction is self.block.transaction:
            raise SqlError("25001", f"{plan.tag} CONCURRENTLY cannot run inside a transaction block")

    def _lock_targets(self, transaction: Transaction, plan: Plan) -> None:
        """Others keep changing the rows that this statement chose: keep them out while it chooses."""
        transaction.instant = False
        for table in plan.tables_written:
            self._tablespace.locks.acquire_table(transaction, table.id)


_KEPT = 1000
"""Notices that are kept for a client that does not ask for any."""
_COUNTING = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "SELECT"})


def answer(session: TransactionBlock, plan: Plan, outcome: PlanOutcome) -> Result:
    """The result of a statement; its remarks become the session's notices."""
    least = session.settings["client_min_messages"] if plan.remarks else ""
    for remark in plan.remarks:
        notice = SessionNotice(*remark)
        if notice.is_wanted(least):
            session.notices.append(notice)
            del session.notices[:-_KEPT]
    count = outcome.count if plan.columns is not None or plan.tag in _COUNTING else -1
    return Result(plan, count, plan.columns, outcome.rows, outcome.table)


def gathered(plan: Plan, outcomes: Iterable[PlanOutcome]) -> PlanOutcome:
    """One outcome of many: the counts are added up, and the rows, if the plan has any, follow each other."""
    if plan.columns is None:
        return PlanOutcome(None, sum(one.count for one in outcomes))
    found = list(outcomes)
    count = sum(one.count for one in found)
    tables: list[pa.Table] = [one.table for one in found if one.table is not None]
    if tables and len(tables) == len(found) and all(one.schema == tables[0].schema for one in tables):
        import pyarrow as pa

        return PlanOutcome(None, count, pa.concat_tables(tables))
    rows: list[Row] = []
    for one in found:
        rows += one.rows or Result(plan, one.count, plan.columns, None, one.table).rows
    return PlanOutcome(rows, count)
