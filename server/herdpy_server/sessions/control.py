"""The statements that a session carries out itself: transactions, settings, CHECKPOINT, EXPLAIN."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from herdpy_server.sessions.binding import Reanalyze
from herdpy_server.sessions.constraint_modes import set_constraints
from herdpy_server.sessions.copying import copy_in, copy_out
from herdpy_server.sessions.cursor_commands import close_cursor, declare_cursor, fetch
from herdpy_server.sessions.modes import modes_of
from herdpy_server.sessions.parameters_in import parameters_in
from herdpy_server.sessions.prepared_commands import (
    deallocate,
    discard,
    execute_prepared,
    prepare_statement,
)
from herdpy_server.sessions.requests import request_function
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.right_changes import change_rights
from herdpy_server.sessions.role_changes import change_roles
from herdpy_server.sessions.schema_owners import create_schema_for
from herdpy_server.sessions.tablespace_changes import change_tablespaces, check_tablespace
from herdpy_server.sessions.work import Work
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.locking import LockTablePlan
from herdpy_sql.plan import (
    Begin,
    ChangeRights,
    ChangeRoles,
    ChangeTablespaces,
    Checkpoint,
    CheckTablespace,
    CloseCursor,
    Commit,
    CopyFrom,
    CopyParameters,
    CopyTo,
    CreateSchemaFor,
    Deallocate,
    DeclareCursor,
    Discard,
    Execute,
    Explain,
    Fetch,
    Nothing,
    Plan,
    Prepare,
    ReleaseSavepoint,
    RequestFunction,
    ResetSetting,
    Rollback,
    RollbackToSavepoint,
    Savepoint,
    SetConstraints,
    SetSetting,
    ShowSetting,
    Vacuum,
)

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.binding import Rebind
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.execution import Control, Execution


async def _begin(session: TransactionBlock, plan: Begin) -> Result:
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


async def _commit(session: TransactionBlock, plan: Commit) -> Result:
    _outside(session, "COMMIT", chain=plan.chain)
    failed = session.failed
    modes = session.modes_left()
    await session.commit()
    if plan.chain:
        session.begin_alike(modes)
    return Result("ROLLBACK" if failed else "COMMIT", -1)


async def _rollback(session: TransactionBlock, plan: Rollback) -> Result:
    _outside(session, "ROLLBACK", chain=plan.chain)
    modes = session.modes_left()
    await session.rollback()
    if plan.chain:
        session.begin_alike(modes)
    return Result("ROLLBACK", -1)


def _outside(session: TransactionBlock, what: str, *, chain: bool) -> None:
    """COMMIT or ROLLBACK where BEGIN was not said: a warning, or with AND CHAIN an error."""
    if not session.autocommit or (session.transaction is not None and not session.implicit):
        return
    if chain:
        raise SqlError("25P01", f"{what} AND CHAIN can only be used in transaction blocks")
    session.notice("WARNING", "25P01", "there is no transaction in progress")


async def _savepoint(session: TransactionBlock, plan: Savepoint) -> Result:
    session.savepoint(plan.name)
    return Result("SAVEPOINT", -1)


async def _release(session: TransactionBlock, plan: ReleaseSavepoint) -> Result:
    session.release_savepoint(plan.name)
    return Result("RELEASE", -1)


async def _rollback_to(session: TransactionBlock, plan: RollbackToSavepoint) -> Result:
    session.rollback_to(plan.name)
    return Result("ROLLBACK", -1)


async def _set(session: TransactionBlock, plan: SetSetting) -> Result:
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


async def _reset(session: TransactionBlock, plan: ResetSetting) -> Result:
    if plan.name == "all":
        session.settings.reset()
    else:
        session.set_lasting(plan.name, None)
    return Result("RESET", -1)


async def _show(session: TransactionBlock, plan: ShowSetting) -> Result:
    rows: list[tuple[Any, ...]]
    if plan.name == "all":
        rows = [(setting.name, value, setting.description) for setting, value in session.settings]
    else:
        rows = [(session.settings[plan.name],)]
    return Result("SHOW", len(rows), plan.columns, rows)


async def _nothing(session: TransactionBlock, plan: Nothing) -> Result:
    del session
    return Result(plan.tag, -1)


async def _checkpoint(session: TransactionBlock, plan: Checkpoint) -> Result:
    del plan
    await Work(session.tablespace.checkpoint, session.tablespace.checkpoint_threads)
    return Result("CHECKPOINT", -1)


async def _vacuum(execution: Execution, plan: Vacuum, values: Sequence[Datum], rebind: Rebind) -> Result:
    del values, rebind
    session = execution.block
    if plan.reclaims:
        if session.transaction is not None:
            raise SqlError("25001", "VACUUM cannot run inside a transaction block")
        await Work(session.tablespace.checkpoint, session.tablespace.checkpoint_threads)
    for one in plan.analyzed:
        await execution.run_plan(one, (), Reanalyze(execution.binding, one))
    return Result(plan.tag, -1)


async def _explain(execution: Execution, plan: Explain, values: Sequence[Datum], rebind: Rebind) -> Result:
    found: dict[str, object] | None = None
    if plan.analyze:
        plan = plan.measured()
        began = time.perf_counter()
        answer = await execution.run_plan(plan.plan, values, rebind, as_planned=True)
        if answer.stream is not None:
            answer = await answer.stream.whole()
        elapsed_ms = (time.perf_counter() - began) * 1000
        found = {"Rows": max(answer.rowcount, 0), "Execution Time": elapsed_ms}
    rows = [(line,) for line in plan.lines(found)]
    return Result("EXPLAIN", len(rows), plan.columns, rows)  # type: ignore[arg-type]


async def _lock_table(
    execution: Execution, plan: LockTablePlan, values: Sequence[Datum], rebind: Rebind
) -> Result:
    if not execution.block.in_block:
        raise SqlError("25P01", "LOCK TABLE can only be used in transaction blocks")
    return await execution.run_plan(plan, values, rebind)


_OF_THE_BLOCK: dict[type[Plan], Callable[[TransactionBlock, Any], Awaitable[Result]]] = {
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
    Prepare: prepare_statement,
    Deallocate: deallocate,
    CloseCursor: close_cursor,
    Discard: discard,
    SetConstraints: set_constraints,
    Nothing: _nothing,
    ChangeRoles: change_roles,
    ChangeTablespaces: change_tablespaces,
    CheckTablespace: check_tablespace,
}
"""Those that need only the session's state."""


def _with_block(handler: Callable[[TransactionBlock, Any], Awaitable[Result]]) -> Control:
    def handle(
        execution: Execution, plan: Plan, values: Sequence[Datum], rebind: Rebind
    ) -> Awaitable[Result]:
        del values, rebind
        return handler(execution.block, plan)

    return handle


CONTROLS: Mapping[type[Plan], Control] = {
    **{plan: _with_block(handler) for plan, handler in _OF_THE_BLOCK.items()},
    Vacuum: _vacuum,
    Explain: _explain,
    LockTablePlan: _lock_table,
    RequestFunction: request_function,
    Execute: execute_prepared,
    DeclareCursor: declare_cursor,
    Fetch: fetch,
    CopyFrom: copy_in,
    CopyParameters: parameters_in,
    CopyTo: copy_out,
    ChangeRights: change_rights,
    CreateSchemaFor: create_schema_for,
}
"""What carries out each of the statements that a session carries out itself."""
