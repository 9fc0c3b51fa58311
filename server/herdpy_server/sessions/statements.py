"""One statement of a session, from its plan to its answer. Above ``waiting``, below ``session``.

text -> plan (``plans``, parsed and planned once) -> parameters to datums -> the plan runs against the
transaction's workspace, again when it had to wait for a lock -> commit, when the statement is its own
transaction -> the answer, once all that it rests on is durable. What must be asked of DuckDB is
asked first, with the engine free for others meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from herdpy.log import LogError
from herdpy_server.sessions.control import CONTROL_PLANS, ENDING, control
from herdpy_server.sessions.plans import PlanCache, Prepared
from herdpy_server.sessions.portals import Portal
from herdpy_server.sessions.prepared import PreparedStatement
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.waiting import Waiting
from herdpy_server.store import NoLocks
from herdpy_server.tablespace import Tablespace, Transaction, now_us, sql_error
from herdpy_sql.columnar import Limits
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import Outcome, Plan, SourceChanged
from herdpy_sql.storage import Clock, MustWait

if TYPE_CHECKING:
    pass

Bound = Prepared | PreparedStatement
"""What gives a plan and its datums: a statement with Python's parameters, or one with datums."""

Rebind = Callable[[], "tuple[Plan, Sequence[object]]"]
"""Plans the statement again, under the catalog that it sees now."""

_OPTIMISTIC_TRIES = 3
_COUNTING = frozenset({"INSERT", "UPDATE", "DELETE", "SELECT"})
_NO_LOCKS = NoLocks()


class Statements(Waiting):
    """Runs statements, one at a time."""

    def __init__(self, tablespace: Tablespace, plans: PlanCache, limits: Limits) -> None:
        super().__init__(tablespace, limits)
        self.plans = plans

    async def _at_once(self, prepared: Bound, params: Sequence[object]) -> Result | None:
        """The short way of an autocommit statement that need not wait before it has its effects.

        None when it is not such a statement, or a lock is in its way: then it goes the long way, from
        the start.
        """
        tablespace = self.tablespace
        try:
            plan, values = prepared.plan(tablespace.catalog, self.settings.engine, params)
        except SqlError:
            await self._durable_definitions()
            raise
        if plan.source is not None or type(plan) in CONTROL_PLANS or self._closed:
            return None
        if plan.read_only:
            workspace = tablespace.store.workspace(_NO_LOCKS, None)
            workspace.watch = self._patience.check
            now = now_us()
            try:
                outcome = plan.run(workspace, values, Clock(now, now, self.settings.zone))
            except SqlError as error:
                await self._confirm(error, workspace)
                raise
            append = None
        elif tablespace.is_full:
            return None
        else:
            self._may_write(plan.tag)
            transaction = tablespace.begin(instant=True)
            workspace = transaction.workspace
            workspace.watch = self._patience.check
            now = transaction.started_us
            try:
                outcome = plan.run(workspace, values, Clock(now, now, self.settings.zone))
                append = tablespace.commit(transaction)
            except MustWait:
                tablespace.rollback(transaction)
                return None
            except LogError as error:
                raise sql_error(error) from error
            except SqlError as error:
                await self._confirm(error, workspace)
                raise
        if append is not None or workspace.read_position:
            await self._durable(append, workspace, last=True)
        return _result(plan, outcome)

    async def _statement(self, prepared: Bound, params: Sequence[object], *, many: bool = False) -> Result:
        if self._closed:
            raise session_closed()
        try:
            plan, values = self._bind(prepared, params, many=many)
        except SqlError:
            await self._durable_definitions()
            raise

        def rebind() -> tuple[Plan, Sequence[object]]:
            return self._bind(prepared, params, many=many)

        if type(plan) in CONTROL_PLANS:
            try:
                return await control(self, plan, values, rebind)  # type: ignore[arg-type]
            except SqlError:
                self.failed = self.transaction is not None
                raise
        return await self._carry_out(plan, values, many=many, rebind=rebind)

    async def run_bound(self, prepared: Bound, params: Sequence[object]) -> Result:
        """Run a statement within another one, as EXECUTE does."""
        return await self._statement(prepared, params)

    async def run_portal(self, portal: Portal) -> None:
        """See to it that a portal has its answer."""
        if portal.result is not None or portal.failure is not None:
            return
        if portal.spent or portal.statement is None:
            portal.result = Result("", 0, portal.columns, [])
        else:
            portal.result = await self._statement(portal.statement, portal.datums)

    async def run_plan(self, plan: Plan, values: Sequence[object], rebind: Rebind) -> Result:
        """Run a plan that is part of another one, as EXPLAIN ANALYZE does; ``rebind`` plans the whole."""

        def again() -> tuple[Plan, Sequence[object]]:
            whole, params = rebind()
            return whole.inner, params

        return await self._carry_out(plan, values, many=False, rebind=again)

    async def _carry_out(self, plan: Plan, values: Sequence[object], *, many: bool, rebind: Rebind) -> Result:
        """Run a plan in the open transaction, or in one of its own."""
        transaction = self.transaction
        if transaction is None and not self.autocommit:
            self.begin()
            transaction = self.transaction
        if transaction is not None:
            try:
                if not plan.read_only and self.tablespace.is_full:
                    await self._room()
                    plan, values = rebind()
                outcome = await self._run(transaction, plan, values, many=many, rebind=rebind)
                await self._durable(None, transaction.workspace)
            except BaseException as error:
                self.failed = True
                await self._confirm(error, transaction.workspace)
                raise
            return _result(plan, outcome)
        if not plan.read_only and self.tablespace.is_full:
            await self._room()
            plan, values = rebind()
        transaction = self.tablespace.begin(instant=True, lock_timeout_s=self.settings.lock_timeout_s)
        try:
            outcome = await self._run(transaction, plan, values, many=many, rebind=rebind)
            append = self.tablespace.commit(transaction)
        except BaseException as error:
            self.tablespace.rollback(transaction)
            if isinstance(error, LogError):
                raise sql_error(error) from error
            await self._confirm(error, transaction.workspace)
            raise
        await self._durable(append, transaction.workspace)
        return _result(plan, outcome)

    def _bind(
        self, prepared: Bound, params: Sequence[object], *, many: bool
    ) -> tuple[Plan, Sequence[object]]:
        """The plan and its parameters, under the catalog of this moment."""
        if self.failed and prepared.keyword not in ENDING:
            raise aborted()
        engine = self.settings.engine
        try:
            if many:
                assert isinstance(prepared, Prepared)
                return prepared.convert_rows(self.catalog, engine, params)  # type: ignore[arg-type]
            return prepared.plan(self.catalog, engine, params)
        except SqlError:
            self.failed = self.transaction is not None
            raise

    async def _run(
        self,
        transaction: Transaction,
        plan: Plan,
        values: Sequence[object],
        *,
        many: bool,
        rebind: Rebind,
    ) -> Outcome:
        """Run the plan, again and again until it need not wait; on an error nothing of it is left."""
        workspace = transaction.workspace
        workspace.watch = self._patience.check
        mark = workspace.mark()
        clock = transaction.clock(self.settings.zone)
        catalog = workspace.catalog
        stale = 0
        try:
            while True:
                try:
                    if not plan.read_only:
                        self._may_write(plan.tag)
                    if many:
                        return plan.run_many(workspace, values, clock)  # type: ignore[arg-type]
                    source = None
                    if plan.source is not None:
                        if stale >= _OPTIMISTIC_TRIES:
                            self._lock_targets(transaction, plan)
                        source = await self._columnar(transaction, plan, values, clock)  # type: ignore[arg-type]
                    return plan.run(workspace, values, clock, source)  # type: ignore[arg-type]
                except MustWait as conflict:
                    workspace.undo(mark)
                    await self._wait_for_lock(transaction, conflict)
                except SourceChanged:
                    workspace.undo(mark)
                    stale += 1
                if workspace.catalog is not catalog:
                    catalog = workspace.catalog
                    plan, values = rebind()
        except BaseException:
            workspace.undo(mark)
            raise

    def _may_write(self, tag: str) -> None:
        if self.settings.read_only:
            raise SqlError("25006", f"cannot execute {tag} in a read-only transaction")

    def _lock_targets(self, transaction: Transaction, plan: Plan) -> None:
        """Others keep changing the rows that this statement chose: keep them out while it chooses."""
        transaction.instant = False
        for table in plan.tables_written:
            self.tablespace.locks.acquire_table(transaction, table.id)


def session_closed() -> SqlError:
    return SqlError("08003", "the session is closed")


def aborted() -> SqlError:
    return SqlError(
        "25P02", "current transaction is aborted, commands ignored until end of transaction block"
    )


def _result(plan: Plan, outcome: Outcome) -> Result:
    count = outcome.count if plan.columns is not None or plan.tag in _COUNTING else -1
    return Result(plan, count, plan.columns, outcome.rows, outcome.table)
