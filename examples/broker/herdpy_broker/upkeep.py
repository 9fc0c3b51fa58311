"""What time does to tasks: delays end, dead-lines pass, history is forgotten.

Layer 1 of the broker. Any number of workers may call these at once: locked rows are skipped.
"""

from __future__ import annotations

from functools import partial

from herdpy_broker import ending, values
from herdpy_broker.transactions import Connection, transaction
from herdpy_broker.waking import WAKE

MOST = 1_000
"""Tasks that one call changes; it is called again while it changes so many."""


def promote(connection: Connection) -> int:
    """Make delayed tasks ready that are due, the longest due first; how many."""
    return transaction(connection, _promote)


def expire(connection: Connection) -> int:
    """Bury tasks that were not started by their dead-lines; how many."""
    return transaction(connection, _expire)


def forget(connection: Connection, older_than_s: float) -> int:
    """Delete finished tasks that ended so long ago, ``MOST`` at a time; how many.

    They are gone for ``reading.task``, and a new task can no longer be submitted to run after them.
    """
    values.seconds("older_than_s", older_than_s)
    forgotten, after = 0, 0
    while True:
        seen = connection.execute(_OLDEST, (older_than_s, after, MOST)).fetchall()
        old = [task_id for task_id, is_old in seen if is_old]
        if old:
            forgotten += transaction(connection, partial(_forget, old))
        if not old or len(seen) < MOST:
            return forgotten
        after = seen[-1][0]


def _forget(ids: list[int], connection: Connection) -> int:
    return connection.execute(_FORGET, (ids,)).rowcount


def _promote(connection: Connection) -> int:
    due = [row[0] for row in connection.execute(_DUE).fetchall()]
    if not due:
        return 0
    return connection.execute(_PROMOTE, (due,)).rowcount


def _expire(connection: Connection) -> int:
    late = [row[0] for row in connection.execute(_LATE).fetchall()]
    return len(ending.bury(connection, late, "deadline"))


_DUE = f"""\
SELECT id FROM broker.task WHERE state = 'delayed' AND ready_at <= now()
ORDER BY ready_at LIMIT {MOST} FOR UPDATE SKIP LOCKED"""

_PROMOTE = f"UPDATE broker.task SET state = 'ready' WHERE id = ANY($1::bigint[]) RETURNING {WAKE}"

_LATE = f"""\
SELECT id FROM broker.task WHERE deadline <= now() AND state <> 'running'
ORDER BY deadline LIMIT {MOST} FOR UPDATE SKIP LOCKED"""

_OLDEST = """\
SELECT id, finished_at < now() - $1::float8 * INTERVAL '1 second' FROM broker.finished
WHERE id > $2::bigint ORDER BY id LIMIT $3::int"""

_FORGET = "DELETE FROM broker.finished WHERE id = ANY($1::bigint[])"
