"""The cluster's benchmark: reads by key on one server, and on three, by what a statement costs each.

Machines are shared here, so rates say little of three servers on machines of their own. What a server of its
own machine could answer is one second of CPU by the CPU of a statement; the leader's is more than its own
statements, since it answers the followers' questions too. The ratio is the sum over the three servers, loaded
at the same time, to one server that is read alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from statistics import median

from cluster_bed import DATABASE, Bed
from measure import Line
from postgresql import connect, pgbench, rate_and_count
from processor_time import seconds_of

LEVELS = {"bounded": 2.5, "linearizable": 2.5}
"""How many times one server's statements three are to answer."""
CLIENTS = (8, 32)
"""Of each server."""


def measure_reads(bed: Bed) -> list[Line]:
    """pgbench's select-only, prepared, on the leader alone and on all servers at the same time."""
    leader = bed.leader
    ports = {name: bed.port(name) for name in (leader, *bed.followers)}
    pgbench(ports[leader], "-i", "-q", "-s", "1", database=DATABASE)
    for name in bed.followers:
        _await_rows(ports[name])
    lines = []
    for level, least in LEVELS.items():
        for clients in CLIENTS:
            with _read_level(level):
                alone, together = [], []
                for _ in range(bed.rounds):
                    alone.append(_costs(bed, {leader: ports[leader]}, clients)[leader])
                    together.append(_costs(bed, ports, clients))
            lines += _lines(f"{level}, {clients} clients", least, leader, alone, together)
    return lines


def _lines(
    how: str, least: float, leader: str, alone: Sequence[float], together: Sequence[Mapping[str, float]]
) -> list[Line]:
    ratios = [sum(one / cost for cost in costs.values()) for one, costs in zip(alone, together, strict=True)]
    of_leader = [costs[leader] for costs in together]
    of_followers = [max(cost for name, cost in costs.items() if name != leader) for costs in together]
    times = Line(f"select-only, {how} a server: three servers' statements", median(ratios), "of one's")
    times.runs = ratios
    times.wanted, times.met = f">= {least:g}", median(ratios) >= least
    cost = f"CPU a statement, {how}"
    return [
        times,
        Line(f"{cost}: one server alone", median(alone), "us", runs=list(alone)),
        Line(f"{cost}: the leader of three", median(of_leader), "us", runs=of_leader),
        Line(f"{cost}: the costlier follower", median(of_followers), "us", runs=of_followers),
    ]


def _costs(bed: Bed, ports: Mapping[str, int], clients: int) -> dict[str, float]:
    """Microseconds of each server's CPU by its own statements, all loaded at the same time."""
    pids = {one.id: one.pid for one in bed.cluster.status().processes if one.pid is not None}
    processes = {name: pids[name] for name in ports}
    load = partial(rate_and_count, script="select-only", mode="prepared", clients=clients, database=DATABASE)
    with ThreadPoolExecutor(len(ports)) as pool:
        before_s = seconds_of(processes)
        runs = {name: pool.submit(load, port, seconds=bed.seconds) for name, port in ports.items()}
        counts = {name: run.result()[1] for name, run in runs.items()}
        after_s = seconds_of(processes)
    return {name: (after_s[name] - before_s[name]) / counts[name] * 1e6 for name in ports}


def _await_rows(port: int) -> None:
    """Return when the server has pgbench's rows, by its own word."""
    with connect(port, DATABASE) as connection:
        connection.execute("SET herdpy.read_level = 'linearizable'")
        while connection.execute("SELECT count(*) FROM pgbench_accounts").fetchone() != (100_000,):
            time.sleep(0.1)


@contextmanager
def _read_level(level: str) -> Iterator[None]:
    """pgbench's sessions read so."""
    before = os.environ.get("PGOPTIONS")
    os.environ["PGOPTIONS"] = f"-c herdpy.read_level={level}"
    try:
        yield
    finally:
        del os.environ["PGOPTIONS"]
        if before is not None:
            os.environ["PGOPTIONS"] = before
