"""The task broker on HerdPy beside Celery on Redis and Procrastinate on PostgreSQL, on one machine.

    python bench/broker.py [--quick] [--json FILE] [--dir DIRECTORY] [--systems NAME,...] [part ...]

Every system has two worker processes and one producer with eight connections. A task has a payload of some
250 bytes and nothing to do, and is over when its system says that it is finished. Parts: rate (the highest
rate that is kept up with, and whether `--rate` is sustained), latency (from submission to start, at half of
it), history (what a task costs beside `--history` finished ones, and while they are forgotten), backlog (a
claim where `--backlog` tasks are ready).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "broker"))

from broker_bed import Bed, Figure, bed, report
from broker_parts import measure_backlog, measure_history, measure_latency, measure_rate
from broker_systems import SYSTEMS

PARTS: dict[str, Callable[[Bed], list[Figure]]] = {
    "rate": measure_rate,
    "latency": measure_latency,
    "history": measure_history,
    "backlog": measure_backlog,
}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help=" ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="short runs, small numbers: see that it works")
    parser.add_argument("--json", metavar="FILE", help="write the JSON there instead of printing it")
    parser.add_argument("--dir", help="where to put the databases (a temporary directory)")
    parser.add_argument("--systems", type=_systems, default=[*SYSTEMS], help=",".join(SYSTEMS))
    parser.add_argument("--rate", type=float, help="tasks a second that are to be sustained (1,160)")
    parser.add_argument("--seconds", type=float, help="how long (60)")
    parser.add_argument("--history", type=int, help="finished tasks of the history (10,000,000)")
    parser.add_argument("--backlog", type=int, help="ready tasks of the backlog (200,000)")
    parser.add_argument("--batch", type=int, default=1, help="tasks a submission (1)")
    return parser.parse_args()


def _systems(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in SYSTEMS]:
        raise argparse.ArgumentTypeError(f"no such system: {', '.join(unknown)}")
    return names


def main() -> None:
    """Run the parts that are named, or all, and report."""
    arguments = _arguments()
    defaults = (100.0, 1.0, 20_000, 5_000) if arguments.quick else (1160.0, 60.0, 10_000_000, 200_000)
    load = {
        name: default if getattr(arguments, name) is None else getattr(arguments, name)
        for name, default in zip(("rate", "seconds", "history", "backlog"), defaults, strict=True)
    } | {"batch": arguments.batch, "quick": arguments.quick}
    before, figures = os.getloadavg(), []
    with (
        tempfile.TemporaryDirectory(prefix="herdpy-bench-", dir=arguments.dir) as directory,
        bed(Path(directory), arguments.systems, **load) as made,
    ):
        for name in arguments.parts or PARTS:
            print(f"{name} ...", file=sys.stderr, flush=True)
            figures += PARTS[name](made)
    circumstances = {"load": load, "load_before": before, "load_after": os.getloadavg()}
    report("The broker beside Celery and Procrastinate", figures, circumstances, arguments.json)


if __name__ == "__main__":
    main()
