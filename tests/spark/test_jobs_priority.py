"""Spark stands back behind others: the JVM that a job started, what it starts later, and nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from herdpy_spark.jobs.export import JOB
from herdpy_spark.jobs.job import UsageError, job_parser
from herdpy_spark.jobs.priority import lower
from herdpy_spark.jobs.running import open_session
from tests.spark.conftest import QUICK_JAVA

THREADS = """
import subprocess, sys, threading
over = threading.Event()
threads = [threading.Thread(target=over.wait) for _ in range(3)]
for one in threads: one.start()
print("ready", flush=True)
sys.stdin.readline()
show = "import os; print(os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0) == os.SCHED_BATCH)"
subprocess.run([sys.executable, "-c", show])
over.set()
"""

TASKS = """
import json, os, sys
from herdpy_spark.jobs.export import JOB
from herdpy_spark.jobs.job import job_parser
from herdpy_spark.jobs.running import open_session
def niceness(batches):
    import pyarrow
    for batch in batches:
        yield pyarrow.RecordBatch.from_pylist([{"n": os.getpriority(os.PRIO_PROCESS, 0)}])
spark, made = open_session(job_parser(JOB).parse_args(sys.argv[1:]), "priority")
tasks = {row["n"] for row in spark.range(4).mapInArrow(niceness, "n bigint").collect()}
java = spark.sparkContext._gateway.proc.pid
threads = {os.getpriority(os.PRIO_PROCESS, int(one)) for one in os.listdir(f"/proc/{java}/task")}
spark.stop()
own = os.getpriority(os.PRIO_PROCESS, 0)
print(json.dumps({"own": own, "tasks": sorted(tasks), "java": sorted(threads)}))
"""


def parsed(*argv):
    return job_parser(JOB).parse_args(["--table", "t", "--to", "x", *argv])


def test_every_thread_of_a_process_stands_back_and_so_does_what_it_starts_later():
    own = os.getpriority(os.PRIO_PROCESS, 0)
    least = own + 3
    with subprocess.Popen(
        [sys.executable, "-c", THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        lower(child.pid, least)
        threads = [int(one) for one in os.listdir(f"/proc/{child.pid}/task")]
        assert len(threads) == 4
        assert {os.getpriority(os.PRIO_PROCESS, one) for one in threads} == {least}
        lower(child.pid, own)  # who stands back further stays there
        assert {os.getpriority(os.PRIO_PROCESS, one) for one in threads} == {least}
        said, _ = child.communicate("go\n")
    assert said == f"{least} True\n"
    assert os.getpriority(os.PRIO_PROCESS, 0) == own


@pytest.mark.parametrize("given", ["20", "-1", "1.5", "", "low", "²"])
def test_a_niceness_that_there_is_not_is_refused(given):
    with pytest.raises(UsageError, match="a whole number from 0 to 19"):
        parsed(f"--niceness={given}")


def test_below_spark_submit_a_niceness_is_refused(monkeypatch):
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    with pytest.raises(UsageError, match="Spark runs already"):
        open_session(parsed("--niceness", "5"), "export")


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("argv", "more"), [((), 10), (("--niceness", "0"), 0), (("--niceness", "3"), 3)])
def test_tasks_of_a_job_on_a_local_master_stand_back(argv, more, tmp_path):
    own = os.getpriority(os.PRIO_PROCESS, 0)
    conf = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": QUICK_JAVA}
    conf["spark.local.dir"] = str(tmp_path)
    words = [word for each in conf.items() for word in ("--conf", "{}={}".format(*each))]
    ran = subprocess.run(
        [sys.executable, "-c", TASKS, "--table", "t", "--to", "x", *words, *argv],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    wanted = max(own, more)
    assert json.loads(ran.stdout.splitlines()[-1]) == {"own": own, "tasks": [wanted], "java": [wanted]}
