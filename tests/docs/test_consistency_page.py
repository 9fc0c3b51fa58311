"""The table of docs/consistency.md: each promise has tests that are there, and a bug that is put in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.log_bookkeeper.simulation.bugs import BUGS as LOG_BUGS
from tests.replica.simulation.bugs import BUGS as REPLICA_BUGS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/consistency.md").read_text()
HEAD = "| promise | shown by | the bug that is noticed |"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE[PAGE.index(HEAD) :].splitlines()[2:]
    if line.startswith("|")
]
DEFINED = {
    name.lstrip("_")
    for path in (ROOT / "tests").rglob("*.py")
    for name in re.findall(r"^ *(?:async )?def (\w+)", path.read_text(), re.MULTILINE)
}


def named(cell: str) -> list[str]:
    """What a cell names."""
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize(("promise", "shown_by", "bugs"), ROWS, ids=[row[0] for row in ROWS])
def test_a_promise_has_its_tests_and_a_bug(promise: str, shown_by: str, bugs: str) -> None:
    tests = named(shown_by)
    assert tests, promise
    for name in tests:
        assert name in DEFINED if name.startswith("test_") else (ROOT / name).exists(), name
    assert named(bugs), promise
    assert set(named(bugs)) <= DEFINED


def test_every_bug_of_the_simulations_is_in_the_table() -> None:
    told = {name for row in ROWS for name in named(row[2])}
    assert {*LOG_BUGS, *REPLICA_BUGS} <= told
