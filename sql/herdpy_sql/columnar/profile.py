"""What a columnar query's operators did: DuckDB's own profile, as lines of EXPLAIN. Above ``query``.

The query is run as ``EXPLAIN (ANALYZE, FORMAT JSON)`` of its text, wherever it would have been run; what
comes back is one row with DuckDB's document, in which an operator's time is its own, without its children's.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from herdpy_sql.execute.base import OutputColumn, PlanOutcome
from herdpy_sql.plan.columnar import ColumnarSelect
from herdpy_sql.types import TEXT

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_sql.clock import Clock
    from herdpy_sql.columnar.query import ColumnarQuery
    from herdpy_sql.execute.base import Row
    from herdpy_sql.storage import View

_WRAPPERS = frozenset({"RESULT_COLLECTOR", "EXPLAIN_ANALYZE", "QUERY"})


class MeasuredColumnar(ColumnarSelect):
    """A columnar SELECT that gives no rows, but how its operators came by them."""

    def __init__(self, plan: ColumnarSelect) -> None:
        super().__init__(_profiled(plan.source), plan.reason)
        self._profile: dict[str, Any] | None = None

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> PlanOutcome:
        if source is None:
            raise ValueError("a columnar plan is given the answer of its source")
        document = json.loads(source.column(1)[0].as_py())
        found = document.get("operator") or document.get("children") or [{}]
        top = found[0]
        while top.get("type", top.get("operator_type")) in _WRAPPERS and top.get("children"):
            top = top["children"][0]
        self._profile = top
        return PlanOutcome([], _rows(top))

    def explain(self) -> list[str]:
        if self._profile is None:
            return super().explain()
        tables = [scan.table.name for scan in self.source.scans]
        return [f"Columnar Query ({self.reason})", *_lines(self._profile, tables, "  ")]


def _profiled(query: ColumnarQuery) -> ColumnarQuery:
    return replace(
        query,
        sql=f"EXPLAIN (ANALYZE, FORMAT JSON) {query.sql}",
        columns=(OutputColumn("explain_key", TEXT), OutputColumn("explain_value", TEXT)),
        careful=query.careful and _profiled(query.careful),
        at_once=True,
    )


def _rows(operator: dict[str, Any]) -> int:
    return int(operator.get("intermediate_rows", operator.get("operator_cardinality", 0)))


def _lines(operator: dict[str, Any], tables: list[str], indent: str) -> list[str]:
    kind = str(operator.get("type", operator.get("operator_type", "")))
    name = kind.strip("_").replace("_", " ").title()
    if kind == "ARROW_SCAN" and len(tables) == 1:
        name += f" on {tables[0]}"
    took_ms = float(operator.get("timing", operator.get("operator_timing", 0.0))) * 1000
    lines = [f"{indent}-> {name} (actual time={took_ms:.3f} rows={_rows(operator)} loops=1)"]
    for child in operator.get("children", ()):
        lines += _lines(child, tables, indent + "   ")
    return lines
