"""Great Expectations, in an environment that `make soak` makes: what holds, and wrong rows found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server_process import RunningServer

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
PYTHON = Path(sys.prefix) / "great-expectations" / "bin" / "python"
ROWS = (
    "(1, 'Ada', 10, '2026-03-01', 'paid'), (2, 'Ada', 20, '2026-03-02', 'open'),"
    " (3, 'Bob', 30, '2026-03-01', NULL), (4, 'Cleo', 25, '2026-03-03', 'paid'),"
    " (5, 'Dan', 5.50, '2026-03-03', 'open'), (6, 'Eve', 120, '2026-03-04', 'paid')"
)


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    running = RunningServer(tmp_path_factory.mktemp("server") / "data").ready()
    conn = running.connect(dbname="herdpy")
    conn.execute("CREATE SCHEMA other")
    for schema in ("public", "other"):
        conn.execute(
            f"CREATE TABLE {schema}.orders (id INT PRIMARY KEY, customer TEXT NOT NULL, total NUMERIC(8, 2),"
            " placed DATE, state TEXT)"
        )
        conn.execute(f"INSERT INTO {schema}.orders VALUES {ROWS}")
    yield running.port
    running.close()


@pytest.mark.parametrize("scheme", ["herdpy", "postgresql+psycopg"])
def test_expectations(port, scheme, tmp_path):
    done = subprocess.run(
        [PYTHON, HERE / "check_orders.py", f"{scheme}://ann@127.0.0.1:{port}/herdpy"],
        cwd=tmp_path,
        env={**os.environ, "GX_ANALYTICS_ENABLED": "false"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found = json.loads(done.stdout.rpartition("FOUND ")[2])
    assert set(found) == {"public", "other"}
    for schema, results in found.items():
        assert len(results) == (20 if scheme == "herdpy" else 22)
        wrong = [one for one in results if one["error"] or one["held"] != one["holds"]]
        assert not wrong, (schema, wrong)
        (missing,) = [
            one for one in results if one["name"] == "ExpectColumnValuesToNotBeNull" and not one["holds"]
        ]
        assert missing["result"]["unexpected_count"] == 1
        (too_much,) = [one for one in results if one["name"] == "ExpectColumnValuesToBeBetween"]
        assert [float(value) for value in too_much["result"]["partial_unexpected_list"]] == [120.0]
