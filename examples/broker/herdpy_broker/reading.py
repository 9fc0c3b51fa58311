"""What people and programs see of the broker.

Layer 1 of the broker; nothing here changes anything.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from herdpy_broker.errors import NoSuchTaskError
from herdpy_broker.transactions import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """A task, wherever it is.

    Attributes:
        state: "blocked", "delayed", "ready" or "running" while it lives; "done" or "cancelled"; "dead" among
            the dead letters; "discarded" when its dead letter was given up.
        reason: why it is among the dead letters: "failed", "deadline", "worker died" or "dependency".
        needs: how many others it waits for.
        holds_slot: it has its slot; else it waits for it.
        ready_at: when it may start, or might have.
        ended_at: when it was done, cancelled, or died.
    """

    id: int
    type: str
    group: str
    state: str
    attempts: int
    submitted_at: datetime.datetime
    priority: int | None = None
    max_attempts: int | None = None
    batch: str | None = None
    slot: str | None = None
    holds_slot: bool = False
    needs: int = 0
    worker: int | None = None
    ready_at: datetime.datetime | None = None
    deadline: datetime.datetime | None = None
    started_at: datetime.datetime | None = None
    ended_at: datetime.datetime | None = None
    reason: str | None = None
    error: str | None = None
    payload: Any = None
    result: Any = None


@dataclass(frozen=True, slots=True)
class Count:
    """How many tasks of a group are in a state: a living one, or "dead"."""

    group: str
    state: str
    tasks: int


def task(connection: Connection, task_id: int) -> TaskView:
    """A task by its id.

    Raises:
        NoSuchTaskError: there never was one, or its history was forgotten.
    """
    # A task moves between the tables while they are read one after the other: it is missed once at most.
    for _ in range(2):
        for query in (_LIVING, _DEAD, _FINISHED):
            found = _views(connection, query.format("id = $1::bigint"), (task_id,))
            if found:
                return found[0]
    raise NoSuchTaskError(task_id)


def batch(connection: Connection, name: str) -> list[TaskView]:
    """All tasks of a batch, by id."""
    views: dict[int, TaskView] = {}
    for query in (_LIVING, _DEAD, _FINISHED):
        views |= {view.id: view for view in _views(connection, query.format("batch = $1"), (name,))}
    return [views[task_id] for task_id in sorted(views)]


def counts(connection: Connection) -> list[Count]:
    """How many tasks of each group are in each state, where there are any."""
    return [Count(*row) for row in connection.execute(_COUNTS).fetchall()]


def _views(connection: Connection, query: str, parameters: tuple[object, ...]) -> list[TaskView]:
    cursor = connection.execute(query, parameters)
    names = [column.name for column in cursor.description or ()]
    return [TaskView(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]


_LIVING = """\
SELECT id, type, group_name AS "group", state, attempts, submitted_at, priority, max_attempts, batch, slot,
       holds_slot, needs, worker, ready_at, deadline, started_at, error, payload
FROM broker.task WHERE {} ORDER BY id"""

_DEAD = """\
SELECT id, type, group_name AS "group", 'dead' AS state, attempts, submitted_at, priority, max_attempts,
       batch, slot, died_at AS ended_at, reason, error, payload
FROM broker.dead WHERE {} ORDER BY id"""

_FINISHED = """\
SELECT id, type, group_name AS "group", CASE WHEN outcome = 'dead' THEN 'discarded' ELSE outcome END AS state,
       attempts, submitted_at, batch, worker, started_at, finished_at AS ended_at, result
FROM broker.finished WHERE {} ORDER BY id"""

_COUNTS = """\
SELECT group_name, state, count(*) AS tasks FROM broker.task GROUP BY group_name, state
UNION ALL SELECT group_name, 'dead', count(*) FROM broker.dead GROUP BY group_name
ORDER BY 1, 2"""
