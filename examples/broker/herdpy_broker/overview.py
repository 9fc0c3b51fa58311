"""The broker at one moment: queues, groups, workers, dead letters and schedules, for pages and metrics.

Layer 1: one call reads it all, by few statements. What they cost follows from the living tasks and the dead
letters, not from the history: of ``broker.finished`` the highest id alone is read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from herdpy_broker.schedule import Schedule, listing
from herdpy_broker.transactions import Connection

STATES = ("blocked", "delayed", "ready", "running")
_QUEUES = """
SELECT group_name, type, state, count(*), min(ready_at), min(started_at),
       count(*) FILTER (WHERE holds_slot), count(*) FILTER (WHERE slot IS NOT NULL AND NOT holds_slot),
       count(*) FILTER (WHERE error IS NOT NULL)
FROM broker.task GROUP BY group_name, type, state
"""
_WORKERS = """
SELECT id, name, capacity, lease_s, started_at, seen_at FROM broker.worker ORDER BY id LIMIT 10000"""
_RUNNING = "SELECT worker, count(*) FROM broker.task WHERE state = 'running' GROUP BY worker"
_GROUPS = "SELECT name, weight, max_running, paused FROM broker.task_group ORDER BY name LIMIT 10000"
_DEAD = "SELECT group_name, reason, count(*) FROM broker.dead GROUP BY group_name, reason"
_HIGHEST = [
    f"SELECT id FROM broker.{table} ORDER BY id DESC LIMIT 1" for table in ("task", "finished", "dead")
]


@dataclass(frozen=True, slots=True)
class QueueCount:
    """The living tasks of a group, a type and a state.

    Attributes:
        oldest: the longest since a task could start (running: since it was started).
        slots_held, slots_awaited: tasks that hold a slot, and that wait for one.
        retrying: tasks whose last attempt failed.
    """

    group: str
    type: str
    state: str
    count: int
    oldest: datetime
    slots_held: int
    slots_awaited: int
    retrying: int


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """A group as it is set: see :func:`herdpy_broker.groups.set_group`."""

    name: str
    weight: int = 1
    max_running: int | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker that is registered, and how many tasks it runs."""

    id: int
    name: str
    capacity: int
    lease_s: float
    started_at: datetime
    seen_at: datetime
    running: int


@dataclass(frozen=True, slots=True)
class DeadCount:
    """The dead letters of a group by their reason."""

    group: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group, and what it has.

    Attributes:
        queues: its living tasks by type and state. ``counts``: by state alone.
        oldest_ready_s: seconds since the oldest of its ready tasks could start; None: none is ready.
        dead: its dead letters.
    """

    settings: GroupSettings
    queues: Sequence[QueueCount]
    counts: Mapping[str, int]
    oldest_ready_s: float | None
    dead: int


@dataclass(frozen=True, slots=True)
class Overview:
    """The broker at one moment.

    Attributes:
        groups, workers: the first 10,000 each, by name and by id: limits keep them own plans.
        at: the moment, by the leader's clock; ages are counted from it.
        highest_id: the highest id that a task has had; 0 for none. Between two overviews it rises by the
            number of tasks that were submitted (and of submissions that were rolled back).
    """

    at: datetime
    queues: Sequence[QueueCount]
    groups: Sequence[GroupSettings]
    workers: Sequence[WorkerRow]
    dead: Sequence[DeadCount]
    highest_id: int
    schedules: Sequence[Schedule]

    def count(self, state: str) -> int:
        """How many tasks are in a state."""
        return sum(one.count for one in self.queues if one.state == state)

    def age_s(self, state: str) -> float | None:
        """Seconds since the oldest task of a state could start, or was started; None: there is none."""
        return _age_s(self.at, self.queues, state)

    def dead_letters(self) -> int:
        """How many dead letters there are."""
        return sum(one.count for one in self.dead)

    def group(self, name: str) -> GroupView:
        """A group; one that has nothing and is not set has the settings of a new one."""
        settings = next((one for one in self.groups if one.name == name), GroupSettings(name))
        dead = sum(one.count for one in self.dead if one.group == name)
        return self._view(settings, [one for one in self.queues if one.group == name], dead)

    def all_groups(self) -> list[GroupView]:
        """The groups that have settings, tasks or dead letters, by name."""
        queues: dict[str, list[QueueCount]] = defaultdict(list)
        for one in self.queues:
            queues[one.group].append(one)
        dead: Counter[str] = Counter()
        for letters in self.dead:
            dead[letters.group] += letters.count
        settings = {one.name: one for one in self.groups}
        return [
            self._view(settings.get(name) or GroupSettings(name), queues.get(name, ()), dead[name])
            for name in sorted(settings.keys() | queues.keys() | dead.keys())
        ]

    def _view(self, settings: GroupSettings, queues: Sequence[QueueCount], dead: int) -> GroupView:
        counts = dict.fromkeys(STATES, 0)
        for one in queues:
            counts[one.state] += one.count
        return GroupView(settings, queues, counts, _age_s(self.at, queues, "ready"), dead)


def overview(connection: Connection) -> Overview:
    """Read the broker as it is now. Its parts may be some milliseconds apart."""
    ((at,),) = connection.execute("SELECT clock_timestamp()").fetchall()
    running: dict[int, int] = dict(connection.execute(_RUNNING).fetchall())
    return Overview(
        at=at,
        queues=[_queue_count(row) for row in connection.execute(_QUEUES)],
        groups=[GroupSettings(*row) for row in connection.execute(_GROUPS)],
        workers=[_worker(row, running) for row in connection.execute(_WORKERS)],
        dead=[DeadCount(*row) for row in connection.execute(_DEAD)],
        highest_id=max([0, *(row[0] for query in _HIGHEST for row in connection.execute(query))]),
        schedules=listing(connection),
    )


def _age_s(at: datetime, queues: Iterable[QueueCount], state: str) -> float | None:
    oldest = [one.oldest for one in queues if one.state == state]
    return max(0.0, (at - min(oldest)).total_seconds()) if oldest else None


def _queue_count(row: Sequence[Any]) -> QueueCount:
    group, kind, state, count, ready_at, started_at, held, awaited, retrying = row
    oldest = started_at if state == "running" and started_at is not None else ready_at
    return QueueCount(group, kind, state, count, oldest, held, awaited, retrying)


def _worker(row: Sequence[Any], running: Mapping[int, int]) -> WorkerRow:
    ident, name, capacity, lease_s, started_at, seen_at = row
    return WorkerRow(ident, name, capacity, lease_s, started_at, seen_at, running.get(ident, 0))
