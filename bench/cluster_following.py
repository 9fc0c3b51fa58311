"""The cluster's benchmark: what following costs a server a transaction, beside PostgreSQL's standbys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from statistics import mean, median

from cluster_bed import DATABASE, Bed, at_most
from measure import Line, in_turn
from postgresql import rate_and_count, warm
from processor_time import seconds_of, switches_of

LOADS: dict[tuple[str, int], float | None] = {
    ("simple-update", 1): None,
    ("simple-update", 8): None,
    ("simple-update", 32): 40.0,
    ("tpcb-like", 1): None,
    ("tpcb-like", 8): 40.0,
    ("tpcb-like", 32): 40.0,
}
"""Script and clients, and the most microseconds of CPU that a transaction may cost a follower."""


@dataclass(frozen=True)
class Followed:
    """One run of a load: the mean of all that follow.

    Attributes:
        cpu_us, switches: of one that follows, a transaction.
    """

    cpu_us: float
    switches: float


def measure_following(bed: Bed) -> list[Line]:
    """CPU and context switches that a transaction costs each follower, and each standby."""
    ours, peer = bed.ours, bed.peer
    warm((ours, peer), bed.warm_s, DATABASE)
    processes = bed.processes
    followers = {name: processes[name] for name in bed.followers}
    standbys = {name: pid for name, pid in bed.peer_processes.items() if name != "primary"}
    lines = []
    for (script, clients), most_us in LOADS.items():
        load = partial(_followed, bed, script, clients)
        runs, peer_runs = in_turn(bed.rounds, partial(load, ours, followers), partial(load, peer, standbys))
        name = f"{script}, {clients} client{'s' if clients > 1 else ''}"
        costs = [one.cpu_us for one in runs], [one.cpu_us for one in peer_runs]
        cpu = _line(f"a follower's CPU, {name}", "us", *costs)
        lines.append(cpu if most_us is None else at_most(cpu, most_us))
        switches = [r.switches for r in runs], [r.switches for r in peer_runs]
        lines.append(_line(f"its context switches, {name}", "", *switches))
    return lines


def _followed(bed: Bed, script: str, clients: int, port: int, following: Mapping[str, int]) -> Followed:
    before_s, before = seconds_of(following), switches_of(following)
    _, transactions = rate_and_count(port, script, "prepared", clients, bed.seconds, DATABASE)
    after_s, after = seconds_of(following), switches_of(following)
    count = max(transactions, 1)
    return Followed(
        mean(after_s[name] - before_s[name] for name in following) / count * 1e6,
        mean(after[name] - before[name] for name in following) / count,
    )


def _line(name: str, unit: str, runs: list[float], peer_runs: list[float]) -> Line:
    return Line(name, median(runs), unit, median(peer_runs), runs=runs, peer_runs=peer_runs)
