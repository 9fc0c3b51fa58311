"""Drills, workloads and faults of other packages: by entry point, by full name, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from herdpy.cli.app import app
from herdpy.drill.drills import DRILLS, Drill
from herdpy.drill.extensions import DrillRegistry, ExtensionError
from herdpy.drill.faults import FAULTS
from herdpy.drill.history import DrillHistory
from herdpy.drill.judged import judge_again
from herdpy.drill.judging import UNDECIDED
from herdpy.drill.workloads import WORKLOADS
from herdpy.drill.workloads.queue import Queue
from tests.drill.checkers.hand import one_by_one, op

MODULE = """
from herdpy.drill.drills import Drill
from herdpy.drill.faults.processes import KillLeader
from herdpy.drill.workloads.queue import Queue

class Errands(Queue):
    name = "errands"

class Nudge(KillLeader):
    name = "nudge"

NUDGED = Drill("nudged", "nudge the leader", ("nudge",), ("errands",))
"""
POINTS = """
[herdpy.drill.workloads]
errands = errands_drill:Errands
queue = errands_drill:Errands
wrong = errands_drill:NUDGED
lost = errands_drill:Nothing

[herdpy.drill.faults]
nudge = errands_drill:Nudge

[herdpy.drill.drills]
nudged = errands_drill:NUDGED
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package that brings one of each; the registries forget it with the test."""
    (tmp_path / "errands_drill.py").write_text(MODULE)
    metadata = tmp_path / "errands-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: errands\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("errands_drill", None)
    registries: tuple[dict[str, object], ...] = (WORKLOADS, FAULTS, DRILLS)  # type: ignore[assignment]
    for registry, name in zip(registries, ("errands", "nudge", "nudged"), strict=True):
        registry.pop(name, None)


@pytest.mark.usefixtures("package")
def test_a_package_brings_a_drill_with_its_fault_and_its_workload() -> None:
    assert "nudged" in DRILLS.extensions()
    drill = DRILLS["nudged"]
    assert isinstance(drill, Drill)
    assert [FAULTS[name].name for name in drill.faults] == ["nudge"]
    assert [WORKLOADS[name].name for name in drill.workloads] == ["errands"]
    assert "nudged" not in DRILLS.extensions()  # it is known by now


@pytest.mark.usefixtures("package")
def test_an_own_name_is_not_taken_by_a_package() -> None:
    assert WORKLOADS["queue"] is Queue
    assert "queue" not in WORKLOADS.extensions()


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nowhere", "there is no workload nowhere"),
        ("wrong", "errands_drill:NUDGED is no workload"),
        ("lost", "the workload errands_drill:Nothing cannot be imported"),
        ("errands_drill:Nudge", "errands_drill:Nudge is no workload"),
        ("errands_drill:Nothing", "cannot be imported"),
        ("no_such_module_at_all:X", "cannot be imported"),
        (":", "cannot be imported"),
    ],
)
def test_what_is_no_workload_is_refused(name: str, text: str) -> None:
    with pytest.raises(ExtensionError, match=text):
        WORKLOADS[name]


@pytest.mark.usefixtures("package")
def test_what_is_named_in_full_is_known_by_its_name_from_then_on() -> None:
    registry = DrillRegistry("fault", lambda _one: True, [])
    named = registry["errands_drill:Nudge"]
    assert registry["nudge"] is named
    assert list(registry) == ["nudge"]


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("label", "kinds"), [("errands", ["lost job"]), ("errands_drill:Errands", [UNDECIDED])]
)
def test_a_history_imports_what_is_registered_and_nothing_else(label: str, kinds: list[str]) -> None:
    history = one_by_one(op("put", [1]), op("waiting", [], []))
    labelled = DrillHistory([replace(one, details={"workload": label}) for one in history])
    assert judge_again(labelled)[0].kinds == kinds
    assert ("errands_drill" in sys.modules) is (label == "errands")


@pytest.mark.usefixtures("package")
def test_the_command_line_lists_it() -> None:
    listed = CliRunner().invoke(app, ["drill", "list"])
    assert listed.exit_code == 0
    assert "nudge the leader" in listed.stdout
