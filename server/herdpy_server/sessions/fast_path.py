"""Statements by key, and BEGIN and COMMIT, without a coroutine. Above ``execution``, below ``session``.

Most of what a busy server is asked is one row by its key. For that the usual way (a portal, a run, a
result) costs more than the work. Here a brief plan is run in one call, which answers what is to be sent
and what must be waited for first. Whatever is not plain (an error, a lock that another holds, a setting
that matters, a plan to be made again) is left alone: nothing has happened then, and the usual way finds
the same and knows what to do.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from herdpy.log import LogError
from herdpy_server.sessions.block import TransactionBlock
from herdpy_server.sessions.execution import Execution
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.time_slices import is_large
from herdpy_server.store import NoLocks
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.references import settle_deferred
from herdpy_sql.plan import Begin, Commit
from herdpy_sql.storage import Clock, MustWait

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.plans import Prepared
    from herdpy_server.sessions.prepared import PreparedStatement
    from herdpy_server.tablespace import Transaction
    from herdpy_sql.plan import Plan

_NO_LOCKS = NoLocks()


class FastAnswer(NamedTuple):
    """What a brief plan gave.

    Attributes:
        plan: it.
        rows, changed: as of ``PlanOutcome``; ``changed`` is its count.
        later: to be awaited before anything may be sent; None: send it now. It gives the result where
            that is not the one at hand, and raises as a statement does.
    """

    plan: Plan
    rows: Sequence[Sequence[Datum]] | None
    changed: int
    later: Coroutine[Any, Any, Result | None] | None


class FastPath:
    """Runs the point statements of one session at once."""

    def __init__(self, block: TransactionBlock, execution: Execution) -> None:
        self._block = block
        self._execution = execution
        self._tablespace = block.tablespace
        self._settings = block.settings
        self._waits = block.waits
        self._checks = block.checks

    def run(
        self, statement: Prepared | PreparedStatement, datums: Sequence[Datum], request_id: bytes = b""
    ) -> FastAnswer | None:
        """Run a statement with nothing after it in its message, if it is brief and nothing is in its way.

        ``request_id`` is the name that it brought for its commit.
        None when it must go the usual way, from its start; nothing has happened then. It raises nothing.
        """
        if not self.may_go_on():
            return None
        block, settings, tablespace = self._block, self._settings, self._tablespace
        transaction = block.transaction
        catalog = tablespace.catalog if transaction is None else transaction.workspace.catalog
        catalog = catalog.along(settings.path)
        try:
            plan, values = statement.plan(catalog, settings.engine, datums)
        except SqlError:
            return None
        if not plan.brief:
            return None
        checked_role = block.checked_role
        if checked_role is not None and statement.permits.get(checked_role) is not catalog:
            return None
        if not plan.read_only and (settings.read_only or tablespace.is_full):
            return None
        self._waits.deadline.begin(settings.statement_timeout_s)
        if transaction is not None:
            if type(plan) is Commit:
                return self.run_commit(plan, request_id)
            if request_id:
                return None  # it is that of a commit that comes later
            return self.run_within(plan, values, statement)
        if type(plan) is Begin and not request_id:
            block.begin()
            return FastAnswer(plan, None, -1, None)
        if type(plan) is Begin or type(plan) is Commit:
            return None  # a commit of nothing: there is a warning to be given
        return self.run_alone(plan, values, request_id)

    def may_go_on(self) -> bool:
        """Whether the session is in a state in which the fast path may run a statement."""
        block, settings = self._block, self._settings
        if block.failed or self._waits.is_closed or block.implicit or settings.request_id:
            return False
        guard = self._tablespace.guard
        return guard is None or guard.is_open(settings.read_level)

    def run_alone(self, plan: Plan, values: Sequence[Datum], request_id: bytes) -> FastAnswer | None:
        """A statement that is a transaction of its own."""
        tablespace = self._tablespace
        now = self._block.text_began_us = time_ns() // 1000
        if plan.read_only:
            workspace = tablespace.store.workspace(_NO_LOCKS, None)
            workspace.memory = self._block.sequences
            try:
                outcome = plan.run(workspace, values, Clock(now, now, self._settings.zone, workspace))  # type: ignore[arg-type]
            except SqlError:
                return None
            if not self._checks.is_still_valid():
                return None
            if workspace.read_position:
                return FastAnswer(
                    plan, outcome.rows, outcome.count, self._checks.durable(None, workspace, last=True)
                )
            return FastAnswer(plan, outcome.rows, outcome.count, None)
        transaction = tablespace.begin(instant=True)
        workspace = transaction.workspace
        workspace.memory = self._block.sequences
        now = transaction.started_us
        try:
            outcome = plan.run(workspace, values, Clock(now, now, self._settings.zone, workspace))  # type: ignore[arg-type]
            settle_deferred(workspace)
        except (MustWait, SqlError):
            workspace.give_back()
            tablespace.rollback(transaction)
            return None
        try:
            append = tablespace.commit(transaction, request_id)
        except (LogError, SqlError):
            tablespace.rollback(transaction)
            return None
        if append is None and not self._checks.is_still_valid():
            return None
        if append is None and not workspace.read_position:
            return FastAnswer(plan, outcome.rows, outcome.count, None)
        return FastAnswer(
            plan, outcome.rows, outcome.count, self._checks.durable(append, workspace, last=True)
        )

    def run_within(
        self, plan: Plan, values: Sequence[Datum], statement: Prepared | PreparedStatement
    ) -> FastAnswer | None:
        """A statement of the open transaction. It is BEGIN again when there is a warning to be given."""
        if type(plan) is Begin:
            return None
        transaction = self._block.transaction
        assert transaction is not None
        workspace = transaction.workspace
        try:
            transaction.begin_statement()
        except SqlError:
            return None
        self._block.text_began_us = now = time_ns() // 1000
        clock = Clock(transaction.started_us, now, self._settings.zone, workspace)
        if plan.read_only:
            try:
                outcome = plan.run(workspace, values, clock)  # type: ignore[arg-type]
            except SqlError:
                return None
        else:
            mark = workspace.mark()
            workspace.taken.clear()
            try:
                outcome = plan.run(workspace, values, clock)  # type: ignore[arg-type]
            except MustWait as conflict:
                workspace.undo(mark)
                workspace.give_back()
                return FastAnswer(plan, None, -1, self._when_free(transaction, conflict, statement, values))
            except SqlError:
                workspace.undo(mark)
                workspace.give_back()
                return None
        # Rows tell of others' commits, so those must be durable first. Of a count alone this transaction's
        # own end vouches for that: it comes after them in the log.
        if not self._checks.is_still_valid():
            if not plan.read_only:
                workspace.undo(mark)
            return None
        if plan.columns is not None and workspace.read_position:
            return FastAnswer(plan, outcome.rows, outcome.count, self._checks.durable(None, workspace))
        return FastAnswer(plan, outcome.rows, outcome.count, None)

    async def _when_free(
        self,
        transaction: Transaction,
        conflict: MustWait,
        statement: Prepared | PreparedStatement,
        values: Sequence[Datum],
    ) -> Result:
        while True:
            try:
                await self._waits.for_lock(transaction, conflict)
            except BaseException:
                self._block.failed = True
                raise
            again = self._once_more(transaction, statement, values)
            if again is None:
                return await self._execution.statement(statement, values)
            if isinstance(again, Result):
                return again
            conflict = again

    def _once_more(
        self, transaction: Transaction, statement: Prepared | PreparedStatement, values: Sequence[Datum]
    ) -> Result | MustWait | None:
        """Run a statement that has waited; what it waits for now, or None when it must go the usual way."""
        settings, tablespace, workspace = self._settings, self._tablespace, transaction.workspace
        if self._block.transaction is not transaction or not self.may_go_on():
            return None
        catalog = self._block.catalog
        try:
            plan, values = statement.plan(catalog, settings.engine, values)
        except SqlError:
            return None
        if (
            self._block.checked_role is not None
            and statement.permits.get(self._block.checked_role) is not catalog
        ):
            return None
        if not plan.brief or plan.columns is not None or settings.read_only or tablespace.is_full:
            return None
        mark = workspace.mark()
        workspace.taken.clear()
        try:
            clock = Clock(transaction.started_us, self._block.text_began_us, settings.zone, workspace)
            outcome = plan.run(workspace, values, clock)
        except MustWait as conflict:
            workspace.undo(mark)
            workspace.give_back()
            return conflict
        except SqlError:
            workspace.undo(mark)
            workspace.give_back()
            return None
        if not self._checks.is_still_valid():
            workspace.undo(mark)
            return None
        return Result(plan, outcome.count)

    def run_commit(self, plan: Plan, request_id: bytes) -> FastAnswer | None:
        transaction = self._block.transaction
        assert transaction is not None
        if is_large(transaction) or transaction.workspace.deferred is not None:
            return None
        if self._tablespace.log.is_full:
            return None
        try:
            append = self._tablespace.commit(transaction, request_id)
        except (LogError, SqlError):
            return None
        self._block.end(committed=True)
        workspace = transaction.workspace
        if append is None and not workspace.read_position:
            return FastAnswer(plan, None, -1, None)
        return FastAnswer(plan, None, -1, self._checks.durable(append, workspace))
