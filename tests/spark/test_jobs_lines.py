"""Lines of JSON of a job: the run's id in all of them, of the driver and of tasks, and no password in any."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

import herdpy
from herdpy_spark.jobs.job import JobError, SparkJob
from herdpy_spark.jobs.running import main
from herdpy_spark.lines import PROPERTY, task_lines


def job(run) -> SparkJob:
    def arguments(parser):
        parser.add_argument("--table")
        parser.add_argument("--run-id")

    return SparkJob("made-up", "For a test.", (), arguments, run)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_every_line_of_the_driver_has_the_run_and_no_password(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HERDPY_PASSWORD", "s3cret")
    monkeypatch.setenv("HERDPY_JDBC_PASSWORD", "other-s3cret")

    def run(this):
        this.note("beginning")
        this.report["lsn"] = "3:14"
        this.note("reading herdpy://ana:hidden@db/shop")
        raise JobError("refused: s3cret, other-s3cret", hint="not s3cret")

    report = tmp_path / "report.json"
    argv = ["--log-json", "--table", "orders", "--run-id", "monday", "--report", str(report)]
    assert main(job(run), argv) == 1
    first, second, third = lines(capsys.readouterr().err)
    assert first.items() >= {"run": "monday", "job": "made-up", "table": "orders", "level": "info"}.items()
    assert "position" not in first
    assert (second["position"], second["message"]) == ("3:14", "reading herdpy://ana:***@db/shop")
    assert third["level"] == "error"
    assert (third["message"], third["hint"]) == ("refused: ***, ***", "not ***")
    assert json.loads(report.read_text())["run"] == "monday"


def test_runs_without_a_name_have_ids_of_their_own(capsys):
    for _ in range(2):
        assert main(job(lambda this: this.note("here")), ["--log-json"]) == 0
    ids = [line["run"] for line in lines(capsys.readouterr().err)]
    assert len(set(ids)) == len(ids) == 2
    assert main(job(lambda this: this.note("here")), []) == 0
    assert capsys.readouterr().err.endswith("] here\n")


class Task:
    """What Spark says of a task."""

    def __init__(self, given: str | None) -> None:
        self._given = given

    def getLocalProperty(self, name):
        return self._given if name == PROPERTY else None

    def stageId(self):
        return 4

    def partitionId(self):
        return 7

    def attemptNumber(self):
        return 1

    def taskAttemptId(self):
        return 99


def batches(error: Exception | None = None):
    yield pa.RecordBatch.from_pydict({"id": [1, 2, 3]})
    if error is not None:
        raise error


def test_a_tasks_lines_say_where_and_how_many(capsys, monkeypatch):
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: Task('{"run": "monday", "job": "export"}'))
    assert sum(one.num_rows for one in task_lines("read rows", batches(), table="t", position="1:2")) == 3
    begun, done = lines(capsys.readouterr().err)
    about = {"run": "monday", "job": "export", "table": "t", "position": "1:2", "stage": 4, "partition": 7}
    for line in (begun, done):
        assert line.items() >= {**about, "attempt": 1, "task_attempt": 99}.items()
    assert (begun["message"], done["message"], done["rows"]) == ("read rows: begun", "read rows: done", 3)
    failing = task_lines("read rows", batches(OSError("herdpy://ana:hidden@db/shop is gone")))
    with pytest.raises(OSError, match="gone"):
        list(failing)
    failed = lines(capsys.readouterr().err)[-1]
    assert (failed["level"], failed["rows"]) == ("error", 3)
    assert failed["error"] == "OSError: herdpy://ana:***@db/shop is gone"


@pytest.mark.parametrize("task", [None, Task(None)])
def test_nothing_is_written_where_nobody_wants_lines(capsys, monkeypatch, task):
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: task)
    assert len(list(task_lines("read rows", batches()))) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_job_of_its_own_writes_lines_of_driver_and_tasks(tmp_path):
    url = f"herdpy://{tmp_path / 'db'}"
    with herdpy.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        connection.execute("INSERT INTO t SELECT * FROM generate_series(1, 10)")
    herdpy_command = Path(sys.executable).with_name("herdpy")
    command = [herdpy_command, "spark", "export", "--url", url, "--table", "t", "--to", tmp_path / "export"]
    done = subprocess.run(
        [*map(str, command), "--log-json", "--run-id", "monday"],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ours = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"time"')]
    assert {line["run"] for line in ours} == {"monday"}
    read = [line for line in ours if line["message"] == "read rows: done"]
    assert sum(line["rows"] for line in read) == 10
    assert len({line["partition"] for line in read}) == len(read)
    assert {line["table"] for line in ours} == {"t"}
    assert len({line["position"] for line in read}) == 1
    assert ours[-1]["message"].startswith("generation 1: 10 rows")
