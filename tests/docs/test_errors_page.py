"""docs/errors.md lists exactly the SQLSTATEs that the source raises, under the right class."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from herdpy.dbapi.errors import class_of
from herdpy_sql.errors import SqlError

ROOT = Path(__file__).parents[2]
SOURCES = [path for room in ("herdpy", "server", "sql") for path in sorted((ROOT / room).rglob("*.py"))]
STATE = re.compile(r"(?:0[08AL]|2[0-9BD]|3[4BDF]|4[024]|5[34578]|72|F0|H[VP]|P0|XX)[0-9A-Z]{3}")
SUCCESS = "00000"
IN_SQL = re.compile(rf"SQLSTATE ({STATE.pattern})\b")
ROW = re.compile(r"^\| ([0-9A-Z]{5}) \| (.+) \| (yes|no) \|$")


def states_in(source: str) -> set[str]:
    """Every SQLSTATE that a module has as a string of its own, or inside a query's text."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if STATE.fullmatch(node.value) and any(map(str.isdigit, node.value)) and node.value != SUCCESS:
                found.add(node.value)
            found.update(IN_SQL.findall(node.value))
    return found


def rows_of(page: str) -> list[tuple[str, str, str, str]]:
    """(heading, SQLSTATE, meaning, retry) of every row of the page's tables."""
    rows = []
    heading = ""
    for line in page.splitlines():
        if line.startswith("## "):
            heading = line[3:].strip()
        elif row := ROW.match(line):
            rows.append((heading, *row.groups()))
    return rows


PAGE = rows_of((ROOT / "docs" / "errors.md").read_text())


def test_the_page_lists_what_the_source_raises():
    raised = set().union(*(states_in(path.read_text()) for path in SOURCES))
    listed = [state for _, state, _, _ in PAGE]
    assert (raised - set(listed), set(listed) - raised) == (set(), set()), "not listed, not raised"
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize("row", PAGE, ids=lambda row: row[1])
def test_a_row_says_what_the_code_does(row):
    heading, state, _, retry = row
    error = SqlError(state, "of the test")
    assert class_of(state).__name__ == heading
    assert error.retryable == (retry == "yes")
    assert error.outcome == "not done"


def test_states_stand_in_order():
    for heading in {row[0] for row in PAGE}:
        listed = [state for one, state, _, _ in PAGE if one == heading]
        assert listed == sorted(listed)


def test_a_state_in_the_source_is_seen():
    source = """raise SqlError("22012", "x")\nsay = "SELECT error('SQLSTATE 22003: y')"\nn = "hello"\n"""
    assert states_in(source) == {"22012", "22003"}


def test_a_row_of_the_page_is_seen():
    assert rows_of("## DataError\n| 22012 | division by zero | no |\n| a | b | c |") == [
        ("DataError", "22012", "division by zero", "no")
    ]
