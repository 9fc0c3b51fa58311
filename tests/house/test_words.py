"""Words that are to leave the code: each is counted, and its count only falls.

They are pictures where the field has a plain word: docs/glossary.md has it. A use beyond the limit fails
here, and so does a limit that is far above what is left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AREAS = {
    "programs": ("herdpy", "server", "sql", "spark_jobs", "orchestration", "tools", "bench", "examples"),
    "tests": ("tests",),
    "pages": ("docs", "README.md", "CONTRIBUTING.md"),
}
ROOM = 25
"""So far may a count be below its limit before that must be lowered."""
LIMITS = [
    ("told", "programs", 0),
    ("told", "tests", 544),
    ("told", "pages", 1),  # the glossary, which says what to write instead
    ("tell", "programs", 80),  # files tell where they are; else report, record, notify, print
    ("wanted", "programs", 730),  # required, requested, expected
    ("wanted", "pages", 12),
    ("asked", "programs", 470),  # requested, called; or the request
    ("asked", "pages", 8),
    ("who", "programs", 435),  # the client, the caller, the node: name it
    ("who", "pages", 20),
    ("says", "pages", 65),  # reports, shows, explains, states
    ("tells", "pages", 20),
    ("asks", "pages", 30),  # requests, requires
    ("whatever", "pages", 25),  # any, every, even if
    ("door", "pages", 4),  # the glossary
    ("nobody", "pages", 11),
    ("somebody", "pages", 4),
    ("whoever", "pages", 4),
]


def files_of(area: str) -> Iterator[Path]:
    """The sources or pages of an area, but this file."""
    for name in AREAS[area]:
        place = ROOT / name
        found = [place] if place.is_file() else [*place.rglob("*.py"), *place.rglob("*.md")]
        yield from (one for one in found if one != Path(__file__))


def uses_of(word: str, area: str) -> list[str]:
    """Where the word stands, one place a use."""
    pattern = re.compile(rf"\b{word}\b", re.IGNORECASE)
    found = []
    for path in files_of(area):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines() if pattern.search(text) else []
        for number, line in enumerate(lines, 1):
            found += [f"{path.relative_to(ROOT)}:{number}: {line.strip()}"] * len(pattern.findall(line))
    return found


@pytest.mark.parametrize(("word", "area", "most"), LIMITS, ids=[f"{word}-{area}" for word, area, _ in LIMITS])
def test_a_word_is_used_ever_less(word: str, area: str, most: int) -> None:
    found = uses_of(word, area)
    assert len(found) <= most, f"{len(found)} uses of {word!r} in {area}, {most} at most:\n" + "\n".join(
        found
    )
    assert len(found) >= most - ROOM, f"only {len(found)} uses of {word!r} in {area}: set its limit to that"
