"""A cluster beside PostgreSQL with two synchronous standbys, on one machine and disk, in one run.

    python bench/cluster.py [--quick] [--json FILE] [--dir DIRECTORY] [part ...]

Three servers and three bookies against a primary that answers a commit when one of two standbys has it
(``ANY 1 (s1, s2)``). Each figure is measured in turn on both, several rounds, and reported as the median and
the median ratio of the pairs. Parts: pgbench, inserts, commit, bulk, lag, handover, failover; and big, which
fills a tablespace with 1,000 tables and 10 M rows first and is only run when it is named.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from cluster_bed import Bed, bed
from cluster_faults import measure_big, measure_failover, measure_handover, measure_lag
from cluster_rates import measure_bulk, measure_commit, measure_inserts, measure_pgbench
from measure import Line, report

PARTS: dict[str, Callable[[Bed], list[Line]]] = {
    "pgbench": measure_pgbench,
    "inserts": measure_inserts,
    "commit": measure_commit,
    "bulk": measure_bulk,
    "lag": measure_lag,
    "handover": measure_handover,
    "failover": measure_failover,
    "big": measure_big,
}
LONG = {"big"}


def main() -> None:
    """Run the parts that are named, or all but the long one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help=f"{' '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="short runs, one round")
    parser.add_argument("--json", metavar="FILE", help="write the JSON there instead of printing it")
    parser.add_argument("--dir", help="where to put the databases (a temporary directory)")
    arguments = parser.parse_args()
    lines: list[Line] = []
    with ExitStack() as stack:
        directory = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="herdpy-bench-", dir=arguments.dir)
        )
        both = stack.enter_context(bed(Path(directory), quick=arguments.quick))
        for name in arguments.parts or [one for one in PARTS if one not in LONG]:
            print(f"{name} ...", file=sys.stderr, flush=True)
            lines += PARTS[name](both)
    report("A cluster beside PostgreSQL with two synchronous standbys", lines, arguments.json)
    for reason in both.skipped:
        print(f"skipped: {reason}")


if __name__ == "__main__":
    main()
