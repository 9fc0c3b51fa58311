"""The driver on a cluster beside psycopg 3 on PostgreSQL with two synchronous standbys, in one run.

    python bench/driver.py [--quick] [--json FILE] [--dir DIRECTORY] [part ...]

The same set-up as ``bench/cluster.py``: three servers and three bookies against a primary that answers a
commit when one of two standbys has it. Each figure is measured in turn on both, several rounds, and reported
as the median and the median ratio of the pairs. Parts: select, insert, update (by key, autocommit, 1, 8 and
32 threads in 1, 2 and 4 processes), tasks (herdpy.aio), pools, many (executemany), ingest and fetch (1 M
rows; psycopg by COPY and by rows). All of it takes about half an hour.
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
from driver_bulk import measure_fetch, measure_ingest, measure_many
from driver_points import measure_inserts, measure_selects, measure_updates
from driver_ways import measure_pools, measure_tasks
from measure import Line, report

PARTS: dict[str, Callable[[Bed], list[Line]]] = {
    "select": measure_selects,
    "insert": measure_inserts,
    "update": measure_updates,
    "tasks": measure_tasks,
    "pools": measure_pools,
    "many": measure_many,
    "ingest": measure_ingest,
    "fetch": measure_fetch,
}


def main() -> None:
    """Run the parts that are named, or all."""
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
        for name in arguments.parts or PARTS:
            print(f"{name} ...", file=sys.stderr, flush=True)
            lines += PARTS[name](both)
    report("The driver on a cluster beside psycopg on PostgreSQL", lines, arguments.json)


if __name__ == "__main__":
    main()
