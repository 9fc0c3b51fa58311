"""What a run of scripts found, to be read by those who mend."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.suites.counts import Count, categories

_COLUMNS = tuple(Count.__dataclass_fields__)
_NAMES = re.compile(r"\"[^\"]*\"|'[^']*'|\b\d+\b")


def line(name: str, count: Count) -> str:
    """A script's counts."""
    return f"{name:24}" + " ".join(f"{column} {getattr(count, column)}" for column in _COLUMNS)


def total(found: Mapping[str, Count]) -> str:
    """The counts of all scripts together, with the share that is the same."""
    together = sum(found.values(), Count())
    share = 100 * (together.same + together.listed) / max(together.statements, 1)
    return f"{line(f'{len(found)} scripts', together)}\n{share:.1f} % the same or listed"


def records(folder: Path, category: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """The statements of a category."""
    chosen = []
    for path in sorted(folder.glob("*.json")):
        if names and path.stem not in names:
            continue
        found = json.loads(path.read_text())
        pairs = zip(found, categories(found), strict=True)
        chosen += [{**one, "file": path.stem} for one, what in pairs if what == category]
    return chosen


def show(folder: Path, category: str, most: int, names: Sequence[str] = ()) -> str:
    """The statements of a category: errors by their messages, the most frequent first; others one by one."""
    chosen = records(folder, category, names)
    if category in ("refused", "code", "missing"):
        return _by_message(chosen, most, "theirs" if category == "missing" else "ours")
    return "\n\n".join(_both(one) for one in chosen[:most])


def _error(answer: Mapping[str, Any]) -> tuple[str, str]:
    return next(((one["sqlstate"], one["message"]) for one in answer["results"] if one["sqlstate"]), ("", ""))


def _by_message(chosen: Sequence[Mapping[str, Any]], most: int, side: str) -> str:
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for one in chosen:
        code, message = _error(one[side])
        groups[code, _NAMES.sub("…", message)].append(one)
    frequent = sorted(groups.items(), key=lambda item: -len(item[1]))[:most]
    return "\n".join(_group(code, ones, side) for (code, _), ones in frequent)


def _group(code: str, ones: Sequence[Mapping[str, Any]], side: str) -> str:
    first = ones[0]
    text = " ".join(first["text"].split())[:200]
    return (
        f"{len(ones):5} {code} {_error(first[side])[1][:120]}\n      {first['file']}:{first['line']} {text}"
    )


def _both(one: Mapping[str, Any]) -> str:
    shown = [f"{one['file']}:{one['line']}  {one['text'].strip()[:1500]}"]
    for side, name in (("theirs", "PostgreSQL"), ("ours", "HerdPy")):
        for result in one[side]["results"]:
            shown_head = f"{result['tag']} {result['sqlstate']} {result['message']}".strip()
            shown.append(f"  {name}: {shown_head} {result['names']}")
            shown += [f"    {row}" for row in result["rows"][:12]]
        shown += [f"    {row}" for row in one[side]["copied"][:12]]
    return "\n".join(shown)
