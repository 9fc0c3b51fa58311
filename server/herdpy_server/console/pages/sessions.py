"""Sessions of this server: what each does, for how long, and for whom it waits; cancel and terminate.

Locks are a server's own, so a page shows the sessions of the server that serves it. Acts are SQL as the
role: pg_cancel_backend and pg_terminate_backend judge them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from herdpy.wait_tree import WaitLine, wait_tree
from herdpy_server.console.visit import ConsolePage, PageRoute, live_routes
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from starlette.responses import Response

    from herdpy_server.console.visit import Visit

_SESSIONS = """
SELECT a.pid, a.datname, a.usename, a.application_name, a.client_addr::text AS address, a.state,
       a.wait_event_type, a.wait_event, a.backend_type, a.query,
       extract(epoch FROM clock_timestamp() - a.backend_start)::float8 AS session_s,
       extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS transaction_s,
       extract(epoch FROM clock_timestamp() - a.query_start)::float8 AS statement_s,
       pg_blocking_pids(a.pid) AS blocked_by
FROM pg_stat_activity a
WHERE a.pid <> pg_backend_pid()
ORDER BY a.state = 'active' DESC, a.xact_start, a.query_start, a.pid
"""
_ACTS = {
    "sessions/cancel": ("SELECT pg_cancel_backend($1::int4) AS done", "is cancelled"),
    "sessions/terminate": ("SELECT pg_terminate_backend($1::int4) AS done", "is ended"),
}


async def _state(visit: Visit) -> dict[str, Any]:
    async with visit.session() as session:
        sessions = await session.records(_SESSIONS)
    by_pid = {row["pid"]: row for row in sessions}
    tree = wait_tree({pid: row["blocked_by"] or () for pid, row in by_pid.items()})
    return {"sessions": sessions, "waits": nested(tree), "by_pid": by_pid}


def nested(lines: list[WaitLine]) -> list[dict[str, Any]]:
    """The lines of a tree as nodes with children, for lists in lists."""
    top: list[dict[str, Any]] = []
    above = [top]
    for line in lines:
        node: dict[str, Any] = {"line": line, "children": []}
        above[line.depth].append(node)
        del above[line.depth + 1 :]
        above.append(node["children"])
    return top


async def _act(visit: Visit) -> Response:
    path = visit.request.url.path.partition("/console/")[2]
    statement, words = _ACTS[path]
    text = (await visit.form()).get("pid", "")
    if not text.isdecimal() or len(text) > 9:
        raise SqlError("22023", "a session is named by its pid")
    async with visit.session() as session:
        (row,) = await session.records(statement, int(text))
    if row["done"]:
        return visit.back("sessions", f"Session {text} {words}.")
    return visit.back("sessions", f"There is no session {text}.", "note")


PAGE = ConsolePage(
    "sessions",
    "Sessions",
    "Operate",
    [
        *live_routes("sessions", "sessions", _state),
        PageRoute("sessions/cancel", _act, "POST"),
        PageRoute("sessions/terminate", _act, "POST"),
    ],
)
