"""The source on other masters than that of all tests: executors in processes of their own, Spark Connect.

Each test is one program, another JVM at least: a load (twice, by its id), reads of a replica and of the log,
and the change feed, in a time zone that is not UTC. They are soaks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark import round_program
from tests.spark.conftest import SLOW
from tests.spark.standalone import Standalone

ROOT = Path(round_program.__file__).parents[2]
PATIENCE_S = 900.0


@pytest.fixture
def check(cluster, sql, new_name, tmp_path):
    """``check(master=...)``: run the program, and see that everything arrived."""

    def run(**where):
        table = new_name("round")
        sql(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, v TEXT, at TIMESTAMPTZ, n NUMERIC(9,3))")
        found = _printed(tmp_path / table, {"url": cluster.url, "table": table, **where})
        rows, total = round_program.ROWS, sum(range(round_program.ROWS))
        assert found["replica"] == found["log"] == [rows, 0, 0]
        assert found["feed"] == {"create": 1, "insert": rows}
        assert found["sum"] == total
        assert sql(f"SELECT count(*), sum(id), max(v) FROM {table}") == [(rows, total, "row 999")]

    return run


def _printed(place, given):
    """What the program printed last, as JSON; again where one of its processes of Python began too late."""
    roots = [str(ROOT / name) for name in ("", "server", "sql", "spark_jobs")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(roots)}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("SPARK_HOME", None)
    place.mkdir()
    for number in range(20):
        (place / str(number)).mkdir()
        argv = json.dumps({"place": str(place / str(number)), **given})
        ran = subprocess.run(
            [sys.executable, round_program.__file__, argv],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            stdin=subprocess.DEVNULL,
        )
        if ran.returncode == 0:
            return json.loads(ran.stdout.splitlines()[-1])
        assert SLOW in ran.stderr, ran.stderr[-5000:]
    raise AssertionError(SLOW)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_client_of_spark_connect_loads_reads_and_follows(check):
    check(remote="local[2]")


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_executors_of_a_local_cluster_load_read_and_follow(check):
    check(master="local-cluster[2,1,1024]")


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_executors_of_a_standalone_cluster_load_read_and_follow(check, tmp_path):
    with Standalone(tmp_path / "spark", workers=2) as spark:
        check(master=spark.master)
