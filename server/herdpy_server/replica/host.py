"""What all replicas of a node share: its threads, where a replica's files lie, and which bookies answer it.

The loop's own executor has few threads, for a server's short errands (names of hosts among them). A node's
threads are those for what takes long, and others for what a replica has to have done before it can follow or
lead: what an election waits for never waits for a checkpoint.

A bookie that is registered in ZooKeeper may still be out of this node's reach, in one direction or both,
while others reach it. Nothing tells of that but silence, so bookies are asked all the time, and less often
while this node has nothing else to do with them (:class:`BookieReach`).
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
from herdpy.zookeeper_access import IN_THE_CLEAR, ZooKeeperAccess
from herdpy_server.backup.archiver import ArchiveSettings
from herdpy_server.cluster.coordination import Coordination
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica.lac_reports import Reports
from herdpy_server.replica.seeding import ReportSeeding, Seeded
from herdpy_server.replica.spares import SpareLedgers
from herdpy_server.serving.backup_schedule import BackupScheduleSettings
from herdpy_server.serving.driver import Driver
from herdpy_server.sessions import Session
from herdpy_server.sessions.identity import ObserverOf
from herdpy_server.sessions.limits import SessionLimits
from herdpy_server.tablespace.cluster import Cluster
from herdpy_server.tablespace_host import DatabaseSettings
from herdpy_server.tracing import EntryTracer
from herdpy_server.workers.scheduler import WorkerSettings
from herdpy_sql.errors import SqlError

LOOK_S = 0.1
"""How often it is looked at, and its listeners are called."""
ASK_S = 0.2
"""A bookie that has said nothing for so long is asked for a sign of life; so long after a refusal, too."""
IDLE_S = 5.0
"""A node is idle when so long nothing came from bookies but answers to such questions."""
IDLE_LOOK_S, IDLE_ASK_S = 0.25, 1.0
"""The two above for a node that is idle."""
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
        self._unanswered_s: dict[str, float] = {}  # when each was first asked since it was heard
        self._known_s: dict[str, float] = {}  # when each was heard last, as of the last look or answer
        self._busy_until_s = 0.0
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Ask from now on, until the client of BookKeeper is closed. May be repeated."""
        if self._running is None:
            self._busy_until_s = asyncio.get_running_loop().time() + IDLE_S
            self._running = asyncio.get_running_loop().create_task(self._run(), name="reach")

    async def close(self) -> None:
        """Ask no more. May be repeated."""
        tasks = [task for task in (self._running, *self._asked.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def silent_s(self, needed: int) -> float:
        """For how long fewer than ``needed`` of the registered bookies answer. 0: there are not so many, so
        that nobody reaches them.
        """
        ages_s = sorted(self._silences_s().values())
        return ages_s[needed - 1] if len(ages_s) >= needed else 0.0

    def answering(self, within_s: float) -> frozenset[str]:
        """The bookies that have not been silent for longer than that."""
        return frozenset(one for one, silent_s in self._silences_s().items() if silent_s <= within_s)

    @property
    def is_idle(self) -> bool:
        """Whether this node has nothing to do with bookies, so that they are asked less often."""
        return asyncio.get_running_loop().time() >= self._busy_until_s

    def _silences_s(self) -> dict[str, float]:
        """For how long each registered bookie is silent: as if it had been asked all the time.

        Who is asked less often is no more silent for it; the time counts from a question that it does not
        answer.
        """
        now_s = asyncio.get_running_loop().time()
        silences_s = {}
        for one, heard_s in self._heard().items():
            asked_s = self._unanswered_s.get(one, now_s)
            silences_s[one] = now_s - max(heard_s, (asked_s if asked_s > heard_s else now_s) - ASK_S)
        return silences_s

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
                    self._unanswered_s = {one: at_s + late_s for one, at_s in self._unanswered_s.items()}
                self._look()
                pause_s = IDLE_LOOK_S if self.is_idle and not self._unanswered_s else LOOK_S
                due_s = loop.time() + pause_s
                await asyncio.sleep(pause_s)

    def _look(self) -> None:
        self._bk.writable_bookies()  # or the client is closed
        self._heard_s = heard_s = self._heard()
        self._note_traffic()
        self._due_s = {one: due_s for one, due_s in self._due_s.items() if one in heard_s}
        loop = asyncio.get_running_loop()
        every_s = IDLE_ASK_S if self.is_idle and not self._unanswered_s else ASK_S
        for one in to_be_asked(heard_s, loop.time(), every_s):
            if one not in self._asked and loop.time() >= self._due_s.get(one, 0.0):
                self._unanswered_s.setdefault(one, loop.time())
                self._asked[one] = loop.create_task(self._ask(one), name="reach asks")
        self.listeners.notify()

    def _note_traffic(self) -> None:
        """Whoever was heard has answered; when it was not asked, this node has work with it."""
        now_s = asyncio.get_running_loop().time()
        self._unanswered_s = {
            one: at_s
            for one, at_s in self._unanswered_s.items()
            if one in self._heard_s and self._heard_s[one] < at_s
        }
        for one, heard_s in self._heard_s.items():
            if one not in self._asked and heard_s > self._known_s.get(one, heard_s):
                self._busy_until_s = now_s + IDLE_S
        self._known_s = dict(self._heard_s)

    async def _ask(self, bookie_id: str) -> None:
        """Ask once, with all the patience of a request: an answer that comes late shows that it is heard."""
        try:
            await self._bk.answers(bookie_id)
            self._known_s[bookie_id] = self._bk.heard_s(bookie_id)
            self._due_s[bookie_id] = asyncio.get_running_loop().time() + ASK_S
        except ClosedClientError:
            return
        finally:
            self._asked.pop(bookie_id, None)


def to_be_asked(heard_s: Mapping[str, float], now_s: float, every_s: float = ASK_S) -> list[str]:
    """The bookies that are to be asked now, of those that there are, by when they were heard last.

    A few that say something show that the network is well. Only when they fall silent all others count.

    Args:
        every_s: how often the few are asked.
    """
    latest = sorted(heard_s, key=lambda one: (-heard_s[one], one))
    heard = sum(1 for one in latest if now_s - heard_s[one] <= every_s + ASK_S)
    all_the_time = latest if heard < FEW else latest[:FEW]
    often = {one for one in all_the_time if now_s - heard_s[one] >= every_s}
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


Seed = Callable[[TablespaceInfo, Path, ReportSeeding, LSN], Awaitable[Seeded]]
"""``Seeding.seed``."""


@dataclass(kw_only=True)
class Host:
    """One node, as its replicas see it.

    Attributes:
        node: its id.
        directory: of the replicas; each has one named like its tablespace in it.
        bk: the client of BookKeeper; ``coordination`` is over its ZooKeeper session.
        zookeeper, ledgers_root: how others reach that BookKeeper: servers, and the znode of its metadata.
        zookeeper_access: how ZooKeeper is talked to.
        archive: where and when logs that are led here are archived.
        backups: when backups are made, and which stay.
        driver, turn: of the one loop.
        seed: how a replica that is new or too far behind gets another's state.
        reports: how a follower hears from the leader how far the log is confirmed; None: from bookies alone.
        reach: which bookies answer this node.
        threads: for what takes long.
        least_free_bytes: with less than that free on the disk, others are to lead where some can.
        replace_after_s: a replica on a node that has been away for so long is replaced.
        commit_delay_s, commit_siblings: of the logs that are led here, see ``LedgerLogSettings``.
        spare_ledgers: so many of the logs that are followed here have a ledger ready; ``spares`` makes them.
        cluster: what sessions may ask of the cluster.
        observer_of, limits: of sessions that begin from now on.
        tracer_of: what is given the entries of a tablespace's log, for traces; None: nothing.
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
    zookeeper_access: ZooKeeperAccess = IN_THE_CLEAR
    workers: WorkerSettings | None = None
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)
    backups: BackupScheduleSettings = field(default_factory=BackupScheduleSettings)
    reach: BookieReach = field(init=False)
    threads: NodeThreads = field(default_factory=NodeThreads)
    replace_after_s: float = 600.0
    least_free_bytes: int = 0
    commit_delay_s: float = 0.004
    commit_siblings: int = 5
    spare_ledgers: int = 16
    spares: SpareLedgers = field(init=False)
    cluster: Cluster | None = None
    observer_of: ObserverOf | None = None
    tracer_of: Callable[[TablespaceInfo], EntryTracer] | None = None
    limits: SessionLimits = field(default_factory=SessionLimits)
    end_session: Callable[[Session, SqlError], object] = lambda _session, _error: None
    roles_changed: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        self.reach = BookieReach(self.bk)
        self.spares = SpareLedgers(self.bk, self.node, self.spare_ledgers)

    def path(self, name: str) -> Path:
        """Where the replica of a tablespace lies."""
        return self.directory / name
