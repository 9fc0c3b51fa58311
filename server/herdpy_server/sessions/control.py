"""The table of the statements that a session carries out itself; their families are the modules
``*_commands``.

Above ``execution``, which is given the table by ``session``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from herdpy_server.sessions.copying import copy_in, copy_out, parameters_in
from herdpy_server.sessions.cursor_commands import close_cursor, declare_cursor, fetch
from herdpy_server.sessions.maintenance_commands import checkpoint, do_nothing, explain, vacuum
from herdpy_server.sessions.prepared_commands import (
    deallocate,
    discard,
    execute_prepared,
    prepare_statement,
)
from herdpy_server.sessions.request_ids import request_function
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.role_commands import change_rights, change_roles_by_plan, create_schema_for
from herdpy_server.sessions.setting_commands import reset_setting, set_setting, show_setting
from herdpy_server.sessions.tablespace_commands import change_tablespaces, check_tablespace
from herdpy_server.sessions.transaction_commands import (
    begin,
    commit,
    lock_table,
    release_savepoint,
    rollback,
    rollback_to_savepoint,
    savepoint,
    set_constraints,
)
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
    from herdpy_server.sessions.binding import BoundStatement
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.execution import Control, Execution


_OF_THE_BLOCK: dict[type[Plan], Callable[[TransactionBlock, Any], Awaitable[Result]]] = {
    Begin: begin,
    Commit: commit,
    Rollback: rollback,
    Savepoint: savepoint,
    ReleaseSavepoint: release_savepoint,
    RollbackToSavepoint: rollback_to_savepoint,
    SetSetting: set_setting,
    ResetSetting: reset_setting,
    ShowSetting: show_setting,
    Checkpoint: checkpoint,
    Prepare: prepare_statement,
    Deallocate: deallocate,
    CloseCursor: close_cursor,
    Discard: discard,
    SetConstraints: set_constraints,
    Nothing: do_nothing,
    ChangeRoles: change_roles_by_plan,
    ChangeTablespaces: change_tablespaces,
    CheckTablespace: check_tablespace,
}
"""Those that need only the session's state."""


def _with_block(handler: Callable[[TransactionBlock, Any], Awaitable[Result]]) -> Control:
    def handle(execution: Execution, plan: Plan, bound: BoundStatement) -> Awaitable[Result]:
        del bound
        return handler(execution.block, plan)

    return handle


CONTROLS: Mapping[type[Plan], Control] = {
    **{plan: _with_block(handler) for plan, handler in _OF_THE_BLOCK.items()},
    Vacuum: vacuum,
    Explain: explain,
    LockTablePlan: lock_table,
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
