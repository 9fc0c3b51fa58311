"""Runs jobs one after the other in one session with Delta Lake, and prints what Delta tables hold, as JSON.

python -m tests.spark.delta_program SPEC: {"jars": [...], "runs": [[argv...]], "read": [table...]}
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from herdpy_spark.jobs.__main__ import run as run_job
from herdpy_spark.jobs.running import DELTA_CATALOG, DELTA_EXTENSION
from tests.spark.sinks import plain


def main() -> int:
    """The first code that is not 0, else 0."""
    spec = json.loads(sys.argv[1])
    builder = SparkSession.builder.master("local[2]")
    settings = {
        "spark.jars": ",".join(spec["jars"]),
        "spark.sql.extensions": DELTA_EXTENSION,
        "spark.sql.catalog.spark_catalog": DELTA_CATALOG,
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for argv in spec["runs"]:
        code = run_job([*argv, "--quiet"])
        if code != 0:
            sys.stderr.write(f"{argv}\n")
            return code
    found = {}
    for table in spec["read"]:
        frame = spark.read.format("delta").load(table)
        found[table] = [frame.columns, sorted(map(plain, frame.collect()))]
    print(json.dumps(found))
    spark.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
