"""A Spark job in processes of its own, which follows a table into Delta Lake and into another table.

    python feed_program.py '{"master": "local[2]", "url": ..., "table": ..., "target": ..., "place": ...}'

``place`` is a directory for the stream's checkpoint, the Delta table ``lake``, and files by which the driver
tells how far it is: ``lake-<batch>`` and ``put-<batch>`` when the batch is there. ``hold`` names the one of
these at which it waits to be killed, "lake" or "put", for the first batch that comes there. ``to_end``: it
ends with what is committed now.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.load_program import SETTINGS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def main(given: dict[str, Any]) -> None:
    from pyspark.sql import SparkSession

    import herdpy_spark
    from herdpy_spark.jobs.exporting.changeset import GONE, net
    from herdpy_spark.jobs.exporting.delta_copy import Copy

    place, hold = Path(given["place"]), given.get("hold", "")
    key = tuple(given["key"])

    def reached(what: str, number: int) -> None:
        (place / f"{what}-{number}").touch()
        if hold == what:
            threading.Event().wait()

    copy = Copy(str(place / "lake"), key)

    def put(batch: DataFrame, number: int) -> None:
        copy.apply(batch, number)
        reached("lake", number)
        changes = net(batch, batch.schema["after"].dataType, key).rows.persist()
        stream = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        gone = changes.where(GONE).select(*key)
        there = changes.where(f"NOT {GONE}").drop(GONE)
        for mode, rows in (("delete", gone), ("upsert", there)):
            target = {"url": given["url"], "table": given["target"], "mode": mode}
            load = f"{stream[:18]}-{number}-{mode}"
            rows.write.format("herdpy").options(**target, loadId=load).mode("append").save()
            reached("put", number)
        changes.unpersist()

    builder = SparkSession.builder.master(given["master"]).appName("feed")
    for name, value in {
        **SETTINGS,
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.jars": given["jars"],
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.local.dir": str(place),
        "spark.sql.warehouse.dir": str(place),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    herdpy_spark.register(spark)
    feed = spark.readStream.format("herdpy").options(url=given["url"], table=given["table"])
    writer = feed.options(startingOffsets="earliest", maxEntriesPerTrigger=50).load().writeStream
    writer = writer.foreachBatch(put).option("checkpointLocation", str(place / "checkpoint"))
    if given.get("to_end"):
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
