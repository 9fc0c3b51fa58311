"""CHECKPOINT, VACUUM, ANALYZE and EXPLAIN. Beside ``control``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from herdpy_server.sessions.binding import AnalyzedTable
from herdpy_server.sessions.result import Result
from herdpy_server.tablespace.work import Work
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import Checkpoint, Explain, Nothing, Vacuum

if TYPE_CHECKING:
    from herdpy_server.sessions.binding import BoundStatement
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.execution import Execution


async def do_nothing(session: TransactionBlock, plan: Nothing) -> Result:
    """A statement that is known and does nothing."""
    del session
    return Result(plan.tag, -1)


async def checkpoint(session: TransactionBlock, plan: Checkpoint) -> Result:
    """CHECKPOINT."""
    del plan
    await Work(session.tablespace.checkpoint, session.tablespace.checkpoint_threads)
    return Result("CHECKPOINT", -1)


async def vacuum(execution: Execution, plan: Vacuum, bound: BoundStatement) -> Result:
    """VACUUM and ANALYZE. SqlError 25001."""
    del bound
    session = execution.block
    if plan.reclaims:
        if session.transaction is not None:
            raise SqlError("25001", "VACUUM cannot run inside a transaction block")
        await Work(session.tablespace.checkpoint, session.tablespace.checkpoint_threads)
    for one in plan.analyzed:
        await execution.run_plan(AnalyzedTable(execution.binding, one))
    return Result(plan.tag, -1)


async def explain(execution: Execution, plan: Explain, bound: BoundStatement) -> Result:
    """EXPLAIN, with ANALYZE as it ran. SqlError as the statement raises."""
    found: dict[str, object] | None = None
    if plan.analyze:
        plan = plan.measured()
        began = time.perf_counter()
        answer = await execution.run_plan(bound.inner(plan.plan), as_planned=True)
        if answer.stream is not None:
            answer = await answer.stream.whole()
        elapsed_ms = (time.perf_counter() - began) * 1000
        found = {"Rows": max(answer.rowcount, 0), "Execution Time": elapsed_ms}
    rows = [(line,) for line in plan.lines(found)]
    return Result("EXPLAIN", len(rows), plan.columns, rows)  # type: ignore[arg-type]
