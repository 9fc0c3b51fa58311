"""docs/sqlalchemy.md has the counts of the suites, and the reason of all that is left out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.sqlalchemy import databases, run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/sqlalchemy.md").read_text()
SOURCE = (ROOT / "tests/sqlalchemy/suite/requirements.py").read_text()


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("CLOSED", "| requirement | why it is closed |"),
        ("CHANGED", "| test | what is changed |"),
    ],
)
def test_what_is_left_out_of_the_suite_has_its_reason_on_the_page(name, head):
    left_out = ast.literal_eval(re.search(rf"^{name} = (\{{.*?^\}})", SOURCE, re.MULTILINE | re.DOTALL)[1])
    table = PAGE[PAGE.index(head) :].partition("\n\n")[0]
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", table, re.MULTILINE)
    assert dict(rows) == left_out
    assert len(rows) == len(left_out)


def test_the_page_has_the_counts_of_every_run():
    page = run.told()
    for place in databases.PLACES:
        assert {("dialect", version, place) for version in ("2.0", "2.1")} | {("alembic", "2.1", place)} <= {
            *page
        }
    assert {*run.LISTED} < {*page}
    assert {name.partition("+")[0] for _, _, name in page} == {*databases.PLACES}


@pytest.mark.parametrize(
    ("counts", "status", "told"),
    [
        ({"passed": 7, "skipped": 2}, 0, None),
        ({"passed": 6, "skipped": 3}, 0, "docs/sqlalchemy.md says 7 passed and 2 skipped"),
        ({"passed": 6, "skipped": 2, "failed": 1}, 1, "1 failed"),
        ({"passed": 7, "skipped": 2}, 1, "1 failed"),
    ],
)
def test_a_run_is_judged_by_the_page(counts, status, told):
    outcome = run.Outcome("one", counts, "1 failed", status)
    assert run.problem(outcome, (7, 2)) == told
    if status == 0:
        assert run.problem(outcome, None, listed=True) == "docs/sqlalchemy.md has no counts of it"
