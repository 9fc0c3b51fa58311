"""The statements about what a session keeps: PREPARE and EXECUTE, cursors, DISCARD.

Beside ``control``, which calls them. PREPARE's statements are those of the protocol's Parse message, and
cursors are portals: one name space each, as in PostgreSQL.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from herdpy_server.sessions.constraint_modes import set_constraints
from herdpy_server.sessions.plans import Prepared
from herdpy_server.sessions.portals import Portal, no_portal
from herdpy_server.sessions.prepared import PreparedStatement, no_statement
from herdpy_server.sessions.result import Result
from herdpy_server.sessions.right_changes import change_rights
from herdpy_server.sessions.role_changes import change_roles
from herdpy_server.sessions.schema_owners import create_schema_for
from herdpy_server.sessions.tablespace_changes import change_tablespaces, check_tablespace
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import (
    ChangeRights,
    ChangeRoles,
    ChangeTablespaces,
    CheckTablespace,
    CloseCursor,
    CreateSchemaFor,
    Deallocate,
    DeclareCursor,
    Discard,
    Execute,
    Fetch,
    Nothing,
    Plan,
    Prepare,
    SetConstraints,
)
from herdpy_sql.storage import Clock

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.rebind import Rebind
    from herdpy_server.sessions.statements import Statements

_OF_VALUES = "22"
"""The class of errors that computing a row raises: a cursor's are told when its rows are fetched."""


async def _prepare(session: Statements, plan: Prepare) -> Result:
    text = plan.statement.text
    prepared = Prepared(session.plans, plan.statement, plan.types)
    made = PreparedStatement(
        session.plans,
        text,
        prepared,
        session.catalog,
        session.settings.engine,
        by_sql=True,
        source=session.source,
    )
    if plan.name in session.prepared:
        raise SqlError("42P05", f'prepared statement "{plan.name}" already exists')
    session.allowed.check_statements(len(session.prepared))
    session.prepared[plan.name] = made
    return Result("PREPARE", -1)


async def _execute(session: Statements, plan: Execute) -> Result:
    found = session.prepared.get(plan.name)
    if found is None:
        raise no_statement(plan.name)
    if found.named:
        raise SqlError("0A000", f'EXECUTE cannot give "{plan.name}" the name of its commit, only Bind can')
    now = time.time_ns() // 1000
    transaction = session.transaction
    started = now if transaction is None else transaction.started_us
    found.binds += 1
    datums = plan.datums(found.param_types, Clock(started, now, session.settings.zone))
    return await session.run_bound(found, datums)


async def _deallocate(session: Statements, plan: Deallocate) -> Result:
    if plan.name is None:
        session.prepared.clear()
    elif session.prepared.pop(plan.name, None) is None:
        raise no_statement(plan.name)
    return Result(plan.tag, -1)


async def declare(
    session: Statements, plan: DeclareCursor, values: Sequence[Datum], rebind: Rebind
) -> Result:
    """Carry out DECLARE: the query begins now, its rows are fetched later.

    Raises:
        SqlError: 25P01 outside of a transaction, unless WITH HOLD; 42P03 the name is taken; 53400; and
            what the query raises, but for errors of single values, which its first FETCH raises.
    """
    alone = session.transaction is None and session.autocommit
    if not plan.hold and not session.in_block:
        raise SqlError("25P01", "DECLARE CURSOR can only be used in transaction blocks")
    if plan.name in session.portals:
        raise SqlError("42P03", f'cursor "{plan.name}" already exists')
    session.allowed.check_portals(len(session.portals))
    portal = Portal(plan.name, None, ())
    portal.columns = plan.query.columns
    portal.by_sql, portal.hold, portal.scroll = True, plan.hold, plan.scroll
    portal.depth = session.depth
    portal.is_binary = plan.binary
    portal.source = session.source
    portal.scrolls = plan.scroll == "SCROLL" or (not plan.scroll and plan.goes_back)
    session.may_recover = session.declares = True
    try:
        session.hold(portal, await session.run_plan(plan.query, values, rebind))
        if portal.window is not None:
            await portal.window.reach(None if plan.hold else 1)  # errors but of values are DECLARE's
    except SqlError as error:
        if plan.hold or not error.sqlstate.startswith(_OF_VALUES) or session.transaction is None:
            raise
        session.failed = False
        portal.failure = error
    except BaseException:
        portal.close()
        raise
    finally:
        session.may_recover = session.declares = False
    portal.held = alone
    session.portals[plan.name] = portal
    return Result("DECLARE CURSOR", -1)


async def _fetch(session: Statements, plan: Fetch) -> Result:
    portal = session.portals.get(plan.name)
    if portal is None:
        raise no_portal(plan.name, "cursor")
    await session.run_portal(portal)
    return await portal.fetch(session, plan.direction, plan.count, move=plan.move)


async def _close(session: Statements, plan: CloseCursor) -> Result:
    if plan.name is None:
        session.drop_portals()
    elif not session.drop_portal(plan.name):
        raise no_portal(plan.name, "cursor")
    return Result(plan.tag, -1)


async def _discard(session: Statements, plan: Discard) -> Result:
    if plan.what == "ALL":
        if session.transaction is not None:
            how = "run inside a transaction block" if session.in_block else "be executed within a pipeline"
            raise SqlError("25001", f"DISCARD ALL cannot {how}")
        session.drop_portals()
        session.prepared.clear()
        session.settings.set("session_authorization", None)
        session.settings.reset()
        if session.advisory is not None:
            session.advisory.unlock_all()
    if plan.what in {"ALL", "SEQUENCES"}:
        session.sequences.forget()
    if plan.what in {"ALL", "TEMP", "TEMPORARY"}:
        session.drop_temporary()
    return Result(plan.tag, -1)


async def _nothing(session: Statements, plan: Nothing) -> Result:
    return Result(plan.tag, -1)


async def _rights(session: Statements, plan: ChangeRights) -> Result:
    return await change_rights(session, plan.command)


async def _roles(session: Statements, plan: ChangeRoles) -> Result:
    return await change_roles(session, plan.command)


KEPT: dict[type[Plan], Callable[[Statements, Any], Awaitable[Result]]] = {
    Prepare: _prepare,
    Execute: _execute,
    Deallocate: _deallocate,
    Fetch: _fetch,
    CloseCursor: _close,
    Discard: _discard,
    SetConstraints: set_constraints,
    Nothing: _nothing,
    ChangeRights: _rights,
    ChangeRoles: _roles,
    ChangeTablespaces: change_tablespaces,
    CreateSchemaFor: create_schema_for,
    CheckTablespace: check_tablespace,
}
"""How each is carried out."""
