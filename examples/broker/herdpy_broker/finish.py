"""Workers end their tasks: done with a result, or failed, to be tried again or buried.

Layer 1 of the broker. A task is deleted only where it still names its worker, so one that was given back or
cancelled meanwhile is finished by nobody else. In the caller's transaction the end commits with the caller's
own work, or not at all: that is what makes its effects exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from herdpy_broker import ending, types, values
from herdpy_broker.errors import InvalidValueError, TaskLostError
from herdpy_broker.transactions import Connection, all_or_nothing, transaction
from herdpy_broker.waking import WAKE

FINISH_MOST = 10_000
"""Tasks of one call."""


def finish(connection: Connection, worker_id: int, results: Sequence[tuple[int, Any]]) -> None:
    """End tasks that are done: each with its result, any JSON.

    Raises:
        TaskLostError: some are not this worker's any more; none is finished then.
        InvalidValueError: a result is no JSON or too large, or a task is named twice.
    """
    encoded = {task_id: values.encode("a result", result) for task_id, result in results}
    if len(encoded) != len(results):
        raise InvalidValueError("a task is finished twice in one call")
    if len(encoded) > FINISH_MOST:
        raise InvalidValueError(f"at most {FINISH_MOST} tasks are finished at once, not {len(encoded)}")
    if not encoded:
        return
    # The end of one task is one DELETE, which does nothing when the task is lost: it needs no savepoint.
    unit = transaction if len(encoded) == 1 else all_or_nothing
    unit(connection, lambda within: _finish(within, worker_id, encoded))


def fail(connection: Connection, worker_id: int, task_id: int, error: str, *, may_retry: bool = True) -> None:
    """End an attempt that failed: the task is tried again after its type's backoff, or dies ("failed").

    Args:
        error: what is kept with the task, up to ``values.ERROR_MOST`` characters.
        may_retry: without, the task dies whatever attempts it has left.

    Raises:
        TaskLostError: it is not this worker's any more.
    """
    text = values.error_text(error)
    transaction(connection, lambda within: _fail(within, worker_id, task_id, text, may_retry))


def _finish(connection: Connection, worker_id: int, encoded: dict[int, str | None]) -> None:
    rows = connection.execute(_DELETE, (sorted(encoded), worker_id)).fetchall()
    if len(rows) != len(encoded):
        raise TaskLostError(worker_id, sorted(encoded.keys() - {row[0] for row in rows}))
    for part in values.parts(rows, lambda row: encoded[row[0]]):
        columns = [list(column) for column in zip(*(row[:7] for row in part), strict=True)]
        connection.execute(_FINISHED, (*columns, [encoded[row[0]] for row in part], worker_id))
    ending.settle(connection, [ending.Gone(*row[-3:]) for row in rows], done=True)


def _fail(connection: Connection, worker_id: int, task_id: int, error: str, may_retry: bool) -> None:
    row = connection.execute(_LOCK, (task_id, worker_id)).fetchone()
    if row is None:
        raise TaskLostError(worker_id, [task_id])
    type_name, attempts, max_attempts = row
    if not may_retry or attempts >= max_attempts:
        ending.bury(connection, [task_id], "failed", error)
        return
    delay_s = types.backoff_s(connection, type_name, attempts)
    connection.execute(_AGAIN, (task_id, delay_s, error))


_DELETE = f"""\
DELETE FROM broker.task WHERE id = ANY($1::bigint[]) AND worker = $2::bigint AND state = 'running'
RETURNING id, type, group_name, attempts, batch, submitted_at, started_at, {ending.GONE}"""

_FINISHED = """\
INSERT INTO broker.finished (id, type, group_name, outcome, attempts, batch, submitted_at, started_at, worker,
                             result)
SELECT id, type, group_name, 'done', attempts, batch, submitted_at, started_at, $9::bigint, result::jsonb
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::int[], $5::text[], $6::timestamptz[], $7::timestamptz[],
            $8::text[])
     AS gone (id, type, group_name, attempts, batch, submitted_at, started_at, result)"""

_LOCK = """\
SELECT type, attempts, max_attempts FROM broker.task
WHERE id = $1::bigint AND worker = $2::bigint AND state = 'running' FOR UPDATE"""

_AGAIN = f"""\
UPDATE broker.task
SET state = CASE WHEN $2::float8 > 0 THEN 'delayed' ELSE 'ready' END, error = $3,
    ready_at = now() + $2::float8 * INTERVAL '1 second', worker = NULL, started_at = NULL
WHERE id = $1::bigint RETURNING {WAKE}"""
