"""What traces cost: pgbench on servers that do not trace, trace a hundredth and trace all, in turn.

    python bench/tracing.py [--before DIRECTORY] [--tree DIRECTORY] [--rounds N] [--json FILE]

``--before`` is an older tree of the sources, to be compared with; ``--tree`` the sources that are measured,
this tree unless it is given. A collector in this process takes the spans and counts them. What is compared is
the server's CPU for a transaction, because rates depend on what else the machine does; each round runs all
servers one after the other. A figure is the median over the rounds of a server's CPU to that of the same
sources without traces, and beside it the spread of the middle half.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from measure import Line, report

sys.path.insert(0, str(Path(__file__).parents[1]))

from postgresql import rate_and_count, warm
from processor_time import seconds_of

from tests.support.collector import Collector
from tests.support.server_process import RunningServer

ROOTS = ("", "server", "sql", "spark_jobs")
LOADS = (("select-only", "prepared", 1), ("select-only", "prepared", 8), ("tpcb-like", "prepared", 8))
RATIOS = {"1 % traced": 0.01, "all traced": 1.0}


def start(directory: Path, tree: Path | None, *settings: str) -> RunningServer:
    """A server of these sources."""
    words = [word for one in settings for word in ("--set", one)]
    paths = {} if tree is None else {"PYTHONPATH": os.pathsep.join(str(tree / root) for root in ROOTS)}
    return RunningServer(directory, *words, **paths).ready()


def cost_us(server: RunningServer, load: tuple[str, str, int], seconds: int) -> tuple[float, float]:
    """The server's CPU for a transaction, in microseconds, and the rate."""
    before = seconds_of({"server": server.pid})["server"]
    rate, count = rate_and_count(server.port, *load, seconds, "test")
    return (seconds_of({"server": server.pid})["server"] - before) / count * 1e6, rate


def main() -> int:
    """Measure, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--tree", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--json")
    given = parser.parse_args()
    lines: list[Line] = []
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        collector = stack.enter_context(Collector())
        servers = {"off": start(home / "off", given.tree)}
        if given.before is not None:
            servers["before"] = start(home / "before", given.before)
        for name, ratio in RATIOS.items():
            traced = (f"tracing.endpoint={collector.endpoint}", f"tracing.sample_ratio={ratio}")
            servers[name] = start(home / str(ratio), given.tree, *traced)
        for server in servers.values():
            stack.callback(server.close)
        warm([server.port for server in servers.values()], 2, "test")
        for load in LOADS:
            costs: dict[str, list[float]] = {name: [] for name in servers}
            rates: dict[str, list[float]] = {name: [] for name in servers}
            for turn in range(given.rounds):
                names = list(servers)
                for name in names[turn % len(names) :] + names[: turn % len(names)]:
                    cost, rate = cost_us(servers[name], load, given.seconds)
                    costs[name].append(cost)
                    rates[name].append(rate)
            for name in servers:
                ratios = sorted(one / off for one, off in zip(costs[name], costs["off"], strict=True))
                low, _, high = statistics.quantiles(ratios, n=4)
                lines.append(
                    Line(
                        f"{load[0]}, {load[1]}, {load[2]} clients: {name}",
                        statistics.median(costs[name]),
                        "us",
                        statistics.median(costs["off"]),
                        f"{statistics.median(rates[name]):,.0f} tx/s; middle half {low:.2f} to {high:.2f}",
                        None,
                        costs[name],
                        costs["off"],
                    )
                )
        print(f"{len(collector.spans):,} spans came")
    report(
        "The server's CPU for a transaction, and its ratio to a server that does not trace", lines, given.json
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
