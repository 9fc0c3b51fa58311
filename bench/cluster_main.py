"""The command of the benchmarks on a cluster beside PostgreSQL: its arguments, its parts, its report.

``cluster`` and ``driver`` say which parts there are; each part is given the same ``cluster_bed``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from cluster_bed import Bed, bed
from measure import Line, report

Parts = Mapping[str, Callable[[Bed], list[Line]]]
"""What is measured, by the names that the command takes, in the order of the report."""


def run(description: str | None, title: str, parts: Parts, long: Collection[str] = ()) -> None:
    """Run the parts that are named, or all but the long ones, and report."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[[], *parts], help=f"{' '.join(parts)}")
    parser.add_argument("--quick", action="store_true", help="short runs, one round")
    parser.add_argument("--json", metavar="FILE", help="write the JSON there instead of printing it")
    parser.add_argument("--dir", help="where to put the databases (a temporary directory)")
    arguments = parser.parse_args()
    lines: list[Line] = []
    with (
        tempfile.TemporaryDirectory(prefix="herdpy-bench-", dir=arguments.dir) as directory,
        bed(Path(directory), quick=arguments.quick) as both,
    ):
        for name in arguments.parts or [one for one in parts if one not in long]:
            print(f"{name} ...", file=sys.stderr, flush=True)
            lines += parts[name](both)
    report(title, lines, arguments.json)
    for reason in both.skipped:
        print(f"skipped: {reason}")
