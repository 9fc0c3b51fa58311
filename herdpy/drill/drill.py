"""What a drill is: faults, the workloads that run meanwhile, and what it gives.

Layer: above workloads, control and faults, which are named here by their names alone; below `runner`, which
does what a Drill says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from herdpy.drill.control import ClusterNeeds
from herdpy.drill.history import History, Json
from herdpy.drill.judging import Verdict


@dataclass(frozen=True)
class Drill:
    """One drill, as `herdpy drill list` shows it.

    explanation: one line: what is done to the cluster, and what must not come of it.
    faults: names in herdpy.drill.faults.FAULTS, made one after the other in equal parts of the time.
    workloads: names in herdpy.drill.workloads.WORKLOADS, which run at the same time.
    seconds: how long clients run when nobody says otherwise.
    needs: of a cluster that is made for the drill, beside what its faults need.
    """

    name: str
    explanation: str
    faults: tuple[str, ...]
    workloads: tuple[str, ...]
    seconds: float = 30.0
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
    history: History
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
