"""Tasks that are submitted again and again: by cron's five fields in a time zone, or every so many seconds.

Layer 1 of the broker. Whoever finds a schedule due submits its task and moves its next time in one
transaction, with its row locked, so that each time is one task whatever number of workers look. Times that
passed while nobody looked are made up for by one task.
"""

from __future__ import annotations

import datetime
import zoneinfo
from dataclasses import dataclass
from typing import Any

import cronsim

from herdpy_broker import types, values
from herdpy_broker.errors import InvalidValueError, NoSuchScheduleError, SlotTakenError
from herdpy_broker.submission import Submission, submit
from herdpy_broker.transactions import Connection, transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A schedule: exactly one of ``cron`` and ``every_s``.

    Attributes:
        cron: minute, hour, day of month, month, day of week. Where clocks are put forward, a time that does
            not exist is the moment after; where they are put back, a time that comes twice is once.
        every_s: seconds from one time to the next, counted from when the schedule was added.
        timezone: of ``cron``: a name such as "Europe/Vienna".
        slot: while the task before still lives, a time passes without a new one.
        next_at, last_at: when it is due, and when it last was; ``add`` takes no notice of them.
    """

    name: str
    type: str
    cron: str | None = None
    every_s: float | None = None
    timezone: str = "UTC"
    group: str = "default"
    priority: int = 0
    slot: str | None = None
    payload: Any = None
    paused: bool = False
    next_at: datetime.datetime | None = None
    last_at: datetime.datetime | None = None

    def after(self, moment: datetime.datetime, due: datetime.datetime | None = None) -> datetime.datetime:
        """The first time after a moment; ``due`` is an earlier time of a schedule with ``every_s``."""
        if self.every_s is not None:
            due = due or moment
            steps = max(0, (moment - due) // datetime.timedelta(seconds=self.every_s))
            return due + datetime.timedelta(seconds=self.every_s) * (steps + 1)
        local = moment.astimezone(zoneinfo.ZoneInfo(self.timezone))
        return next(cronsim.CronSim(str(self.cron), local)).astimezone(datetime.UTC)


def add(connection: Connection, schedule: Schedule) -> None:
    """Make a schedule, or replace the one of this name; its next time is counted from now.

    Raises:
        NoSuchTypeError: the type of its tasks was never defined.
        InvalidValueError: a time that never comes, an unknown time zone, or a value outside of its limits.
    """
    _check(schedule)
    transaction(connection, lambda within: _add(within, schedule))


def remove(connection: Connection, name: str) -> None:
    """Remove a schedule; tasks that it submitted stay.

    Raises:
        NoSuchScheduleError: none has this name.
    """
    _change(connection, "DELETE FROM broker.schedule WHERE name = $1 RETURNING name", (name,))


def pause(connection: Connection, name: str, paused: bool = True) -> None:
    """Have a schedule rest, or go on: times that passed meanwhile are made up for by one task.

    Raises:
        NoSuchScheduleError: none has this name.
    """
    _change(connection, _PAUSE, (name, paused))


def listing(connection: Connection) -> list[Schedule]:
    """All schedules, by name."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM broker.schedule ORDER BY name").fetchall()
    return [_schedule(row) for row in rows]


def fire(connection: Connection) -> list[int]:
    """Submit a task for each schedule that is due; their ids."""
    fired: list[int] = []
    while True:
        found, task_id = transaction(connection, _fire_one)
        if not found:
            return fired
        if task_id is not None:
            fired.append(task_id)


def run_now(connection: Connection, name: str) -> int:
    """Submit a schedule's task now, besides its times; its id.

    Raises:
        NoSuchScheduleError: none has this name.
        SlotTakenError: the task before still lives.
    """
    return transaction(connection, lambda within: _run_now(within, name))


def _check(schedule: Schedule) -> None:
    values.name("a schedule's name", schedule.name)
    if (schedule.cron is None) == (schedule.every_s is None):
        raise InvalidValueError("a schedule has cron, or every_s: one of them")
    values.name("timezone", schedule.timezone)
    try:
        zoneinfo.ZoneInfo(schedule.timezone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidValueError(f"there is no time zone {schedule.timezone!r}") from error
    if schedule.every_s is not None:
        values.seconds("every_s", schedule.every_s, 0.001)
        return
    values.name("cron", str(schedule.cron))
    try:
        schedule.after(datetime.datetime.now(datetime.UTC))
    except (cronsim.CronSimError, StopIteration) as error:
        raise InvalidValueError(
            f"cron {schedule.cron!r} names no time: {error or 'it never comes'}"
        ) from error


def _add(connection: Connection, schedule: Schedule) -> None:
    types.check_known(connection, schedule.type)
    now = connection.execute("SELECT now()").fetchall()[0][0]
    connection.execute(
        _ADD,
        (
            schedule.name,
            schedule.type,
            schedule.cron,
            schedule.every_s,
            schedule.timezone,
            values.name("group", schedule.group),
            values.integer("priority", schedule.priority),
            None if schedule.slot is None else values.name("slot", schedule.slot),
            values.encode("payload", schedule.payload),
            bool(schedule.paused),
            schedule.after(now),
        ),
    )


def _fire_one(connection: Connection) -> tuple[bool, int | None]:
    row = connection.execute(_DUE).fetchone()
    if row is None:
        return False, None
    *columns, now = row
    schedule = _schedule(columns)
    try:
        task_id: int | None = _submit(connection, schedule)
    except SlotTakenError:
        task_id = None
    connection.execute(_NEXT, (schedule.name, schedule.after(now, schedule.next_at)))
    return True, task_id


def _run_now(connection: Connection, name: str) -> int:
    query = f"SELECT {_COLUMNS} FROM broker.schedule WHERE name = $1 FOR UPDATE"
    row = connection.execute(query, (name,)).fetchone()
    if row is None:
        raise NoSuchScheduleError(name)
    return _submit(connection, _schedule(row))


def _submit(connection: Connection, schedule: Schedule) -> int:
    task = Submission(
        schedule.type, schedule.payload, group=schedule.group, priority=schedule.priority, slot=schedule.slot
    )
    return submit(connection, task)


def _change(connection: Connection, statement: str, parameters: tuple[object, ...]) -> None:
    if not transaction(connection, lambda within: within.execute(statement, parameters).fetchall()):
        raise NoSuchScheduleError(str(parameters[0]))


def _schedule(row: Any) -> Schedule:
    return Schedule(**dict(zip(_FIELDS, row, strict=True)))


_FIELDS = (
    "name", "type", "cron", "every_s", "timezone", "group", "priority", "slot", "payload", "paused",
    "next_at", "last_at",
)  # fmt: skip

_COLUMNS = ", ".join("group_name" if field == "group" else field for field in _FIELDS)

_ADD = """\
INSERT INTO broker.schedule (name, type, cron, every_s, timezone, group_name, priority, slot, payload, paused,
                             next_at)
VALUES ($1, $2, $3::text, $4::float8, $5, $6, $7::int, $8::text, $9::jsonb, $10::boolean, $11::timestamptz)
ON CONFLICT (name) DO UPDATE
SET type = excluded.type, cron = excluded.cron, every_s = excluded.every_s, timezone = excluded.timezone,
    group_name = excluded.group_name, priority = excluded.priority, slot = excluded.slot,
    payload = excluded.payload, paused = excluded.paused, next_at = excluded.next_at"""

_PAUSE = "UPDATE broker.schedule SET paused = $2::boolean WHERE name = $1 RETURNING name"

_DUE = f"""\
SELECT {_COLUMNS}, now() FROM broker.schedule WHERE NOT paused AND next_at <= now()
ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED"""

_NEXT = """\
UPDATE broker.schedule SET next_at = $2::timestamptz, last_at = now() WHERE name = $1"""
