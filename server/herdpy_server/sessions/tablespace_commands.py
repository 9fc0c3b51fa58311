"""CREATE, ALTER, DROP and CHECK TABLESPACE: who may, and when. The node does it; see ``tablespace.cluster``.

Beside ``control``. What these change is in ZooKeeper and not in the log: it is done at once, no transaction
takes it back, and so inside BEGIN there is none. Any node does it, also one whose replica only follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.sessions.result import Result
from herdpy_server.tablespace.cluster import no_cluster
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.tablespace.cluster import Cluster
    from herdpy_sql.plan import ChangeTablespaces, CheckTablespace


async def change_tablespaces(session: TransactionBlock, plan: ChangeTablespaces) -> Result:
    """Carry out one of them.

    Raises:
        SqlError: 42501 the user may not, 25001 inside a transaction block, 25006, 55000 where there is no
            cluster; and as ``Cluster.change``.
    """
    command = plan.command
    cluster = _cluster(session, command.name, command.tablespace)
    for remark in await session.waits.until(cluster.change(command, session.identity.database)):
        session.notice(*remark)
    return Result(command.name, -1)


async def check_tablespace(session: TransactionBlock, plan: CheckTablespace) -> Result:
    """Compare replicas. SqlError as above, and as ``Cluster.check``."""
    cluster = _cluster(session, plan.tag, plan.name)
    checked = await session.waits.until(cluster.check(plan.name))
    for remark in checked.remarks:
        session.notice(*remark)
    return Result(plan, len(checked.rows), plan.columns, list(checked.rows))


def _cluster(session: TransactionBlock, name: str, tablespace: str) -> Cluster:
    """The node, if the user may ask it for statement ``name`` now."""
    if session.transaction is not None and not session.implicit:
        raise SqlError("25001", f"{name} cannot run inside a transaction block")
    if session.settings.read_only and not session.settings.standby:
        raise SqlError("25006", f"cannot execute {name} in a read-only transaction")
    if not session.effective_role.is_superuser:
        what = name.split(maxsplit=1)[0].lower()
        raise SqlError(
            "42501", f'permission denied to {what} tablespace "{tablespace}"', hint="Must be superuser."
        )
    cluster = session.tablespace.cluster
    if cluster is None:
        raise no_cluster()
    return cluster
