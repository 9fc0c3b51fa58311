"""DECLARE, FETCH, MOVE and CLOSE. Beside ``control``. Cursors are portals: one name space, as in
PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.sessions.portals import Portal, no_portal
from herdpy_server.sessions.result import Result
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import CloseCursor, DeclareCursor, Fetch

if TYPE_CHECKING:
    from herdpy_server.sessions.binding import BoundStatement
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.execution import Execution

_OF_VALUES = "22"
"""The class of errors that computing a row raises: those of a cursor are raised when its rows are fetched."""


async def declare_cursor(execution: Execution, plan: DeclareCursor, bound: BoundStatement) -> Result:
    """Carry out DECLARE: the query begins now, its rows are fetched later.

    Raises:
        SqlError: 25P01 outside of a transaction, unless WITH HOLD; 42P03 the name is taken; 53400; and
            what the query raises, but for errors of single values, which its first FETCH raises.
    """
    session = execution.block
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
        execution.cursors.hold(portal, await execution.run_plan(bound.inner(plan.query)))
        if portal.buffer is not None:
            await portal.buffer.reach(None if plan.hold else 1)  # errors but of values are DECLARE's
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


async def fetch(execution: Execution, plan: Fetch, bound: BoundStatement) -> Result:
    """Carry out FETCH or MOVE. SqlError 34000, and as ``Portal.fetch``."""
    del bound
    session = execution.block
    portal = session.portals.get(plan.name)
    if portal is None:
        raise no_portal(plan.name, "cursor")
    await _run(execution, portal)
    return await portal.fetch(session, plan.direction, plan.count, move=plan.move)


async def close_cursor(session: TransactionBlock, plan: CloseCursor) -> Result:
    """Carry out CLOSE. SqlError 34000."""
    if plan.name is None:
        session.drop_portals()
    elif not session.drop_portal(plan.name):
        raise no_portal(plan.name, "cursor")
    return Result(plan.tag, -1)


async def _run(execution: Execution, portal: Portal) -> None:
    """See to it that a portal has its answer."""
    if portal.has_run:
        return
    if portal.spent or portal.statement is None:
        portal.result = Result("", 0, portal.columns, [])
    else:
        execution.cursors.hold(portal, await execution.statement(portal.statement, portal.datums))
