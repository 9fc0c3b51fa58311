"""Spark beside a cluster, on one machine, in one run: exports, loads, the change feed, and what they cost.

    python bench/spark.py [--quick] [--rows N] [--json FILE] [--dir DIRECTORY] [part ...]

Three servers and three bookies, and Spark with as many tasks at once as there are cores. The limit is Spark's
own copy of the same rows from Parquet to Parquet, measured in turn with each export. Rows have six columns.
Parts: export, load, parts (a load of many small partitions), beside, feed, jdbc (beside a PostgreSQL, by
Spark's JDBC); and, only where it is named, scale: memory at a tenth of the rows and at all of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from measure import Line, report
from spark_bed import NICENESS, SparkBed, spark_bed
from spark_feed import measure_feed
from spark_jdbc import measure_jdbc, pgjdbc
from spark_rates import measure_beside, measure_export, measure_load, measure_small_parts
from spark_scale import measure_scale

PARTS: dict[str, Callable[[SparkBed], list[Line]]] = {
    "export": measure_export,
    "load": measure_load,
    "parts": measure_small_parts,
    "beside": measure_beside,
    "feed": measure_feed,
    "jdbc": measure_jdbc,
}
ALONE = ("scale",)
"""Parts with clusters of their own, one or several."""
ROWS = 1_000_000
QUICK_ROWS = 20_000


def main() -> None:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS, *ALONE], help=" ".join([*PARTS, *ALONE]))
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows, one round")
    parser.add_argument("--rows", type=int, help=f"rows of the table ({ROWS:,})")
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="tasks that Spark runs at once")
    parser.add_argument(
        "--niceness", type=int, default=NICENESS, help=f"of Spark ({NICENESS}); 0 beside other work"
    )
    parser.add_argument("--json", metavar="FILE", help="write the JSON there instead of printing it")
    parser.add_argument("--dir", help="where to put the cluster (a temporary directory)")
    arguments = parser.parse_args()
    rows = arguments.rows or (QUICK_ROWS if arguments.quick else ROWS)
    parts = arguments.parts or list(PARTS)
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="herdpy-bench-", dir=arguments.dir) as directory:
        place = Path(directory)
        try:
            if "scale" in parts:
                lines += measure_scale(place, rows, arguments.cores)
            if named := [part for part in parts if part in PARTS]:
                how: dict[str, Any] = {
                    "niceness": arguments.niceness,
                    "jars": pgjdbc() if "jdbc" in named else "",
                }
                how |= {"rows": rows, "cores": arguments.cores, "quick": arguments.quick}
                with spark_bed(place, **how) as bed:
                    for name in named:
                        print(f"{name} ...", file=sys.stderr, flush=True)
                        lines += PARTS[name](bed)
        finally:  # what was measured before a part failed is reported
            report(f"Spark beside a cluster, {rows:,} rows", lines, arguments.json)


if __name__ == "__main__":
    main()
