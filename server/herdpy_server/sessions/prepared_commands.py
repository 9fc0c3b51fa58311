"""PREPARE, EXECUTE, DEALLOCATE and DISCARD. Beside ``control``.

PREPARE's statements are those of the protocol's Parse message: one name space, as in PostgreSQL.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from herdpy_server.sessions.plans import Prepared, PreparedStatement, no_statement
from herdpy_server.sessions.result import Result
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import Deallocate, Discard, Execute, Prepare
from herdpy_sql.storage import Clock

if TYPE_CHECKING:
    from herdpy_server.sessions.binding import BoundStatement
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.execution import Execution


async def prepare_statement(session: TransactionBlock, plan: Prepare) -> Result:
    """Carry out PREPARE. SqlError 42P05, 53400, and as planning raises."""
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


async def execute_prepared(execution: Execution, plan: Execute, bound: BoundStatement) -> Result:
    """Carry out EXECUTE. SqlError 26000, 0A000, and as the statement raises."""
    del bound
    session = execution.block
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
    return await execution.statement(found, datums)


async def deallocate(session: TransactionBlock, plan: Deallocate) -> Result:
    """Carry out DEALLOCATE. SqlError 26000."""
    if plan.name is None:
        session.prepared.clear()
    elif session.prepared.pop(plan.name, None) is None:
        raise no_statement(plan.name)
    return Result(plan.tag, -1)


async def discard(session: TransactionBlock, plan: Discard) -> Result:
    """Carry out DISCARD. SqlError 25001."""
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
