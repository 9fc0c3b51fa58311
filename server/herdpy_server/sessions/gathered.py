"""What the runs of one statement answered, row of parameters by row, put together. Beside ``running``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from herdpy_server.sessions.result import Result
from herdpy_sql.plan import Outcome, Plan

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_server.sessions.result import Row


def gathered(plan: Plan, outcomes: Iterable[Outcome]) -> Outcome:
    """One outcome of many: the counts are added up, and the rows, if the plan has any, follow each other."""
    if plan.columns is None:
        return Outcome(None, sum(one.count for one in outcomes))
    found = list(outcomes)
    count = sum(one.count for one in found)
    tables: list[pa.Table] = [one.table for one in found if one.table is not None]
    if tables and len(tables) == len(found) and all(one.schema == tables[0].schema for one in tables):
        import pyarrow as pa

        return Outcome(None, count, pa.concat_tables(tables))
    rows: list[Row] = []
    for one in found:
        rows += one.rows or Result(plan, one.count, plan.columns, None, one.table).rows
    return Outcome(rows, count)
