"""CPU that processes take for a transaction, and how idle the machine is meanwhile; how often processes wake.

Linux: /proc has all of it.

A process counts with all that it has started: PostgreSQL's backends with their postmaster, a server's workers
with the server.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

CLIENT, IDLE = "pgbench", "idle"
_TICKS = os.sysconf("SC_CLK_TCK")
_LISTENS = "0A"


@dataclass(frozen=True)
class Measured:
    """One run of a load.

    Attributes:
        rate: transactions a second.
        costs: CPU a transaction by process, in microseconds, the client's as CLIENT; the idle share of the
            machine, of 1, as IDLE.
    """

    rate: float
    costs: Mapping[str, float]


def measured(processes: Mapping[str, int], run: Callable[[], tuple[float, int]]) -> Measured:
    """Run a load and say what it took.

    Args:
        processes: process ids by what they are called.
        run: returns its rate and its number of transactions; it waits for what it starts.
    """
    before, idle, whole = _seconds(processes), *_machine()
    rate, transactions = run()
    after, idle_now, whole_now = _seconds(processes), *_machine()
    costs = {name: (after[name] - before[name]) / max(transactions, 1) * 1e6 for name in before}
    return Measured(rate, costs | {IDLE: (idle_now - idle) / max(whole_now - whole, 1e-9)})


def median_costs(runs: list[Measured]) -> dict[str, float]:
    """The median of each."""
    return {name: median(one.costs[name] for one in runs) for name in runs[0].costs}


def listener(port: int) -> int:
    """The process that listens on a TCP port of this machine; of a family the oldest. LookupError: none."""
    inodes = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    holders = [pid for pid in _processes() if inodes & _open_files(pid)]
    if not inodes or not holders:
        raise LookupError(f"nobody listens on port {port}")
    return min(holders, key=lambda pid: int(_stat(pid)[19]))  # starttime


def seconds_of(processes: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds of each process and its descendants."""

    def ticks(pid: int) -> int:
        fields = _stat(pid)
        return sum(map(int, fields[11:15])) if fields else 0  # utime, stime, and those of children that ended

    return {name: count / _TICKS for name, count in _of_families(processes, ticks).items()}


def switches_of(processes: Mapping[str, int]) -> dict[str, int]:
    """Context switches of each process and its descendants, in all of their threads that live."""

    def switches(pid: int) -> int:
        return sum(map(_switches, Path(f"/proc/{pid}/task").glob("*/status")))

    return _of_families(processes, switches)


def _switches(status: Path) -> int:
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return 0  # the thread has ended
    return sum(int(line.split()[1]) for line in lines if "voluntary_ctxt_switches" in line)


def _of_families(processes: Mapping[str, int], count: Callable[[int], int]) -> dict[str, int]:
    """What is counted of each process and its descendants."""
    children: dict[int, list[int]] = {}
    for pid in _processes():
        if fields := _stat(pid):
            children.setdefault(int(fields[1]), []).append(pid)

    def of_family(pid: int) -> int:
        return count(pid) + sum(of_family(child) for child in children.get(pid, ()))

    return {name: of_family(pid) for name, pid in processes.items()}


def _seconds(processes: Mapping[str, int]) -> dict[str, float]:
    """CPU seconds of the processes, and of the children that this one has waited for."""
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds_of(processes) | {CLIENT: own.ru_utime + own.ru_stime}


def _machine() -> tuple[float, float]:
    """Seconds that its processors were idle, and all their seconds."""
    ticks = [int(one) for one in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (ticks[3] + ticks[4]) / _TICKS, sum(ticks) / _TICKS


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third, the state, on (proc(5)); none when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _open_files(pid: int) -> set[str]:
    found = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    except OSError:
        pass  # it is gone, or another user's
    return found
