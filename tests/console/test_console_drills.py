"""Drills in the console, with a program in the place of herdpy that says what it was called with."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from herdpy.testing.process import await_until
from herdpy_server.console import drill_runs
from herdpy_server.console.drill_runs import DrillRuns
from herdpy_sql.errors import SqlError

PROGRAM = """
import json, pathlib, signal, sys, threading
words = sys.argv[1:]
if words == ["drill", "list", "--json"]:
    print(json.dumps([{"name": "kill-leader", "explanation": "kills <it>"}]))
    sys.exit()
print("called with", words, flush=True)
over = threading.Event()
signal.signal(signal.SIGINT, lambda *_: over.set())
print("ready", flush=True)
if "--seed" not in words:
    over.wait(60)
    print("undone", flush=True)
given = dict(zip(words[2::2], words[3::2]))
pathlib.Path(given["--picture"]).write_text("<svg/>")
report = {"state": "valid", "operations": {"done": 3}, "longest_gap": {"write": {"seconds": 1.5}},
          "verdicts": [{"name": "bank", "valid": True, "summary": "adds up"}]}
pathlib.Path(given["--report"]).write_text(json.dumps(report))
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """What is run in the place of herdpy."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    monkeypatch.setattr(drill_runs, "PROGRAM", (sys.executable, str(path)))


@pytest.fixture
def runs(program, tmp_path):
    """The runs of one directory; what still runs is ended."""
    made = DrillRuns(tmp_path / "drills")
    yield made
    for run in made.runs():
        if run.state == "running":
            made.stop(run.ident)
            assert await_until(lambda ident=run.ident: made.find(ident).state != "running", 30)


def begin(runs, *, seed=None):
    return runs.begin("kill-leader", "boss", "herdpy://a,b/c", "commands.toml", seconds=5, seed=seed)


def test_a_run_leaves_its_output_its_report_and_its_picture(runs, tmp_path):
    ident = begin(runs, seed=17)
    assert await_until(lambda: runs.find(ident).state != "running", 30)
    run = runs.find(ident)
    assert (run.drill, run.user, run.seed, run.state, run.has_picture) == (
        "kill-leader",
        "boss",
        17,
        "valid",
        True,
    )
    place = str(tmp_path / "drills" / ident)
    called = [
        "drill", "kill-leader", "--url", "herdpy://a,b/c", "--commands", "commands.toml", "--seconds", "5",
        "--report", f"{place}/report.json", "--picture", f"{place}/picture.svg",
        "--history", f"{place}/history.jsonl", "--seed", "17",
    ]  # fmt: skip
    assert f"called with {called}" in run.output
    assert runs.file(ident, "picture.svg") == b"<svg/>"


def test_one_runs_at_a_time_and_ends_in_order(runs):
    ident = begin(runs)
    assert await_until(lambda: "ready" in runs.find(ident).output, 30)
    with pytest.raises(SqlError) as raised:
        begin(runs)
    assert raised.value.sqlstate == "55006"
    runs.stop(ident)
    assert await_until(lambda: runs.find(ident).state == "valid", 30)
    assert "undone" in runs.find(ident).output
    with pytest.raises(SqlError):
        runs.stop(ident)


def test_a_run_that_was_killed_is_broken(runs, tmp_path):
    ident = begin(runs)
    pid = json.loads((tmp_path / "drills" / ident / "run.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    assert await_until(lambda: runs.find(ident).state == "broken", 30)


def test_another_process_with_its_number_is_not_the_run(runs, tmp_path):
    ident = begin(runs, seed=1)
    assert await_until(lambda: runs.find(ident).state == "valid", 30)
    path = tmp_path / "drills" / ident / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pid": os.getpid()}))
    assert runs.find(ident).state == "valid"


@pytest.mark.parametrize("ident", ["../x", "..", "", "20260101T000000Z-a/../b", "20260101T000000Z-gone"])
def test_names_lead_nowhere_else(runs, tmp_path, ident):
    (tmp_path / "x").mkdir()
    (tmp_path / "drills").mkdir()
    given = {"drill": "d", "user": "u", "seconds": 1, "seed": None, "pid": 1, "started": 0}
    for place in (tmp_path / "x", tmp_path):
        (place / "run.json").write_text(json.dumps(given))
    with pytest.raises(SqlError) as raised:
        runs.find(ident)
    assert raised.value.sqlstate == "42704"


def test_drills_are_there_where_the_configuration_allows_them(make_world):
    world = make_world(None)
    assert 'href="/console/drills"' not in world.browser().get("cluster").text
    assert world.browser().get("drills").status_code == 404


@pytest.fixture
def allowed(program, make_world, tmp_path):
    """A console that may run drills."""
    return make_world(
        None, drill_directory=str(tmp_path / "drills"), drill_commands="c.toml", drill_url="herdpy://a/b"
    )


def test_a_drill_is_run_and_looked_at_in_the_console(allowed):
    browser = allowed.browser()
    assert "kills &lt;it&gt;" in browser.get("drills").text
    assert "harmed on purpose" in browser.get("drills/confirm?drill=kill-leader&seconds=5&seed=1").text
    answer = browser.act("drills/begin", drill="kill-leader", seconds="5", seed="1")
    ident = answer.url.params["run"]
    assert await_until(lambda: "adds up" in browser.get(f"drills/run/live?run={ident}").text, 30)
    picture = browser.get(f"drills/picture?run={ident}")
    assert (picture.text, "sandbox" in picture.headers["content-security-policy"]) == ("<svg/>", True)
    assert browser.get(f"drills/report?run={ident}").json()["state"] == "valid"
    calls = [fields for kind, _what, fields in allowed.events if kind == "call"]
    assert [(one["service"], one["drill"], one["user"]) for one in calls] == [
        ("drill", "kill-leader", "herdpy")
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"drill": "rm -rf", "seconds": "5"},
        {"drill": "kill-leader", "seconds": "0"},
        {"drill": "kill-leader", "seconds": "99999"},
        {"drill": "kill-leader", "seconds": "5", "seed": "--url"},
    ],
)
def test_what_is_no_drill_is_refused(allowed, given):
    assert allowed.browser().act("drills/begin", **given).status_code == 400


def test_only_superusers_run_drills(allowed):
    browser = allowed.browser()
    browser.log_in("ann", "of ann")
    for path in ("drills/begin", "drills/stop"):
        assert browser.act(path, drill="kill-leader", seconds="5").status_code == 403
    assert browser.get("drills").status_code == 403
