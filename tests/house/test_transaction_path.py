"""The command that counts what a TPC-B transaction costs runs, and the page that shows it has its table."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.house.structure import ROOT
from tests.house.transaction_path import STAGES, STATEMENTS, table

PAGE = ROOT / "docs" / "architecture" / "10-cost-of-a-transaction.md"


def test_the_command_counts_every_stage_where_it_happens() -> None:
    command = [sys.executable, "-m", "tests.house.transaction_path", "--json", "--transactions", "5"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    measured = json.loads(ran.stdout)
    stages = measured["stages"]
    assert list(stages) == list(STAGES)
    writes = {"UPDATE accounts", "UPDATE tellers", "UPDATE branches", "INSERT"}
    for stage in ("wire", "parse", "bind", "session", "answer"):
        assert set(stages[stage]) == set(STATEMENTS), stage
    assert set(stages["execute"]) == writes | {"SELECT"}
    assert set(stages["locks"]) == writes | {"END"}
    for stage in ("commit", "log", "apply"):
        assert set(stages[stage]) == {"END"}
    repeated = [cell for stage, cells in stages.items() if stage != "parse" for cell in cells.values()]
    assert sum(cell["calls"] for cell in repeated) == measured["calls"]
    us = sum(cell["us"] for cell in repeated) + measured["loop_us"]
    assert abs(us - measured["us"]) < 1
    heading, *rows, _loop, last = table(measured)
    assert heading.split()[0] == "stage"
    assert [row.split()[0].removesuffix(",") for row in rows] == list(STAGES)
    assert last.endswith(f"{measured['calls']} / {measured['us']:.0f}")


def test_the_page_shows_the_table() -> None:
    text = PAGE.read_text()
    assert "python -m tests.house.transaction_path" in text
    block = text.split("```text\n")[1].split("```")[0].splitlines()
    heading, *rows = block[1:]
    places = [heading.index(f"  {name}") for name in STATEMENTS]
    assert places == sorted(places)
    assert [row.split()[0].removesuffix(",") for row in rows] == [*STAGES, "loop", "a"]
    for stage in STAGES:
        assert f"| {stage} |" in text
