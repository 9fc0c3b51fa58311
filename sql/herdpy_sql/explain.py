"""EXPLAIN: which engine runs a statement, by which index, and with ANALYZE what each step took.

Plans describe themselves in lines: a step's line begins with ``->`` (the outermost one's does not), what is
known of it stands under it as ``Name: value``. The JSON document is made of these lines, so that both always
say the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from herdpy_sql.execute.base import Plan

_ACTUAL = re.compile(r" \(actual time=([\d.]+) rows=(\d+) loops=(\d+)\)$")


def explain_lines(
    plan: Plan, measured: Mapping[str, object] | None = None, typed_tree: Sequence[str] = ()
) -> list[str]:
    """The rows of EXPLAIN's answer: the plan's steps, the engine, then what was measured, by name.

    ``typed_tree`` has the lines of VERBOSE, which stand before the measures.
    """
    lines = [*plan.explain(), f"Engine: {plan.engine}", *typed_tree]
    for name, value in (measured or {}).items():
        lines.append(f"{name}: {value:.3f} ms" if isinstance(value, float) else f"{name}: {value}")
    return lines


def explain_document(
    plan: Plan, measured: Mapping[str, object] | None = None, typed_tree: Sequence[str] = ()
) -> dict[str, object]:
    """The same as a JSON document: FORMAT JSON's. Times are in milliseconds."""
    document: dict[str, object] = {"Command": plan.tag, "Engine": plan.engine, "Plan": tree(plan.explain())}
    if typed_tree:
        document["Typed Tree"] = list(typed_tree)
    document.update(measured or {})
    return document


def tree(lines: Sequence[str]) -> dict[str, Any]:
    """The steps of a plan as PostgreSQL's JSON has them: "Node Type", what is known, and "Plans" below it."""
    found: list[tuple[int, dict[str, Any]]] = []
    for line in lines:
        text = line.lstrip()
        indent = len(line) - len(text)
        if not found or text.startswith("-> "):
            node = _node(text.removeprefix("-> "))
            while found and found[-1][0] >= indent:
                found.pop()
            if found:
                found[-1][1].setdefault("Plans", []).append(node)
            found.append((indent, node))
            if len(found) == 1:
                root = node
        else:
            name, _, value = text.partition(": ")
            found[-1][1][name] = int(value) if value.isdecimal() else value
    return root


def _node(title: str) -> dict[str, Any]:
    actual = _ACTUAL.search(title)
    if actual is None:
        return {"Node Type": title}
    return {
        "Node Type": title[: actual.start()],
        "Actual Total Time": float(actual[1]),
        "Actual Rows": int(actual[2]),
        "Actual Loops": int(actual[3]),
    }
