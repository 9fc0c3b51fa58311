"""A standalone cluster of Spark on this machine, as its ``sbin`` scripts start one: a master, and workers.

Each worker has a loopback address of its own (127.0.0.2, 127.0.0.3, ...): Spark puts no two attempts at a
task on one host, so that there is no speculation among workers of one address. Workers get nothing of this
process's environment that leads to HerdPy: what executors know comes from the driver, or is installed.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from herdpy.testing.process import await_until
from tests.spark.conftest import QUICK_JAVA

SPARK = Path(pyspark.__file__).parent
PATIENCE_S = 300.0
_MASTER = re.compile(r"Starting Spark master at (spark://[\d.]+:\d+)")


def spark_environment() -> dict[str, str]:
    """This process's environment without what leads to another Spark, or to HerdPy's source."""
    hidden = {"SPARK_HOME", "PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"}
    return {name: value for name, value in os.environ.items() if name not in hidden}


class Standalone:
    """``with Standalone(directory, workers=2) as spark``; all of it has ended at the end of the block.

    Args:
        workers: each has one core and one GiB.

    Attributes:
        master: its URL.
    """

    def __init__(self, directory: Path, workers: int) -> None:
        directory.mkdir()
        self._directory = directory
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def _start(self) -> None:
        self._run("master", "127.0.0.1", "master.Master")
        assert await_until(lambda: self._said("master", _MASTER) is not None, PATIENCE_S), "no master"
        found = self._said("master", _MASTER)
        assert found is not None
        self.master = found[1]
        for number in range(self._workers):
            work = ("--work-dir", str(self._directory / f"work-{number}"), "--cores", "1", "--memory", "1g")
            self._run(f"worker-{number}", f"127.0.0.{number + 2}", "worker.Worker", *work, self.master)
        registered = re.compile("Successfully registered with master")
        for number in range(self._workers):
            name = f"worker-{number}"
            assert await_until(lambda name=name: self._said(name, registered) is not None, PATIENCE_S), name

    def _run(self, name: str, host: str, program: str, *arguments: str) -> None:
        environment = spark_environment() | {
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(self._directory),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{QUICK_JAVA} -Dspark.worker.timeout=600",
        }
        command = [str(SPARK / "bin/spark-class"), f"org.apache.spark.deploy.{program}", "--host", host]
        with (self._directory / f"{name}.log").open("wb") as output:
            process = subprocess.Popen(
                [*command, "--port", "0", "--webui-port", "0", *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._directory,
            )
        self._processes.append(process)

    def _said(self, name: str, pattern: re.Pattern[str]) -> re.Match[str] | None:
        assert all(process.poll() is None for process in self._processes), "a process of Spark ended"
        return pattern.search((self._directory / f"{name}.log").read_text())

    def close(self) -> None:
        """End the workers, with their executors, and then the master."""
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(60.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
