"""herdpy/formats.py is what the code does; docs/upgrades.md and `herdpy version --json` show it."""

from __future__ import annotations

import importlib
import json
import re

import pytest

from herdpy.formats import FORMATS, LEVELS, NEWEST_LEVEL, StoredFormat
from tests.upgrades.release import ROOT, VERSION, run

PAGE = (ROOT / "docs/upgrades.md").read_text(encoding="utf-8")
HEAD = "| format | its version | is read | is written | another one |\n|---|---|---|---|---|\n"


def table() -> str:
    """The table of the page."""
    return HEAD + "".join(
        f"| {one.name} | {one.where} | {', '.join(map(str, one.reads))} | {one.writes} | {one.unknown} |\n"
        for one in FORMATS
    )


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.key)
def test_a_format_has_the_version_that_the_code_has(one: StoredFormat) -> None:
    assert one.writes in one.reads
    if one.constant:
        module, _, name = one.constant.partition(":")
        assert getattr(importlib.import_module(module), name) == one.writes


def test_every_constant_of_a_version_is_listed() -> None:
    listed = {one.constant for one in FORMATS}
    found = set()
    for root, package in (("", "herdpy"), ("server", "herdpy_server"), ("spark_jobs", "herdpy_spark")):
        base = ROOT / root
        for path in sorted((base / package).rglob("*.py")):
            module = ".".join(path.relative_to(base).with_suffix("").parts)
            for name in re.findall(r"^(FORMAT|VERSION)(?:: \w+)? = \d+$", path.read_text(), re.MULTILINE):
                found.add(f"{module}:{name}")
    assert found, "the pattern finds none"
    assert found - listed - SUPERSEDED == set()


SUPERSEDED = {"herdpy.log.bookkeeper.znode_list:FORMAT"}
"""Those that are still written in a special case, beside the newest of the same format."""


def test_the_page_has_the_formats_and_the_levels() -> None:
    assert table() in PAGE
    for level, since in LEVELS.items():
        assert f"\n| {level} | {since} |" in PAGE
    assert f"{VERSION.rpartition('.')[0]} and {LEVELS[NEWEST_LEVEL]}" in PAGE


def test_the_command_shows_them() -> None:
    done = run(None, "-m", "herdpy.cli", "version", "--json")
    shown = json.loads(done.stdout)
    assert shown["level"] == {"newest": NEWEST_LEVEL, "versions": {str(n): v for n, v in LEVELS.items()}}
    assert shown["formats"]["entry"] == {"reads": [1], "writes": 1}
    assert len(shown["formats"]) == len(FORMATS)
