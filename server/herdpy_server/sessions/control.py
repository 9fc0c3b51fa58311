"""The statements that a session carries out itself: transactions, settings, CHECKPOINT, EXPLAIN."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from herdpy_server.sessions.copying import copy_in, copy_out
from herdpy_server.sessions.kept import KEPT, declare
from herdpy_server.sessions.modes import modes_of
from herdpy_server.sessions.parameters_in import parameters_in
from herdpy_server.sessions.reanalyze import Reanalyze
from herdpy_server.sessions.requests import request_function
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.work import Work
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.locking import LockTablePlan
from herdpy_sql.plan import (
    Begin,
    Checkpoint,
    Commit,
    CopyFrom,
    CopyParameters,
    CopyTo,
    DeclareCursor,
    Explain,
    Plan,
    ReleaseSavepoint,
    RequestFunction,
    ResetSetting,
    Rollback,
    RollbackToSavepoint,
    Savepoint,
    SetSetting,
    ShowSetting,
    Vacuum,
)

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.rebind import Rebind
    from herdpy_server.sessions.statements import Statements

ENDING = frozenset({"COMMIT", "END", "ROLLBACK", "ABORT"})
"""First words of the statements that a failed transaction still takes."""


async def control(session: Statements, plan: Plan, values: Sequence[Datum], rebind: Rebind) -> Result:
    """Carry out one of them. ``values`` are the parameters of the statement within it, if it has one.

    Raises:
        SqlError: 25P01 and 25001 for one that does not fit the session's state, 3B001 for an unknown
            savepoint, and those of settings.
    """
    if isinstance(plan, CopyFrom):
        return await copy_in(session, plan)
    if isinstance(plan, CopyParameters):
        return await parameters_in(session, plan)
    if isinstance(plan, CopyTo):
        return await copy_out(session, plan, values, rebind)
    if isinstance(plan, DeclareCursor):
        return await declare(session, plan, values, rebind)
    if isinstance(plan, Explain):
        return await _explain(session, plan, values, rebind)
    if isinstance(plan, LockTablePlan):
        if not session.in_block:
            raise SqlError("25P01", "LOCK TABLE can only be used in transaction blocks")
        return await session.run_plan(plan, values, rebind)
    if isinstance(plan, RequestFunction):
        return await request_function(session, plan, values)
    return await CONTROLS[type(plan)](session, plan)


async def _begin(session: Statements, plan: Begin) -> Result:
    began = session.transaction is None
    if began:
        session.begin()
    elif not session.implicit:
        session.notice("WARNING", "25001", "there is already a transaction in progress")
    session.implicit = session.pipelined = False
    try:
        for name, value in modes_of(plan.modes):
            session.set_local(name, value)
    except SqlError:
        if began:
            await session.rollback()
        raise
    return Result(plan.tag, -1)


async def _commit(session: Statements, plan: Commit) -> Result:
    _outside(session, "COMMIT", chain=plan.chain)
    failed = session.failed
    modes = session.modes_left()
    await session.commit()
    if plan.chain:
        session.begin_alike(modes)
    return Result("ROLLBACK" if failed else "COMMIT", -1)


async def _rollback(session: Statements, plan: Rollback) -> Result:
    _outside(session, "ROLLBACK", chain=plan.chain)
    modes = session.modes_left()
    await session.rollback()
    if plan.chain:
        session.begin_alike(modes)
    return Result("ROLLBACK", -1)


def _outside(session: Statements, what: str, *, chain: bool) -> None:
    """COMMIT or ROLLBACK where BEGIN was not said: a warning, or with AND CHAIN an error."""
    if not session.autocommit or (session.transaction is not None and not session.implicit):
        return
    if chain:
        raise SqlError("25P01", f"{what} AND CHAIN can only be used in transaction blocks")
    session.notice("WARNING", "25P01", "there is no transaction in progress")


async def _savepoint(session: Statements, plan: Savepoint) -> Result:
    session.savepoint(plan.name)
    return Result("SAVEPOINT", -1)


async def _release(session: Statements, plan: ReleaseSavepoint) -> Result:
    session.release_savepoint(plan.name)
    return Result("RELEASE", -1)


async def _rollback_to(session: Statements, plan: RollbackToSavepoint) -> Result:
    session.rollback_to(plan.name)
    return Result("ROLLBACK", -1)


async def _set(session: Statements, plan: SetSetting) -> Result:
    if plan.name == "session characteristics":
        for mode, chosen_value in modes_of((plan.value or "").split(", ")):
            session.settings.set(f"default_{mode}", chosen_value)
        return Result("SET", -1)
    if not plan.local:
        session.set_lasting(plan.name, plan.value)
        return Result("SET", -1)
    if session.transaction is None and not session.autocommit:
        session.begin()
    if not session.in_block:
        what = "SET TRANSACTION" if plan.name == "transaction" else "SET LOCAL"
        session.notice("WARNING", "25P01", f"{what} can only be used in transaction blocks")
    chosen: list[tuple[str, str | None]] = [(plan.name, plan.value)]
    if plan.name == "transaction":
        chosen = [*modes_of((plan.value or "").split(", "))]
    for name, value in chosen:
        if session.transaction is not None:
            session.set_local(name, value)
        else:
            session.settings.checked(name, value)
    return Result("SET", -1)


async def _reset(session: Statements, plan: ResetSetting) -> Result:
    if plan.name == "all":
        session.settings.reset()
    else:
        session.set_lasting(plan.name, None)
    return Result("RESET", -1)


async def _show(session: Statements, plan: ShowSetting) -> Result:
    rows: list[tuple[Any, ...]]
    if plan.name == "all":
        rows = [(setting.name, value, setting.description) for setting, value in session.settings]
    else:
        rows = [(session.settings[plan.name],)]
    return Result("SHOW", len(rows), plan.columns, rows)


async def _checkpoint(session: Statements, plan: Checkpoint) -> Result:
    del plan
    await Work(session.tablespace.checkpoint, session.tablespace.checkpoint_threads)
    return Result("CHECKPOINT", -1)


async def _vacuum(session: Statements, plan: Vacuum) -> Result:
    if plan.reclaims:
        if session.transaction is not None:
            raise SqlError("25001", "VACUUM cannot run inside a transaction block")
        await Work(session.tablespace.checkpoint, session.tablespace.checkpoint_threads)
    for one in plan.analyzed:
        await session.run_plan(one, (), Reanalyze(session, one))
    return Result(plan.tag, -1)


async def _explain(session: Statements, plan: Explain, values: Sequence[Datum], rebind: Rebind) -> Result:
    found: dict[str, object] | None = None
    if plan.analyze:
        plan = plan.measured()
        began = time.perf_counter()
        answer = await session.run_plan(plan.plan, values, rebind, as_planned=True)
        if answer.stream is not None:
            answer = await answer.stream.whole()
        elapsed_ms = (time.perf_counter() - began) * 1000
        found = {"Rows": max(answer.rowcount, 0), "Execution Time": elapsed_ms}
    rows = [(line,) for line in plan.lines(found)]
    return Result("EXPLAIN", len(rows), plan.columns, rows)  # type: ignore[arg-type]


CONTROLS: dict[type[Plan], Callable[[Statements, Any], Awaitable[Result]]] = {
    Begin: _begin,
    Commit: _commit,
    Rollback: _rollback,
    Savepoint: _savepoint,
    ReleaseSavepoint: _release,
    RollbackToSavepoint: _rollback_to,
    SetSetting: _set,
    ResetSetting: _reset,
    ShowSetting: _show,
    Checkpoint: _checkpoint,
    Vacuum: _vacuum,
    **KEPT,
}
"""How each is carried out; those that take parameters are told apart before."""

CONTROL_PLANS = frozenset(
    [*CONTROLS, DeclareCursor, Explain, CopyFrom, CopyParameters, CopyTo, LockTablePlan, RequestFunction]
)
"""The classes of plans that :func:`control` carries out."""
