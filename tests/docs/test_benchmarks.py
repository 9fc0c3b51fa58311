"""The benchmarks run, and report every figure: they call parts of the engine that types do not hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


def _figures(tmp_path: Path, script: str, *parts: str) -> list[dict[str, object]]:
    report = tmp_path / "figures.json"
    command = [sys.executable, str(BENCH / f"{script}.py"), *parts, "--quick", "--json", str(report)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    lines: list[dict[str, object]] = json.loads(report.read_text())["lines"]
    return lines


@pytest.mark.parametrize(("script", "part"), [("sql", "points"), ("embedded", "reading")])
def test_a_part_of_a_benchmark_runs(script: str, part: str, tmp_path: Path) -> None:
    lines = _figures(tmp_path, script, part)
    assert lines
    assert all(line["ours"] for line in lines)


@pytest.mark.timeout(120)
def test_the_benchmark_of_the_broker_runs_on_one_server(tmp_path: Path) -> None:
    parts = ("backlog", "--systems", "server", "--backlog", "2000")
    lines = _figures(tmp_path, "broker", *parts)
    assert {line["system"] for line in lines} == {"server"}
    assert all(line["value"] for line in lines)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_benchmark_of_the_broker_runs(tmp_path: Path) -> None:
    lines = _figures(tmp_path, "broker")
    assert all(line["value"] for line in lines)
    assert len({line["system"] for line in lines}) == 5


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.skipif(os.geteuid() != 0, reason="a memory cgroup needs root")
def test_the_benchmark_of_cold_data_runs(tmp_path: Path) -> None:
    assert all(line["ours"] for line in _figures(tmp_path, "cold"))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "script", ["embedded", "serving", "frames", "server", "sql", "bookkeeper", "driver", "backup"]
)
def test_a_benchmark_runs(script: str, tmp_path: Path) -> None:
    assert all(line["ours"] for line in _figures(tmp_path, script))
