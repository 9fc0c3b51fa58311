"""Every example of docs/drills.md runs, in order, on clusters that the examples themselves make."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from herdpy.drill import DRILLS
from herdpy.drill.control.commands import COMMANDS, CommandFile
from herdpy.drill.faults import FAULTS
from herdpy.drill.report import DrillReport
from herdpy.drill.timeline import timeline_of
from herdpy.drill.workloads import WORKLOADS
from tests.docs.test_examples import blocks_of, run_page
from tests.drill.synthetic import KILL, outage_history

pytestmark = pytest.mark.soak  # real processes for minutes: not with every commit

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "drills.md"


@pytest.mark.timeout(400)
def test_examples_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for registry, name in ((FAULTS, "pause-follower"), (WORKLOADS, "counter")):
        monkeypatch.setitem(registry, name, None)  # the page adds them, and they go with the test
    assert run_page(PAGE) == 4
    assert {path.name for path in tmp_path.iterdir()} == {
        "kill-leader.svg",
        "kill-leader.jsonl",
        "spoilt.jsonl",
        "violated.svg",
    }


def test_every_drill_and_workload_is_on_the_page():
    named = set(re.findall(r"`([a-z-]+)`", PAGE.read_text()))
    assert {*DRILLS, *WORKLOADS} <= named


def test_examples_of_command_files_are_right(tmp_path):
    blocks = [block for block in blocks_of(PAGE.read_text()) if block.language == "toml"]
    for block in blocks:
        path = tmp_path / "commands.toml"
        path.write_text(block.text)
        assert CommandFile.load(path).processes
    assert blocks


def test_every_command_is_on_the_page():
    named = set(re.findall(r"`([a-z-]+)`", PAGE.read_text()))
    assert set(COMMANDS) <= named


def test_every_key_of_a_report_is_on_the_page():
    history = outage_history(KILL, clients=2)
    document = DrillReport("x", "", 1, history, [], timeline_of(history)).to_json()
    assert {*document, *document["phases"][0]["read"]} <= set(
        re.findall(r"`([a-z_0-9 ]+)`", PAGE.read_text())
    )


@pytest.mark.parametrize("name", re.findall(r"\(pictures/([\w.-]+)\)", PAGE.read_text()))
def test_pictures_of_the_page_are_what_the_commands_made(name):
    root = ET.parse(DOCS / "pictures" / name).getroot()
    title = root.findtext("{http://www.w3.org/2000/svg}title")
    drill, state = (
        ("kill-leader", "violated") if name == "violated.svg" else (name.removesuffix(".svg"), "valid")
    )
    assert title == f"herdpy drill {drill}: {state}"
