"""Airflow itself, in an environment that `make soak` makes, on a cluster: the page's DAG, and the hook.

The provider is found by its entry point; HerdPy is installed there as users have it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import herdpy
from herdpy.dev import LocalCluster

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
AIRFLOW = Path(sys.prefix) / "airflow" / "bin"
PAGE = (ROOT / "docs" / "orchestration.md").read_text()  # "orchestration.md"
PATIENCE_S = 1500


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("cluster"), servers=2, bookies=1) as running:
        running.await_leader()
        yield running


@pytest.fixture(scope="module")
def airflow(cluster, tmp_path_factory):
    """Runs a program in Airflow's environment; its output."""
    home = tmp_path_factory.mktemp("airflow")
    hosts = cluster.url.removeprefix("herdpy://").partition("/")[0].split(",")
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
        "AIRFLOW_CONN_HERDPY_DEFAULT": f"herdpy://ann:none@{hosts[0]}/herdpy?hosts={','.join(hosts[1:])}",
        "PATH": f"{AIRFLOW}{os.pathsep}{os.environ['PATH']}",
    }

    def run(*arguments: object) -> str:
        done = subprocess.run(
            list(map(str, arguments)),
            cwd=home,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-8000:]
        return done.stdout

    (home / "dags").mkdir()
    run(AIRFLOW / "airflow", "db", "migrate")
    run.home = home
    return run


def test_the_dag_of_the_page(airflow, cluster, tmp_path):
    with herdpy.connect(cluster.url, autocommit=True) as conn:
        conn.execute(
            "CREATE TABLE orders"
            " (id INT PRIMARY KEY, placed TIMESTAMPTZ, closed BOOLEAN NOT NULL DEFAULT false)"
        )
        conn.execute(
            "INSERT INTO orders (id, placed) SELECT n, TIMESTAMPTZ '2026-02-01 00:00Z' + n * INTERVAL '1 day'"
            " FROM generate_series(1, 20) AS n"
        )
    (block,) = re.findall(r"```python\n(from datetime .*?)```", PAGE, re.DOTALL)
    text = block.replace('"/exports/orders"', repr(str(tmp_path / "orders")))
    text = text.replace('"/opt/spark-jobs/bin/python"', repr(sys.executable))
    file = airflow.home / "dags" / "nightly.py"
    file.write_text(text)
    output = airflow(AIRFLOW / "python", HERE / "run_dag.py", file, "nightly_orders", "export")
    found = json.loads(output.rpartition("OUTCOME ")[2])
    assert found["run"] == "success", found
    assert set(found["states"].values()) == {"success"}
    assert len(found["states"]) == 5
    exported, verified = found["results"]["export.return_value"], found["results"]["verify.return_value"]
    assert exported["status"] == verified["status"] == "done"
    # The same task once more, as after a try whose process died: the same generation, and no second one.
    assert found["again"]["repeated"] is True
    assert found["again"]["generation"] == exported["generation"]
    assert found["again"]["lsn"] == exported["lsn"]
    assert len(list((tmp_path / "orders" / "_herdpy").glob("manifest-*"))) == 1
    with herdpy.connect(cluster.url) as conn:
        assert conn.execute("SELECT count(*) FROM orders WHERE closed").fetchone() == (20,)


def test_the_hook(airflow, cluster):
    assert "DONE" in airflow(AIRFLOW / "python", HERE / "use_hook.py", cluster.url, sys.executable)


def test_airflow_knows_the_connection_type(airflow):
    output = airflow(AIRFLOW / "airflow", "providers", "hooks", "--output", "json")
    (known,) = [one for one in json.loads(output[output.index("[{") :]) if one["connection_type"] == "herdpy"]
    assert known["class"] == "herdpy_airflow.hooks.HerdPyHook"
