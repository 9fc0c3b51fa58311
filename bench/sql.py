"""The SQL engine beside PostgreSQL and DuckDB, on the same data in one run.

Points: a SELECT by key, an indexed lookup and a key join that give one row, and a page along an index, in
time of the engine alone (a plan run over a view, without session or wire), beside what PostgreSQL says its
executor took. Analytics: aggregates, joins and TPC-H, warm, beside DuckDB over its own tables in as many
threads. Memory: ten thousand different statement texts, and what the process keeps of them.

Run it with ``python bench/sql.py [points analytics tpch memory]``; ``--quick`` runs small sizes,
``--scale 1`` TPC-H over 6 million lineitems.

``sql_data`` makes the tables, ``sql_points`` and ``sql_analytics`` measure, ``measure`` reports.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from measure import Line, report
from sql_analytics import aggregates, tpch
from sql_points import memory, points


def main() -> None:
    """Run everything, or the parts that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="points analytics tpch memory (all)")
    parser.add_argument("--quick", action="store_true", help="small sizes, one round")
    parser.add_argument("--json", metavar="FILE", help="write the JSON there instead of printing it")
    parser.add_argument("--dir", help="where to put the databases (a temporary directory)")
    parser.add_argument("--scale", type=float, help="of TPC-H (0.1; 0.01 with --quick)")
    arguments = parser.parse_args()
    scale = arguments.scale or (0.01 if arguments.quick else 0.1)
    rows = 50_000 if arguments.quick else 1_000_000
    rounds = 1 if arguments.quick else 5
    with ExitStack() as stack:
        directory = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="herdpy-bench-", dir=arguments.dir))
        )
        parts: dict[str, Callable[[], list[Line]]] = {
            "points": lambda: points(directory, rows, rounds),
            "analytics": lambda: aggregates(directory, rows, rounds),
            "tpch": lambda: tpch(directory, scale, rounds),
            "memory": lambda: memory(directory, 1_000 if arguments.quick else 10_000),
        }
        lines: list[Line] = []
        for name in arguments.parts or parts:
            if name not in parts:
                parser.error(f"no part {name!r}: one of {', '.join(parts)}")
            lines += parts[name]()
    report("SQL beside PostgreSQL and DuckDB", lines, arguments.json)


if __name__ == "__main__":
    main()
