"""The BookKeeper benchmark runs, and judges its figures as it says. (No figure is judged here.)"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "bench"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH / "bookkeeper.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCH / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.soak
def test_tiny_sizes(tmp_path: Path) -> None:
    told = tmp_path / "figures.json"
    done = run("many", "read", "tail", "memory", "--quick", "--json", str(told))
    assert done.returncode == 0, done.stderr
    assert "append 1 KiB, 1,000 in flight" in done.stdout
    data = json.loads(told.read_text())
    assert data["machine"]["cores"] >= 1
    rows = {row["name"]: row for row in data["rows"]}
    assert len(rows) == len(data["rows"]) == 10
    for name in ("append 1 KiB, 1,000 in flight", "append and tail, 1,000 in flight"):
        row = rows[name]
        assert len(row["python_runs"]) == len(row["java_runs"]) == 1
        assert row["ratio"] == pytest.approx(row["python"] / row["java"])
    runs = data["runs"]
    assert {who: len(answers) for who, answers in runs["append 1000"].items()} == {
        "python": 1,
        "java": 1,
        "asyncio": 1,
    }
    # Both read what was written, all of it, and the writer that was kept waiting has lost nothing.
    assert runs["read"]["python"][0]["entries"] == runs["read"]["java"][0]["entries"] > 0
    assert runs["memory"]["python"][0]["entries"] > 0
    assert len(runs["memory"]["python"][0]["resident_mib"]) > 3


def test_unknown_part() -> None:
    done = run("quickly")
    assert done.returncode == 2
    assert "there is no part 'quickly'" in done.stderr


def test_ratio_is_that_of_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    report = load("bookkeeper_report", monkeypatch)
    # A machine that slows down: the medians would say 1.0, the pairs say 1.5.
    row = report.Row("x", "/s", [300.0, 150.0, 75.0], [200.0, 100.0, 50.0], least_ratio=1.2)
    assert row.ratios == [1.5, 1.5, 1.5]
    assert row.met is True
    assert row.wanted == ">= 1.2 of Java"


@pytest.mark.parametrize(
    ("ours", "peers", "aims", "met"),
    [
        ([1.0], [2.0], {"least_ratio": 0.5}, True),
        ([1.0], [2.0], {"least_ratio": 0.6}, False),
        ([1.0], [2.0], {"most_ratio": 0.5}, True),
        ([1.0], [2.0], {"most_ratio": 0.4}, False),
        ([1.0], [2.0], {"most_ratio": 1.0, "below": 1.0}, False),
        ([9.9], [], {"below": 10.0}, True),
        ([9.9], [], {}, None),
    ],
)
def test_aims(
    ours: list[float],
    peers: list[float],
    aims: dict[str, float],
    met: bool | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = load("bookkeeper_report", monkeypatch)
    assert report.Row("x", "ms", ours, peers, **aims).met is met
