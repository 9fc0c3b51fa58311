"""docs/compatibility.md: every line of its table names tests that exist, and no client's test is left out."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "compatibility.md"


def test_each_line_names_the_tests_that_show_it() -> None:
    table = PAGE.read_text("utf-8").partition("## Clients")[2].partition("## What does not work")[0]
    lines = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert len(lines) > 8
    named = set()
    for line in lines:
        found = re.findall(r"\]\(\.\./(tests/[\w/]+\.py)\)", line.split("|")[-2])
        assert found, f"no test is named: {line}"
        for name in found:
            assert "\ndef test_" in (ROOT / name).read_text("utf-8"), name
        named |= set(found)
    there = [*ROOT.glob("tests/clients/test_*.py"), *ROOT.glob("tests/server/test_tools_*.py")]
    assert {str(path.relative_to(ROOT)) for path in there} <= named
