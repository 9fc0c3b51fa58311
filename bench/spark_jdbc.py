"""Our source beside Spark's own JDBC source on a PostgreSQL: the same rows, partitions and sinks, in turn.

PostgreSQL is one server alone with its own defaults; HerdPy is a cluster whose rows are on three bookies.
pgjdbc writes in Spark's usual batches, or with many INSERTs rewritten as one; it reads 10,000 rows at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from measure import Line, in_turn
from postgresql import connect, postgres
from spark_bed import TABLE, SparkBed, line, wanted_ratio
from spark_rates import load_rate

from tests.server.pgjdbc import jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JDBC_WANTED = 3.0
_FETCHED_ROWS = 10_000


def pgjdbc() -> str:
    """The driver's jars, as ``spark.jars`` takes them."""
    return ",".join(map(str, sorted(jars().glob("*.jar"))))


def measure_jdbc(bed: SparkBed) -> list[Line]:
    """Loads and reads, each in turn with the peer's."""
    with postgres(bed.directory) as port:
        with connect(port) as connection:
            connection.execute(f"CREATE TABLE bench ({TABLE})")
        peer = _Peer(bed, port)
        lines = []
        for how, options in (
            ("batches of 1,000", {}),
            ("rewritten INSERTs of 10,000", {"batchsize": "10000", "reWriteBatchedInserts": "true"}),
        ):
            runs, others = in_turn(
                bed.rounds, partial(load_rate, bed, "loaded"), partial(peer.write, options)
            )
            lines.append(wanted_ratio(line(f"load; JDBC, {how}", "rows/s", runs, others), JDBC_WANTED))
        ours = partial(_read, bed, lambda: bed.source(numPartitions=str(bed.partitions)))
        runs, others = in_turn(bed.rounds, ours, partial(_read, bed, peer.source))
        lines.append(wanted_ratio(line("read from a replica; JDBC", "rows/s", runs, others), JDBC_WANTED))
        return lines


class _Peer:
    """PostgreSQL's table ``bench``, by JDBC."""

    def __init__(self, bed: SparkBed, port: int) -> None:
        self._bed, self._port = bed, port
        self._options = {
            "url": f"jdbc:postgresql://127.0.0.1:{port}/postgres",
            "user": "herdpy",
            "dbtable": "bench",
            "driver": "org.postgresql.Driver",
        }

    def write(self, options: Mapping[str, str]) -> float:
        """Rows a second into the table, which is empty before."""
        with connect(self._port) as connection:
            connection.execute("TRUNCATE bench")
        stored = self._bed.stored()
        began = time.perf_counter()
        stored.write.format("jdbc").options(**self._options, **options).mode("append").save()
        return self._bed.rows / (time.perf_counter() - began)

    def source(self) -> DataFrame:
        """The table in even steps of its key."""
        bounds = {"partitionColumn": "id", "lowerBound": "0", "upperBound": str(self._bed.rows)}
        how = {"numPartitions": str(self._bed.partitions), "fetchsize": str(_FETCHED_ROWS)}
        reader = self._bed.spark.read.format("jdbc").options(**self._options, **bounds, **how)
        return reader.option("preferTimestampNTZ", "true").load()


def _read(bed: SparkBed, source: Callable[[], DataFrame]) -> float:
    """Rows a second that Spark takes and throws away."""
    began = time.perf_counter()
    source().write.format("noop").mode("overwrite").save()
    return bed.rows / (time.perf_counter() - began)
