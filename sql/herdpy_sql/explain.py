"""EXPLAIN: which engine runs a statement, by which index, and with ANALYZE what it took."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from herdpy_sql.execute.base import Plan


def explain_lines(plan: Plan, measured: Mapping[str, object] | None = None) -> list[str]:
    """The rows of EXPLAIN's answer: the plan's steps, the engine, then what was measured, by name."""
    lines = [*plan.explain(), f"Engine: {plan.engine}"]
    for name, value in (measured or {}).items():
        lines.append(f"{name}: {value}")
    return lines


def explain_document(plan: Plan, measured: Mapping[str, object] | None = None) -> dict[str, object]:
    """The same as a JSON document: FORMAT JSON's."""
    document: dict[str, object] = {"Command": plan.tag, "Engine": plan.engine, "Plan": plan.explain()}
    document.update(measured or {})
    return document
