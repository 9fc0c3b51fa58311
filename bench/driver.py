"""The driver on a cluster beside psycopg 3 on PostgreSQL with two synchronous standbys, in one run.

    python bench/driver.py [--quick] [--json FILE] [--dir DIRECTORY] [part ...]

The same set-up as ``bench/cluster.py``: three servers and three bookies against a primary that answers a
commit when one of two standbys has it. Each figure is measured in turn on both, several rounds, and reported
as the median and the median ratio of the pairs. Parts: select, insert, update (by key, autocommit, 1, 8 and
32 threads in 1, 2 and 4 processes), tasks (herdpy.aio), pools, many (executemany), ingest and fetch (1 M
rows; psycopg by COPY and by rows). All of it takes about half an hour.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from cluster_bed import Bed
from cluster_main import run
from driver_bulk import measure_fetch, measure_ingest, measure_many
from driver_points import measure_inserts, measure_selects, measure_updates
from driver_ways import measure_pools, measure_tasks
from measure import Line

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

if __name__ == "__main__":
    run(__doc__, "The driver on a cluster beside psycopg on PostgreSQL", PARTS)
