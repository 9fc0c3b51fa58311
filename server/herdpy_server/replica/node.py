"""A node of a cluster: one server process, with a replica of each tablespace that is placed here.

Top of the package. It is the ``Placements`` of the ``ServedNode`` that the front ends serve. ``placed`` has
replicas come and go as ZooKeeper says.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from herdpy.bookkeeper import BookKeeper, BookKeeperError, ClientSettings
from herdpy.formats import LEVEL_HINT, NEWEST_LEVEL
from herdpy.zookeeper_access import IN_THE_CLEAR
from herdpy_server.backup.archiver import ArchiveSettings
from herdpy_server.cluster.coordination import Coordination
from herdpy_server.cluster.errors import ClusterError, NewerClusterError
from herdpy_server.cluster.layout import NodeRecord
from herdpy_server.cluster.level import hindrance, read_level, write_level
from herdpy_server.cluster.placement import place
from herdpy_server.cluster.secret import NodeSecret
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica.administration import Administration
from herdpy_server.replica.facts import ClusterFacts
from herdpy_server.replica.guard import UNREADABLE
from herdpy_server.replica.host import Host
from herdpy_server.replica.lac_reports import remote_reports
from herdpy_server.replica.placed import PlacedReplicas, Removal
from herdpy_server.replica.replica import Replica
from herdpy_server.replica.seeding import Credentials, Seeding
from herdpy_server.replica.served import ServedReplica
from herdpy_server.serving.backup_schedule import BackupScheduleSettings
from herdpy_server.serving.driver import Driver, LoopTurn
from herdpy_server.serving.node import UpgradeServer, UpgradeState, no_tablespace
from herdpy_server.sessions import Session
from herdpy_server.sessions.identity import ObserverOf
from herdpy_server.sessions.limits import SessionLimits
from herdpy_server.supervisor.supervision import Supervision
from herdpy_server.tablespace_host import DatabaseSettings
from herdpy_server.tracing import EntryTracer
from herdpy_server.workers.scheduler import WorkerSettings
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.node")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """How a node finds its cluster, and what its tablespaces are made like.

    Attributes:
        zookeeper: its servers, "host:port,host:port".
        root, ledgers_root: under which znodes this cluster, and BookKeeper's metadata, are.
        session_timeout_s, join_timeout_s, lease_s, replace_after_s, least_free_bytes: see docs/operations.md.
        commit_delay_s, commit_siblings, spare_ledgers: see docs/operations.md.
        tablespace: the one that is made when there is none yet, with the counts that follow.
    """

    zookeeper: str
    root: str = "/herdpy"
    ledgers_root: str = "/ledgers"
    session_timeout_s: float = 1.0
    join_timeout_s: float = 60.0
    lease_s: float = 0.4
    replace_after_s: float = 600.0
    least_free_bytes: int = 256 << 20
    commit_delay_s: float = 0.004
    commit_siblings: int = 5
    spare_ledgers: int = 16
    tablespace: str = "herdpy"
    expected_replicas: int = 3
    ensemble: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2

    def tablespace_defaults(self) -> TablespaceInfo:
        """A tablespace as it is where nothing else is said; with the name of the default one."""
        return TablespaceInfo(
            name=self.tablespace,
            uuid="",
            expected_replicas=self.expected_replicas,
            ensemble=self.ensemble,
            write_quorum=self.write_quorum,
            ack_quorum=self.ack_quorum,
        )


_EXISTS = "42710"
_MISSING = "42704"
_FOLLOW_INTERVAL_S = 0.015
"""While writes come all the time a follower is so much behind, and has a fraction of the work; unless
somebody waits for what is new."""
_TELL_S = 0.04
"""After so long without another entry the leader tells that the last one is confirmed."""
_OTHER_REPLICA_S = 0.1
"""After so long without an answer another bookie is asked for an entry: a follower is not held up by one."""


class ClusterNode:
    """To be made on the loop. The front ends may use it before :meth:`start`: then there is nothing yet.

    Attributes:
        replicas: by the name of their tablespace.
        host: what they share; None before ``start``.
        observer_of, limits, end_session, roles_changed: of sessions; to be set before ``start``.
        tracer_of: as of ``Host``; to be set before ``start``.
        credentials: what other nodes are shown; to be set before ``start``.
        secret: by which nodes know each other; to be set before anybody learns of the node.
        zookeeper_access: whether ZooKeeper is spoken to by TLS; to be set before ``start``.
        supervision: has the cluster learn of this process's end; to be set before ``start`` by the
            process that holds the directory's lock. None: the session's expiry tells.
        archive: where and when logs that are led here are archived; to be set before ``start``.
        backups: when backups are made, and which stay; to be set before ``start``.
        refused: why this process may not be a node, once that is so.
    """

    def __init__(
        self,
        directory: Path,
        cluster: ClusterSettings,
        settings: DatabaseSettings,
        workers: WorkerSettings | None = None,
    ) -> None:
        """Args:
        directory: the server's data directory.
        """
        loop = asyncio.get_running_loop()
        self.path = directory
        self.cluster = cluster
        self.settings = settings
        self.workers = workers
        self.driver = Driver(loop)
        self.turn = LoopTurn(loop)
        self.observer_of: ObserverOf | None = None
        self.tracer_of: Callable[[TablespaceInfo], EntryTracer] | None = None
        self.limits = SessionLimits()
        self.credentials = Credentials()
        self.secret = NodeSecret()
        self.zookeeper_access = IN_THE_CLEAR
        self.supervision: Supervision | None = None
        self.archive = ArchiveSettings()
        self.backups = BackupScheduleSettings()
        self.end_session: Callable[[Session, SqlError], object] = lambda _session, _error: None
        self.roles_changed: Callable[[], object] = lambda: None
        self.replicas: dict[str, Replica] = {}
        self.host: Host | None = None
        self.refused: asyncio.Future[ClusterError] = loop.create_future()
        self._bk: BookKeeper | None = None
        self._coordination: Coordination | None = None
        self._facts: ClusterFacts | None = None
        self._administration: Administration | None = None
        self._removal: Removal | None = None
        self._placed: PlacedReplicas | None = None
        self._stop_watching: Callable[[], None] | None = None
        self._knows_all = False  # which tablespaces there are: before, nothing is known not to be there
        self._is_closed = False

    async def start(self, own: NodeRecord) -> None:
        """Join the cluster as ``own``, and begin the replicas that are placed here.

        Raises:
            NodeIdInUseError: another process that lives has the node's id.
            BookKeeperError: ZooKeeper or BookKeeper cannot be reached.
            SqlError: the first tablespace cannot be made; 0A000, the cluster's level is not known here.
        """
        cluster = self.cluster
        self._bk = bk = BookKeeper(
            f"zk://{cluster.zookeeper}{cluster.ledgers_root}",
            settings=ClientSettings(
                zookeeper_timeout_s=cluster.session_timeout_s,
                zookeeper_patience_s=cluster.join_timeout_s,
                zookeeper_access=self.zookeeper_access,
                tail_interval_s=_FOLLOW_INTERVAL_S,
                explicit_lac_interval_s=_TELL_S,
                speculative_read_s=_OTHER_REPLICA_S,
            ),
        )
        await self._open(bk, own)
        self._coordination = coordination = Coordination(
            bk.znodes, cluster.root, own, lease_s=cluster.lease_s, refused=self._refuse
        )
        try:
            await coordination.start()
        except NewerClusterError as error:
            raise SqlError("0A000", str(error), hint=LEVEL_HINT) from error
        logger.info("registered", extra={"node": own.node, "instance": own.instance})
        await self.secret.learn(bk.znodes, coordination.layout.secret)
        self.host = Host(
            node=own.node,
            directory=self.path / "tablespaces",
            bk=bk,
            coordination=coordination,
            driver=self.driver,
            turn=self.turn,
            settings=self.settings,
            seed=Seeding(own.node, bk.znodes, coordination, self.credentials, self.secret).seed,
            reports=remote_reports(self.credentials, partial(self.secret.proof, own.node)),
            zookeeper=cluster.zookeeper,
            ledgers_root=cluster.ledgers_root,
            zookeeper_access=self.zookeeper_access,
            workers=self.workers,
            archive=self.archive,
            backups=self.backups,
            replace_after_s=cluster.replace_after_s,
            least_free_bytes=cluster.least_free_bytes,
            commit_delay_s=cluster.commit_delay_s,
            commit_siblings=cluster.commit_siblings,
            spare_ledgers=cluster.spare_ledgers,
            observer_of=self.observer_of,
            tracer_of=self.tracer_of,
            limits=self.limits,
            end_session=self.end_session,
            roles_changed=self.roles_changed,
        )
        self._facts = ClusterFacts(self.host, self.replicas)
        self.host.cluster = self._administration = Administration(
            self.host, cluster.tablespace_defaults(), self.create, self._facts, self._replica
        )
        self._removal = Removal(self.host)
        self._placed = PlacedReplicas(self.host, self._removal, self.replicas)
        if self._is_closed:  # while this was on its way
            self._placed.stop()
        self._stop_watching = await coordination.tablespaces.watch(self._placed.changed)
        await self._removal.sweep(self._placed.later)
        if not coordination.tablespaces.known:
            await self._make_first()
        self._knows_all = True

    async def _open(self, bk: BookKeeper, own: NodeRecord) -> None:
        """Connect, and remove what a former process of this node has left in ZooKeeper."""
        await bk.open()
        if self.supervision is not None:
            await self.supervision.attest_former()  # not before ZooKeeper answers: it is not tried for long
            self.supervision.follow(bk.znodes, own.instance)

    async def _make_first(self) -> None:
        try:
            await self.create(self.cluster.tablespace_defaults(), prefers=False)
        except SqlError as error:
            if error.sqlstate != _EXISTS:  # else another node's first start was quicker
                raise

    async def create(self, info: TablespaceInfo, *, prefers: bool = True) -> TablespaceInfo:
        """Make a tablespace, placed on the nodes that are there where ``info`` does not say.

        Args:
            prefers: the node that leads least becomes its preferred leader, if none is named. Not of the
                first tablespace, which is made when there may be one node only.

        Raises:
            SqlError: as ``Tablespaces.create``.
            BookKeeperError: ZooKeeper cannot be reached.
        """
        coordination, facts = self._coordination, self._facts
        assert coordination is not None
        assert facts is not None
        membership = coordination.membership
        away_s = {node: membership.away_s(node) for node in {*membership.nodes, *info.replicas}}
        leaders = await facts.leaders()
        others = [
            msgspec.structs.replace(one, leader=one.leader or leaders.get(one.name))
            for one in coordination.tablespaces.known.values()
        ]
        replicas, leader = place(info, away_s, others)
        chosen = leader if prefers else info.leader
        return await coordination.tablespaces.create(
            msgspec.structs.replace(info, replicas=replicas, leader=chosen)
        )

    def _refuse(self, error: ClusterError) -> None:
        if not self.refused.done():
            self.refused.set_result(error)

    async def upgrade_state(self) -> UpgradeState:
        """See ``Placements``."""
        coordination = self._coordination
        if coordination is None:
            raise SqlError("57P03", "the server has not joined its cluster yet", hint="Try again soon.")
        nodes = coordination.membership.nodes
        return UpgradeState(
            coordination.level,
            NEWEST_LEVEL,
            [UpgradeServer(one.node, one.version, one.level) for _name, one in sorted(nodes.items())],
            hindrance(nodes, NEWEST_LEVEL),
        )

    async def finish_upgrade(self) -> UpgradeState:
        """See ``Placements``."""
        state = await self.upgrade_state()
        coordination = self._coordination
        assert coordination is not None
        if state.hindrance:
            raise SqlError(
                "55000",
                f"the upgrade cannot be finished: {state.hindrance}",
                hint="Upgrade these servers first; those that are away can join only with the new version.",
            )
        await self._lock_older_out(coordination)
        await write_level(coordination.znodes, coordination.layout, NEWEST_LEVEL, self.node_id)
        await self._lock_older_out(coordination)  # of tablespaces that were made meanwhile
        coordination.level = await read_level(coordination.znodes, coordination.layout)
        logger.info("upgrade finished", extra={"level": coordination.level})
        return await self.upgrade_state()

    async def _lock_older_out(self, coordination: Coordination) -> None:
        """Give every tablespace's record the newest level. SqlError of ZooKeeper."""
        for name in await coordination.znodes.children(coordination.layout.tablespaces):
            try:
                await coordination.tablespaces.alter(
                    name, lambda info: msgspec.structs.replace(info, format=max(info.format, NEWEST_LEVEL))
                )
            except SqlError as error:
                if error.sqlstate != _MISSING:  # else it is dropped, or was meanwhile
                    raise

    # What the front ends see: ``Placements``.

    @property
    def node_id(self) -> str:
        """See ``Placements``."""
        return "" if self.host is None else self.host.node

    @property
    def default_tablespace(self) -> str:
        """See ``Placements``."""
        return self.cluster.tablespace

    def tablespace_of(self, database: str) -> str:
        """See ``Placements``: it has the same name."""
        return database

    def here(self, name: str) -> ServedReplica | None:
        """See ``Placements``."""
        replica = self.replicas.get(name)
        return None if replica is None else replica.served

    def leads(self, name: str) -> bool:
        """Whether this node leads a tablespace, and answers as its leader."""
        replica = self.replicas.get(name)
        return replica is not None and replica.guard.leads

    def all_here(self) -> list[ServedReplica]:
        """See ``Placements``."""
        return [replica.served for _name, replica in sorted(self.replicas.items())]

    def elsewhere(self, name: str) -> SqlError | None:
        """See ``Placements``: with 57P03 libpq goes on to the next host that it knows."""
        coordination = self._coordination
        info = None if coordination is None else coordination.tablespaces.known.get(name)
        if self._knows_all and (info is None or info.dropped):
            return None
        if info is None or coordination is None:
            return SqlError("57P03", "the server has not joined its cluster yet", hint="Try again soon.")
        nodes = coordination.membership.nodes
        places = [f"{node} at {nodes[node].sql}" for node in info.replicas if node in nodes]
        return SqlError(
            "57P03",
            f"there is no replica of tablespace {name} on this node",
            detail=f"Its replicas are on {', '.join(places) or 'nodes that are away'}.",
        )

    def _replica(self, name: str) -> Replica:
        """The replica that is here; SqlError as ``ServedNode.find``."""
        replica = self.replicas.get(name)
        if replica is None:
            raise self.elsewhere(name) or no_tablespace(name)
        return replica

    def problem(self) -> str | None:
        """Why clients of some tablespace should not be sent here now; None when there is no reason."""
        replicas = [replica for _name, replica in sorted(self.replicas.items())]
        unreadable = [one for one in replicas if one.opened is None or one.state in UNREADABLE]
        return "; ".join(f"the replica of {one.info.name} is {one.state.value}" for one in unreadable) or None

    @property
    def is_closed(self) -> bool:
        """See ``Placements``."""
        return self._is_closed

    async def hand_over(self) -> None:
        """The server ends: have other nodes lead what is led here, as far as others can now.

        A cancel leaves what has begun; :meth:`close` hands over what is still led here then.
        """
        leaving = [one.leave() for one in self.replicas.values()]
        for error in await asyncio.gather(*leaving, return_exceptions=True):
            if isinstance(error, Exception):
                logger.error("a leadership could not be handed over", exc_info=error)

    async def close(self) -> None:
        """Leave: hand leaderships over, close the replicas, end the session with ZooKeeper."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._placed is not None:
            self._placed.stop()
        if self._stop_watching is not None:
            self._stop_watching()
        for part in (self._administration, self._removal, self._facts):
            if part is not None:
                await part.close()
        if self._placed is not None:
            await self._placed.settled()
        await asyncio.gather(*[one.close() for one in self.replicas.values()], return_exceptions=True)
        self.replicas.clear()
        if self.host is not None:
            await self.host.reach.close()
            await self.host.spares.close()
        if self._coordination is not None:
            with contextlib.suppress(BookKeeperError):
                await self._coordination.close()
        if self._bk is not None:
            await self._bk.close()
        if self.supervision is not None:
            await self.supervision.close()
        if self.host is not None:
            self.host.threads.close()
