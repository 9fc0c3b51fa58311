"""What a server says of itself at one moment, and the rates between two moments. Below ``monitor``; no I/O.

Data passes so: ``QUERIES`` run on a server, their rows make a :class:`ServerSample`, two of one server
make :class:`Rates`, and ``view`` makes lines of both.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

Row = dict[str, Any]

HEAD = """
SELECT clock_timestamp() AS now, pg_postmaster_start_time() AS started, version() AS version,
       pg_is_in_recovery() AS follows, current_database() AS tablespace, current_user AS role
"""
QUERIES = {
    "sessions": """
SELECT a.pid, a.datname AS tablespace, a.usename AS role, a.application_name AS application,
       a.client_addr::text AS address, a.state, a.wait_event_type, a.wait_event, a.backend_type,
       extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS transaction_s,
       extract(epoch FROM clock_timestamp() - a.query_start)::float8 AS statement_s,
       a.query, pg_blocking_pids(a.pid) AS blocked_by
FROM pg_stat_activity a WHERE a.pid <> pg_backend_pid()
""",
    "statements": """
SELECT s.queryid AS query_id, s.calls, s.total_exec_time / 1000 AS total_s, s.mean_exec_time AS mean_ms,
       s.max_exec_time AS max_ms, s.rows, s.query
FROM pg_stat_statements s ORDER BY s.total_exec_time DESC LIMIT 500
""",
    "counted": "SELECT sum(calls)::float8 AS statements FROM pg_stat_statements",
    "commits": """
SELECT sum(xact_commit)::float8 AS commits, sum(xact_rollback)::float8 AS rollbacks FROM pg_stat_database
""",
    "log": "SELECT wal_bytes::float8 AS log_bytes FROM pg_stat_wal",
    "tablespaces": """
SELECT name, state, leader, epoch, replicas, expected_replicas, ledgers, log_bytes
FROM herdpy.tablespaces ORDER BY name
""",
    "replicas": """
SELECT tablespace, node, state, is_leader, applied, durable, lag_entries, problem
FROM herdpy.replicas ORDER BY tablespace, node
""",
    "log_status": """
SELECT tablespace, node, state, leader, epoch, applied, durable, log_end, lag_entries, pending, problem
FROM herdpy.log_status ORDER BY tablespace
""",
}
"""By the part of a sample that they make. One that a server cannot run leaves its part empty, with a note."""

_COUNTERS = (
    ("counted", "statements"),
    ("commits", "commits"),
    ("commits", "rollbacks"),
    ("log", "log_bytes"),
)


@dataclass(frozen=True, slots=True)
class ServerSample:
    """What a server said.

    Attributes:
        server: host:port that answered.
        head: the row of ``HEAD``.
        parts: the rows of each of ``QUERIES``.
        notes: by the name of a part why there are no rows: the server's message with its SQLSTATE.
    """

    server: str
    head: Row
    parts: dict[str, list[Row]]
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def now(self) -> datetime:
        """The server's clock."""
        moment: datetime = self.head["now"]
        return moment

    def counter(self, part: str, name: str) -> float | None:
        """A count since the server's start; None where the server does not keep it."""
        rows = self.parts.get(part, ())
        return None if not rows or rows[0][name] is None else float(rows[0][name])


class Rates(NamedTuple):
    """Per second, between two samples; None where a count is not kept, or began anew."""

    statements: float | None = None
    commits: float | None = None
    rollbacks: float | None = None
    log_bytes: float | None = None


def rates(before: ServerSample | None, after: ServerSample) -> Rates:
    """The rates from one sample to a later one; none known when another server, or start of it, answered."""
    if before is None or (before.server, before.head["started"]) != (after.server, after.head["started"]):
        return Rates()
    seconds = (after.now - before.now).total_seconds()
    if seconds <= 0:
        return Rates()
    found = []
    for part, name in _COUNTERS:
        old, new = before.counter(part, name), after.counter(part, name)
        found.append(None if old is None or new is None or new < old else (new - old) / seconds)
    return Rates(*found)
