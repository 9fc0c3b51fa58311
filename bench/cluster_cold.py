"""The cluster's benchmark: how long it takes from nothing running to the first commit, and where that goes.

Everything is killed (SIGKILL) at once and started again. The time line is read from the servers' logs: a
server writes a line at each step of its start.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median

from cluster_bed import DATABASE, PATIENCE_S, Bed, at_most, prepare_written
from measure import Line
from postgresql import binaries, connect, pgbench
from rich.console import Console
from rich.table import Table

import herdpy
from herdpy.dbapi import OperationalError
from herdpy.dev import LocalCluster

_TRY_S = 0.02
"""A client that waits for a cluster tries as often as that; a try costs the machine 2 ms."""
_REST_S = 2.0
"""Between rounds, so that what was started before does not run beside the next."""
_BIG_ROWS, _LOAD_SCALE, _LOAD_CLIENTS, _LOAD_S = 1_000_000, 10, 8, 5.0
STEPS = {
    "modules loaded": r"herdpy\.server: starting ",
    "SQL port open": r"herdpy\.pgwire: PostgreSQL's protocol is served",
    "ZooKeeper connected": r"ZooKeeper session state=connected",
    "registered": r"herdpy\.node: registered ",
    "store opened": r"herdpy\.replica: store opened ",
    "elected": r"herdpy\.cluster: elected ",
    "log taken over": r"herdpy\.log\.takeover: log taken over ",
    "leads": r"herdpy\.replica: leads ",
}
"""The steps of a start, and how their lines in a server's log begin after the time and the level."""
_COMMIT, _PROCESSOR = "first commit", "processor s"


@dataclass
class ColdStart:
    """One start of everything that was killed.

    Attributes:
        taken_s: until the first commit.
        steps_s: when each server came to each step of its start, for each server by its name.
        processor_s: what each process had used of the processors at the first commit.
    """

    taken_s: float
    steps_s: dict[str, dict[str, float]] = field(default_factory=dict)
    processor_s: dict[str, float] = field(default_factory=dict)


def measure_cold(bed: Bed) -> list[Line]:
    """SIGKILL of all servers, then of everything, to the first commit; idle before, and under load."""
    prepare_written(bed.ours)
    rounds = 1 if bed.quick else 5
    lines = _both(bed.cluster, "", rounds)
    _fill(bed)
    return lines + _both(bed.cluster, " under load, 1 M rows", rounds, load=True)


def _both(cluster: LocalCluster, what: str, rounds: int, *, load: bool = False) -> list[Line]:
    servers = [one.id for one in cluster.status().servers]
    everything = [one.id for one in cluster.status().processes]
    return [
        _measured(
            cluster, servers, f"all servers killed{what}: start to the first commit", 3.0, rounds, load
        ),
        _measured(
            cluster, everything, f"all killed{what}: ZooKeeper answers to the first commit", 8.0, rounds, load
        ),
    ]


def _measured(
    cluster: LocalCluster, names: Collection[str], title: str, limit_s: float, rounds: int, load: bool
) -> Line:
    starts = []
    for _ in range(rounds):
        _settled(cluster)
        with _load(cluster) if load else contextlib.nullcontext():
            starts.append(start_cold(cluster, names))
    taken_s = [one.taken_s for one in starts]
    middle = sorted(starts, key=lambda one: one.taken_s)[len(starts) // 2]
    Console(width=140, stderr=True).print(timetable(f"{title}, seconds", middle))
    return at_most(Line(f"{title}, median", median(taken_s), "s", runs=taken_s), limit_s)


def _settled(cluster: LocalCluster) -> None:
    """Return when all that was started before serves, and a while after."""
    for one in cluster.status().processes:
        cluster.start(one.id)
    until = time.monotonic() + PATIENCE_S
    while sum(one.role in ("leader", "follower") for one in cluster.status().servers) < 3:
        if time.monotonic() > until:
            raise SystemExit(f"not all servers are in the log again: {cluster.status().servers}")
        time.sleep(0.05)
    time.sleep(_REST_S)


def start_cold(cluster: LocalCluster, names: Collection[str]) -> ColdStart:
    """Kill these processes at once, start them, and return when a client has committed.

    The time counts from the start of the first, or from ZooKeeper's answer where that is among them.
    """
    logs = {name: cluster.log_path(name) for name in names if name.startswith("server")}
    begins = {name: path.stat().st_size for name, path in logs.items()}
    kill_all(cluster, names)
    if "zookeeper" in names:
        cluster.start("zookeeper")
    began_s = time.time()
    for name in names:
        cluster.start(name, wait=False)
    done_s = _first_commit(cluster.url)
    used_s = {one.id: _processor_s(one.pid) for one in cluster.status().processes if one.pid is not None}
    found = ColdStart(done_s - began_s, processor_s={name: used_s[name] for name in names})
    time.sleep(0.2)  # a log's lines are written by a thread of its own
    for name, path in logs.items():
        found.steps_s[name] = steps_s(path.read_bytes()[begins[name] :].decode(), began_s)
    return found


def kill_all(cluster: LocalCluster, names: Collection[str]) -> None:
    """End these processes as a loss of power does: none of them sees that another is gone."""
    running = {one.id: one.pid for one in cluster.status().processes if one.pid is not None}
    for name in names:
        os.kill(running[name], signal.SIGKILL)
    until = time.monotonic() + PATIENCE_S
    while any(one.id in names and one.pid is not None for one in cluster.status().processes):
        if time.monotonic() > until:
            raise SystemExit("processes that were killed do not end")
        time.sleep(0.005)


def _first_commit(url: str) -> float:
    """When a client that keeps trying has a commit answered, by the clock of logs."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            with closing(herdpy.connect(url, autocommit=True)) as connection:
                connection.execute("UPDATE written SET n = n + 1 WHERE id = 1")
                return time.time()
        except OperationalError as error:
            if time.monotonic() > until:
                raise SystemExit(f"no commit is answered any more: {error}") from error
            time.sleep(_TRY_S)


def steps_s(log: str, began_s: float) -> dict[str, float]:
    """When a server came to each step for the first time, in seconds since ``began_s``."""
    found: dict[str, float] = {}
    for line in log.splitlines():
        for step, pattern in STEPS.items():
            if step not in found and re.search(pattern, line):
                found[step] = datetime.fromisoformat(line.split()[0]).timestamp() - began_s
    return found


def timetable(title: str, start: ColdStart) -> Table:
    """A start's steps by server, and what its processes took of the processors."""
    table = Table(title=title)
    table.add_column("")
    for name in start.steps_s:
        table.add_column(name, justify="right")
    for step in STEPS:
        found = [steps.get(step) for steps in start.steps_s.values()]
        table.add_row(step, *["" if one is None else f"{one:.2f}" for one in found])
    table.add_row(_COMMIT, f"{start.taken_s:.2f}")
    table.add_row(_PROCESSOR, *[f"{start.processor_s[name]:.2f}" for name in start.steps_s])
    others = {name: one for name, one in start.processor_s.items() if name not in start.steps_s}
    if others:
        table.caption = "processor: " + ", ".join(f"{name} {one:.2f} s" for name, one in others.items())
    return table


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# What is there before the kill.


def _fill(bed: Bed) -> None:
    rows = _BIG_ROWS // 100 if bed.quick else _BIG_ROWS
    port = bed.ours
    pgbench(port, "-i", "-q", "-s", "1" if bed.quick else str(_LOAD_SCALE), database=DATABASE)
    with connect(port, DATABASE) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS cold (id BIGINT PRIMARY KEY, a INTEGER, c TEXT)")
        connection.execute("DELETE FROM cold")
        with connection.cursor().copy("COPY cold FROM STDIN") as copy:
            for number in range(rows):
                copy.write_row((number, number % 100, f"row {number}"))


@contextlib.contextmanager
def _load(cluster: LocalCluster) -> Iterator[None]:
    """TPC-B by eight clients, which lose their connections when the servers are killed."""
    leader = cluster.await_leader(timeout_s=PATIENCE_S)
    port = next(one.sql_port for one in cluster.status().servers if one.id == leader)
    where = ["-h", "127.0.0.1", "-p", str(port), "-U", "herdpy", DATABASE]
    load = ["-n", "-M", "prepared", "-c", str(_LOAD_CLIENTS), "-T", "600"]
    with subprocess.Popen(
        [binaries() / "pgbench", *load, *where], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        try:
            time.sleep(_LOAD_S)
            yield
        finally:
            running.kill()
