"""How a plan is run against a transaction's workspace: again after a wait, and in slices where it is long.

Above ``waiting``, below ``statements``, which knows what becomes of the transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Any

from herdpy_server.sessions.gathered import gathered
from herdpy_server.sessions.large import undo
from herdpy_server.sessions.rebind import Replan
from herdpy_server.sessions.share import (
    LIMITED,
    SLICED,
    STEPPED,
    Share,
    in_slices,
    is_limited,
    is_sliced,
)
from herdpy_server.sessions.waiting import Waiting
from herdpy_server.tablespace import Tablespace, Transaction
from herdpy_sql.columnar import Limits
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.locking import LockTablePlan
from herdpy_sql.execute.stages import StagedPlan
from herdpy_sql.lock_modes import TABLE_MODES
from herdpy_sql.plan import Outcome, Plan, SourceChanged
from herdpy_sql.storage import Clock, MustWait

_OPTIMISTIC_TRIES = 3
_WEAK = frozenset(TABLE_MODES[name] for name in ("ACCESS SHARE", "ROW SHARE", "ROW EXCLUSIVE"))


class Running(Waiting):
    """A session as far as it runs plans."""

    def __init__(self, tablespace: Tablespace, limits: Limits) -> None:
        super().__init__(tablespace, limits)
        self._share = Share(self._patience.check)

    def _is_limited(self, plan: Plan) -> bool:
        return self.streams and self.settings.engine == "auto" and is_limited(plan)

    async def _run(
        self,
        transaction: Transaction,
        plan: Plan,
        values: Sequence[object],
        *,
        many: bool,
        rebind: Replan,
        limited: bool,
    ) -> Outcome:
        """Run the plan, again and again until it need not wait; on an error nothing of it is left."""
        if many and plan.source is not None:
            return await self._each(transaction, plan, values, rebind)
        if not isinstance(plan, LockTablePlan):
            transaction.begin_statement()
        workspace = transaction.workspace
        is_limited = limited and not many and type(plan) in LIMITED and self._is_limited(plan)
        in_parts = not limited and self.streams and is_sliced(plan)
        workspace.watch = self._share.begin() if is_limited else self._patience.check
        mark = workspace.mark()
        clock = transaction.clock(self.settings.zone)
        catalog = workspace.catalog
        stale = 0
        source = None
        try:
            while True:
                workspace.taken.clear()
                try:
                    if not plan.read_only and not self._only_locks(plan):
                        self._may_write(plan.tag)
                        if plan.concurrently and transaction is self.transaction:
                            tag = f"{plan.tag} CONCURRENTLY"
                            raise SqlError("25001", f"{tag} cannot run inside a transaction block")
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
                        source = await self._columnar(transaction, plan, values, clock)  # type: ignore[arg-type]
                    if self.streams and isinstance(plan, STEPPED):
                        transaction.instant = False
                        steps = plan.slices(workspace, values, clock, source)  # type: ignore[arg-type]
                        wait = partial(self._wait_for_lock, transaction)
                        return await in_slices(steps, self._patience.check, wait)
                    return plan.run(workspace, values, clock, source)  # type: ignore[arg-type]
                except MustWait as conflict:
                    workspace.undo(mark)
                    if not in_parts and source is None:
                        workspace.give_back()  # nobody else had a turn since
                    await self._wait_for_lock(transaction, conflict)
                except SourceChanged:
                    workspace.undo(mark)
                    stale += 1
                if workspace.catalog is not catalog:
                    catalog = workspace.catalog
                    plan, values = rebind()
        except Exception:
            if transaction is self.transaction:  # else all of it goes
                await undo(workspace, mark)
            raise
        except BaseException:
            workspace.undo(mark)
            raise

    async def _each(
        self, transaction: Transaction, plan: Plan, rows: Sequence[Any], rebind: Replan
    ) -> Outcome:
        """Run a plan that asks the columnar engine first, for each row of parameters."""
        transaction.instant = False  # it waits between writes
        mark = transaction.workspace.mark()
        outcomes: list[Outcome] = []

        def again(at: int) -> tuple[Plan, Any]:
            plan, rows = rebind()
            return plan, rows[at]

        try:
            for at, row in enumerate(rows):
                outcomes.append(
                    await self._run(
                        transaction, plan, row, many=False, rebind=partial(again, at), limited=False
                    )
                )
        except Exception:
            await undo(transaction.workspace, mark)
            raise
        return gathered(plan, outcomes)

    async def _in_stages(
        self, transaction: Transaction, plan: StagedPlan, values: Sequence[object], clock: Clock
    ) -> Outcome:
        """Run a plan that asks the columnar engine more than once."""
        transaction.instant = False
        steps = plan.asking(transaction.workspace, values, clock)  # type: ignore[arg-type]
        answer = None
        with closing(steps):
            while True:
                try:
                    asked = steps.send(answer)  # type: ignore[arg-type]
                except StopIteration as stop:
                    outcome: Outcome = stop.value
                    return outcome
                answer = await self._columnar(transaction, asked, values, clock)  # type: ignore[arg-type]

    async def _in_slices(
        self, transaction: Transaction, plan: Plan, values: Sequence[object], clock: Clock, stale: int
    ) -> Outcome:
        """Run an UPDATE or DELETE in slices: from now on the transaction has to take locks."""
        assert isinstance(plan, SLICED)
        transaction.instant = False
        if stale >= _OPTIMISTIC_TRIES:
            self._lock_targets(transaction, plan)
        snapshot = transaction.workspace.snapshot()
        try:
            # What a snapshot of the transaction's own gives is not noted as read.
            reader = transaction.workspace if transaction.workspace.stands else snapshot
            steps = plan.slices(transaction.workspace, reader, values, clock)  # type: ignore[arg-type]
            return await in_slices(steps, self._patience.check)
        finally:
            snapshot.close()

    def _only_locks(self, plan: Plan) -> bool:
        """Whether it is a LOCK TABLE that who only reads may carry out: on a standby of the weaker modes."""
        return isinstance(plan, LockTablePlan) and (not self.settings.standby or plan.mode in _WEAK)

    def _may_write(self, tag: str) -> None:
        if self.settings.read_only:
            if self.settings.standby and self.tablespace.guard is not None:
                raise self.tablespace.guard.refusal(tag)
            raise SqlError("25006", f"cannot execute {tag} in a read-only transaction")

    def _lock_targets(self, transaction: Transaction, plan: Plan) -> None:
        """Others keep changing the rows that this statement chose: keep them out while it chooses."""
        transaction.instant = False
        for table in plan.tables_written:
            self.tablespace.locks.acquire_table(transaction, table.id)
