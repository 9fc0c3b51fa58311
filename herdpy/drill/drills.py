"""What a drill is, what it gives, and all drills by name.

Each drill is one fault under the workloads that it threatens most; `storm` has all faults. Layer: above
workloads, control and faults, which are named here by their names alone; below `runner`, which does what a
Drill says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from herdpy.drill.control import ClusterNeeds
from herdpy.drill.extensions import DrillRegistry
from herdpy.drill.history import DrillHistory, Json
from herdpy.drill.judging import Verdict
from herdpy.drill.workloads import WORKLOADS


@dataclass(frozen=True)
class Drill:
    """One drill, as `herdpy drill list` shows it.

    explanation: one line: what is done to the cluster, and what must not come of it.
    faults: names in herdpy.drill.faults.FAULTS, made one after the other in equal parts of the time.
    workloads: names in herdpy.drill.workloads.WORKLOADS, which run at the same time. Those of other packages
        may be named in full, as faults may.
    seconds: how long clients run when nobody says otherwise.
    rounds: so many faults are made at least, and clients run for as long as these take.
    clients: the kinds of clients that take turns in each workload, as in herdpy.drill.client_threads.KINDS.
    needs: of a cluster that is made for the drill, beside what its faults need.
    """

    name: str
    explanation: str
    faults: tuple[str, ...]
    workloads: tuple[str, ...]
    seconds: float = 30.0
    rounds: int = 1
    clients: tuple[str, ...] = ("driver", "psycopg")
    needs: ClusterNeeds = field(default_factory=ClusterNeeds)


@dataclass
class DrillResult:
    """What came of a drill.

    seed: repeats what clients and faults decide.
    seconds: how long clients ran, as asked for.
    url: the cluster; `is_own` when the drill has made it for itself.
    skipped: what could not be made or looked at here, each with the reason.
    setting: words about the cluster and the clients, for the head of a report.
    facts: numbers and states seen after the end: left_behind, replicas, isolation levels.
    """

    drill: Drill
    seed: int
    seconds: float
    url: str
    is_own: bool
    history: DrillHistory
    verdicts: list[Verdict] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    setting: list[str] = field(default_factory=list)
    facts: dict[str, Json] = field(default_factory=dict)

    @property
    def valid(self) -> bool:
        """Whether every promise that was looked at was kept."""
        return all(verdict.valid for verdict in self.verdicts)

    @property
    def was_skipped(self) -> bool:
        """Whether none of its faults could be made, so that it shows nothing."""
        begun = any(event.kind == "fault-begin" for event in self.history.events)
        return bool(self.drill.faults) and not begun


_KEPT = "registers", "list-append", "bank", "inserts", "sequences"
_RACED = "registers", "list-append", "sets", "unique-keys"
_PARTITION = "no old leader answers or writes behind the back of a new one"


def _drill(name: str, explanation: str, *workloads: str, seconds: float = 30.0) -> Drill:
    return Drill(name, explanation, (name,), workloads, seconds)


_OWN = (
    _drill("kill-leader", "kill the leader: the next one has all that was acknowledged", *_KEPT),
    _drill("pause-leader", "stop the leader for longer than its session: " + _PARTITION, *_RACED),
    _drill("partition-leader", "cut the leader off in some way: " + _PARTITION, *_KEPT),
    _drill("partition-leader-from-zookeeper", "cut the leader off from ZooKeeper: " + _PARTITION, *_RACED),
    _drill("partition-leader-from-bookies", "cut the leader off from its log: " + _PARTITION, *_KEPT),
    _drill(
        "partition-leader-from-two-bookies",
        "cut the leader off from all bookies but one: another leads soon, which reaches them",
        *_KEPT,
    ),
    _drill(
        "partition-preferred-leader",
        "cut the preferred leader off from its log: another leads until it reaches it again",
        *_KEPT,
    ),
    _drill("partition-leader-from-both", "cut the leader off from ZooKeeper and log: " + _PARTITION, *_RACED),
    _drill(
        "partition-leader-from-clients",
        "cut the leader off from its clients: unknown outcomes are resolved, and done once",
        *("registers", "inserts", "queue", "unique-keys"),
    ),
    _drill("partition-leader-one-way", "lose packets in one direction only: " + _PARTITION, *_KEPT),
    _drill(
        "lose-in-flight",
        "lose what the leader sends, and then the leader: no commit was acknowledged",
        *("inserts", "sequences", "registers"),
    ),
    _drill(
        "lose-only-witness",
        "lose the leader and the one bookie that it reached: no commit was acknowledged",
        *("inserts", "sequences", "registers"),
    ),
    _drill(
        "delay-in-flight",
        "deliver what a leader sent after another one leads: it is in no ledger, and not acknowledged",
        *("inserts", "sets", "sequences"),
    ),
    _drill(
        "kill-supervisor",
        "kill the leader's supervisor: the server that lives goes on leading",
        *("registers", "inserts", "sequences"),
    ),
    _drill(
        "kill-leader-and-supervisor",
        "kill the leader and its supervisor: the next one leads when the session has expired",
        *_KEPT,
    ),
    _drill(
        "pause-supervisor",
        "let the leader's supervisor sleep through a failover: what it attests late harms no successor",
        *_RACED,
    ),
    _drill("silent-machine", "stop the leader and a bookie, as of one machine: " + _PARTITION, *_RACED),
    _drill(
        "kill-leader-and-bookies",
        "kill the leader and two bookies at once: no node leads without the end of the log",
        *("inserts", "sets", "list-append"),
    ),
    _drill(
        "kill-follower",
        "kill a follower: no commit waits for it, and it returns with all changes",
        *("registers", "sets", "list-append", "indexed"),
    ),
    Drill(
        "kill-forwarder",
        "kill servers that forward clients' writes: unknown outcomes are resolved, and done once",
        ("kill-forwarder",),
        ("inserts", "unique-keys", "bank", "registers"),
        clients=("forwarded", "driver"),
    ),
    Drill(
        "one-address",
        "kill the leader fifty times under clients that know one other server: they keep their sessions",
        ("kill-leader-elsewhere",),
        ("inserts",),
        seconds=60.0,
        rounds=50,
        clients=("one-address", "jdbc"),
    ),
    _drill(
        "roll-ledgers",
        "roll tiny ledgers while followers are stopped: they miss no entry",
        *("list-append", "sets", "inserts", "indexed", "redefined"),
    ),
    _drill(
        "kill-bookie",
        "kill a bookie: writes continue with the remaining ones",
        *("list-append", "inserts", "queue"),
    ),
    _drill(
        "pause-bookie",
        "stop a bookie without closing its connections: writes continue without it",
        *("registers", "inserts", "bank", "unique-keys", "redefined"),
    ),
    _drill(
        "lose-bookie-disk",
        "lose a bookie's disk: its entries are copied from the others, and none is missing",
        *("inserts", "sets", "bank"),
        seconds=45.0,
    ),
    _drill(
        "empty-bookie",
        "lose a bookie's disk with the servers while another is away: the third one has everything",
        *("inserts", "sets", "bank"),
        seconds=45.0,
    ),
    _drill(
        "kill-zookeeper",
        "kill ZooKeeper: no node answers a stale read, and all continues when it is back",
        *("registers", "list-append", "inserts"),
    ),
    _drill(
        "pause-zookeeper",
        "stop ZooKeeper for longer than sessions last: no node answers a stale read",
        *("registers", "list-append", "inserts"),
    ),
    _drill(
        "zookeeper-away",
        "kill ZooKeeper for half a minute: clients write on, and no node answers a stale read",
        *("registers", "list-append", "inserts"),
        seconds=50.0,
    ),
    _drill("expire-session", "end the leader's session behind its back: " + _PARTITION, *_RACED),
    _drill(
        "trim-and-seed",
        "wipe a follower and trim the log: it is made anew from another replica",
        *("sets", "bank", "list-append", "sequences", "indexed"),
    ),
    _drill(
        "full-disk",
        "fill the disk of the leader or of a bookie: what cannot be kept is refused, not lost",
        *("inserts", "bank", "queue"),
    ),
    _drill(
        "slow-disk",
        "slow a bookie's disk down: the others are enough",
        *("registers", "inserts", "bank"),
    ),
    _drill(
        "clock-jump",
        "set the wall clocks wrong: leases, read levels and request ids do not depend on them",
        *("registers", "inserts", "sets", "list-append"),
    ),
    _drill(
        "rolling-restart",
        "restart every server, one after the other: clients only wait, and nothing is done twice",
        *("inserts", "queue", "unique-keys", "list-append", "sequences", "redefined"),
        seconds=45.0,
    ),
    _drill(
        "lose-leader-disk",
        "lose the leader's disk while no follower is in sync: the log has all of it",
        *("inserts", "bank", "sets"),
    ),
    _drill(
        "bit-rot",
        "change bytes on disks: they are noticed, and made good from other copies",
        *("sets", "bank"),
    ),
    _drill(
        "lose-everything",
        "lose all processes and disks: what was archived is restored, and nothing else is missing",
        *("inserts", "bank", "sets", "unique-keys", "list-append"),
    ),
    _drill(
        "storm",
        "one fault after the other, and some at once: every promise at the same time",
        *WORKLOADS,
        seconds=120.0,
    ),
)
DRILLS: DrillRegistry[Drill] = DrillRegistry("drill", lambda one: isinstance(one, Drill), _OWN)
