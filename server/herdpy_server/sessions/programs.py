"""Functions of the catalog, as a session runs them: the host of ``herdpy_sql.programs.interpreter``.

Below ``execution``, which runs a plan that calls functions here, and runs the statements that are in them.

A plan runs without a pause, in a call; what a function does may have to wait: for a lock, for the columnar
engine, for its turn. So such a plan runs in a greenlet (:func:`spawned`): where it must wait, it gives what
is to be awaited to the coroutine that began it, which awaits that and goes on with the plan
(:func:`awaited`). A function in a statement of a function runs in the same greenlet, one call deeper.

The statement's transaction keeps its locks from the beginning, since others have turns while it runs. Rows
that the plan scans are taken at once (:class:`SteadyView`), so that nothing that happens meanwhile is in
their way.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from greenlet import getcurrent, greenlet

from herdpy.log.wait import Pause
from herdpy_server.roles.permissions import permit
from herdpy_server.sessions.binding import BoundStatement
from herdpy_server.sessions.block import SessionNotice
from herdpy_server.sessions.plans import ReadyPlan
from herdpy_server.sessions.time_slices import SLICE_S, TooLong
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.insert import datum_rows
from herdpy_sql.execute.locking import LockTablePlan
from herdpy_sql.execute.query import SelectPlan
from herdpy_sql.execute.stages import StagedPlan
from herdpy_sql.parse import makes_temporary, split
from herdpy_sql.plan import Plan, PlanOutcome, SetSetting, SourceChanged
from herdpy_sql.plan.columnar import ColumnarSelect
from herdpy_sql.programs.interpreter import ProgramAnswer, run_program
from herdpy_sql.programs.routines import Program, program_of
from herdpy_sql.storage import MustWait

if TYPE_CHECKING:
    from herdpy_server.sessions.backend_queries import BackendQueries
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.result import Result
    from herdpy_server.store import Mark, Workspace
    from herdpy_server.tablespace import Transaction
    from herdpy_sql.catalog import Catalog, Index, Table
    from herdpy_sql.clock import Clock
    from herdpy_sql.programs.fragments import Planned
    from herdpy_sql.programs.type_texts import RowType
    from herdpy_sql.storage import View

T = TypeVar("T")

MAX_DEPTH = 200
"""How deep functions may call each other: 54001 beyond."""
_FRAMES = 20_000
"""Python's own limit, in calls, while functions run; of one of ours there are some tens for each level."""
_LOOKS = 64
"""Statements of programs between two looks at the clock."""


async def spawned(run: Callable[[], T]) -> T:
    """What a call gives that may await in its midst, see :func:`awaited`."""
    inner = greenlet(run)
    pending = inner.switch()
    while not inner.dead:
        failure: BaseException | None = None
        given = None
        try:
            given = await pending
        except BaseException as error:  # noqa: BLE001 - raised within the call
            failure = error
        inner.parent = getcurrent()
        if failure is None:
            pending = inner.switch(given)
        else:
            pending = inner.throw(type(failure), failure, failure.__traceback__)
    return cast("T", pending)


def awaited(what: Awaitable[T]) -> T:
    """Await within a call of :func:`spawned`."""
    parent = getcurrent().parent
    assert parent is not None, "nobody awaits for this call"
    return cast("T", parent.switch(what))


class StatementRunner(Protocol):
    """What runs the statements of a session: ``Execution``.

    Attributes:
        block: its state. queries: what it asks of the columnar engine.
    """

    block: TransactionBlock
    queries: BackendQueries

    @property
    def controls(self) -> Mapping[type[Plan], Callable[[Any, Any, BoundStatement], Awaitable[Result]]]:
        """What carries out the statements that the session itself does."""

    async def run(
        self, transaction: Transaction, bound: BoundStatement, *, limited: bool = True
    ) -> PlanOutcome:
        """Run a plan in a transaction, again until it need not wait. Raises as ``Plan.run``, and TooLong."""


class SteadyView:
    """A view whose scans are taken at once, and whose rows are seen to be what the plan takes them for.

    What is not here is the real view's.
    """

    def __init__(self, view: Workspace) -> None:
        self._view = view

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def scan(
        self, table: Table, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """As of the view."""
        return iter(list(self._view.scan(table, low, high, reverse=reverse)))

    def index_scan(
        self,
        table: Table,
        index: Index,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]:
        """As of the view."""
        return iter(list(self._view.index_scan(table, index, low, high, reverse=reverse)))

    def update(self, table: Table, key: bytes, image: bytes, values: Sequence[Any]) -> None:
        """As of the view. SqlError 27000 for a row that a function of the statement has changed."""
        self._check(table, key, image, "updated")
        self._view.update(table, key, image, values)

    def delete(self, table: Table, key: bytes, image: bytes) -> None:
        """As of the view. SqlError 27000 as :meth:`update`."""
        self._check(table, key, image, "deleted")
        self._view.delete(table, key, image)

    def _check(self, table: Table, key: bytes, image: bytes, done: str) -> None:
        if self._view.get(table, key) != image:
            raise SqlError(
                "27000",
                f"tuple to be {done} was already modified by an operation triggered by the current command",
            )


class ProgramStatement(BoundStatement):
    """A statement of a program, with the plan that it is now."""

    __slots__ = ("_host", "_one")

    def __init__(self, host: SessionPrograms, one: Planned, ready: ReadyPlan, values: Sequence[Any]) -> None:
        self._host, self._one = host, one
        self.ready, self.values, self.many = ready, values, False
        self.past = None

    def bind(self) -> None:
        """See :class:`BoundStatement`."""
        catalog = self._host.catalog
        if catalog is not self.ready.catalog:
            self.ready = ReadyPlan(self._one.again(catalog), catalog)

    def columnar(self) -> ColumnarSelect | None:
        """See :class:`BoundStatement`."""
        try:
            plan = self._one.again(self._host.catalog, "columnar")
        except SqlError:
            return None
        return plan if isinstance(plan, ColumnarSelect) else None


class SessionPrograms:
    """Runs the programs of one session, in the transaction of the statement that calls them."""

    def __init__(self, execution: StatementRunner) -> None:
        self._execution = execution
        self._block = execution.block
        self._waits = execution.block.waits
        self._settings = execution.block.settings
        self._transaction: Transaction | None = None
        self._depth = 0
        self._looks = 0
        self._until_s = 0.0

    # --- for ``Execution`` ------------------------------------------------------------------------

    async def carry_out(
        self, transaction: Transaction, plan: Plan, values: Sequence[Any], clock: Clock
    ) -> PlanOutcome:
        """Run a plan that calls functions. Raises as ``Plan.run``."""
        block = self._block
        transaction.instant = False
        transaction.workspace.programs = self
        before, said = self._transaction, len(block.notices)
        self._transaction = transaction
        self._until_s = perf_counter() + SLICE_S
        if sys.getrecursionlimit() < _FRAMES:
            sys.setrecursionlimit(_FRAMES)
        source = None
        try:
            if plan.source is not None and not isinstance(plan, StagedPlan):
                source = await self._execution.queries.whole(transaction, plan, values, clock)
            return await spawned(partial(self._run_plan, transaction, plan, values, clock, source))
        except (MustWait, SourceChanged):
            del block.notices[said:]  # it runs again from its beginning
            raise
        finally:
            self._transaction = before
            if before is not transaction:
                transaction.workspace.programs = None

    def _run_plan(
        self, transaction: Transaction, plan: Plan, values: Sequence[Any], clock: Clock, source: Any = None
    ) -> PlanOutcome:
        """Run a plan in this greenlet."""
        view = cast("View", SteadyView(transaction.workspace))
        if not isinstance(plan, StagedPlan):
            return plan.run(view, values, clock, source)  # type: ignore[arg-type]
        steps = plan.asking(view, values, clock)  # type: ignore[arg-type]
        answer = None
        queries = self._execution.queries
        while True:
            try:
                pending = steps.send(answer)  # type: ignore[arg-type]
            except StopIteration as stop:
                outcome: PlanOutcome = stop.value
                return outcome
            answer = awaited(queries.whole(transaction, pending, values, clock))

    # --- for plans --------------------------------------------------------------------------------

    def call(self, program: int, values: list[Any], expected: RowType | None) -> Any:
        """See ``herdpy_sql.clock.Programs``. SqlError 42883 where it was dropped meanwhile, 54001."""
        catalog = self.catalog
        one = catalog.objects.get(program)
        if one is None:
            raise SqlError("42883", f"function with OID {program} does not exist")
        return self._run_program(program_of(one, catalog), values, expected)

    def run_block(self, program: Program) -> None:
        """See ``herdpy_sql.clock.Programs``."""
        self._run_program(program, (), None)

    def _run_program(self, program: Program, values: Sequence[Any], expected: RowType | None) -> Any:
        if self._depth >= MAX_DEPTH:
            raise _too_deep()
        self._depth += 1
        try:
            return run_program(self, program, values, expected)
        except RecursionError as error:
            raise _too_deep() from error
        finally:
            self._depth -= 1

    # --- for the interpreter ----------------------------------------------------------------------

    @property
    def transaction(self) -> Transaction:
        """That of the statement."""
        assert self._transaction is not None
        return self._transaction

    @property
    def catalog(self) -> Catalog:
        """See ``interpreter.ProgramHost``."""
        return self.transaction.workspace.catalog.along(self._settings.path)

    def clock(self) -> Clock:
        """See ``interpreter.ProgramHost``."""
        return self.transaction.clock(self._settings.style)

    def will_plan(self, text: str) -> None:
        """See ``interpreter.ProgramHost``: what is temporary needs the session's schema for it."""
        if self._settings.temporary_schema or "temp" not in text.lower():
            return
        if any(makes_temporary(one) for one in split(text)):
            self._block.make_temporary_schema()

    def mark(self) -> Mark:
        """See ``interpreter.ProgramHost``."""
        return self.transaction.workspace.mark()

    def undo(self, mark: Mark) -> None:
        """See ``interpreter.ProgramHost``."""
        self.transaction.workspace.undo(mark)

    def notice(
        self, severity: str, sqlstate: str, message: str, detail: str | None = None, hint: str | None = None
    ) -> None:
        """See ``interpreter.ProgramHost``."""
        notice = SessionNotice(severity, sqlstate, message, detail, hint)
        if notice.is_wanted(self._settings["client_min_messages"]):
            self._block.notices.append(notice)

    def turn(self) -> None:
        """See ``interpreter.ProgramHost``."""
        self._looks += 1
        if self._looks < _LOOKS:
            return
        self._looks = 0
        if perf_counter() < self._until_s:
            return
        self._waits.check()
        if self._block.waits.deadline.loop is not None:
            awaited(Pause())
            self._waits.check()
        self._until_s = perf_counter() + SLICE_S

    def run(self, one: Planned, values: Sequence[Any], *, may_write: bool) -> ProgramAnswer:
        """See ``interpreter.ProgramHost``."""
        ready = self._ready(one)
        plan = ready.plan
        if not (may_write or plan.read_only or plan.calls):
            raise SqlError("0A000", f"{plan.tag} is not allowed in a non-volatile function")
        self._permit(one, ready)
        bound = ProgramStatement(self, one, ready, values)
        control = self._execution.controls.get(type(plan))
        if control is not None and not isinstance(plan, LockTablePlan):
            return self._controlled(plan, bound)
        if plan.concurrently:
            raise SqlError("25001", f"{plan.tag} CONCURRENTLY cannot be executed from a function")
        if not plan.read_only and not plan.calls and self._settings.read_only:
            self._block.check_writable(plan.tag)
        outcome = self._at_once(bound) if self._is_short(ready) else awaited(self._in_turns(bound))
        plan = bound.ready.plan
        for remark in plan.remarks:
            self.notice(*remark)
        return _answer(plan, outcome)

    def _ready(self, one: Planned) -> ReadyPlan:
        if one.kept is None:
            one.kept = ReadyPlan(one.plan, one.catalog)
        ready: ReadyPlan = one.kept
        return ready

    def _permit(self, one: Planned, ready: ReadyPlan) -> None:
        """That the session's role may run a statement. SqlError 42501."""
        block, role = self._block, self._block.checked_role
        if role is not None and role not in ready.permitted:
            permit(
                one.statement,
                ready.permitted,
                self.catalog,
                role,
                block.effective_role_of,
                block.identity.database,
            )

    def _controlled(self, plan: Plan, bound: ProgramStatement) -> ProgramAnswer:
        """Run what the session itself carries out. SqlError 0A000 for what may not be in a function."""
        if not isinstance(plan, SetSetting) or self._block.transaction is None:
            raise SqlError("0A000", f"{plan.tag} in a function is not supported")
        control = self._execution.controls[type(plan)]
        awaited(control(self._execution, plan, bound))
        return ProgramAnswer(None, [], 0)

    def _is_short(self, ready: ReadyPlan) -> bool:
        """Whether a plan is run at once: by key, or with functions of its own."""
        return ready.calls or ready.is_point

    def _at_once(self, bound: ProgramStatement) -> PlanOutcome:
        """Run a plan in this greenlet, again when it had to wait."""
        transaction = self.transaction
        workspace, watch = transaction.workspace, transaction.workspace.watch
        mark = workspace.mark()
        try:
            while True:
                transaction.begin_statement()
                workspace.watch = self._waits.check
                clock = self.clock()
                try:
                    return self._run_plan(transaction, bound.ready.plan, bound.values, clock)
                except MustWait as conflict:
                    met = conflict
                except SourceChanged:
                    workspace.undo(mark)
                    bound.bind()
                    continue
                workspace.undo(mark)
                awaited(self._waits.for_lock(transaction, met))
                bound.bind()
        finally:
            workspace.watch = watch

    async def _in_turns(self, bound: ProgramStatement) -> PlanOutcome:
        """Run a plan as any statement's, while others have their turns."""
        transaction, execution = self.transaction, self._execution
        workspace, watch = transaction.workspace, transaction.workspace.watch
        limited = isinstance(bound.ready.plan, SelectPlan)
        mark = workspace.mark()
        try:
            try:
                return await execution.run(transaction, bound, limited=limited)
            except TooLong:
                workspace.undo(mark)
            plan = bound.columnar()
            if plan is not None:
                bound.ready = ReadyPlan(plan, bound.ready.catalog)
            return await execution.run(transaction, bound, limited=False)
        finally:
            workspace.watch = watch


def _answer(plan: Plan, outcome: PlanOutcome) -> ProgramAnswer:
    """What a plan gave, as rows of datums."""
    if plan.columns is None:
        return ProgramAnswer(None, [], outcome.count)
    columns = tuple((column.name, column.type) for column in plan.columns)
    rows = outcome.rows
    if rows is None:
        rows = [] if outcome.table is None else list(datum_rows(outcome.table, plan.columns))
    return ProgramAnswer(columns, rows, outcome.count, changes=plan.tag in {"INSERT", "UPDATE", "DELETE"})


def _too_deep() -> SqlError:
    return SqlError(
        "54001",
        "stack depth limit exceeded",
        detail=f"Functions may call each other {MAX_DEPTH} levels deep.",
    )
