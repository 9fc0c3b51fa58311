"""A replica as the doors see it (``serving.tablespaces``): its state, its store to be read, and its log.

Between ``base`` and ``replica``; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from herdpy.log import LedgerInfo
from herdpy.log.lsn import LSN, START
from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.state import ReplicaState
from herdpy_server.serving.logs import ServedLog
from herdpy_server.serving.tablespaces import FOLLOWER, LEADER, LoadsHere, Standing, Use
from herdpy_server.sessions import Session
from herdpy_server.tablespace.guard import ReadLevel

_ROLES = {ReplicaState.LEADING: LEADER, ReplicaState.FOLLOWING: FOLLOWER}


class ServedReplica:
    """See ``Served``."""

    def __init__(self, replica: ReplicaBase, log: ServedLog) -> None:
        self._replica = replica
        self.log = log

    def session(self) -> Session:
        """See ``Served``."""
        return self._replica.session()

    def standing(self) -> Standing:
        """See ``Served``."""
        replica = self._replica
        opened, leader = replica.opened, replica.guard.leader
        applied = replica.applied
        return Standing(
            name=replica.info.name,
            role=_ROLES.get(replica.state, replica.state.value),
            state=replica.state.value,
            applied=applied,
            durable=START if opened is None else opened.store.durable,
            log_end=max(replica.log_end, applied),
            lag_entries=replica.lag_entries,
            leader=None if leader is None else leader.node,
            epoch=replica.epoch,
            takeovers=replica.takeovers,
            seedings=replica.seedings,
            seeding=replica.seeding,
            problem=replica.problem,
            unfit=replica.unfit,
            store=None if opened is None else opened.store,
            bookies_missing=replica.bookies_missing,
            list_share=replica.list_share,
            clients_without_leader=replica.clients_without_leader,
            pending=0 if opened is None else opened.tablespace.pending,
        )

    def ledgers(self) -> Sequence[LedgerInfo]:
        """See ``Served``."""
        return self._replica.ledgers()

    async def checkpoint(self) -> list[int]:
        """See ``Served``. The leader trims the log by itself, among its tasks."""
        await self._replica.checkpoint()
        return []

    def use(self, give_up: Callable[[], object]) -> Use:
        """See ``Served``."""
        return self._replica.use(give_up)

    def loads(self) -> LoadsHere:
        """See ``Served``."""
        replica = self._replica
        leader = replica.guard.leader
        door = None if leader is None or leader.grpc is None else str(leader.grpc)
        return LoadsHere(replica.session, replica.host.driver.call, replica.load_ledgers(), door)

    async def reached(self, lsn: LSN) -> None:
        """See ``Served``."""
        await self._replica.guard.admit(ReadLevel("at_lsn", min_lsn=lsn))
