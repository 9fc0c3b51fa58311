"""HerdPy for PySpark: tables as DataFrames, loads, and the change feed.

    import herdpy_spark

    herdpy_spark.register(spark)
    spark.read.format("herdpy").option("url", "herdpy://host/shop").option("table", "orders").load()

The data source (``source``) delegates: reads of tables are ``batch``, loads ``writing``, the stream of
changes ``feed``. They stand on ``log``, which reads snapshots and ledgers and knows nothing of Spark. Nothing
here is part of a server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: SparkSession) -> None:
    """Make the format "herdpy" known to a session. Executors need herdpy[spark] installed, or its wheel."""
    from herdpy_spark.source import HerdPyDataSource

    spark.dataSource.register(HerdPyDataSource)
