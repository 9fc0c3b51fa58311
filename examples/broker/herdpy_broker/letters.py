"""People end tasks, and take dead letters up again.

Layer 1 of the broker.
"""

from __future__ import annotations

from herdpy_broker import ending
from herdpy_broker.errors import NoSuchTaskError
from herdpy_broker.transactions import Connection, transaction
from herdpy_broker.waking import WAKE


def cancel(connection: Connection, task_id: int) -> None:
    """End a living task: its outcome is "cancelled", and the tasks that need it die ("dependency").

    A running one is its worker's no more: what the worker does in the task's transaction is rolled back
    (``TaskLostError``).

    Raises:
        NoSuchTaskError: no living task has this id.
    """
    transaction(connection, lambda within: _cancel(within, task_id))


def retry(connection: Connection, task_id: int) -> None:
    """Take a dead letter up again, under its id, with all its attempts.

    It has no dead-line then and needs no others. It takes its slot, or waits for it.

    Raises:
        NoSuchTaskError: no dead letter has this id.
    """
    transaction(connection, lambda within: _retry(within, task_id))


def discard(connection: Connection, task_id: int) -> None:
    """Give up a dead letter: it becomes history, with the outcome "dead".

    Raises:
        NoSuchTaskError: no dead letter has this id.
    """
    transaction(connection, lambda within: _discard(within, task_id))


def _cancel(connection: Connection, task_id: int) -> None:
    row = connection.execute(_CANCEL, (task_id,)).fetchone()
    if row is None:
        raise NoSuchTaskError(task_id, "task {} does not live")
    connection.execute(_CANCELLED, row[:8])
    ending.settle(connection, [ending.Gone(*row[8:])], done=False)


def _retry(connection: Connection, task_id: int) -> None:
    row = connection.execute(_TAKE_UP, (task_id,)).fetchone()
    if row is None:
        raise NoSuchTaskError(task_id, "task {} is no dead letter")
    slot = row[4]
    while True:
        if connection.execute(_REVIVE, (*row, slot is not None)).fetchone() is not None:
            return
        if ending.held_by(connection, slot) is not None:
            connection.execute(_REVIVE, (*row, False))
            return


def _discard(connection: Connection, task_id: int) -> None:
    row = connection.execute(_DISCARD, (task_id,)).fetchone()
    if row is None:
        raise NoSuchTaskError(task_id, "task {} is no dead letter")
    connection.execute(_DISCARDED, row)


_CANCEL = f"""\
DELETE FROM broker.task WHERE id = $1::bigint
RETURNING id, type, group_name, attempts, batch, worker, submitted_at, started_at, {ending.GONE}"""

_CANCELLED = """\
INSERT INTO broker.finished (id, type, group_name, outcome, attempts, batch, worker, submitted_at, started_at)
VALUES ($1::bigint, $2, $3, 'cancelled', $4::int, $5::text, $6::bigint, $7::timestamptz, $8::timestamptz)"""

_TAKE_UP = """\
DELETE FROM broker.dead WHERE id = $1::bigint
RETURNING id, type, group_name, priority, slot, batch, max_attempts, submitted_at, error, payload::text"""

_REVIVE = f"""\
INSERT INTO broker.task (id, type, group_name, priority, state, ready_at, slot, holds_slot, batch,
                         max_attempts, submitted_at, error, payload)
OVERRIDING SYSTEM VALUE
VALUES ($1::bigint, $2, $3, $4::int,
        CASE WHEN $5::text IS NOT NULL AND NOT $11::boolean THEN 'blocked' ELSE 'ready' END,
        now(), $5::text, $11::boolean, $6::text, $7::int, $8::timestamptz, $9::text, $10::jsonb)
ON CONFLICT (slot) WHERE holds_slot DO NOTHING RETURNING id, {WAKE}"""

_DISCARD = """\
DELETE FROM broker.dead WHERE id = $1::bigint RETURNING id, type, group_name, attempts, batch, submitted_at"""

_DISCARDED = """\
INSERT INTO broker.finished (id, type, group_name, outcome, attempts, batch, submitted_at)
VALUES ($1::bigint, $2, $3, 'dead', $4::int, $5::text, $6::timestamptz)"""
