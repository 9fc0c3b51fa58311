"""docs/sqlalchemy.md gives the reason of what is left out of the suite, and of nothing else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/sqlalchemy.md").read_text()
SOURCE = (ROOT / "tests/sqlalchemy/suite/requirements.py").read_text()


@pytest.mark.parametrize(
    ("name", "head"),
    [("CLOSED", "| requirement | why it is closed |"), ("SKIPPED", "| test | why it is skipped |")],
)
def test_what_is_left_out_of_the_suite_has_its_reason_on_the_page(name, head):
    left_out = ast.literal_eval(re.search(rf"^{name} = (\{{.*?^\}})", SOURCE, re.MULTILINE | re.DOTALL)[1])
    table = PAGE[PAGE.index(head) :].partition("\n\n")[0]
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", table, re.MULTILINE)
    assert dict(rows) == left_out
    assert len(rows) == len(left_out)
