"""Spark beside a cluster, on one machine, in one run: exports, loads, the change feed, and what they cost.

    python bench/spark.py [--quick] [--rows N] [--json FILE] [--dir DIRECTORY] [part ...]

Three servers and three bookies, and Spark with as many tasks at once as there are cores. The limit is Spark's
own copy of the same rows from Parquet to Parquet, measured in turn with each export. Rows have six columns.
Parts: export, load, parts (a load of many small partitions), latency, feed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from measure import Line, report
from spark_bed import SparkBed, spark_bed
from spark_feed import measure_feed
from spark_rates import measure_export, measure_latency, measure_load, measure_small_parts

PARTS: dict[str, Callable[[SparkBed], list[Line]]] = {
    "export": measure_export,
    "load": measure_load,
    "parts": measure_small_parts,
    "latency": measure_latency,
    "feed": measure_feed,
}
ROWS = 1_000_000
QUICK_ROWS = 20_000


def main() -> None:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help=" ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows, one round")
    parser.add_argument("--rows", type=int, help=f"rows of the table ({ROWS:,})")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="tasks that Spark runs at once")
    parser.add_argument("--json", metavar="FILE", help="write the JSON there instead of printing it")
    parser.add_argument("--dir", help="where to put the cluster (a temporary directory)")
    arguments = parser.parse_args()
    rows = arguments.rows or (QUICK_ROWS if arguments.quick else ROWS)
    lines: list[Line] = []
    with (
        tempfile.TemporaryDirectory(prefix="herdpy-bench-", dir=arguments.dir) as directory,
        spark_bed(Path(directory), rows=rows, cores=arguments.cores, quick=arguments.quick) as bed,
    ):
        try:
            for name in arguments.parts or PARTS:
                print(f"{name} ...", file=sys.stderr, flush=True)
                lines += PARTS[name](bed)
        finally:  # what was measured before a part failed is reported
            report(f"Spark beside a cluster, {rows:,} rows", lines, arguments.json)


if __name__ == "__main__":
    main()
