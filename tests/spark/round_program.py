"""A Spark job in processes of its own: a load, a read from a replica and from the log, and the change feed.

    python round_program.py '{"master": "local-cluster[2,1,1024]", "url": ..., "table": ..., "place": ...}'

With ``remote`` in place of ``master`` it is a client of Spark Connect. It prints what it found as JSON, last.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tests.spark.load_program import SETTINGS

ROWS = 1000


def main(given: dict[str, Any]) -> None:
    from pyspark.sql import SparkSession

    import herdpy_spark

    place = Path(given["place"])
    builder = SparkSession.builder.appName("round")
    builder = builder.master(given["master"]) if "master" in given else builder.remote(given["remote"])
    for name, value in {
        **SETTINGS,
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.sql.session.timeZone": "Asia/Kathmandu",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(place),
        "spark.sql.warehouse.dir": str(place),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    herdpy_spark.register(spark)
    table = {"url": given["url"], "table": given["table"]}
    rows = spark.range(0, ROWS, 1, 4).selectExpr(
        "id", "concat('row ', id) AS v", "timestamp_seconds(id) AS at", "cast(id / 8 AS decimal(9,3)) AS n"
    )
    for _ in range(2):  # the second one adds nothing
        rows.write.format("herdpy").options(**table, loadId=given["table"]).mode("append").save()
    found = {}
    for source in ("replica", "log"):
        read = spark.read.format("herdpy").options(**table, numPartitions=3).option("from", source)
        both = read.load().exceptAll(rows).count(), rows.exceptAll(read.load()).count()
        found[source] = [read.load().count(), *both]
    query = (
        spark.readStream.format("herdpy")
        .options(**table, startingOffsets="earliest")
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(place / "changes"))
    )
    query.awaitTermination()
    changes = spark.read.parquet(str(place / "changes"))
    found["feed"] = {row["op"]: row["count"] for row in changes.groupBy("op").count().collect()}
    found["sum"] = changes.agg({"key.id": "sum"}).collect()[0][0]
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
