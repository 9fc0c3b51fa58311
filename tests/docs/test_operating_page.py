"""docs/operating.md lists every setting of a database with its default, and limits with their tests."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from herdpy_server.embedded import DatabaseSettings

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text()
LIMITS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.partition("## Limits")[2].partition("\n## ")[0].splitlines()
    if line.startswith("|")
][2:]
ROW = re.compile(r"^\| `(\w+)` \| ([\d.]+) \| .+ \|$", re.MULTILINE)


def test_every_setting_is_listed_with_its_default():
    assert ROW.findall(PAGE) == [(field.name, str(field.default)) for field in fields(DatabaseSettings)]


def test_every_limit_names_its_sqlstate_and_the_tests_that_fill_it():
    defined = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert LIMITS
    for row in LIMITS:
        assert re.search(r"\b(?:5[0-9]|72)[0-9A-Z]{3}\b", row[2]), row[0]
        named = re.findall(r"`(test_\w+)`", row[-1])
        assert named, row[0]
        assert set(named) <= defined, row[0]
