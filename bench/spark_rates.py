"""How fast Spark exports and loads, and what becomes of the leader's point statements meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from time import sleep
from typing import TYPE_CHECKING

from meanwhile import meanwhile
from measure import Line, in_turn
from spark_bed import TABLE, SparkBed, line, wanted_ratio

import herdpy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXPORT_WANTED = {"replica": 0.5, "log": 0.3}
LOAD_WANTED = 100_000
LATENCY_WANTED = 1.2
SMALL_PARTS, SMALL_PARTS_WANTED_S = 500, 10.0
_IDLE_S = 10.0
_PAUSE_S = 0.002  # a client that thinks: what is measured is the wait, not the throughput


def measure_export(bed: SparkBed) -> list[Line]:
    """The table as Parquet, from a replica and from the log, each in turn with the copy of Parquet files."""
    lines = []
    for source, least in EXPORT_WANTED.items():
        if source == "log":
            bed.publish()
        runs, peer = in_turn(bed.rounds, partial(_export, bed, source), bed.copy)
        lines.append(wanted_ratio(line(f"export from {source}; Parquet copy", "rows/s", runs, peer), least))
    return lines


def _export(bed: SparkBed, source: str) -> float:
    return bed.timed(bed.source(**{"from": source}))


def measure_load(bed: SparkBed) -> list[Line]:
    """The same rows into an empty table, through three bookies; from Parquet files."""
    made = line("load", "rows/s", [load_rate(bed, "loaded") for _ in range(bed.rounds)])
    made.wanted, made.met = f"{LOAD_WANTED:,} rows/s", made.ours >= LOAD_WANTED
    return [made]


def load_rate(bed: SparkBed, table: str) -> float:
    """Rows a second into a new table of that name, which is dropped again."""
    bed.sql(f"CREATE TABLE {table} ({TABLE})")
    stored = bed.stored()
    began = time.perf_counter()
    stored.write.format("herdpy").options(url=bed.cluster.url, table=table).mode("append").save()
    seconds = time.perf_counter() - began
    bed.sql(f"DROP TABLE {table}")
    return bed.rows / seconds


def measure_small_parts(bed: SparkBed) -> list[Line]:
    """A load of 500 partitions of a few rows: seconds, in turn with Spark's own files of the same rows."""
    numbers = iter(range(bed.rounds))

    def load() -> float:
        table = f"parts_{next(numbers)}"
        bed.sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT)")
        began = time.perf_counter()
        _small_parts(bed).write.format("herdpy").options(url=bed.cluster.url, table=table).mode(
            "append"
        ).save()
        return time.perf_counter() - began

    def copy() -> float:
        began = time.perf_counter()
        _small_parts(bed).write.mode("overwrite").parquet(str(bed.directory / "parts"))
        return time.perf_counter() - began

    made = line(
        f"load of {SMALL_PARTS} partitions of 4 rows; as Parquet", "s", *in_turn(bed.rounds, load, copy)
    )
    made.wanted, made.met = f"< {SMALL_PARTS_WANTED_S:g} s", made.ours < SMALL_PARTS_WANTED_S
    return [made]


def _small_parts(bed: SparkBed) -> DataFrame:
    rows = bed.spark.range(0, 4 * SMALL_PARTS, 1, SMALL_PARTS)
    return rows.selectExpr("id", "concat('row number ', id) AS name")


def measure_beside(bed: SparkBed) -> list[Line]:
    """p99 of a client's SELECT and UPDATE by key beside exports and a load, in turn with an idle Spark."""
    bed.publish()
    seconds = 1.0 if bed.quick else _IDLE_S
    works: dict[str, Callable[[], object]] = {
        "an export from the log": partial(_export, bed, "log"),
        "an export from a replica": partial(_export, bed, "replica"),
        "a load": partial(load_rate, bed, "aside"),
    }
    lines = []
    for what, work in works.items():
        work()  # the first one starts processes of Python
        busy, idle = in_turn(
            bed.rounds, partial(_while, bed, work), partial(_while, bed, partial(sleep, seconds))
        )
        for at, kind in enumerate(("SELECT", "UPDATE")):
            runs, peer = [one[at] for one in busy], [one[at] for one in idle]
            made = line(f"p99 of {kind} beside {what}; idle", "ms", runs, peer)
            made.wanted = f"<= {LATENCY_WANTED:g} x"
            made.met = made.ratio is not None and made.ratio <= LATENCY_WANTED
            lines.append(made)
    return lines


def _while(bed: SparkBed, work: Callable[[], object]) -> tuple[float, float]:
    """p99 in ms of SELECT and UPDATE by key, one client, while the work is done."""
    waits: tuple[list[float], list[float]] = ([], [])

    def client(over: threading.Event) -> None:
        with herdpy.connect(bed.cluster.url, autocommit=True) as connection:
            number = 0
            while not over.is_set():
                number = (number + 7919) % bed.rows
                for kept, statement in zip(waits, (SELECT, UPDATE), strict=True):
                    began = time.perf_counter()
                    connection.execute(statement, (number,))
                    kept.append((time.perf_counter() - began) * 1000)
                sleep(_PAUSE_S)

    with meanwhile(client):
        work()
    return _p99(waits[0]), _p99(waits[1])


SELECT = "SELECT a FROM bench WHERE id = %s"
UPDATE = "UPDATE bench SET a = a + 1 WHERE id = %s"


def _p99(waits: list[float]) -> float:
    ordered = sorted(waits)
    return ordered[int(len(ordered) * 0.99)] if ordered else median([0.0])
