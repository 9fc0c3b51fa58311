"""CREATE SCHEMA ... AUTHORIZATION: a schema that is another role's. Beside ``right_changes``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.sessions.right_changes import defined, key_of
from herdpy_sql.errors import SqlError
from herdpy_sql.rights.held import EVERYWHERE, keep, made_with, schema_subject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.binding import Rebind
    from herdpy_server.sessions.execution import Execution
    from herdpy_server.sessions.result import Result
    from herdpy_sql.plan import CreateSchemaFor
    from herdpy_sql.storage import View


async def create_schema_for(
    execution: Execution, plan: CreateSchemaFor, values: Sequence[Datum], rebind: Rebind
) -> Result:
    """Make a schema with the rights that its owner wants others to have.

    Raises:
        SqlError: 42704 there is no such role, 42501 the session's is no member of it, 42P06.
    """
    del values, rebind
    session = execution.block
    if session.roles is None:
        return await defined(execution, plan.tag, plan.make)  # there is nobody else: a dump may say so
    key = key_of(session, plan.owner)
    if not session.standing.is_superuser and key not in session.standing.roles:
        raise SqlError("42501", f'must be member of role "{plan.owner}"')

    def work(view: View) -> None:
        plan.make(view)
        subject = schema_subject(view.catalog, plan.name)
        keep(view, subject, key, made_with(view.catalog, "schema", EVERYWHERE, key))

    return await defined(execution, plan.tag, work)
