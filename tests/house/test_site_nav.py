"""Every page of docs/ is in the nav of the site (mkdocs.yml), once; `make check` builds the site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = ("design/", "project/", "reference/", "pages.md")
"""Pages that are not in docs/: tools/site makes them."""


def entries(nav: list[Any]) -> Iterator[str]:
    """The pages of a nav, with ``directory/*.md`` as they stand."""
    for entry in nav:
        for inner in entry.values() if isinstance(entry, dict) else [entry]:
            yield from entries(inner) if isinstance(inner, list) else [inner]


def wrong(nav: list[Any], docs: Path) -> list[str]:
    """Pages that the nav lacks, has twice, or has and are not there."""
    named = Counter[str]()
    for entry in entries(nav):
        found = [path.relative_to(docs).as_posix() for path in docs.glob(entry)] if "*" in entry else [entry]
        named.update(one for one in found if "*" not in entry or not one.endswith("README.md"))
    there = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")} - {"README.md"}
    lost = [f"{one} is not in the nav" for one in sorted(there - named.keys())]
    lost += [f"{one} is in the nav twice" for one, times in named.items() if times > 1]
    return lost + [
        f"{one} is not in docs/" for one in sorted(named.keys() - there) if not one.startswith(MADE)
    ]


def test_every_page_is_in_the_nav() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert wrong(nav, DOCS) == []


def test_a_page_outside_of_the_nav_is_seen(tmp_path: Path) -> None:
    for name in ("index.md", "a.md", "b.md"):
        (tmp_path / name).write_text("# A page\n", encoding="utf-8")
    nav = ["index.md", {"More": [{"A": "a.md"}, "a.md", "c.md"]}]
    assert wrong(nav, tmp_path) == [
        "b.md is not in the nav",
        "a.md is in the nav twice",
        "c.md is not in docs/",
    ]
