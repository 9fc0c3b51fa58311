"""The drill `broker-storm`: what its package registers, and ten minutes of it on a cluster."""

from __future__ import annotations

import os
import tomllib
import xml.etree.ElementTree as ET
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from herdpy_broker.drill import BROKER_STORM, BrokerStorm, BrokerWorkload

from herdpy.drill import run
from herdpy.drill.history import OperationOutcome
from tests.drill.shown import shown

SECONDS = float(os.environ.get("HERDPY_DRILL_SECONDS", BROKER_STORM.seconds))
ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "examples/broker/pyproject.toml"


@pytest.mark.parametrize(
    ("group", "found"), [("drills", BROKER_STORM), ("workloads", BrokerWorkload), ("faults", BrokerStorm)]
)
def test_the_package_registers_what_it_has(group: str, found: object) -> None:
    registered = tomllib.loads(PROJECT.read_text())["project"]["entry-points"][f"herdpy.drill.{group}"]
    loaded = {name: EntryPoint(name, value, group).load() for name, value in registered.items()}
    assert list(loaded.values()) == [found]
    assert [one.name for one in loaded.values()] == list(loaded)


def test_the_picture_of_the_page_is_of_the_drill() -> None:
    root = ET.parse(ROOT / "docs/pictures/broker-storm.svg").getroot()
    assert root.findtext("{http://www.w3.org/2000/svg}title") == f"herdpy drill {BROKER_STORM.name}: valid"


@pytest.mark.soak
@pytest.mark.timeout(SECONDS * 2 + 600)
def test_a_storm_loses_and_doubles_no_task(tmp_path: Path) -> None:
    result = run(BROKER_STORM, seconds=SECONDS)
    if not result.valid:
        result.history.save(tmp_path / f"broker-storm-{result.seed}.jsonl")
    assert result.valid, shown(result)
    assert {verdict.name for verdict in result.verdicts} >= {
        *("processes", "broker: tasks", "broker: slots", "broker: batches", "broker: dependencies"),
        *("availability", "replicas"),
    }
    faults = {event.details["fault"] for event in result.history.events if event.kind == "fault-begin"}
    assert faults == {BrokerStorm.name, *(kind.name for kind in BrokerStorm.kinds)}
    (over,) = (one for one in result.history.of("over") if one.outcome is OperationOutcome.DONE)
    assert isinstance(over.result, dict)
    assert over.result["left"] == []
