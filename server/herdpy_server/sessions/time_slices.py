"""How long one statement may have the loop to itself, and what becomes of one that would have it longer.

Below ``execution``. Own plans run in one go, since most are over in microseconds. One that reads much is
stopped when it has had its share: a SELECT is then asked of the columnar engine, which is outside the loop
and faster for many rows; an UPDATE or DELETE begins again in slices, between which others have their turn.
Sessions of threads need neither.

A transaction of many changes is committed in slices too: its records are encoded before it takes its place
in the log, while it holds its locks, so that the commit itself only joins bytes; what it held is let go of
after its end.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import closing
from time import perf_counter
from typing import TYPE_CHECKING, Final

from herdpy.log.wait import Pause
from herdpy_sql.execute.alter_table import AlterTablePlan, ReindexPlan
from herdpy_sql.execute.change import DeletePlan, MergePlan, OwnMatches, UpdatePlan
from herdpy_sql.execute.define import CreateIndexPlan
from herdpy_sql.execute.insert import InsertSelectPlan
from herdpy_sql.execute.partitions import AlterPartitionedPlan, AttachPartitionPlan, CreatePartitionPlan
from herdpy_sql.execute.query import AggregatePlan, SelectPlan
from herdpy_sql.execute.references import ReferringChange, ReferringInsert
from herdpy_sql.execute.undrop import UndropTablePlan

if TYPE_CHECKING:
    from herdpy_server.store import Mark, Workspace
    from herdpy_server.tablespace import Transaction
    from herdpy_sql.plan import Plan, PlanOutcome
    from herdpy_sql.storage import MustWait


SHARE_S = 0.002
SLICE_S = 0.001
_LOOKS = 3
"""Times that a loop over rows looks in before the clock is asked: once for every 1,024 rows, and at each
beginning."""

STEPPED = (
    InsertSelectPlan,
    ReferringInsert,
    MergePlan,
    CreateIndexPlan,
    AlterTablePlan,
    AlterPartitionedPlan,
    AttachPartitionPlan,
    CreatePartitionPlan,
    ReindexPlan,
    UndropTablePlan,
)
"""Plans that always run in slices where others wait for the loop."""

LIMITED: frozenset[type[Plan]] = frozenset(
    {SelectPlan, AggregatePlan, UpdatePlan, DeletePlan, ReferringChange}
)


SLICED = (UpdatePlan, DeletePlan, ReferringChange)
"""Plans that can run in slices when they find their rows themselves."""


class TooLong(Exception):  # noqa: N818 - a signal within the sessions
    """A plan has had its share. It may have written: undo that."""


class Share:
    """What the running statement has had of the loop."""

    __slots__ = ("_began", "_check", "_looks")

    def __init__(self, check: Callable[[], None]) -> None:
        """``check`` raises when the statement shall end."""
        self._check = check
        self._looks = 0
        self._began = 0.0

    def begin(self) -> Callable[[], None]:
        """A plan begins: what its loops over rows call. It raises TooLong."""
        self._looks = 0
        self._began = perf_counter()
        return self._look

    def _look(self) -> None:
        self._check()
        self._looks += 1
        if self._looks > _LOOKS and perf_counter() - self._began > SHARE_S:
            raise TooLong


def is_limited(plan: Plan) -> bool:
    """Whether a plan of one of the classes ``LIMITED`` can go on in another way."""
    return plan.read_only if isinstance(plan, SelectPlan) else is_sliced(plan)


def is_sliced(plan: Plan) -> bool:
    """Whether a plan can run in slices."""
    return isinstance(plan, SLICED) and isinstance(plan.matches, OwnMatches)


async def in_slices(
    steps: Generator[MustWait | None, None, PlanOutcome],
    check: Callable[[], None],
    wait: Callable[[MustWait], Awaitable[None]] | None = None,
) -> PlanOutcome:
    """Go through the steps of a plan; between them ``check``, and others have their turn.

    ``wait`` awaits what a plan gives that must wait in its midst.
    """
    with closing(steps):
        return await _in_slices(steps, check, wait)


async def _in_slices(
    steps: Generator[MustWait | None, None, PlanOutcome],
    check: Callable[[], None],
    wait: Callable[[MustWait], Awaitable[None]] | None,
) -> PlanOutcome:
    until = perf_counter() + SLICE_S
    while True:
        try:
            conflict = next(steps)
        except StopIteration as stop:
            outcome: PlanOutcome = stop.value
            return outcome
        if conflict is not None:
            assert wait is not None, "a plan waits where nobody awaits it"
            await wait(conflict)
        if perf_counter() > until:
            check()
            await Pause()
            until = perf_counter() + SLICE_S


FEW_CHANGES: Final = 8192
"""So many are let go of, or undone, in one go."""


def is_large(transaction: Transaction) -> bool:
    """Whether the commit of a transaction is to be prepared: it has much to log, and it holds its locks."""
    return not transaction.instant and transaction.workspace.logs_much


async def prepare(transaction: Transaction) -> None:
    """Encode what the commit of a large transaction will log. RecordError when that cannot be."""
    if is_large(transaction):
        await _in_steps(transaction.workspace.encode_some)


async def let_go(transaction: Transaction) -> None:
    """Give back the memory of a transaction that has ended, and whose commit is applied."""
    if transaction.workspace.change_count > FEW_CHANGES:
        await _in_steps(transaction.workspace.forget_some)


async def undo(workspace: Workspace, mark: Mark) -> None:
    """Take back a statement of a transaction that goes on."""
    if workspace.change_count - mark.changes > FEW_CHANGES:
        await _in_steps(lambda: workspace.undo_some(mark))
    else:
        workspace.undo(mark)


async def _in_steps(step: Callable[[], bool]) -> None:
    until = perf_counter() + SLICE_S
    while step():
        if perf_counter() > until:
            await Pause()
            until = perf_counter() + SLICE_S
