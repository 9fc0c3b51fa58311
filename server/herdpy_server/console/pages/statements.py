"""Statements, slow and frequent: pg_stat_statements, with the newest plan of each, and a reset.

What is shown is what the role may see there; the text of others' statements is for those who may read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy_server.console.visit import ConsolePage, PageRoute
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from starlette.responses import Response

    from herdpy_server.console.visit import Visit

_ORDERS = {
    "total": "s.total_exec_time DESC",
    "mean": "s.mean_exec_time DESC",
    "max": "s.max_exec_time DESC",
    "calls": "s.calls DESC",
    "rows": "s.rows DESC",
}
_MOST = 100
_STATEMENTS = """
SELECT s.queryid, s.query, s.calls, s.total_exec_time, s.mean_exec_time, s.max_exec_time, s.stddev_exec_time,
       s.rows, r.rolname, d.datname, d.datname = current_database() AS is_here
FROM pg_stat_statements s
LEFT JOIN pg_roles r ON r.oid = s.userid LEFT JOIN pg_database d ON d.oid = s.dbid
ORDER BY {order}, s.queryid LIMIT {most}
"""
_MORE = "SELECT * FROM herdpy.statements"
_MISSING = frozenset({"42P01", "42703", "42883", "55000"})


async def _show(visit: Visit) -> Response:
    order = visit.argument("order", "total")
    if order not in _ORDERS:
        raise SqlError("22023", f"statements are ordered by {', '.join(_ORDERS)}")
    async with visit.session() as session:
        rows, problem = await _records(session, _STATEMENTS.format(order=_ORDERS[order], most=_MOST))
        more, _problem = await _records(session, _MORE)
    longest_ms = max((row["total_exec_time"] for row in rows), default=0.0)
    return visit.show(
        "statements.html",
        rows=rows,
        more=_by_statement(more),
        problem=problem,
        order=order,
        orders=list(_ORDERS),
        most=_MOST,
        longest_ms=longest_ms or 1.0,
    )


async def _records(session: Any, statement: str) -> tuple[list[dict[str, Any]], SqlError | None]:
    """The rows, or the error of a server that keeps no such statistics."""
    try:
        return await session.records(statement), None
    except SqlError as error:
        if error.sqlstate not in _MISSING:
            raise
        return [], error


def _by_statement(rows: list[dict[str, Any]]) -> dict[tuple[int, str], dict[str, Any]]:
    """What is known besides, by the statement's number and role."""
    return {
        (row["query_id"], row["user_name"]): row for row in rows if "query_id" in row and "user_name" in row
    }


async def _reset(visit: Visit) -> Response:
    async with visit.session() as session:
        await session.run("SELECT pg_stat_statements_reset()")
    return visit.back("statements", "The statistics begin anew.")


PAGE = ConsolePage(
    "statements",
    "Statements",
    "Operate",
    [PageRoute("statements", _show), PageRoute("statements/reset", _reset, "POST")],
)
