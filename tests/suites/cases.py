"""What became of the tests of a suite on both servers, and how they are counted.

A run leaves a file for each part of a suite (an app, a module): each test's outcome on PostgreSQL and on
HerdPy, `passed`, `skipped` or `failed`, with the error. Counted are the tests that pass on PostgreSQL, and
how many of those pass on HerdPy; a test that did not begin there failed.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.suites.counts import Count

Outcomes = Mapping[str, tuple[str, str]]
"""What became of each test, with the text of its error."""
MISSING = ("failed", "it did not begin: the server, or what the tests share, failed earlier")
_NAMES = re.compile(r"\"[^\"]*\"|'[^']*'|\b\d+\b")


@dataclass(frozen=True)
class Failure:
    """A test that passes on PostgreSQL and not on HerdPy."""

    part: str
    test: str
    text: str

    @property
    def cause(self) -> str:
        """The error's last line, its names left out: failures that share it mostly have one cause."""
        skipped = (" ", "LINE", "SQL")
        lines = [line for line in self.text.splitlines() if line and not line.startswith(skipped)]
        return _NAMES.sub("…", next((line for line in lines[::-1] if ": " in line), "".join(lines[-1:])))[
            :160
        ]


def write(folder: Path, part: str, theirs: Outcomes, ours: Outcomes) -> None:
    """Leave what was found of a part of a suite."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{part}.json").write_text(json.dumps({"theirs": theirs, "ours": ours}, indent=1))


def _read(folder: Path, names: Sequence[str]) -> Iterator[tuple[str, Outcomes, Outcomes]]:
    for path in sorted(folder.glob("*.json")):
        if not names or path.stem in names:
            both = json.loads(path.read_text())
            yield path.stem, both["theirs"], both["ours"]


def failures(folder: Path, names: Sequence[str] = ()) -> list[Failure]:
    """The tests that pass on PostgreSQL and not on HerdPy."""
    return [
        Failure(part, test, (ours.get(test) or _above(test, ours))[1])
        for part, theirs, ours in _read(folder, names)
        for test, (outcome, _) in theirs.items()
        if outcome == "passed" and ours.get(test, MISSING)[0] != "passed"
    ]


def _above(test: str, ours: Outcomes) -> tuple[str, str]:
    """Why a test did not begin: what its class or all tests share failed."""
    for name, outcome in ours.items():
        shared = name.removeprefix("setUpClass (").removesuffix(")")
        if outcome[0] == "failed" and test.startswith(f"{shared}."):
            return outcome
    return MISSING


def found(folder: Path, names: Sequence[str] = ()) -> dict[str, Count]:
    """The counts of the last run, by part: `statements` pass on PostgreSQL, `same` on HerdPy, too."""
    return {part: _count(theirs, ours) for part, theirs, ours in _read(folder, names)}


def _count(theirs: Outcomes, ours: Outcomes) -> Count:
    passed = [test for test, (outcome, _) in theirs.items() if outcome == "passed"]
    return Count(len(passed), sum(ours.get(test, MISSING)[0] == "passed" for test in passed))


def show(folder: Path, most: int, names: Sequence[str] = ()) -> str:
    """The failures by cause, the most frequent first, each with some of its tests."""
    groups: dict[str, list[Failure]] = defaultdict(list)
    for one in failures(folder, names):
        groups[one.cause].append(one)
    frequent = sorted(groups.items(), key=lambda item: -len(item[1]))[:most]
    return "\n".join(
        f"{len(ones):5} {cause}\n" + "\n".join(f"      {one.part}: {one.test}" for one in ones[:3])
        for cause, ones in frequent
    )


def show_texts(folder: Path, most: int, names: Sequence[str] = ()) -> str:
    """The failures one by one, with the ends of their errors."""
    return "\n\n".join(
        f"{one.part}: {one.test}\n{one.text[-3000:]}" for one in failures(folder, names)[:most]
    )


def line(name: str, count: Count) -> str:
    """A part's counts."""
    return f"{name:32}{count.statements:7,} pass on PostgreSQL, {count.same:7,} on HerdPy, too"


def total(found: Mapping[str, Count]) -> str:
    """The counts of all parts, and together."""
    lines = [line(name, count) for name, count in found.items()]
    return "\n".join([*lines, line(f"{len(found)} parts", sum(found.values(), Count()))])
