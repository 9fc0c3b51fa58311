"""How a statement of a session is run, from its plan to its answer: the one way for all doors.

Above ``binding``, ``backend_queries`` and ``portals``; given the table of the statements that a session
carries out itself (``commands``). Below ``session``.

text -> plan (``plans``, parsed and planned once) -> parameters to datums (``binding``) -> the plan runs
against the workspace of the open transaction, or of one of its own, again when it had to wait for a lock ->
commit, when the transaction is its own -> the answer, once all that it rests on is durable
(``answer_checks``). What must be asked of DuckDB is asked first, with the engine free for others meanwhile.
A plan that would keep others waiting for long runs in slices.

:meth:`Execution.statement` gives the answer, or the one coroutine that gives it. A point statement goes
through that without a wait, up to the commit: whoever drives it with one ``send`` has run it in one call.
What a :class:`ReadyPlan` says not to be needed is left out; of one row that is read by its key that is so
much that its answer is mostly there at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from herdpy.log import LogError
from herdpy.log.wait import Wait
from herdpy_server.sessions.backend_queries import BackendQueries, RemoteQuery
from herdpy_server.sessions.binding import (
    Bindable,
    Binding,
    BoundStatement,
    ColumnarStatement,
    session_closed,
)
from herdpy_server.sessions.block import SessionNotice, TransactionBlock
from herdpy_server.sessions.column_inserts import ParameterColumns
from herdpy_server.sessions.flashback import NeedsPast, past_state
from herdpy_server.sessions.portals import Cursors
from herdpy_server.sessions.programs import SessionPrograms
from herdpy_server.sessions.result import Delivery, Result, RowStream
from herdpy_server.sessions.time_slices import (
    SLICED,
    Share,
    TooLong,
    in_slices,
    let_go,
    undo,
)
from herdpy_server.store import Mark, NoLocks, Workspace
from herdpy_server.store.snapshot_transaction import reader_of
from herdpy_server.tablespace import Transaction, now_us, sql_error
from herdpy_sql.clock import Clock
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.locking import LockTablePlan
from herdpy_sql.execute.query import SelectPlan
from herdpy_sql.execute.references import settle_deferred
from herdpy_sql.execute.stages import StagedPlan
from herdpy_sql.lock_modes import TABLE_MODES
from herdpy_sql.partition_map import read_tables
from herdpy_sql.plan import Plan, PlanOutcome, SourceChanged
from herdpy_sql.storage import MustWait

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_server.sessions.plans import ReadyPlan
    from herdpy_server.sessions.result import Row
    from herdpy_sql.catalog import Catalog


_NO_LOCKS = NoLocks()
START = Mark(0, 0, 0, None, None)
"""Where a transaction is that has done nothing."""
_OPTIMISTIC_TRIES = 3
_WEAK = frozenset(TABLE_MODES[name] for name in ("ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE"))

Answering = Result | Coroutine[Any, Any, Result]
"""A statement's answer, or what gives it; both can be awaited."""

Begun = tuple[Clock, Mark, Wait[object] | PlanOutcome | None]
"""A run of a plan that has begun: its clock, where its transaction was then, and what the first attempt must
wait for, or its outcome; None: there was no attempt yet."""

Control = Callable[["Execution", Any, BoundStatement], Awaitable[Result]]
"""Carries out a statement that the session itself does: called with its plan, and the statement."""


class Execution:
    """Runs the statements of one session, one at a time.

    Attributes:
        block, queries, cursors, binding: as given.
        programs: runs the functions of the catalog that its statements call.
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
        self.programs = SessionPrograms(self)
        self._reader = Workspace(
            block.tablespace.store, _NO_LOCKS, None
        )  # of rows that are read by key alone

    def statement(self, statement: Bindable, params: Sequence[object], *, many: bool = False) -> Answering:
        """Bind any statement, and run it as the session's state demands.

        ``params`` are rows of parameters if ``many``.

        Returns:
            The answer, where it is there already; else what gives it, and raises whatever went wrong.
        """
        if self._waits.is_closed:
            return _refused(session_closed())
        if self.block.exposed:
            return self._exposed(BoundStatement(self.binding, statement, params, many=many), statement)
        trace = self.block.trace
        span = None if trace is None else trace.child("plan")
        try:
            ready, values = self.binding.bind(statement, params, many=many)
        except SqlError as error:
            return self._bound_late(BoundStatement(self.binding, statement, params, many=many), error)
        if trace is not None and span is not None:
            trace.planned(span)
        if ready.is_point and not many:
            transaction = self.block.transaction
            if transaction is not None:
                return self._in_block(statement, params, ready, values, transaction)
            if ready.is_point_read and self._reads_alone(ready):
                return self._read(ready, values)
        return self._as_bound(self._bound(statement, params, ready, values, many=many))

    def _bound(
        self,
        statement: Bindable,
        params: Sequence[object],
        ready: ReadyPlan,
        values: Sequence[Any],
        *,
        many: bool = False,
    ) -> BoundStatement:
        bound = BoundStatement(self.binding, statement, params, many=many)
        bound.ready, bound.values = ready, values
        return bound

    async def _exposed(self, bound: BoundStatement, statement: Bindable) -> Result:
        """Run a statement where a signal's exception may come: not before the block is covered, if it changes
        what others share."""
        block = self.block
        refused: SqlError | None = None
        try:
            if statement.makes_temporary or block.checked_role is not None:
                await block.covered()
            bound.bind()
            if block.exposed and not self._may_stay(bound.ready):
                await block.covered()
                bound.bind()
        except SqlError as error:
            refused = error
        if refused is not None:
            await self._bind_later(bound, refused)
        return await self._as_bound(bound)

    async def _bound_late(self, bound: BoundStatement, error: SqlError) -> Result:
        """Run a statement that could not be bound at once."""
        await self._bind_later(bound, error)
        return await self._as_bound(bound)

    def _as_bound(self, bound: BoundStatement) -> Answering:
        """Run a statement by its plan, or by what the session has for its plan's class."""
        ready = bound.ready
        if ready.is_point_read and not bound.many and self._reads_alone(ready):
            return self._read(ready, bound.values)
        control = self._controls.get(type(ready.plan))
        if control is None:
            return self._carry_out(bound, last=True)
        return self._controlled(control, bound)

    def _reads_alone(self, ready: ReadyPlan) -> bool:
        """Whether a plan that only reads may do so now, with no transaction made for it."""
        block = self.block
        if block.transaction is not None or not block.autocommit:
            return False
        return self._tablespace.guard is None or self._checks.may_begin(ready.plan)

    def _read(self, ready: ReadyPlan, values: Sequence[Any]) -> Answering:
        """Read one row by its key, with no transaction. The answer waits for what it rests on, if it must."""
        plan, view, now = ready.plan, self._reader, now_us()
        view.forget_reads()
        view.memory, view.role = self.block.sequences, self.block.effective_role.key
        try:
            outcome = plan.run(view, values, Clock(now, now, self._settings.style, view))  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - whatever it is, who awaits it has it raised
            return self._confirmed(error, view)
        answer = Result(plan, outcome.count, plan.columns, outcome.rows)
        if view.read_position or (self._tablespace.guard is not None and not self._checks.holds(plan)):
            return self._once_certain(answer, view)
        return answer

    def _in_block(
        self,
        statement: Bindable,
        params: Sequence[object],
        ready: ReadyPlan,
        values: Sequence[Any],
        transaction: Transaction,
    ) -> Answering:
        """Run a point statement in the open transaction.

        It is mostly over here. Where it must wait, the coroutine that goes on begins with that wait: it is in
        the lock's queue already.
        """
        tablespace, settings, checks = self._tablespace, self._settings, self._checks
        plan, workspace, guard = ready.plan, transaction.workspace, tablespace.guard
        if (guard is not None and not checks.may_begin(plan)) or (not ready.read_only and tablespace.is_full):
            return self._carry_out(self._bound(statement, params, ready, values), last=True)
        workspace.watch = self._waits.check
        mark = workspace.mark()
        try:
            transaction.begin_statement()
            clock = transaction.clock(settings.style)
            if workspace.taken:
                workspace.taken.clear()
            if settings.read_only and not ready.read_only:
                self._check_may_write(plan, own=False)
            outcome = plan.run(workspace, values, clock)  # type: ignore[arg-type]
        except MustWait as conflict:
            begun: Begun = clock, mark, conflict.wait  # type: ignore[assignment]
            return self._carry_out(self._bound(statement, params, ready, values), last=True, begun=begun)
        except Exception as error:  # noqa: BLE001 - whatever it is, who awaits it has it raised
            return self._failed(error, transaction, self._bound(statement, params, ready, values), mark)
        except BaseException:
            workspace.undo(mark)
            self.block.fail()
            raise
        if (plan.columns is not None and workspace.read_position and not settings.early_answers) or (
            guard is not None and not checks.holds(plan)
        ):
            begun = clock, mark, outcome
            return self._carry_out(self._bound(statement, params, ready, values), last=True, begun=begun)
        if plan.remarks:
            remark(self.block, plan)
        count = outcome.count if ready.counts else -1
        return Result(plan, count, plan.columns, outcome.rows, outcome.table)

    def carry_on(
        self,
        statement: Bindable,
        params: Sequence[object],
        ready: ReadyPlan,
        begun: Begun,
        own: Transaction | None = None,
    ) -> Coroutine[Any, Any, Result]:
        """Go on with a point statement that has begun in the open transaction, or in one of its ``own``;
        ``params`` are its datums."""
        return self._carry_out(self._bound(statement, params, ready, params), last=True, begun=begun, own=own)

    async def _failed(
        self, error: Exception | None, transaction: Transaction, bound: BoundStatement, mark: Mark
    ) -> Result:
        """A point statement has failed in the open transaction: nothing of it is left."""
        assert error is not None
        await undo(transaction.workspace, mark)
        await self._stopped(error, transaction, None, bound)
        try:
            raise error
        finally:
            error = None  # it has this frame

    async def _once_certain(self, answer: Result, view: Workspace) -> Result:
        """An answer, once what was read is durable and as new as the session wants it."""
        await self._checks.durable(None, view)
        await self._checks.vouch(answer.plan)  # type: ignore[arg-type]
        return answer

    async def _confirmed(self, error: Exception, view: Workspace) -> Result:
        """An error of what only read, once it may be an answer."""
        await self._checks.confirm(error, view)
        raise error

    async def _controlled(self, control: Control, bound: BoundStatement) -> Result:
        """Run a statement that the session itself carries out."""
        try:
            return await control(self, bound.ready.plan, bound)
        except SqlError:
            self.block.fail()
            raise

    async def _bind_later(self, bound: BoundStatement, error: SqlError) -> None:
        """A statement could not be bound: this replica may not have heard of what it names.

        That is waited for, if the read level says so. Else, and again, the error is raised: once it is an
        answer that may be given.
        """
        block, checks = self.block, self._checks
        await block.covered()
        if isinstance(error, NeedsPast):
            try:
                bound.past = await past_state(block, error.moment)
                bound.bind()
                return
            except SqlError as again:
                error = again
        if block.transaction is None and checks.waits_to_read:
            with suppress(SqlError):  # the plan that reads raises it
                await checks.until_readable()
            try:
                bound.bind()
            except SqlError as again:
                error = again
            else:
                return
        block.fail()
        await checks.durable_definitions(error)
        raise error

    def _may_stay(self, ready: ReadyPlan) -> bool:
        """Whether a statement may run where a signal's exception may come: it changes nothing that others
        share."""
        if not ready.reads_now or type(ready.plan) in self._controls:
            return False
        transaction = self.block.transaction
        return self.block.autocommit if transaction is None else not transaction.workspace.has_snapshot

    async def run_plan(self, bound: BoundStatement, *, as_planned: bool = False) -> Result:
        """Run a plan that is part of another one, as DECLARE does, or that comes without a text.

        Args:
            as_planned: run this plan, however long it takes, as EXPLAIN ANALYZE must.
        """
        return await self._carry_out(bound, limited=not as_planned)

    async def _carry_out(
        self,
        bound: BoundStatement,
        *,
        limited: bool = True,
        last: bool = False,
        begun: Begun | None = None,
        own: Transaction | None = None,
    ) -> Result:
        """Run a plan in the open transaction, or in one of its own, and give its answer.

        Args:
            limited: not longer than its share, if it can be run otherwise.
            last: only the answer comes after it. begun: it has, in the open transaction, or in its ``own``.
        """
        block, tablespace, checks = self.block, self._tablespace, self._checks
        if begun is None and tablespace.guard is not None and not checks.may_begin(bound.ready.plan):
            await self._admit(bound)
        transaction = block.transaction if own is None else own
        if transaction is None and not block.autocommit:
            block.begin()
            transaction = block.transaction
        if bound.ready.is_streamed and block.streams:
            return self._stream(bound)
        append = None
        failure: BaseException | None = None
        try:
            if begun is None and not bound.ready.read_only and tablespace.is_full:
                await self._waits.room()
                bound.bind()
            if transaction is None or bound.only_past:
                own = transaction = self._begin(bound, limited=limited)
            outcome = await self.run(transaction, bound, limited=limited, begun=begun)
            workspace, plan = transaction.workspace, bound.ready.plan
            if own is None:
                if plan.columns is not None and workspace.read_position and not self._settings.early_answers:
                    await checks.durable(None, workspace)
                if tablespace.guard is not None and not checks.holds(plan):
                    await checks.vouch(plan)
            elif not bound.ready.reads_now:
                request_id = b""
                if not bound.ready.read_only and self._settings.request_id:
                    request_id = self._settings.take_request_id()
                if not own.instant:  # else all was made sure of in its turn
                    await block.ready_to_commit(own)
                append = tablespace.commit(own, request_id)
        except BaseException as error:  # noqa: BLE001 - raised below: compiled code awaits in no handler
            failure = error
        if failure is not None:
            if isinstance(failure, TooLong):
                if own is not None:
                    tablespace.rollback(own)
                return await self._otherwise(bound)
            await self._stopped(failure, transaction, own, bound)
            try:
                raise failure
            finally:
                del failure  # it has this frame
        if own is not None:
            is_small = own.instant and not bound.many
            if append is not None or workspace.read_position:
                await checks.durable(append, workspace, last=last and is_small)
            if append is None and tablespace.guard is not None and not checks.holds(plan):
                await checks.vouch(plan)
            if not is_small:
                await let_go(own)
        if plan.remarks:
            remark(block, plan)
        count = outcome.count if bound.ready.counts else -1
        return Result(plan, count, plan.columns, outcome.rows, outcome.table)

    async def _admit(self, bound: BoundStatement) -> None:
        """Before a plan that reads, where it may not yet: wait until this replica may be read."""
        try:
            await self._checks.admit(bound.ready.plan)
            bound.bind()
        except SqlError:
            self.block.fail()
            raise

    def _begin(self, bound: BoundStatement, *, limited: bool) -> Transaction:
        """A transaction for one statement."""
        block, tablespace, settings = self.block, self._tablespace, self._settings
        ready, past = bound.ready, bound.past
        if past is not None and bound.only_past:
            transaction = Transaction(instant=True)
            transaction.workspace = reader_of(tablespace.store, past.snapshot())
        elif ready.reads_now:
            transaction = Transaction(instant=True)
            transaction.workspace = Workspace(tablespace.store, _NO_LOCKS, None)
        else:
            isolation = settings.isolation
            if ready.read_only or ready.one_turn or self._in_one_turn(ready, limited=limited):
                isolation = "read committed"  # nobody can come between
            transaction = tablespace.begin(instant=True, isolation=isolation)
            transaction.partner = block.advisory
        workspace = transaction.workspace
        workspace.memory = block.sequences
        workspace.role = block.effective_role.key
        return transaction

    def _in_one_turn(self, ready: ReadyPlan, *, limited: bool) -> bool:
        """Whether an attempt to run a plan leaves no turn to others."""
        if ready.asks or ready.calls:
            return False
        if ready.is_stepped or (ready.is_sliced and not limited):
            return not self.block.streams
        return True

    async def _stopped(
        self,
        error: BaseException,
        transaction: Transaction | None,
        own: Transaction | None,
        bound: BoundStatement,
    ) -> None:
        """A statement has failed: so has the open transaction; one of its own is undone."""
        if transaction is None:
            return
        await self.block.covered()
        if own is None:
            self.block.fail()
        else:
            self._tablespace.rollback(own)
            if bound.past is not None:
                self.block.fail()
            if not bound.ready.read_only:
                self._settings.take_request_id()
        if isinstance(error, LogError):
            raise sql_error(error) from error
        await self._checks.confirm(error, transaction.workspace)

    async def _otherwise(self, bound: BoundStatement) -> Result:
        """Run a plan that has had its share of the loop, from the start and in another way."""
        if isinstance(bound.ready.plan, SelectPlan):
            columnar = bound.columnar()
            if columnar is not None:
                return self._stream(ColumnarStatement(bound, columnar))
        return await self._carry_out(bound, limited=False)

    def _stream(self, bound: BoundStatement) -> Result:
        """An answer whose rows are still to come; the question is put when they are first wanted."""
        plan = bound.ready.plan
        columns = plan.columns
        assert columns is not None
        result = Result(plan, -1, columns)
        rows = RowStream(plan, columns, RemoteQuery(self.queries, bound), self._settings.max_result_bytes)
        result.stream = Delivery(self.block, result, rows)
        return result

    async def run(
        self,
        transaction: Transaction,
        bound: BoundStatement,
        *,
        limited: bool = True,
        begun: Begun | None = None,
    ) -> PlanOutcome:
        """Run the plan, again and again until it need not wait; on an error nothing of it is left.

        In a transaction of its own it is ready to be committed then, in the same turn. One that has ``begun``
        goes on from there, in the turn of its first attempt.
        """
        if bound.many and (bound.ready.asks or bound.ready.calls):
            return await self._each(transaction, bound)
        own = transaction is not self.block.transaction
        ready, workspace = bound.ready, transaction.workspace
        clock, mark, met = begun or self._start(transaction, bound, own=own, limited=limited)
        if isinstance(met, PlanOutcome):
            return met
        catalog, stale = None, 0  # the catalog of an attempt that leaves turns to others
        failure: Exception | None = None
        try:
            while True:
                if met is None:
                    ready = bound.ready
                    one_turn = ready.one_turn or self._in_one_turn(ready, limited=limited)
                    catalog = None if one_turn else workspace.catalog
                    if workspace.taken:
                        workspace.taken.clear()
                    try:
                        if not ready.read_only and (self._settings.read_only or ready.plan.concurrently):
                            self._check_may_write(ready.plan, own=own)
                        if not one_turn:
                            outcome = await self._in_turns(transaction, bound, clock, stale, limited=limited)
                        elif bound.many:
                            outcome = run_rows(ready.plan, bound.values, workspace, clock)
                        else:
                            outcome = ready.plan.run(workspace, bound.values, clock)  # type: ignore[arg-type]
                        if own and not ready.read_only and transaction.instant:
                            self._end_turn(workspace)
                        return outcome
                    except MustWait as conflict:
                        met = conflict.wait  # type: ignore[assignment]
                    except SourceChanged:
                        workspace.undo(mark)
                        stale += 1
                        catalog = None  # the plan may be of an older one than that
                if met is not None:
                    catalog = self._give_way(workspace, mark, catalog)
                    if own and self._isolate(transaction, ready):
                        workspace = transaction.workspace
                        clock = transaction.clock(self._settings.style)
                    await self._waits.until_granted(transaction, met)
                    met = None
                if workspace.catalog is not catalog:
                    bound.bind()
        except Exception as error:  # noqa: BLE001 - raised below: compiled code awaits in no handler
            failure = error
        except BaseException:
            workspace.undo(mark)
            raise
        if not own:  # else all of it goes
            await undo(workspace, mark)
        try:
            raise failure
        finally:
            del failure  # it has this frame

    def _start(self, transaction: Transaction, bound: BoundStatement, *, own: bool, limited: bool) -> Begun:
        """A plan is about to run in a transaction."""
        ready, workspace = bound.ready, transaction.workspace
        if not ready.only_locks and (not own or workspace.has_snapshot):
            transaction.begin_statement()
        workspace.watch = self._waits.check
        if ready.is_limited and limited and not bound.many:
            self._limit(workspace)
        clock = transaction.clock(self._settings.style)
        return clock, START if own and transaction.instant else workspace.mark(), None

    def _give_way(self, workspace: Workspace, mark: Mark, catalog: Catalog | None) -> Catalog:
        """A plan is about to wait: take back what it has done. Under which catalog it was run.

        ``catalog``: that it began under, where others had turns since; None: nobody had.
        """
        if workspace.has_changed_since(mark):  # a point statement locks before it writes
            workspace.undo(mark)
        if catalog is not None:
            return catalog
        if workspace.taken:
            workspace.give_back()
        return workspace.catalog

    def _limit(self, workspace: Workspace) -> None:
        """A plan begins that may have its share of the loop."""
        if self._settings.engine == "auto" and self.block.streams:
            workspace.watch = self._share.begin()

    def _isolate(self, transaction: Transaction, ready: ReadyPlan) -> bool:
        """A statement's own transaction that was to take one turn needs several: from now on others may come
        between its reads. Whether it has another view then."""
        workspace, isolation = transaction.workspace, self._settings.isolation
        if ready.read_only or workspace.has_snapshot or isolation == "read committed":
            return False
        watch, role = workspace.watch, workspace.role
        self._tablespace.isolate(transaction, isolation)
        workspace = transaction.workspace
        workspace.watch, workspace.role = watch, role
        transaction.begin_statement()
        return True

    def _end_turn(self, workspace: Workspace) -> None:
        """Before the commit of what has run in one turn, and so without locks: nothing may be waited for.

        MustWait, if something must: then all of it is undone. SqlError 23503, of checks that were put off.
        """
        if workspace.deferred is not None:
            settle_deferred(workspace)
        if self._tablespace.log.is_full:
            raise MustWait(self._tablespace.log_room())

    async def _in_turns(
        self,
        transaction: Transaction,
        bound: BoundStatement,
        clock: Clock,
        stale: int,
        *,
        limited: bool,
    ) -> PlanOutcome:
        """Run a plan between whose steps others have their turns.

        ``stale``: how often what it asked for first was out of date when it ran.
        """
        before, self._waits.working = self._waits.working, transaction
        try:
            return await self._step_by_step(transaction, bound, clock, stale, limited=limited)
        finally:
            self._waits.working = before

    async def _step_by_step(
        self,
        transaction: Transaction,
        bound: BoundStatement,
        clock: Clock,
        stale: int,
        *,
        limited: bool,
    ) -> PlanOutcome:
        """What :meth:`_in_turns` does."""
        ready, values = bound.ready, bound.values
        plan = ready.plan
        if ready.calls:
            return await self.programs.carry_out(transaction, plan, values, clock)
        if ready.is_sliced and not limited and self.block.streams:
            return await self._in_slices(transaction, plan, values, clock, stale)
        source = None
        if ready.asks:
            if stale >= _OPTIMISTIC_TRIES:
                self._lock_targets(transaction, plan)
            if isinstance(plan, StagedPlan):
                return await self._in_stages(transaction, plan, values, clock)
            source = await self.queries.whole(transaction, plan, values, clock, bound.past)
        if ready.is_stepped and self.block.streams:
            transaction.instant = False
            steps = plan.slices(transaction.workspace, values, clock, source)  # type: ignore[attr-defined]
            wait = partial(self._waits.for_lock, transaction)
            return await in_slices(steps, self._waits.check, wait)
        return plan.run(transaction.workspace, values, clock, source)  # type: ignore[arg-type]

    async def _each(self, transaction: Transaction, bound: BoundStatement) -> PlanOutcome:
        """Run a plan that asks the columnar engine first, for each row of parameters."""
        transaction.instant = False  # it waits between writes
        mark = transaction.workspace.mark()
        try:
            outcomes = [
                await self.run(transaction, bound.row(at), limited=False) for at in range(len(bound.values))
            ]
        except Exception as error:  # noqa: BLE001 - raised below: compiled code awaits in no handler
            failure = error
        else:
            return gathered(bound.ready.plan, outcomes)
        await undo(transaction.workspace, mark)
        try:
            raise failure
        finally:
            del failure  # it has this frame

    async def _in_stages(
        self, transaction: Transaction, plan: StagedPlan, values: Sequence[Any], clock: Clock
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
                answer = await self.queries.whole(transaction, asked, values, clock)

    async def _in_slices(
        self, transaction: Transaction, plan: Plan, values: Sequence[Any], clock: Clock, stale: int
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

    def _check_may_write(self, plan: Plan, *, own: bool) -> None:
        """SqlError 25006, or 25001 for CONCURRENTLY inside a transaction block."""
        may_read = plan.calls and not self._settings.standby  # what it calls is checked by itself
        if self._settings.read_only and not may_read and not self._only_locks(plan):
            self.block.check_writable(plan.tag)
        if plan.concurrently and not own:
            raise SqlError("25001", f"{plan.tag} CONCURRENTLY cannot run inside a transaction block")

    @property
    def controls(self) -> Mapping[type[Plan], Control]:
        """What carries out the statements that the session itself does."""
        return self._controls

    def _only_locks(self, plan: Plan) -> bool:
        """Whether it is a LOCK TABLE that who only reads may carry out: on a standby of the weaker modes."""
        return isinstance(plan, LockTablePlan) and (not self._settings.standby or plan.mode in _WEAK)

    def _lock_targets(self, transaction: Transaction, plan: Plan) -> None:
        """Others keep changing the rows that this statement chose: keep them out while it chooses."""
        transaction.instant = False
        for table in read_tables(transaction.workspace.catalog, plan.tables_written):
            self._tablespace.locks.acquire_table(transaction, table.id)


async def _refused(error: SqlError) -> Result:
    raise error


_KEPT = 1000
"""Notices that are kept for a client that does not ask for any."""


def remark(session: TransactionBlock, plan: Plan) -> None:
    """A plan's remarks become the session's notices."""
    least = session.settings["client_min_messages"]
    for one in plan.remarks:
        notice = SessionNotice(*one)
        if notice.is_wanted(least):
            session.notices.append(notice)
            del session.notices[:-_KEPT]


def run_rows(plan: Plan, rows: Sequence[Any], workspace: Workspace, clock: Clock) -> PlanOutcome:
    """Run a plan in one go, for each row of parameters."""
    if isinstance(rows, ParameterColumns):
        outcome = rows.insert(workspace, clock)
        if outcome is not None:
            return outcome
        rows = rows.rows
    if plan.columns is not None:
        return gathered(plan, (plan.run(workspace, row, clock) for row in rows))
    return plan.run_many(workspace, rows, clock)


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
