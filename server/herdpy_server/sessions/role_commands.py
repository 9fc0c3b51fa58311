"""CREATE ROLE, GRANT and their relatives, CREATE SCHEMA ... AUTHORIZATION. Beside ``control``, over
``roles``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from herdpy_server.roles.right_changes import right_change, schema_creation
from herdpy_server.roles.role_changes import change_members, change_roles
from herdpy_server.sessions.binding import PlanAlone
from herdpy_server.sessions.result import Result
from herdpy_sql.execute.define import DefinePlan

if TYPE_CHECKING:
    from herdpy_server.sessions.binding import BoundStatement
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.execution import Execution
    from herdpy_sql.plan import ChangeRights, ChangeRoles, CreateSchemaFor
    from herdpy_sql.storage import View


async def change_roles_by_plan(session: TransactionBlock, plan: ChangeRoles) -> Result:
    """CREATE, ALTER and DROP ROLE. SqlError as ``change_roles``."""
    await change_roles(session, plan.command)
    return Result(plan.command.name, -1)


async def change_rights(execution: Execution, plan: ChangeRights, bound: BoundStatement) -> Result:
    """GRANT, REVOKE and their relatives. SqlError as ``right_change`` and ``change_members``."""
    del bound
    session, command = execution.block, plan.command
    if command.name in {"GRANT ROLE", "REVOKE ROLE"}:
        await change_members(session, command)
        return Result(command.name, -1)
    return await _define(execution, command.name, right_change(session, command))


async def create_schema_for(execution: Execution, plan: CreateSchemaFor, bound: BoundStatement) -> Result:
    """CREATE SCHEMA ... AUTHORIZATION. SqlError as ``schema_creation``."""
    del bound
    return await _define(execution, plan.tag, schema_creation(execution.block, plan))


async def _define(execution: Execution, tag: str, work: Callable[[View], None]) -> Result:
    """Change definitions, in the open transaction or one of its own."""
    plan = DefinePlan(tag, "rights", work)
    await execution.run_plan(PlanAlone(plan))
    return Result(tag, -1)
