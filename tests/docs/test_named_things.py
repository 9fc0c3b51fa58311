"""What the documentation names exists: files of the project, and tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for page in ROOT.rglob("*.md") if not {".venv", ".git"}.intersection(page.parts))
FILE = re.compile(r"`((?:herdpy|server|sql|tests|bench|examples|docs|tools|conf|docker)/[\w./*-]+)`")
TEST = re.compile(r"`(test_\w+)`")
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
}


def missing(text: str) -> list[str]:
    """What ``text`` names that is not there."""
    files = [name for name in FILE.findall(text) if not list(ROOT.glob(name.rstrip("/")))]
    return files + [name for name in TEST.findall(text) if name not in TESTS]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_everything_named_is_there(page):
    assert missing(page.read_text()) == []


def test_what_is_not_there_is_seen():
    text = "`herdpy/log/lsn.py` `herdpy/log/lost.py` `test_what_is_not_there_is_seen` `test_of_nothing`"
    assert missing(text) == ["herdpy/log/lost.py", "test_of_nothing"]
