"""A replica as the doors see it (``serving.tablespaces``): where it stands, and its store to be read.

Beside ``replica``, whose state it tells; it changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from herdpy.log import LedgerInfo
from herdpy.log.lsn import LSN, START
from herdpy_server.replica.served_log import ServedLogOfReplica
from herdpy_server.replica.state import ReplicaState
from herdpy_server.serving.loads import LoadsHere
from herdpy_server.serving.tablespaces import FOLLOWER, LEADER, Standing, Use
from herdpy_server.tablespace.guard import ReadLevel
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.replica.body import Body
    from herdpy_server.replica.replica import Replica

_ROLES = {ReplicaState.LEADING: LEADER, ReplicaState.FOLLOWING: FOLLOWER}
READABLE = frozenset(
    {
        ReplicaState.FOLLOWING,
        ReplicaState.TAKING_OVER,
        ReplicaState.LEADING,
        ReplicaState.HANDING_OVER,
    }
)
"""What it holds is a state of the log then, if an old one."""


class ServedReplica:
    """See ``Served``."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.log = ServedLogOfReplica(replica)

    def standing(self) -> Standing:
        """See ``Served``."""
        replica = self._replica
        body, leader = replica.body, replica.guard.leader
        applied = replica.applied
        return Standing(
            name=replica.info.name,
            role=_ROLES.get(replica.state, replica.state.value),
            state=replica.state.value,
            applied=applied,
            durable=START if body is None else body.store.durable,
            log_end=max(replica.log_end, applied),
            lag_entries=replica.lag_entries,
            leader=None if leader is None else leader.node,
            epoch=replica.epoch,
            takeovers=replica.takeovers,
            seedings=replica.seedings,
            seeding=replica.seeding,
            problem=replica.problem,
            unfit=replica.unfit,
            store=None if body is None else body.store,
            bookies_missing=replica.bookies_missing,
            list_share=replica.list_share,
            clients_without_leader=replica.clients_without_leader,
            pending=0 if body is None else body.tablespace.pending,
        )

    def ledgers(self) -> Sequence[LedgerInfo]:
        """See ``Served``."""
        return self._replica.ledgers()

    async def checkpoint(self) -> list[int]:
        """See ``Served``. The leader trims the log by itself, in its duties."""
        body = self._body()
        threads = self._replica.host.threads.checkpoints
        await asyncio.get_running_loop().run_in_executor(threads, body.checkpoint)
        self._replica.duties.look()
        return []

    def use(self, give_up: Callable[[], object]) -> Use:
        """See ``Served``."""
        body = self._body()
        return Use(body.store, body.checkpointer, body.uses.enter(give_up))

    def loads(self) -> LoadsHere:
        """See ``Served``."""
        replica = self._replica
        leader = replica.guard.leader
        door = None if leader is None or leader.grpc is None else str(leader.grpc)
        return LoadsHere(replica.session, replica.host.driver.call, replica.load_ledgers(), door)

    async def reached(self, lsn: LSN) -> None:
        """See ``Served``."""
        await self._replica.guard.admit(ReadLevel("at_lsn", min_lsn=lsn))

    def _body(self) -> Body:
        replica = self._replica
        if replica.body is None or replica.state not in READABLE:
            raise SqlError(
                "57P03",
                f"this replica of tablespace {replica.info.name} cannot be read now: "
                f"it is {replica.state.value}",
                hint="Try again soon, or ask another node.",
            )
        return replica.body
