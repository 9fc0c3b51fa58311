"""The roles of a cluster: part of the replicated state of its default tablespace.

Beside ``node``. A change is a transaction of its own, logged on the node that leads that tablespace;
followers apply it, snapshots carry it. Of passwords there are verifiers only. Until the first change in the
cluster, and on a node that has no replica of the tablespace, the roles are those of the file of this node
(``roles.role.RoleFile``); the first change takes those of the leader's file over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import msgspec

from herdpy_server.replica.guard import ReplicaState
from herdpy_server.roles.role import Change, Role, RoleFile
from herdpy_server.sessions.binding import PlanAlone
from herdpy_server.store import Workspace
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.base import Plan, PlanOutcome

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_server.replica.node import ClusterNode
    from herdpy_server.replica.replica import Replica
    from herdpy_sql.clock import Clock
    from herdpy_sql.execute.base import Row
    from herdpy_sql.storage import View

_Definitions = Mapping[str, bytes]


class LoggedRoles:
    """See ``roles.role.RolePlace``. For the loop."""

    def __init__(self, node: ClusterNode) -> None:
        """Read the file of this node, if there is one. SqlError XX001 when it is damaged."""
        self._node = node
        self._file = RoleFile(node.path)
        self._last: _Definitions | None = None

    def _here(self) -> _Definitions | None:
        """What the log says, as far as it is applied here; None where that is nothing, or not known."""
        replica = self._node.replicas.get(self._node.cluster.tablespace)
        if replica is not None and replica.opened is not None:
            self._last = replica.opened.store.catalog.roles
        return self._last

    def __iter__(self) -> Iterator[Role]:
        """See ``RolePlace``."""
        known = self._here()
        return iter(self._file) if known is None else (_decode(one) for _name, one in sorted(known.items()))

    def get(self, name: str) -> Role | None:
        """See ``RolePlace``."""
        known = self._here()
        if known is None:
            return self._file.get(name)
        found = known.get(name)
        return None if found is None else _decode(found)

    def check_known(self) -> None:
        """See ``RolePlace``."""
        replica = self._node.replicas.get(self._node.cluster.tablespace)
        if self._here() is None and (
            self._node.host is None or (replica is not None and replica.opened is None)
        ):
            raise SqlError(
                "57P03",
                "the roles are not known yet: their tablespace is being opened",
                hint="Try again soon, or name several hosts.",
            )

    def check_writable(self, command: str) -> None:
        """See ``RolePlace``."""
        replica = self._replica(command)
        if replica.opened is not None and replica.state is not ReplicaState.LEADING:
            raise replica.guard.refusal(command)

    def _replica(self, command: str) -> Replica:
        name = self._node.cluster.tablespace
        replica = self._node.replicas.get(name)
        if replica is None:
            raise SqlError(
                "25006",
                f"cannot execute {command} on a node without a replica of tablespace {name}",
                hint="The roles are part of it: connect to the node that leads it.",
            )
        return replica

    async def change(self, command: str, change: Change) -> None:
        """See ``RolePlace``.

        Raises:
            SqlError: besides, 25006 this node does not lead the tablespace, 57P03 it has nothing of it now,
                08007 the log was lost meanwhile.
        """
        replica = self._replica(command)
        session = replica.session()
        try:
            plan = _ChangedRoles(command, change, self._file)
            await session.execution.run_plan(PlanAlone(plan))
        finally:
            await session.close()


class _ChangedRoles(Plan):
    """A change, as it fits the roles that there are when it runs."""

    def __init__(self, command: str, change: Change, file: RoleFile) -> None:
        self.tag = command
        self._change = change
        self._file = file

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        workspace = cast(Workspace, view)
        if workspace.catalog.roles is None:
            for role in self._file:
                workspace.put_role(role.name, msgspec.json.encode(role))
        before = {name: _decode(one) for name, one in (workspace.catalog.roles or {}).items()}
        after = self._change(before)
        for name in before.keys() - after.keys():
            workspace.drop_role(name)
        for name, role in after.items():
            if before.get(name) != role:
                workspace.put_role(name, msgspec.json.encode(role))
        return PlanOutcome(None, 0)


@lru_cache(1024)
def _decode(definition: bytes) -> Role:
    return msgspec.json.decode(definition, type=Role)
