"""The statements that a session carries out itself: transactions, settings, CHECKPOINT, EXPLAIN."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from herdpy_server.sessions.result import Result
from herdpy_server.sessions.settings import KNOWN
from herdpy_server.sessions.work import Work
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import (
    Begin,
    Checkpoint,
    Commit,
    Explain,
    Plan,
    ReleaseSavepoint,
    ResetSetting,
    Rollback,
    RollbackToSavepoint,
    Savepoint,
    SetSetting,
    ShowSetting,
)

if TYPE_CHECKING:
    from herdpy_server.sessions.statements import Statements

ENDING = frozenset({"COMMIT", "END", "ROLLBACK", "ABORT"})
"""First words of the statements that a failed transaction still takes."""


async def control(session: Statements, plan: Plan) -> Result:
    """Carry out one of them.

    Raises:
        SqlError: 25P01 for one that does not fit the session's state, 0A000 for an isolation level
            that is not there yet, 3B001 for an unknown savepoint, and those of settings.
    """
    return await CONTROLS[type(plan)](session, plan)


async def _begin(session: Statements, plan: Begin) -> Result:
    if session.transaction is None:  # else PostgreSQL warns and goes on; so do we
        session.begin()
    session.implicit = False
    try:
        _isolation(plan.isolation)
        if plan.read_only_transaction:
            session.set_local("transaction_read_only", "on")
    except SqlError:
        await session.rollback()
        raise
    return Result("BEGIN", -1)


def _isolation(level: str | None) -> None:
    if level not in {None, "READ COMMITTED", "READ UNCOMMITTED"}:
        raise SqlError("0A000", f"isolation level {level} is not supported, READ COMMITTED is")


async def _commit(session: Statements, plan: Commit) -> Result:
    failed = session.failed
    await session.commit()
    if plan.chain:
        session.begin()
    return Result("ROLLBACK" if failed else "COMMIT", -1)


async def _rollback(session: Statements, plan: Rollback) -> Result:
    await session.rollback()
    if plan.chain:
        session.begin()
    return Result("ROLLBACK", -1)


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
    if plan.name == "transaction":
        for mode in (plan.value or "").split(", "):
            if mode.startswith("ISOLATION LEVEL "):
                _isolation(mode.removeprefix("ISOLATION LEVEL "))
            elif mode in {"READ ONLY", "READ WRITE"} and session.transaction is not None:
                session.set_local("transaction_read_only", "on" if mode == "READ ONLY" else "off")
    elif plan.local:
        session.set_local(plan.name, plan.value)
    else:
        session.settings.set(plan.name, plan.value)
    return Result("SET", -1)


async def _reset(session: Statements, plan: ResetSetting) -> Result:
    names = [plan.name]
    if plan.name == "all":
        names = [name for name, setting in KNOWN.items() if not setting.read_only]
    for name in names:
        session.settings.set(name, None)
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
    await Work(session.tablespace.checkpoint)
    return Result("CHECKPOINT", -1)


async def _explain(session: Statements, plan: Explain) -> Result:
    measured: dict[str, object] | None = None
    if plan.analyze:
        began = time.perf_counter()
        answer = await session.run_plan(plan.plan)
        elapsed_ms = (time.perf_counter() - began) * 1000
        measured = {"Rows": max(answer.rowcount, 0), "Execution Time": f"{elapsed_ms:.3f} ms"}
    rows = [(line,) for line in plan.lines(measured)]
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
    Explain: _explain,
}
