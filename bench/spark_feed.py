"""How many changes a second the feed gives, and how long after its commit a change is in a micro-batch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from measure import Line
from spark_bed import SparkBed, line

import herdpy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RATE_WANTED = 50_000
VISIBLE_WANTED_MS = 1000.0
_COMMITS = 50
_PATIENCE_S = 60.0


def measure_feed(bed: SparkBed) -> list[Line]:
    """The rate of catching up, and the wait of single commits."""
    return [_rate(bed), _visible(bed)]


def _feed(bed: SparkBed, table: str, starting: str) -> DataFrame:
    options = {"url": bed.cluster.url, "table": table, "startingOffsets": starting}
    return bed.spark.readStream.format("herdpy").options(**options).load()


def _rate(bed: SparkBed) -> Line:
    """All changes of a table from its beginning, counted: a load, and an UPDATE of every row."""
    bed.sql("UPDATE bench SET a = a + 1")
    runs = []
    for number in range(bed.rounds):
        counted: list[int] = []
        stream = _feed(bed, "bench", "earliest").writeStream.foreachBatch(
            lambda batch, _number, counted=counted: counted.append(batch.count())
        )
        checkpoint = str(bed.directory / f"feed-{number}")
        began = time.perf_counter()
        query = stream.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        runs.append(sum(counted) / (time.perf_counter() - began))
    made = line("change feed, catching up", "changes/s", runs)
    made.wanted, made.met = f"{RATE_WANTED:,} changes/s", made.ours >= RATE_WANTED
    return made


def _visible(bed: SparkBed) -> Line:
    """From the answer to a commit until a micro-batch with the change is handed to the program."""
    bed.sql("CREATE TABLE seen (id BIGINT PRIMARY KEY, at DOUBLE PRECISION)")
    ((position,),) = bed.sql("SELECT herdpy.commit_position()")  # "latest" is whenever the stream begins
    arrived: dict[int, float] = {}

    def take(batch: Any, _number: int) -> None:
        now = time.perf_counter()
        for row in batch.where("op = 'insert'").select("key.id").collect():
            arrived.setdefault(row["id"], now)

    query = (
        _feed(bed, "seen", position)
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(bed.directory / "seen"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    committed: dict[int, float] = {}
    try:
        with herdpy.connect(bed.cluster.url, autocommit=True) as connection:
            count = 5 if bed.quick else _COMMITS
            for number in range(count):
                connection.execute("INSERT INTO seen VALUES (%s, 0)", (number,))
                committed[number] = time.perf_counter()
                until = time.monotonic() + _PATIENCE_S
                while number not in arrived:
                    if query.exception() is not None or time.monotonic() > until:
                        raise SystemExit(f"a change did not arrive: {query.exception()}")
                    time.sleep(0.005)
    finally:
        query.stop()
    waits = [(arrived[number] - committed[number]) * 1000 for number in committed]
    made = line("change feed, commit to micro-batch", "ms", waits[1:] or waits)
    made.wanted, made.met = f"{VISIBLE_WANTED_MS:,.0f} ms", made.ours < VISIBLE_WANTED_MS
    return made
