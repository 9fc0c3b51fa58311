"""A cluster beside PostgreSQL with two synchronous standbys, on one machine and disk, in one run.

    python bench/cluster.py [--quick] [--json FILE] [--dir DIRECTORY] [part ...]

Three servers and three bookies against a primary that answers a commit when one of two standbys has it
(``ANY 1 (s1, s2)``). Each figure is measured in turn on both, several rounds, and reported as the median and
the median ratio of the pairs. The peer of ``failover`` and ``handover`` is etcd, three members of it with
its default times, and three with shorter ones. Parts: pgbench, following, inserts, commit, reads, bulk, lag,
idle, handover, failover, cold; and big, which fills a tablespace with 1,000 tables and 10 M rows first and is
only run when it is named.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from cluster_bed import Bed
from cluster_cold import measure_cold
from cluster_failover import measure_failover, measure_handover
from cluster_faults import measure_big, measure_lag
from cluster_following import measure_following
from cluster_idle import measure_idle
from cluster_main import run
from cluster_rates import measure_bulk, measure_commit, measure_inserts, measure_pgbench
from cluster_reads import measure_reads
from measure import Line

PARTS: dict[str, Callable[[Bed], list[Line]]] = {
    "pgbench": measure_pgbench,
    "following": measure_following,
    "inserts": measure_inserts,
    "commit": measure_commit,
    "reads": measure_reads,
    "bulk": measure_bulk,
    "lag": measure_lag,
    "idle": measure_idle,
    "handover": measure_handover,
    "failover": measure_failover,
    "cold": measure_cold,
    "big": measure_big,
}
LONG = {"big"}

if __name__ == "__main__":
    run(__doc__, "A cluster beside PostgreSQL with two synchronous standbys", PARTS, LONG)
