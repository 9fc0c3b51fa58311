"""What all replicas of a node share, its threads, and where a replica's files lie.

The loop's own executor has few threads, for a server's short errands (names of hosts among them). A node's
threads are those for what takes long, and others for what a replica has to have done before it can follow or
lead: what an election waits for never waits for a checkpoint.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from herdpy.bookkeeper import BookKeeper
from herdpy.log.lsn import LSN
from herdpy_server.cluster.coordination import Coordination
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica.reach import BookieReach
from herdpy_server.replica.seeding import Seeded, Tell
from herdpy_server.serving.driver import Driver
from herdpy_server.sessions import Session
from herdpy_server.sessions.identity import Observer
from herdpy_server.sessions.limits import SessionLimits
from herdpy_server.tablespace.cluster import Cluster
from herdpy_server.tablespace_host import DatabaseSettings
from herdpy_server.workers.scheduler import WorkerSettings
from herdpy_sql.errors import SqlError

_OPENING = 4
_CHECKPOINTS = 4


class NodeThreads:
    """Attributes:
    opening: stores are opened here, and their directories marked and put in their places.
    checkpoints: checkpoints that are asked for, the last ones of stores that are closed, and directories that
        are removed.
    """

    def __init__(self) -> None:
        self.opening = ThreadPoolExecutor(_OPENING, "herdpy-opening")
        self.checkpoints = ThreadPoolExecutor(_CHECKPOINTS, "herdpy-checkpoints")

    def close(self) -> None:
        """No more of either; what is under way comes to its end."""
        self.opening.shutdown(wait=False)
        self.checkpoints.shutdown(wait=False)


Seed = Callable[[TablespaceInfo, Path, Tell, LSN], Awaitable[Seeded]]
"""``Seeding.seed``."""


@dataclass(kw_only=True)
class Host:
    """One node, as its replicas see it.

    Attributes:
        node: its id.
        directory: of the replicas; each has one named like its tablespace in it.
        bk: the client of BookKeeper; ``coordination`` is over its ZooKeeper session.
        zookeeper, ledgers_root: how others reach that BookKeeper: servers, and the znode of its metadata.
        driver, turn: of the one loop.
        seed: how a replica that is new or too far behind gets another's state.
        reach: which bookies answer this node.
        threads: for what takes long.
        least_free_bytes: with less than that free on the disk, others are to lead where some can.
        replace_after_s: a replica on a node that has been away for so long is replaced.
        cluster: what sessions may ask of the cluster.
        observer, limits: of sessions that begin from now on.
        end_session: ends a session's connection, and tells its client why.
        roles_changed: called when there may be other roles than before.
    """

    node: str
    directory: Path
    bk: BookKeeper
    coordination: Coordination
    driver: Driver
    turn: AbstractContextManager[object]
    settings: DatabaseSettings
    seed: Seed
    zookeeper: str = ""
    ledgers_root: str = "/ledgers"
    workers: WorkerSettings | None = None
    reach: BookieReach = field(init=False)
    threads: NodeThreads = field(default_factory=NodeThreads)
    replace_after_s: float = 600.0
    least_free_bytes: int = 0
    cluster: Cluster | None = None
    observer: Observer | None = None
    limits: SessionLimits = field(default_factory=SessionLimits)
    end_session: Callable[[Session, SqlError], object] = lambda _session, _error: None
    roles_changed: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        self.reach = BookieReach(self.bk)

    def path(self, name: str) -> Path:
        """Where the replica of a tablespace lies."""
        return self.directory / name
