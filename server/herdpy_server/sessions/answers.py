"""What came of a plan, or of its runs for many rows of parameters, as an answer. Below ``execution``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from herdpy_server.sessions.notices import Notice
from herdpy_server.sessions.result import Result
from herdpy_sql.plan import Outcome, Plan

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.result import Row

_KEPT = 1000
"""Notices that are kept for a client that does not ask for any."""
_COUNTING = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "SELECT"})


def answer(session: TransactionBlock, plan: Plan, outcome: Outcome) -> Result:
    """The result of a statement; its remarks become the session's notices."""
    least = session.settings["client_min_messages"] if plan.remarks else ""
    for remark in plan.remarks:
        notice = Notice(*remark)
        if notice.is_wanted(least):
            session.notices.append(notice)
            del session.notices[:-_KEPT]
    count = outcome.count if plan.columns is not None or plan.tag in _COUNTING else -1
    return Result(plan, count, plan.columns, outcome.rows, outcome.table)


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
