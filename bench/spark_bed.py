"""What the benchmark of Spark stands on: a cluster, a session, a table, and its rows as Parquet."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from measure import Line

import herdpy
from herdpy.dev import LocalCluster
from herdpy.rpc.address import GrpcAddress, RemoteError
from herdpy.rpc.snapshots import publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE = "id BIGINT PRIMARY KEY, a INTEGER, b DOUBLE PRECISION, c TEXT, d TIMESTAMP, e NUMERIC(12,2)"
_PATIENCE_S = 120.0
_HEAP = "2g"
NICENESS = 10


@dataclass
class SparkBed:
    """A running cluster with the table ``bench`` in it, and Spark.

    Attributes:
        rows: how many ``bench`` has.
        parquet: the same rows as files, which Spark copies for comparison.
        quick: see that it works.
    """

    spark: SparkSession
    cluster: LocalCluster
    directory: Path
    parquet: str
    rows: int
    cores: int
    quick: bool

    @property
    def rounds(self) -> int:
        """How many pairs."""
        return 1 if self.quick else 5

    def made(self, first: int = 0) -> DataFrame:
        """The rows, made by Spark; from another ``first`` on they are others."""
        return self.spark.range(first, first + self.rows, 1, 2 * self.cores).selectExpr(
            "id",
            "cast(id % 1000 AS int) AS a",
            "id / 7 AS b",
            "concat('row number ', id) AS c",
            "timestamp_ntz '2026-01-01 00:00:00' + make_dt_interval(0, 0, 0, id % 86400) AS d",
            "cast(id % 1000000 / 100 AS decimal(12,2)) AS e",
        )

    @property
    def partitions(self) -> int:
        """How many, where both sides are cut."""
        return 2 * self.cores

    def stored(self) -> DataFrame:
        """The rows, as they are in the Parquet files."""
        return self.spark.read.parquet(self.parquet)

    def source(self, **options: str) -> DataFrame:
        """``bench``, as a DataFrame."""
        return self.spark.read.format("herdpy").options(url=self.cluster.url, table="bench", **options).load()

    def copy(self) -> float:
        """Rows a second of Spark's copy from Parquet to Parquet."""
        return self.timed(self.stored())

    def timed(self, frame: DataFrame) -> float:
        """Rows a second of writing a DataFrame as Parquet."""
        target = str(self.directory / "copy")
        began = time.perf_counter()
        frame.write.mode("overwrite").parquet(target)
        return self.rows / (time.perf_counter() - began)

    def sql(self, statement: str) -> list[Any]:
        """Run a statement on a connection of its own."""
        with herdpy.connect(self.cluster.url, autocommit=True) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def publish(self) -> None:
        """Publish a snapshot of the tablespace now, where readers of the log look for it."""
        url = (self.directory / "snapshots").as_uri()
        self.sql(f"ALTER TABLESPACE herdpy SET (snapshot_url = '{url}', snapshot_interval = '1d')")
        door = next(address for (address,) in self.sql("SELECT grpc_address FROM herdpy.nodes") if address)
        while True:
            try:
                asyncio.run(publish(GrpcAddress.parse(f"grpc://{door}")))
                return
            except RemoteError as error:
                if "being published" not in str(error):  # by the tablespace itself, since it knows where
                    raise
            time.sleep(0.5)


@contextlib.contextmanager
def spark_bed(directory: Path, *, rows: int, cores: int, quick: bool, **how: Any) -> Iterator[SparkBed]:
    """All of it, running, with its data in this directory; ``how`` as of :func:`spark_session`."""
    with cluster_bed(directory, rows=rows, cores=cores, quick=quick, **how) as bed:
        bed.made().write.parquet(bed.parquet)
        bed.sql(f"CREATE TABLE bench ({TABLE})")
        bed.stored().write.format("herdpy").options(url=bed.cluster.url, table="bench").mode("append").save()
        yield bed


@contextlib.contextmanager
def cluster_bed(
    directory: Path, *, rows: int, cores: int, quick: bool = False, **how: Any
) -> Iterator[SparkBed]:
    """The same without any table."""
    with LocalCluster(directory / "cluster", servers=3, bookies=3) as cluster:
        cluster.await_leader(timeout_s=_PATIENCE_S)
        with spark_session(directory, cores=cores, **how) as session:
            yield SparkBed(session, cluster, directory, str(directory / "parquet"), rows, cores, quick)


@contextlib.contextmanager
def spark_session(
    directory: Path, *, cores: int, heap: str = _HEAP, niceness: int = NICENESS, jars: str = ""
) -> Iterator[SparkSession]:
    """Spark on this machine, which gives way to others by its niceness, with our source.

    Args:
        heap: the most of its JVM.
        jars: on its class path.
    """
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    root = Path(__file__).parents[1]
    rooms = [str(root), *(str(root / room) for room in ("server", "sql", "spark_jobs"))]
    sys.path[:0] = rooms
    from pyspark.sql import SparkSession

    import herdpy_spark
    from herdpy_spark.jobs.priority import lower

    builder = SparkSession.builder.master(f"local[{cores}]").appName("herdpy bench")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": heap,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.local.dir": str(directory / "local"),
        **({"spark.jars": jars} if jars else {}),
    }.items():
        builder = builder.config(name, value)
    (directory / "local").mkdir()
    session = builder.getOrCreate()
    gateway: Any = session.sparkContext._gateway
    lower(gateway.proc.pid, niceness)
    try:
        herdpy_spark.register(session)
        yield session
    finally:
        session.stop()


def line(name: str, unit: str, runs: list[float], peer: list[float] | None = None) -> Line:
    """A measured thing, and what it is compared with."""
    if peer is None:
        return Line(name, median(runs), unit, runs=runs)
    return Line(name, median(runs), unit, median(peer), runs=runs, peer_runs=peer)


def wanted_ratio(made: Line, least: float) -> Line:
    """With the aim of a ratio to the peer."""
    made.wanted = f"{least:g} x"
    made.met = made.ratio is not None and made.ratio >= least
    return made
