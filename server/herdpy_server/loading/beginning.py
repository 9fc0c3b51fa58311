"""Beginning a load, giving one up, and telling what became of one. Above ``plan``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from herdpy_server.loading.load import check_id
from herdpy_server.loading.plan import StagingPlan, plan_load
from herdpy_server.tablespace import now_us
from herdpy_server.tablespace.guard import ReadLevel
from herdpy_sql.errors import SqlError
from herdpy_sql.storage import Clock

if TYPE_CHECKING:
    from herdpy_server.loading.load import BulkLoad
    from herdpy_server.sessions import Session
    from herdpy_server.store.loads import LoadOutcome


async def begin_load(session: Session, load: BulkLoad, columns: Sequence[str]) -> StagingPlan | LoadOutcome:
    """What to stage for a load, or what it came to when it was published before.

    Raises:
        SqlError: as ``plan_load``; 25006 another node leads.
    """
    session.checks.take_basis()
    known = session.tablespace.store.load(load.id)
    if known is not None:
        return known
    session.check_writable("a load")
    now = now_us()
    try:
        plan = plan_load(session.catalog, load, columns, Clock(now, now, session.settings.zone))
    except SqlError as error:
        await session.checks.durable_definitions(error)
        raise
    await session.checks.durable_definitions()
    await confirm(session)
    return plan


async def may_load(session: Session) -> None:
    """Return when this replica may stage and publish. SqlError 25006 another node leads."""
    session.checks.take_basis()
    session.check_writable("a load")
    await confirm(session)


async def find_load(session: Session, load_id: str) -> LoadOutcome | None:
    """What became of a load; None: it was not published, or so long ago that it is forgotten.

    Raises:
        SqlError: 25006, another node leads, and may know more.
    """
    check_id(load_id)
    session.checks.take_basis()
    known = session.tablespace.store.load(load_id)
    if known is None:
        session.check_writable("a question for a load")
        await confirm(session)
    return known


async def give_up(
    session: Session, load_id: str, remove: Callable[[], Awaitable[None]]
) -> LoadOutcome | None:
    """Have what was staged for a load removed, unless it was published: then, what it came to.

    In a task of the loop. Nobody publishes the load meanwhile; whoever does is waited for.

    Raises:
        SqlError: as :func:`find_load`, or what ``remove`` meets.
    """
    async with session.tablespace.load_turns.turn(load_id, session.waits.until):
        known = await find_load(session, load_id)
        if known is None:
            await remove()
    return known


async def confirm(session: Session) -> None:
    """Return when it is certain that nobody else led when the session's statement began. SqlError."""
    guard = session.tablespace.guard
    if guard is not None:
        await guard.confirm(ReadLevel(), session.checks.basis)
