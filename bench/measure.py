"""What benchmarks share: pairs of runs in turn, the machine's name, a table and JSON."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from processor_time import IDLE

T = TypeVar("T")


@dataclass
class Line:
    """One measured thing.

    Attributes:
        ours, peer: medians over the rounds; peer is None where there is nobody to compare with.
        unit: of both; "rows/s" and the like are better when higher, "ms" when lower.
        wanted: the aim in words, and whether it was met.
        costs, peer_costs: CPU a transaction by process, microseconds, and the machine's idle share
            (``processor_time``); empty where they were not measured.
    """

    name: str
    ours: float
    unit: str
    peer: float | None = None
    wanted: str = ""
    met: bool | None = None
    runs: list[float] = field(default_factory=list)
    peer_runs: list[float] = field(default_factory=list)
    costs: dict[str, float] = field(default_factory=dict)
    peer_costs: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Ours to the peer's, median of the pairs."""
        if not self.peer_runs:
            return None
        return statistics.median(a / b for a, b in zip(self.runs, self.peer_runs, strict=True))


def in_turn(rounds: int, ours: Callable[[], T], peer: Callable[[], T]) -> tuple[list[T], list[T]]:
    """Run both ``rounds`` times, one after the other, so that a machine that drifts hits both."""
    pairs = [(ours(), peer()) for _ in range(rounds)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def rate(count: int, work: Callable[[], object]) -> float:
    """How many a second ``work`` does when it does ``count``."""
    began = time.perf_counter()
    work()
    return count / (time.perf_counter() - began)


def machine() -> dict[str, Any]:
    """What it ran on, without naming anybody's machine."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for text in cpuinfo.read_text().splitlines():
            if text.startswith("model name"):
                model = text.partition(":")[2].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def report(title: str, lines: list[Line], json_path: str | None) -> None:
    """Print the table, then JSON (to ``json_path`` when given, else after the table)."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for heading in ("", "HerdPy", "peer", "ratio", "wanted", "met"):
        table.add_column(heading, justify="left" if not heading or heading == "wanted" else "right")
    for line in lines:
        table.add_row(
            line.name,
            figure(line.ours, line.unit),
            "" if line.peer is None else figure(line.peer, line.unit),
            "" if line.ratio is None else f"{line.ratio:.2f}",
            line.wanted,
            {None: "", True: "yes", False: "NO"}[line.met],
        )
    console = Console(width=120 if not sys.stdout.isatty() else None)
    console.print(table)
    if any(line.costs for line in lines):
        costs = Table(title="CPU a transaction of every process, and the machine's idle share")
        costs.add_column("")
        costs.add_column("HerdPy")
        costs.add_column("peer")
        for line in lines:
            if line.costs:
                costs.add_row(line.name, _costs(line.costs), _costs(line.peer_costs))
        console.print(costs)
    data = {
        "title": title,
        "machine": machine(),
        "lines": [asdict(line) | {"ratio": line.ratio} for line in lines],
    }
    text = json.dumps(data, indent=1)
    if json_path:
        Path(json_path).write_text(text + "\n")
    else:
        print(text)


def _costs(costs: dict[str, float]) -> str:
    parts = [f"{name} {cost:.0f}" for name, cost in costs.items() if name != IDLE]
    return f"{', '.join(parts)} us; {costs.get(IDLE, 0.0):.0%} idle"


def figure(value: float, unit: str) -> str:
    """A figure to be read."""
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
