"""One statement of a session, from its plan to its answer. Above ``admission``, below ``session``.

text -> plan (``plans``, parsed and planned once) -> parameters to datums -> the plan runs against the
transaction's workspace, again when it had to wait for a lock -> commit, when the statement is its own
transaction -> the answer, once all that it rests on is durable. What must be asked of DuckDB is
asked first, with the engine free for others meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from herdpy.log import LogError
from herdpy_server.sessions.admission import Admission, session_closed
from herdpy_server.sessions.answers import answer
from herdpy_server.sessions.asked import AskedPlan
from herdpy_server.sessions.control import CONTROL_PLANS, control
from herdpy_server.sessions.large import let_go, prepare
from herdpy_server.sessions.portals import Portal
from herdpy_server.sessions.rebind import Bound, Rebind, Replan
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.share import LIMITED, STEPPED, TooLong
from herdpy_server.sessions.streams import Delivery, RowStream
from herdpy_server.store import NoLocks
from herdpy_server.tablespace import now_us, sql_error
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.query import SelectPlan
from herdpy_sql.execute.reference_checks import settle_deferred
from herdpy_sql.parse import makes_temporary
from herdpy_sql.plan import Plan
from herdpy_sql.plan.columnar import ColumnarSelect
from herdpy_sql.storage import Clock, MustWait

_NO_LOCKS = NoLocks()


class Statements(Admission):
    """Runs statements, one at a time."""

    async def _at_once(self, prepared: Bound, params: Sequence[object]) -> Result | None:
        """The short way of an autocommit statement that need not wait before it has its effects.

        None when it is not such a statement, or a lock is in its way: then it goes the long way, from
        the start.
        """
        tablespace = self.tablespace
        if prepared.statement is not None and makes_temporary(prepared.statement):
            if self.exposed:
                return None
            self.make_temporary_schema()
        try:
            plan, values = prepared.plan(self.catalog, self.settings.engine, params)
            if self.judged is not None:
                self.permit(prepared, plan)
        except SqlError as error:
            if self.waits_to_read:
                return None
            await self._durable_definitions(error)
            raise
        if plan.source is not None or type(plan) in CONTROL_PLANS or self._closed:
            return None
        if self.exposed and not plan.read_only:
            return None
        if self.streams and isinstance(plan, STEPPED):
            return None
        watch = self._patience.check
        if type(plan) in LIMITED and self._is_limited(plan):
            watch = self._share.begin()
        if plan.read_only:
            if not self._may_read(plan):
                return None
            workspace = tablespace.store.workspace(_NO_LOCKS, None)
            workspace.memory = self.sequences
            workspace.watch = watch
            now = now_us()
            try:
                outcome = plan.run(workspace, values, Clock(now, now, self.settings.zone, workspace))
            except TooLong:
                return await self._otherwise(plan, values, Rebind(self, prepared, params))
            except SqlError as error:
                await self._confirm(error, workspace)
                raise
            append = None
        elif tablespace.is_full:
            return None
        else:
            self._may_write(plan.tag)
            self._take_basis()
            transaction = tablespace.begin(instant=True)
            workspace = transaction.workspace
            workspace.role = self.standing.key
            workspace.memory = self.sequences
            workspace.watch = watch
            now = transaction.started_us
            try:
                outcome = plan.run(workspace, values, Clock(now, now, self.settings.zone, workspace))
                settle_deferred(workspace)
                append = tablespace.commit(transaction, self.settings.take_request_id())
            except MustWait:
                workspace.give_back()
                tablespace.rollback(transaction)
                return None
            except TooLong:
                tablespace.rollback(transaction)
                return await self._otherwise(plan, values, Rebind(self, prepared, params))
            except LogError as error:
                raise sql_error(error) from error
            except SqlError as error:
                self.settings.take_request_id()
                await self._confirm(error, workspace)
                raise
        if append is not None or workspace.read_position:
            await self._durable(append, workspace, last=True)
        if append is None and tablespace.guard is not None:
            await self._vouched(plan)
        return answer(self, plan, outcome)

    async def _statement(self, prepared: Bound, params: Sequence[object], *, many: bool = False) -> Result:
        if self._closed:
            raise session_closed()
        bound = self._reading(prepared, params) if self.exposed else None
        try:
            if bound is None:
                await self.covered()
                bound = await self._bound(prepared, params, many=many)
            plan, values = bound
        except SqlError as error:
            await self._durable_definitions(error)
            raise
        rebind = Rebind(self, prepared, params, many=many)
        if type(plan) in CONTROL_PLANS:
            try:
                return await control(self, plan, values, rebind)  # type: ignore[arg-type]
            except SqlError:
                self.failed = self.transaction is not None
                raise
        if plan.read_only and not self._may_read(plan):
            try:
                await self._admitted(plan)
            except SqlError:
                self.failed = self.transaction is not None
                raise
            plan, values = rebind()
        return await self._carry_out(plan, values, many=many, rebind=rebind)

    def _reading(self, prepared: Bound, params: Sequence[object]) -> tuple[Plan, Sequence[object]] | None:
        """The plan and the parameters of what only reads, in a transaction that is open; None otherwise."""
        transaction = self.transaction
        if transaction is None or transaction.workspace.stands or self.failed or self.judged is not None:
            return None
        try:
            plan, values = prepared.plan(self.catalog, self.settings.engine, params)
        except SqlError:
            return None
        is_plain = plan.read_only and plan.source is None and type(plan) not in CONTROL_PLANS
        return (plan, values) if is_plain else None

    async def run_bound(self, prepared: Bound, params: Sequence[object]) -> Result:
        """Run a statement within another one, as EXECUTE does."""
        return await self._statement(prepared, params)

    async def run_portal(self, portal: Portal) -> None:
        """See to it that a portal has its answer."""
        if portal.has_run:
            return
        if portal.spent or portal.statement is None:
            portal.result = Result("", 0, portal.columns, [])
        else:
            self.hold(portal, await self._statement(portal.statement, portal.datums))

    def hold(self, portal: Portal, answer: Result) -> None:
        """Keep an answer, or what is to come of it, in a portal. SqlError 53400 when that are too many."""
        if answer.stream is not None:
            try:
                self.allowed.check_large(sum(1 for one in self.portals.values() if one.is_large))
            except SqlError:
                answer.stream.close()
                raise
        portal.holds(answer, self._limits.temp_directory)

    async def settle_portals(self) -> None:
        """Read the answers of portals to their ends: a session occupies the columnar engine once at a time.

        Or one that opens cursor after cursor would wait for what it keeps busy itself.
        """
        for portal in list(self.portals.values()):
            if portal.window is not None and portal.window.count:  # it has begun
                await portal.window.settle()

    async def run_plan(
        self, plan: Plan, values: Sequence[object], rebind: Rebind, *, as_planned: bool = False
    ) -> Result:
        """Run a plan that is part of another one, as DECLARE does; ``rebind`` plans the whole.

        Args:
            as_planned: run this plan, however long it takes, as EXPLAIN ANALYZE must.
        """
        rebind = rebind.of_inner()
        if plan.read_only and not self._may_read(plan):
            await self._admitted(plan)
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
            self._take_basis()
        transaction = self.transaction
        if transaction is None and not self.autocommit:
            self.begin()
            transaction = self.transaction
        if self.streams and type(plan) is ColumnarSelect:
            return self._stream(plan, values, rebind)
        if transaction is not None:
            try:
                if not plan.read_only and self.tablespace.is_full:
                    await self._room()
                    plan, values = rebind()
                outcome = await self._run(
                    transaction, plan, values, many=many, rebind=rebind, limited=limited
                )
                if plan.columns is not None:
                    await self._durable(None, transaction.workspace)
                await self._vouched(plan)
            except TooLong:
                return await self._otherwise(plan, values, rebind)
            except BaseException as error:
                await self.covered()
                self.failed = True
                await self._confirm(error, transaction.workspace)
                raise
            return answer(self, plan, outcome)
        if not plan.read_only and self.tablespace.is_full:
            await self._room()
            plan, values = rebind()
        transaction = self.tablespace.begin(
            instant=True,
            lock_timeout_s=self.settings.lock_timeout_s,
            isolation="read committed" if plan.read_only else self.settings.isolation,
        )
        transaction.partner = self.advisory
        transaction.workspace.memory = self.sequences
        transaction.workspace.role = self.standing.key
        try:
            outcome = await self._run(transaction, plan, values, many=many, rebind=rebind, limited=limited)
            await self._settle(transaction)
            await prepare(transaction)
            await self.log_room()
            request_id = b"" if plan.read_only else self.settings.take_request_id()
            append = self.tablespace.commit(transaction, request_id)
        except TooLong:
            self.tablespace.rollback(transaction)
            return await self._otherwise(plan, values, rebind)
        except BaseException as error:
            self.tablespace.rollback(transaction)
            if not plan.read_only:
                self.settings.take_request_id()
            if isinstance(error, LogError):
                raise sql_error(error) from error
            await self._confirm(error, transaction.workspace)
            raise
        await self._durable(append, transaction.workspace)
        if append is None:
            await self._vouched(plan)
        await let_go(transaction)
        return answer(self, plan, outcome)

    def _stream(self, plan: ColumnarSelect, values: Sequence[object], rebind: Replan) -> Result:
        """An answer whose rows are still to come; the question is put when they are first wanted."""
        result = Result(plan, -1, plan.columns)
        result.stream = Delivery(
            self,
            result,
            RowStream(
                plan,
                plan.columns,
                AskedPlan(self, plan, values, rebind),
                self.settings.max_result_bytes,
            ),
        )
        return result
