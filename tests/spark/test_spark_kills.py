"""Spark's own processes killed in the middle of loads: drivers, executors, and attempts that came second."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from herdpy.testing.process import await_until
from tests.spark import load_program
from tests.spark.standalone import Standalone

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]
ROWS = 40_000
FEW = 4_000
"""So few that tasks' messages carry them."""
ROOT = Path(load_program.__file__).parents[2]
PATIENCE_S = 900.0
EXECUTOR = b"CoarseGrainedExecutorBackend"
_JOBS = itertools.count(1)


class Job:
    """The program, running."""

    def __init__(self, place, output, **given):
        place.mkdir()
        self.place = place
        self._output = output.open("wb")
        roots = [str(ROOT / name) for name in ("", "server", "sql", "spark_jobs")]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(roots),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        environment.pop("SPARK_HOME", None)
        argv = [sys.executable, load_program.__file__, json.dumps({"place": str(place), **given})]
        self.process = subprocess.Popen(
            argv, env=environment, stdout=self._output, stderr=self._output, start_new_session=True
        )

    def await_file(self, pattern, count=1):
        def there():
            assert self.process.poll() is None, "the job ended"
            return len(list(self.place.glob(pattern))) >= count

        assert await_until(there, PATIENCE_S), f"{pattern} never came"

    def began(self, partition):
        """How many attempts at a partition had all its rows."""
        return len(list(self.place.glob(f"began-{partition}-*")))

    def kill(self):
        """The driver, its JVM, and all that they have started."""
        doomed = [self.process.pid, *self.descendants()]
        for pid in doomed:
            _kill(pid)
        self.process.wait(60)

    def executors(self):
        return [pid for pid in self.descendants() if EXECUTOR in _read(pid, "cmdline")]

    def descendants(self):
        parents = {}
        for name in os.listdir("/proc"):
            if name.isdigit() and (stat := _read(int(name), "stat")):
                parents[int(name)] = int(stat.rpartition(b")")[2].split()[1])
        found, new = [], [self.process.pid]
        while new:
            new = [pid for pid, parent in parents.items() if parent in new]
            found += new
        return found

    def close(self):
        if self.process.poll() is None:
            self.kill()
        self._output.close()


def _read(pid, name):
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""  # it ended


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


@pytest.fixture
def table(sql, new_name):
    name = new_name("killed")
    sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY)")
    return name


@pytest.fixture
def job(cluster, table, tmp_path):
    """Start a job; all of one test have the same load id."""
    jobs, load_id = [], f"killed-{next(_JOBS)}"

    def start(**given):
        number = len(jobs)
        default = {"master": "local[2,20]", "rows": ROWS, "partitions": 4}
        given = {**default, "url": cluster.url, "table": table, "load_id": load_id, **given}
        jobs.append(Job(tmp_path / f"job-{number}", tmp_path / f"job-{number}.log", **given))
        return jobs[-1]

    yield start
    for one in jobs:
        one.close()
    # A cluster on one machine keeps its executors' output beside Spark itself.
    shutil.rmtree(Path(pyspark.__file__).parent / "work", ignore_errors=True)


@pytest.fixture
def is_loaded(sql, table):
    def is_loaded(rows=ROWS):
        ((count, total),) = sql(f"SELECT count(*), coalesce(sum(id), 0) FROM {table}")
        assert (count, total) in [(0, 0), (rows, sum(range(rows)))]
        return count == rows

    return is_loaded


@pytest.mark.parametrize(
    ("hold", "rows"), [("staged", ROWS), ("published", ROWS), ("gathered", FEW), ("published", FEW)]
)
def test_a_driver_killed_before_its_answer_is_run_again_and_adds_each_row_once(job, is_loaded, hold, rows):
    first = job(hold=hold, rows=rows)
    first.await_file(hold)
    first.kill()
    assert is_loaded(rows) == (hold == "published")
    assert job(rows=rows).process.wait(PATIENCE_S) == 0
    assert is_loaded(rows)


@pytest.mark.parametrize("rows", [ROWS, FEW])
def test_executors_killed_with_rows_half_staged_are_replaced(job, is_loaded, rows):
    run = job(master="local-cluster[2,1,1024]", hold="tasks", rows=rows)
    run.await_file("began-*", 2)
    victim = run.executors()[0]
    _kill(victim)
    (run.place / "go").touch()
    assert run.process.wait(PATIENCE_S) == 0
    assert max(run.began(partition) for partition in range(4)) >= 2
    assert is_loaded(rows)


def test_of_speculative_attempts_one_counts(job, is_loaded, tmp_path):
    """The first attempts never end, unless they are killed for having lost."""
    with Standalone(tmp_path / "spark", workers=2) as spark:
        run = job(
            master=spark.master,
            hold="tasks",
            partitions=1,
            settings={
                "spark.executor.cores": "1",
                "spark.speculation": "true",
                "spark.speculation.interval": "100ms",
                "spark.speculation.task.duration.threshold": "1s",
            },
        )
        assert run.process.wait(PATIENCE_S) == 0
    assert run.began(0) == 2
    assert is_loaded()


def test_a_leader_killed_while_a_job_stages_is_succeeded(job, is_loaded, cluster):
    run = job(hold="tasks")
    run.await_file("began-*", 2)
    leader = cluster.await_leader()
    cluster.kill(leader)
    try:
        (run.place / "go").touch()
        assert run.process.wait(PATIENCE_S) == 0
    finally:
        cluster.start(leader)
    assert is_loaded()
