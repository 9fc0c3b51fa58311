"""Workers take tasks: the first ones of a group, in the order of its index.

Layer 1 of the broker. Rows that another claim has locked are skipped, so claims never wait for each
other; only a group with ``max_running`` is counted, with its row locked.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from herdpy_broker import values
from herdpy_broker.transactions import Connection, transaction

CLAIM_MOST = 1_000
"""Tasks of one claim."""
LOCK_MOST_S = 10.0
"""So long may a transaction idle that claims tasks of a group with ``max_running``; then a server ends it."""


@dataclass(frozen=True, slots=True)
class ClaimedTask:
    """A task that runs.

    Attributes:
        attempts: the number of this attempt, from 1.
    """

    id: int
    type: str
    group: str
    priority: int
    attempts: int
    max_attempts: int
    batch: str | None
    submitted_at: datetime.datetime
    payload: Any


def claim(
    connection: Connection, worker_id: int, group: str, most: int, types: Sequence[str] | None = None
) -> list[ClaimedTask]:
    """Up to ``most`` tasks of a group for a worker: higher priorities first, among equals the older.

    None is past its dead-line. A paused group gives none, and no group more than its ``max_running`` leaves.
    Of a group with ``max_running``, the transaction that claims, also the caller's, may not idle for longer
    than ``LOCK_MOST_S``: a server then rolls it back.

    Args:
        types: those that the worker has handlers for; None for all. A claim walks over the group's tasks of
            other types, so types with workers of their own belong in groups of their own.
    """
    values.integer("most", most, 1, CLAIM_MOST)
    return transaction(connection, lambda within: _claim(within, worker_id, group, most, types))


def claimed(connection: Connection, worker_id: int) -> list[ClaimedTask]:
    """The tasks that run for a worker: what it asks when the outcome of a claim is unknown (08007)."""
    return [ClaimedTask(*row) for row in connection.execute(_CLAIMED, (worker_id,)).fetchall()]


def _claim(
    connection: Connection, worker_id: int, group: str, most: int, types: Sequence[str] | None
) -> list[ClaimedTask]:
    settings = connection.execute(_SETTINGS, (group,)).fetchone()
    if settings is not None and settings[1] is not None:
        # Locked until the commit: two claims at once would both count the same tasks. A process that is
        # frozen in between would keep all others from the group, for as long as its connection stands.
        connection.execute(_IDLES_AT_MOST)
        settings = connection.execute(_SETTINGS + " FOR NO KEY UPDATE", (group,)).fetchone()
    if settings is not None:
        paused, max_running = settings
        if paused:
            return []
        if max_running is not None:
            most = min(most, max_running - len(connection.execute(_RUNNING, (group, max_running)).fetchall()))
    if most < 1 or (types is not None and not types):
        return []
    if types is None:
        rows = connection.execute(_TAKE, (worker_id, group, most)).fetchall()
    else:
        rows = connection.execute(_TAKE_OF_TYPES, (worker_id, group, most, list(types))).fetchall()
    return sorted((ClaimedTask(*row) for row in rows), key=lambda task: (-task.priority, task.id))


_IDLES_AT_MOST = f"SET LOCAL idle_in_transaction_session_timeout = {LOCK_MOST_S * 1000:.0f}"

_SETTINGS = "SELECT paused, max_running FROM broker.task_group WHERE name = $1"

# A range of the index of running tasks, which are few.
_RUNNING = """\
SELECT id FROM broker.task WHERE state = 'running' AND worker > 0 AND group_name = $1
ORDER BY worker, id LIMIT $2::int"""

_COLUMNS = "id, type, group_name, priority, attempts, max_attempts, batch, submitted_at, payload"

_TAKING = f"""\
UPDATE broker.task SET state = 'running', worker = $1::bigint, attempts = attempts + 1, started_at = now()
WHERE id IN (SELECT id FROM broker.task
             WHERE group_name = $2 AND state = 'ready' AND (deadline IS NULL OR deadline > now()) {{of_types}}
             ORDER BY priority DESC, id LIMIT $3::int FOR UPDATE SKIP LOCKED)
RETURNING {_COLUMNS}"""
_TAKE = _TAKING.format(of_types="")
_TAKE_OF_TYPES = _TAKING.format(of_types="AND type = ANY($4::text[])")

_CLAIMED = f"SELECT {_COLUMNS} FROM broker.task WHERE worker = $1::bigint AND state = 'running' ORDER BY id"
