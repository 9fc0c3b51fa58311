"""ANALYZE of one table: the look at it runs beside others' statements, what was seen goes to the catalog."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from herdpy_sql.execute.base import Outcome, Plan
from herdpy_sql.objects import CatalogObject, StatisticsDefinition

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_sql.catalog import Table
    from herdpy_sql.execute.base import Row
    from herdpy_sql.storage import Clock, View


class AnalyzePlan(Plan):
    """ANALYZE table. Its source's answer is the table's statistics, as ``plan.statistics`` encodes them."""

    tag = "ANALYZE"
    engine = "columnar"

    def __init__(self, table: Table) -> None:
        from herdpy_sql.columnar.sampling import StatisticsQuery  # loads DuckDB

        self.table = table
        self.source = StatisticsQuery(table)

    def run(self, view: View, params: Row, clock: Clock, source: pa.Table | None = None) -> Outcome:
        if source is None:
            raise ValueError("ANALYZE is given what its source saw")
        seen = StatisticsDefinition(self.table.id, msgspec.Raw(source.column(0)[0].as_py().encode()))
        name = f"statistics {self.table.id}"
        before = view.catalog.statistics_of(self.table.id)
        one = before[0] if before else CatalogObject(view.next_id, "", name, seen)
        view.put_object(replace(one, definition=seen))
        return Outcome(None, 0)

    def explain(self) -> list[str]:
        return [f"Analyze {self.table.name}"]
