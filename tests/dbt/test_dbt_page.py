"""docs/dbt.md from its first server to its last command, and what it says of dbt's test suite."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import psycopg
import pytest

from tests.dbt import run
from tests.docs.test_examples import blocks_of, commands_of, run_command
from tests.support.server_process import RunningServer

ROOT = Path(__file__).parents[2]
NAME = "dbt.md"
PAGE = (ROOT / "docs" / "dbt.md").read_text(encoding="utf-8")
SELECTION = (ROOT / "tests/dbt/suite/selection.py").read_text(encoding="utf-8")
FILE = re.compile(r"^`([\w/.]+)` [^\n]+:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A file of the project: its name at the beginning of a line, then what is in it."""
COMMAND_TIMEOUT_S = 400


@pytest.fixture
def server(tmp_path):
    running = RunningServer(tmp_path / "data").ready()
    yield running
    running.close()


@pytest.mark.timeout(1700)
def test_the_page_runs(server, tmp_path, monkeypatch):
    project = tmp_path / "shop"
    files = dict(FILE.findall(PAGE))
    assert {"dbt_project.yml", "seeds/orders.csv", "models/models.yml"} <= {*files}
    profile = re.search(r"```yaml\n(shop:.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]
    files["profiles.yml"] = profile.replace("port: 5432", f"port: {server.port}")
    for name, text in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.chdir(project)
    path = os.pathsep.join([str(run.ENVIRONMENT / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1", "TERM": "dumb", "DO_NOT_TRACK": "1"}
    commands = [one for block in blocks_of(PAGE) if block.runs and block.language == "console"
                for one in commands_of(block)]  # fmt: skip
    assert [command.split()[1] for command, _ in commands] == ["build", "build", "show", "docs"]
    for command, expected in commands:
        run_command(command, expected, NAME, environment, COMMAND_TIMEOUT_S)
    with psycopg.connect(host="127.0.0.1", port=server.port, user="ann", dbname="herdpy") as connection:
        kinds = connection.execute(
            "SELECT relname, relkind, obj_description(oid, 'pg_class') FROM pg_class"
            " WHERE relnamespace = 'shop'::regnamespace AND relkind IN ('r', 'v') ORDER BY relname"
        ).fetchall()
        history = connection.execute(
            "SELECT customer, dbt_valid_to FROM shop.customers_history ORDER BY customer"
        ).fetchall()
        logged = connection.execute("SELECT id FROM shop.order_log ORDER BY id").fetchall()
    assert kinds == [
        ("customers", "r", "One row for each customer"),
        ("customers_history", "r", None),
        ("order_log", "r", None),
        ("orders", "r", None),
        ("placed_orders", "v", None),
    ]
    assert history == [("Ann", None), ("Bob", None)]
    assert logged == [(1,), (2,), (3,)]


def test_what_is_left_out_of_the_suite_has_its_reason_on_the_page():
    left_out = ast.literal_eval(re.search(r"^LEFT_OUT = (\{.*?^\})", SELECTION, re.MULTILINE | re.DOTALL)[1])
    rows = re.findall(
        r"^\| `([\w.:\[\]]+)` \| (.+) \|$", PAGE[PAGE.index("| left out | why |") :], re.MULTILINE
    )
    assert dict(rows) == left_out
    assert len(rows) == len(left_out)


def test_counts_are_read():
    assert run.page_counts("1,234 tests pass, 5 are skipped") == {"passed": 1234, "skipped": 5}
    assert run.counted("1 failed, 3 passed, 2 skipped, 2 errors in 1.20s") == {
        "failed": 1, "passed": 3, "skipped": 2, "error": 2,
    }  # fmt: skip


def test_the_adapter_has_the_version_of_the_database():
    text = (ROOT / "orchestration/dbt_herdpy/dbt/adapters/herdpy/__version__.py").read_text(encoding="utf-8")
    version = (ROOT / "herdpy/_version.py").read_text(encoding="utf-8")
    (ours,) = re.findall(r'__version__ = "(.*)"', version)
    # dbt reads Semantic Versioning, which has a hyphen where Python has a dot.
    assert re.findall(r'version = "(.*)"', text) == [ours.replace(".dev", "-dev")]
