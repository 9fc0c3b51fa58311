"""How many statements of each script are the same as PostgreSQL's: a file of counts that may only grow.

A line of ``counts.txt`` is a suite, a script, how many statements it has, how many are the same, and of the
others those that may only become fewer: with other rows, with an error missing, that never ended.
``differences.txt`` lists patterns of statements that differ for a reason; their other rows are not counted
among those, and neither is what follows from an earlier refusal (``consequences.py``).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.suites.consequences import following

COUNTS = Path(__file__).with_name("counts.txt")
DIFFERENCES = Path(__file__).with_name("differences.txt")


@dataclass(frozen=True)
class Count:
    """The statements of a script by what became of them."""

    statements: int = 0
    same: int = 0
    listed: int = 0
    after: int = 0
    rows: int = 0
    missing: int = 0
    code: int = 0
    refused: int = 0
    endless: int = 0
    lost: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(**{name: value + getattr(other, name) for name, value in self.__dict__.items()})


def differences() -> list[tuple[re.Pattern[str], str]]:
    """Patterns of statements that differ, each with its reason."""
    lines = [line for line in DIFFERENCES.read_text().splitlines() if line and not line.startswith("#")]
    pairs = [line.split("\t") for line in lines]
    return [(re.compile(pattern, re.IGNORECASE | re.DOTALL), reason) for pattern, reason in pairs]


def is_listed(record: Mapping[str, Any]) -> bool:
    """Whether a statement has other rows for a reason of the list."""
    if record["category"] != "rows":
        return False
    return any(pattern.match(record["text"]) for pattern, _ in differences())


def categories(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """What became of a script's statements, by the names of Count's fields."""
    follows = following(records)
    return [
        "listed" if is_listed(record) else "after" if follows[number] else str(record["category"])
        for number, record in enumerate(records)
    ]


def count(records: Sequence[Mapping[str, Any]]) -> Count:
    """Count what became of a script's statements."""
    return Count(len(records), **Counter(categories(records)))


def found(folder: Path, names: Sequence[str] = ()) -> dict[str, Count]:
    """The counts of the last run, by script."""
    files = [path for path in sorted(folder.glob("*.json")) if not names or path.stem in names]
    return {path.stem: count(json.loads(path.read_text())) for path in files}


def kept(suite: str) -> dict[str, Count]:
    """The counts that are kept, by script."""
    lines = [line.split() for line in COUNTS.read_text().splitlines()]
    return {
        name: Count(int(statements), int(same), rows=int(rows), missing=int(missing), endless=int(endless))
        for of, name, statements, same, rows, missing, endless in lines
        if of == suite
    }


def _worse(name: str, before: Count, now: Count) -> list[str]:
    """What of a script is worse than before."""
    said = []
    if now.same < before.same:
        said.append(f"{name}: {now.same} statements are the same, {before.same} were")
    pairs = {what: (getattr(now, what), getattr(before, what)) for what in ("rows", "missing", "endless")}
    return said + [
        f"{name}: {what} {more}, at most {most} before" for what, (more, most) in pairs.items() if more > most
    ]


def problems(suite: str, now: Mapping[str, Count]) -> list[str]:
    """What is worse than what is kept."""
    before = kept(suite)
    return [one for name, count in now.items() if name in before for one in _worse(name, before[name], count)]


def record(suite: str, now: Mapping[str, Count]) -> list[str]:
    """Keep counts that are better; the others stay, and are returned as problems."""
    worse = problems(suite, now)
    before = kept(suite)
    taken = {
        **before,
        **{name: one for name, one in now.items() if not _worse(name, before.get(name, one), one)},
    }
    others = [line for line in COUNTS.read_text().splitlines() if line.split()[0] != suite]
    lines = [
        f"{suite} {name} {one.statements} {one.same} {one.rows} {one.missing} {one.endless}"
        for name, one in taken.items()
    ]
    COUNTS.write_text("".join(f"{line}\n" for line in sorted(others + lines)))
    return worse
