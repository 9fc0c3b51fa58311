"""Lists of tasks and of dead letters, as pages and the command line show them.

Layer 1: bounded reads, the first of them by an index. What is longer is read on from the last id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from herdpy_broker import values
from herdpy_broker.errors import InvalidValueError
from herdpy_broker.overview import STATES
from herdpy_broker.transactions import Connection

MOST = 1_000
"""Rows of one list."""
REASONS = ("failed", "deadline", "worker died", "dependency")
_ORDER = {
    "ready": "priority DESC, id",
    "running": "worker, id",
    "delayed": "ready_at, id",
    "blocked": "id",
}
"""As the index of the state has them."""
_TASK = """
SELECT id, type, group_name, priority, state, attempts, max_attempts, worker, submitted_at, ready_at,
       started_at, slot, left(error, 200)
FROM broker.task WHERE state = $1"""
_DEAD = """
SELECT id, type, group_name, reason, attempts, max_attempts, submitted_at, died_at, left(error, 200)
FROM broker.dead WHERE true"""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A living task in a list. ``error``: the first 200 characters of its last attempt's."""

    id: int
    type: str
    group: str
    priority: int
    state: str
    attempts: int
    max_attempts: int
    worker: int | None
    submitted_at: datetime
    ready_at: datetime
    started_at: datetime | None
    slot: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class DeadRow:
    """A dead letter in a list. ``error``: its first 200 characters."""

    id: int
    type: str
    group: str
    reason: str
    attempts: int
    max_attempts: int
    submitted_at: datetime
    died_at: datetime
    error: str | None


@dataclass(frozen=True, slots=True)
class TypeRow:
    """A type of tasks: see :func:`herdpy_broker.types.define`."""

    name: str
    max_attempts: int
    backoff_s: float
    backoff_factor: float
    backoff_most_s: float


@dataclass(frozen=True, slots=True)
class DeadFilter:
    """Which dead letters are meant: of a group, a type, a reason; None: of all.

    Raises:
        InvalidValueError: there is no such reason.
    """

    group: str | None = None
    type: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.reason is not None and self.reason not in REASONS:
            raise InvalidValueError(f"a reason is one of {', '.join(REASONS)}, not {self.reason!r}")


def tasks(
    connection: Connection, state: str, group: str | None = None, type: str | None = None, most: int = 100
) -> Sequence[TaskRow]:
    """The first living tasks of a state, in the order in which workers take them.

    Raises:
        InvalidValueError: there is no such state, or ``most`` is not from 1 to ``MOST``.
    """
    if state not in STATES:
        raise InvalidValueError(f"a state is one of {', '.join(STATES)}, not {state!r}")
    values.integer("most", most, 1, MOST)
    where, given = _where((("group_name", group), ("type", type)), [state])
    query = f"{_TASK}{where} ORDER BY {_ORDER[state]} LIMIT {most}"
    return [TaskRow(*row) for row in connection.execute(query, given)]


def dead_letters(
    connection: Connection, chosen: DeadFilter, before: int | None = None, most: int = 100
) -> Sequence[DeadRow]:
    """Dead letters, the highest id first; ``before``: those with a lower id.

    Raises:
        InvalidValueError: ``most`` is not from 1 to ``MOST``.
    """
    values.integer("most", most, 1, MOST)
    where, given = _where(_columns(chosen), [])
    if before is not None:
        given.append(before)
        where += f" AND id < ${len(given)}::bigint"
    query = f"{_DEAD}{where} ORDER BY id DESC LIMIT {most}"
    return [DeadRow(*row) for row in connection.execute(query, given)]


def dead_ids(connection: Connection, chosen: DeadFilter, after: int = 0, most: int = MOST) -> Sequence[int]:
    """The ids of dead letters above ``after``, the lowest first."""
    values.integer("most", most, 1, MOST)
    where, given = _where(_columns(chosen), [after])
    query = f"SELECT id FROM broker.dead WHERE id > $1::bigint{where} ORDER BY id LIMIT {most}"
    return [row[0] for row in connection.execute(query, given)]


def types(connection: Connection) -> Sequence[TypeRow]:
    """The types of tasks, by name."""
    query = "SELECT name, max_attempts, backoff_s, backoff_factor, backoff_most_s FROM broker.task_type"
    return [TypeRow(*row) for row in connection.execute(f"{query} ORDER BY name")]


def needs_of(connection: Connection, task_id: int) -> Sequence[int]:
    """The first hundred living tasks that a task waits for."""
    query = "SELECT needs FROM broker.dependency WHERE task = $1::bigint ORDER BY needs LIMIT 100"
    return [row[0] for row in connection.execute(query, (task_id,))]


def needed_by(connection: Connection, task_id: int) -> Sequence[int]:
    """The first hundred tasks that wait for a task."""
    query = "SELECT task FROM broker.dependency WHERE needs = $1::bigint ORDER BY task LIMIT 100"
    return [row[0] for row in connection.execute(query, (task_id,))]


def _columns(chosen: DeadFilter) -> tuple[tuple[str, str | None], ...]:
    return (("group_name", chosen.group), ("type", chosen.type), ("reason", chosen.reason))


def _where(columns: Sequence[tuple[str, str | None]], given: list[Any]) -> tuple[str, list[Any]]:
    """Conditions on the columns that are given, after the parameters ``given``."""
    where = ""
    for column, value in columns:
        if value is not None:
            given.append(value)
            where += f" AND {column} = ${len(given)}"
    return where, given
