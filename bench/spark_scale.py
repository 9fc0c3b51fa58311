"""How memory grows with the rows: a load, exports, and an incremental one, of a tenth of the rows and of all.

    python bench/spark.py scale --rows 10000000

Each size has a cluster and a JVM of its own, in a process of its own (``python bench/spark_scale.py ROWS
DIRECTORY CORES``, which prints JSON). Rows are of 50 bytes: a BIGINT and a TEXT of 42 characters. Nothing is
kept of a step but what the database and the export keep. What is compared is the most memory of their own
that the processes had in a step: flat is a ratio of about 1, where the rows are ten times as many.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from measure import Line
from memory import Family, MemoryWatch, memory_bytes
from spark_bed import SparkBed, cluster_bed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALLER = 10
FLAT_WANTED = 1.5
TABLE = "id BIGINT PRIMARY KEY, filler TEXT"
_HEAP = "1g"
_MIB = 1 << 20
_CHANGED_OF = 100
_PARTITION_ROWS = 250_000
_TRIES = 3  # on a busy machine a process of Python may begin too late for Spark


def measure_scale(directory: Path, rows: int, cores: int) -> list[Line]:
    """Peaks of memory at ``rows`` beside those at a tenth of them, and how long each step took."""
    small, large = (_run(directory, count, cores) for count in (rows // SMALLER, rows))
    lines = []
    for step, peaks in large.items():
        if not (peaks and small[step]):
            lines.append(Line(f"{step}: failed", 0.0, "MiB", met=False))
            continue
        for part, size in peaks.items():
            before = small[step].get(part, 0.0)
            if part == "seconds":
                name, unit = f"{step}: time; of a tenth of the rows", "s"
            else:
                name, unit = f"{step}: memory of {part}; of a tenth of the rows", "MiB"
            made = Line(name, size, unit, before, runs=[size], peer_runs=[max(before, 1e-9)])
            if unit == "MiB":
                made.wanted, made.met = f"<= {FLAT_WANTED:g} x", size <= FLAT_WANTED * before
            lines.append(made)
    return lines


def _run(directory: Path, rows: int, cores: int) -> dict[str, dict[str, float]]:
    """One size, in a process of its own: what the step's parts had at most."""
    print(f"scale: {rows:,} rows ...", file=sys.stderr, flush=True)
    place = directory / f"scale-{rows}"
    place.mkdir()
    command = [sys.executable, __file__, str(rows), str(place), str(cores)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True)
    measured: dict[str, dict[str, float]] = json.loads(ran.stdout.splitlines()[-1])
    return measured


def measure_size(bed: SparkBed) -> dict[str, dict[str, float]]:
    """The steps, with one table of ``bed.rows`` rows."""
    bed.sql(f"CREATE TABLE scaled ({TABLE})")
    changed = f"UPDATE scaled SET filler = 'changed' WHERE id < {bed.rows // _CHANGED_OF}"
    steps: dict[str, Callable[[], object]] = {
        "load": lambda: _load(bed),
        "publishing": bed.publish,
        "export from the log": lambda: _export(bed, "log", "log"),
        "export from a replica": lambda: _export(bed, "replica", "replica"),
        "update of a hundredth": lambda: bed.sql(changed),
        "incremental export": lambda: _export(bed, "log", None),
        "load, and export from ledgers alone": lambda: _export_unpublished(bed),
    }
    found: dict[str, dict[str, float]] = {}
    for name, step in steps.items():
        began = time.perf_counter()
        with MemoryWatch(_roots(bed), _weighed) as watch:
            try:
                step()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the other steps are worth their time
                print(f"{name} failed: {error}", file=sys.stderr, flush=True)
                found[name] = {}
                continue
        seconds = time.perf_counter() - began
        found[name] = {part: size / _MIB for part, size in watch.peaks.items()} | {"seconds": seconds}
        print(name, {part: round(size) for part, size in found[name].items()}, file=sys.stderr, flush=True)
    return found


def _rows(bed: SparkBed) -> DataFrame:
    partitions = max(2 * bed.cores, bed.rows // _PARTITION_ROWS)
    return bed.spark.range(0, bed.rows, 1, partitions).selectExpr("id", "lpad(id, 42, 'row ') AS filler")


def _load(bed: SparkBed, table: str = "scaled") -> None:
    target = {"url": bed.cluster.url, "table": table}
    _rows(bed).write.format("herdpy").options(**target).mode("append").save()


def _export(bed: SparkBed, to: str, source: str | None, table: str = "scaled") -> None:
    """A whole export from a source; None: an incremental one of what was exported there before."""
    from herdpy_spark.jobs.export import JOB
    from herdpy_spark.jobs.running import main

    partitions = str(max(2 * bed.cores, bed.rows // _PARTITION_ROWS))
    how = ["--incremental"] if source is None else ["--from", source]
    target = ["--url", bed.cluster.url, "--table", table, "--to", str(bed.directory / f"export-{to}")]
    for _ in range(_TRIES):
        if main(JOB, [*target, *how, "--partitions", partitions, "--quiet"]) == 0:
            return
    raise SystemExit("the export failed")


def _export_unpublished(bed: SparkBed) -> None:
    """Of a table that no snapshot has."""
    bed.sql(f"CREATE TABLE unpublished ({TABLE})")
    _load(bed, "unpublished")
    _export(bed, "ledgers", "log", "unpublished")


def _roots(bed: SparkBed) -> dict[str, int]:
    servers = bed.cluster.status().servers
    found = {one.id if one.role != "leader" else "leader": one.pid for one in servers if one.pid is not None}
    gateway: Any = bed.spark.sparkContext._gateway
    return found | {"JVM": gateway.proc.pid}


def _weighed(families: Mapping[str, Family]) -> dict[str, int]:
    """The leader and the larger follower with their workers, Spark's JVM, and the largest Python of Spark."""
    sizes = {name: list(map(memory_bytes, family)) for name, family in families.items()}
    followers = [sum(size) for name, size in sizes.items() if name not in ("leader", "JVM")]
    jvm, *pythons = sizes["JVM"]
    return {
        "the leader": sum(sizes["leader"]),
        "a follower": max(followers),
        "Spark's JVM": jvm,
        "a Python of Spark": max(pythons, default=0),
    }


if __name__ == "__main__":
    place, count, tasks = Path(sys.argv[2]), int(sys.argv[1]), int(sys.argv[3])
    with cluster_bed(place, rows=count, cores=tasks, heap=_HEAP, niceness=0) as made:
        print(json.dumps(measure_size(made)))
