"""What all replicas of a node share: its threads, where a replica's files lie, and which bookies answer it.

The loop's own executor has few threads, for a server's short errands (names of hosts among them). A node's
threads are those for what takes long, and others for what a replica has to have done before it can follow or
lead: what an election waits for never waits for a checkpoint.

A bookie that is registered in ZooKeeper may still be out of this node's reach, in one direction or both,
while others reach it. Nothing tells of that but silence, so bookies are asked all the time
(:class:`BookieReach`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.errors import ClosedClientError
from herdpy.bookkeeper.metadata.znodes import Listeners
from herdpy.log.lsn import LSN
from herdpy_server.cluster.coordination import Coordination
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica.lac_reports import Reports
from herdpy_server.replica.seeding import Seeded, Tell
from herdpy_server.serving.driver import Driver
from herdpy_server.sessions import Session
from herdpy_server.sessions.identity import Observer
from herdpy_server.sessions.limits import SessionLimits
from herdpy_server.tablespace.cluster import Cluster
from herdpy_server.tablespace_host import DatabaseSettings
from herdpy_server.workers.scheduler import WorkerSettings
from herdpy_sql.errors import SqlError

LOOK_S = 0.1
"""How often it is looked at, and its listeners are called."""
ASK_S = 0.2
"""A bookie that has said nothing for so long is asked for a sign of life; so long after a refusal, too."""
FEW = 6
"""So many bookies are enough to be asked all the time; others are asked when those are silent, and rarely."""
RARELY_S = 5.0


class BookieReach:
    """Of one node, on its loop.

    Attributes:
        listeners: called after each look.
    """

    def __init__(self, bk: BookKeeper) -> None:
        self.listeners: Listeners[[]] = Listeners()
        self._bk = bk
        self._heard_s: dict[str, float] = {}  # when each bookie was heard last, or was first known
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._due_s: dict[str, float] = {}  # when each bookie may be asked again
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Ask from now on, until the client of BookKeeper is closed. May be repeated."""
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(), name="reach")

    async def close(self) -> None:
        """Ask no more. May be repeated."""
        tasks = [task for task in (self._running, *self._asked.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def silent_s(self, needed: int) -> float:
        """For how long fewer than ``needed`` of the registered bookies have been heard. 0: there are not so
        many, so that nobody reaches them.
        """
        now_s = asyncio.get_running_loop().time()
        ages_s = sorted(now_s - heard_s for heard_s in self._heard().values())
        return ages_s[needed - 1] if len(ages_s) >= needed else 0.0

    def answering(self, within_s: float) -> frozenset[str]:
        """The bookies that have been heard so lately."""
        from_s = asyncio.get_running_loop().time() - within_s
        return frozenset(one for one, heard_s in self._heard().items() if heard_s >= from_s)

    def _heard(self) -> dict[str, float]:
        """When each registered bookie was heard last, or was first known. Whatever it says counts: an answer
        may have to wait behind many others.
        """
        now_s = asyncio.get_running_loop().time()
        try:
            return {
                one: max(self._bk.heard_s(one), self._heard_s.get(one, now_s))
                for one in self._bk.writable_bookies()
            }
        except ClosedClientError:
            return {}

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        with contextlib.suppress(ClosedClientError):
            while True:
                late_s = loop.time() - due_s
                if late_s > LOOK_S:  # this process stood still, and answers wait to be read
                    self._heard_s = {one: heard_s + late_s for one, heard_s in self._heard_s.items()}
                self._look()
                due_s = loop.time() + LOOK_S
                await asyncio.sleep(LOOK_S)

    def _look(self) -> None:
        self._bk.writable_bookies()  # or the client is closed
        self._heard_s = heard_s = self._heard()
        self._due_s = {one: due_s for one, due_s in self._due_s.items() if one in heard_s}
        loop = asyncio.get_running_loop()
        for one in to_be_asked(heard_s, loop.time()):
            if one not in self._asked and loop.time() >= self._due_s.get(one, 0.0):
                self._asked[one] = loop.create_task(self._ask(one), name="reach asks")
        self.listeners.tell()

    async def _ask(self, bookie_id: str) -> None:
        """Ask once, with all the patience of a request: an answer that comes late shows that it is heard."""
        try:
            await self._bk.answers(bookie_id)
            self._due_s[bookie_id] = asyncio.get_running_loop().time() + ASK_S
        except ClosedClientError:
            return
        finally:
            self._asked.pop(bookie_id, None)


def to_be_asked(heard_s: Mapping[str, float], now_s: float) -> list[str]:
    """The bookies that are to be asked now, of those that there are, by when they were heard last.

    A few that say something show that the network is well. Only when they fall silent all others count.
    """
    latest = sorted(heard_s, key=lambda one: (-heard_s[one], one))
    heard = sum(1 for one in latest if now_s - heard_s[one] <= 2 * ASK_S)
    all_the_time = latest if heard < FEW else latest[:FEW]
    often = {one for one in all_the_time if now_s - heard_s[one] >= ASK_S}
    return [one for one in latest if one in often or now_s - heard_s[one] >= RARELY_S]


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
        reports: how a follower hears from the leader how far the log is confirmed; None: from bookies alone.
        reach: which bookies answer this node.
        threads: for what takes long.
        least_free_bytes: with less than that free on the disk, others are to lead where some can.
        replace_after_s: a replica on a node that has been away for so long is replaced.
        commit_delay_s, commit_siblings: of the logs that are led here, see ``LedgerLogSettings``.
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
    reports: Reports | None = None
    zookeeper: str = ""
    ledgers_root: str = "/ledgers"
    workers: WorkerSettings | None = None
    reach: BookieReach = field(init=False)
    threads: NodeThreads = field(default_factory=NodeThreads)
    replace_after_s: float = 600.0
    least_free_bytes: int = 0
    commit_delay_s: float = 0.004
    commit_siblings: int = 5
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
