"""EXPLAIN (FORMAT JSON) as a tree that a page draws: nodes with their facts, and bars.

Pure; below the editor's page and the page of statements. A node's own time is its total without that of its
children, which run within it; bars compare nodes with the largest of the tree. What is no such document
gives no tree: the text is shown instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_KNOWN = frozenset({"Node Type", "Plans", "Actual Total Time", "Actual Rows", "Actual Loops"})
_MOST_NODES = 2000
_MOST_DEPTH = 200


@dataclass(slots=True)
class PlanNode:
    """A step of a plan.

    Attributes:
        name: what it does.
        facts: its conditions and the like, by name, as text.
        total_ms, rows, loops: as measured; None without ANALYZE.
        own_ms: what it took without its children.
        time_share, row_share: of the largest of the tree, from 0 to 1; None where not measured.
        children: what it takes rows from.
    """

    name: str
    facts: dict[str, str] = field(default_factory=dict)
    total_ms: float | None = None
    rows: float | None = None
    loops: float | None = None
    own_ms: float | None = None
    time_share: float | None = None
    row_share: float | None = None
    children: list[PlanNode] = field(default_factory=list)


@dataclass(slots=True)
class PlanTree:
    """A plan.

    Attributes:
        root: the step that gives the answer.
        facts: of the whole: its engine, how long it took.
        is_measured: ANALYZE made it.
    """

    root: PlanNode
    facts: dict[str, str]
    is_measured: bool


def plan_tree(text: str) -> PlanTree | None:
    """The tree of a document; None where there is none in it."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, list) or len(document) != 1 or not isinstance(document[0], dict):
        return None
    whole = document[0]
    plan = whole.get("Plan")
    if not isinstance(plan, dict):
        return None
    count = iter(range(_MOST_NODES))
    root = _node(plan, count, 0)
    if root is None:
        return None
    nodes = list(_all(root))
    _measure(nodes)
    facts = {name: _text(value) for name, value in whole.items() if name != "Plan"}
    return PlanTree(root, facts, any(node.total_ms is not None for node in nodes))


def _node(plan: dict[str, Any], count: Iterator[int], depth: int) -> PlanNode | None:
    if depth > _MOST_DEPTH or next(count, None) is None:
        return None
    node = PlanNode(
        _text(plan.get("Node Type", "?")),
        {name: _text(value) for name, value in plan.items() if name not in _KNOWN and value is not None},
        _number(plan.get("Actual Total Time")),
        _number(plan.get("Actual Rows")),
        _number(plan.get("Actual Loops")),
    )
    inner = plan.get("Plans")
    for one in inner if isinstance(inner, list) else ():
        child = _node(one, count, depth + 1) if isinstance(one, dict) else None
        if child is not None:
            node.children.append(child)
    return node


def _all(node: PlanNode) -> Iterator[PlanNode]:
    yield node
    for child in node.children:
        yield from _all(child)


def _measure(nodes: list[PlanNode]) -> None:
    for node in nodes:
        if node.total_ms is not None:
            inner_ms = sum(child.total_ms or 0.0 for child in node.children)
            node.own_ms = node.total_ms - inner_ms if node.total_ms >= inner_ms else node.total_ms
    longest_ms = max((node.own_ms or 0.0 for node in nodes), default=0.0)
    most_rows = max((node.rows or 0.0 for node in nodes), default=0.0)
    for node in nodes:
        if node.own_ms is not None:
            node.time_share = node.own_ms / longest_ms if longest_ms else 0.0
        if node.rows is not None:
            node.row_share = node.rows / most_rows if most_rows else 0.0


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
