"""A Spark job in processes of its own, which loads the numbers 0 to n - 1; for tests that kill some of them.

    python load_program.py '{"master": "local[2]", "url": ..., "table": ..., "rows": 1000, "place": ..., ...}'

``place`` is a directory in which its processes tell, by files, how far they are: each attempt at a task by
``began-<partition>-<attempt>``, the driver by ``staged``, ``gathered`` and ``published``. ``hold`` is where
they wait to be killed: "tasks" (the attempt that is first to have all rows of its partition, until there is
the file ``go``), "staged", "gathered" (what tasks carried is staged) or "published" (the driver).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

_PATIENT = "3600s"  # nobody is declared dead for being slow: those who are to die are killed
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "768m",
    "spark.driver.extraJavaOptions": _JAVA,
    "spark.executor.extraJavaOptions": _JAVA,
    "spark.network.timeout": _PATIENT,
    "spark.rpc.lookupTimeout": _PATIENT,
    "spark.worker.timeout": "3600",
    "spark.task.maxFailures": "20",  # Spark gives a process of Python 10 s to begin, on a busy machine too
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.log.level": "ERROR",
}


def main(given: dict[str, Any]) -> None:
    from pyspark import TaskContext
    from pyspark.sql import SparkSession

    from herdpy_spark.source import HerdPyDataSource
    from herdpy_spark.writing import LoadWriter

    place, hold = Path(given["place"]), given.get("hold", "")

    def reached(step: str) -> None:
        (place / step).touch()
        if hold == step:
            threading.Event().wait()

    class HeldLoads:
        def __init__(self, loads: Any) -> None:
            self.abort, self._publish = loads.abort, loads.publish

        def publish(self, plan: Any, staged: Any) -> Any:
            reached("gathered")
            return self._publish(plan, staged)

    class HeldWriter(LoadWriter):
        def commit(self, messages: Any) -> None:
            reached("staged")
            super().commit(messages)
            reached("published")

    class HeldSource(HerdPyDataSource):
        def writer(self, schema: Any, overwrite: bool) -> Any:
            made: Any = super().writer(schema, overwrite)
            return HeldWriter(HeldLoads(made._loads), made._plan)

    def held(batches: Any) -> Any:
        context = TaskContext.get()
        assert context is not None
        yield from batches
        is_first = _make(place / f"first-{context.partitionId()}")
        (place / f"began-{context.partitionId()}-{context.taskAttemptId()}").touch()
        while hold == "tasks" and is_first and not (place / "go").exists():
            time.sleep(0.02)

    builder = SparkSession.builder.master(given["master"]).appName("load")
    for name, value in {
        **SETTINGS,
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.local.dir": str(place),
        "spark.sql.warehouse.dir": str(place),
        **given.get("settings", {}),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(HeldSource)
    frame = spark.range(0, given["rows"], 1, given["partitions"])
    writer = frame.mapInArrow(held, frame.schema).write.format("herdpy").mode("append")
    writer.options(url=given["url"], table=given["table"], loadId=given["load_id"]).save()
    spark.stop()


def _make(path: Path) -> bool:
    """Whether the file was not there."""
    try:
        path.open("x").close()
    except FileExistsError:
        return False
    return True


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
