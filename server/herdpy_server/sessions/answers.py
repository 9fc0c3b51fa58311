"""What came of a plan, to the answer of a session: the result, and what the client is told besides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from herdpy_server.sessions.notices import Notice
from herdpy_server.sessions.result import Result

if TYPE_CHECKING:
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_sql.plan import Outcome, Plan

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
