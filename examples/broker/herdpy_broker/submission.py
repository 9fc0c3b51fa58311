"""Tasks are submitted: checked, given their slots and dependencies, and written.

Layer 1 of the broker. ``submit_all`` is one transaction: all of its tasks are there, or none.

    Submission -> checked -> the tasks it needs are locked -> a row of broker.task (ready, delayed or blocked)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from herdpy_broker import ending, types, values
from herdpy_broker.errors import InvalidValueError, NoSuchTaskError, NoSuchTypeError, SlotTakenError
from herdpy_broker.transactions import Connection, all_or_nothing
from herdpy_broker.waking import WAKE

BATCH_MOST = 10_000
"""Submissions of one call."""
AFTER_MOST = 1_000
"""Tasks that one task may need."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A task to be.

    Attributes:
        type: the name of its type, which ``types.define`` made.
        payload: what its handler gets: any JSON, at most ``values.JSON_MOST_BYTES``.
        group: whose task it is; groups share the workers.
        priority: within its group higher ones are first; among equals the older.
        delay_s: seconds until it may start.
        deadline_s: seconds after which it must have been started; else it dies (reason "deadline").
        slot: while a task with this slot lives no other one has it.
        waits_for_slot: a taken slot is waited for, instead of refused with ``SlotTakenError``.
        after: ids of tasks that must be done before; when one dies or is cancelled, so does this
            (reason "dependency").
        batch: a name to find it by. A submitter whose answer was lost (SQLSTATE 08007) looks there whether
            its tasks are there, before it submits again.
        max_attempts: instead of its type's.
    """

    type: str
    payload: Any = None
    group: str = "default"
    priority: int = 0
    delay_s: float = 0.0
    deadline_s: float | None = None
    slot: str | None = None
    waits_for_slot: bool = False
    after: tuple[int, ...] = ()
    batch: str | None = None
    max_attempts: int | None = None


def submit(connection: Connection, submission: Submission) -> int:
    """Submit one task; its id is returned.

    Raises:
        SlotTakenError: another task lives that holds its slot.
        NoSuchTypeError: its type was never defined.
        NoSuchTaskError: it is to run after a task that there never was, or whose history was forgotten.
        InvalidValueError: a value is outside of its limits.
    """
    return submit_all(connection, [submission])[0]


def submit_all(connection: Connection, submissions: Sequence[Submission]) -> list[int]:
    """Submit tasks, all or none; their ids in the same order, ascending.

    Raises:
        As ``submit``, for the first of them that fails.
    """
    if len(submissions) > BATCH_MOST:
        raise InvalidValueError(f"at most {BATCH_MOST} tasks are submitted at once, not {len(submissions)}")
    rows = [_checked(submission) for submission in submissions]
    if not rows:
        return []
    return all_or_nothing(connection, lambda within: _submit_all(within, submissions, rows))


_Row = tuple[Any, ...]
"""The parameters of ``_INSERT``."""


def _checked(task: Submission) -> _Row:
    """The row of a task that is ready at once or delayed, and has its slot."""
    for what, text in (("slot", task.slot), ("batch", task.batch)):
        if text is not None:
            values.name(what, text)
    if task.waits_for_slot and task.slot is None:
        raise InvalidValueError("waits_for_slot needs a slot")
    if len(task.after) > AFTER_MOST:
        raise InvalidValueError(f"a task needs at most {AFTER_MOST} others, not {len(task.after)}")
    for needed in task.after:
        values.integer("an id in after", needed, 1, 2**63 - 1)
    return (
        values.name("type", task.type),
        values.name("group", task.group),
        values.integer("priority", task.priority),
        values.seconds("delay_s", task.delay_s),
        None if task.deadline_s is None else values.seconds("deadline_s", task.deadline_s),
        task.slot,
        task.slot is not None,
        0,
        task.batch,
        None if task.max_attempts is None else values.integer("max_attempts", task.max_attempts, 1),
        values.encode("payload", task.payload),
    )


def _submit_all(connection: Connection, tasks: Sequence[Submission], rows: list[_Row]) -> list[int]:
    if any(task.slot is not None or task.after for task in tasks):
        return [_submit(connection, task, row) for task, row in zip(tasks, rows, strict=True)]
    return _insert_all(connection, rows)


def _insert_all(connection: Connection, rows: list[_Row]) -> list[int]:
    """Insert tasks without slots and needs: many of them by one statement."""
    made = []
    for part in values.parts(rows, lambda row: row[-1]):
        if len(part) > 1:
            made += connection.execute(_INSERT_ALL, _columns(connection, part)).fetchall()
        elif found := connection.execute(_INSERT, part[0]).fetchone():
            made.append(found)
        else:
            raise NoSuchTypeError(part[0][0])
    return [row[0] for row in made]


def _columns(connection: Connection, rows: list[_Row]) -> list[list[Any]]:
    """The parameters of ``_INSERT_ALL``. Raises NoSuchTypeError."""
    names, groups, priorities, delays, deadlines, _, _, _, batches, given, payloads = zip(*rows, strict=True)
    known = dict(connection.execute(_MAX_ATTEMPTS, (sorted(set(names)),)).fetchall())
    if missing := [name for name in names if name not in known]:
        raise NoSuchTypeError(missing[0])
    most = [known[name] if own is None else own for name, own in zip(names, given, strict=True)]
    columns = (names, groups, priorities, delays, deadlines, batches, most, payloads)
    return [list(column) for column in columns]


def _submit(connection: Connection, task: Submission, row: _Row) -> int:
    """Submit a task that has a slot or needs others."""
    needs, broken = _lock_needed(connection, task.after)
    row = (*row[:7], len(needs), *row[8:])
    made = _insert(connection, task, row)
    if needs:
        pairs = [(needed, made) for needed in needs]
        connection.cursor().executemany(_DEPEND, pairs)
    if broken is not None:
        ending.bury(connection, [made], "dependency", f"task {broken} was not done")
    return made


def _insert(connection: Connection, task: Submission, row: _Row) -> int:
    """Insert the row with its slot; without it when that is taken and may be waited for."""
    while True:
        made = connection.execute(_INSERT, row).fetchone()
        if made is not None:
            return int(made[0])
        if task.slot is None:
            raise NoSuchTypeError(task.type)
        holder = ending.held_by(connection, task.slot)
        if holder is None:
            types.check_known(connection, task.type)
            continue
        if not task.waits_for_slot:
            raise SlotTakenError(task.slot, holder)
        row = (*row[:6], False, *row[7:])


def _lock_needed(connection: Connection, after: Sequence[int]) -> tuple[list[int], int | None]:
    """Which of the tasks still live (they stay until this transaction ends), and one that was not done."""
    if not after:
        return [], None
    needed = sorted(set(after))
    living = {row[0] for row in connection.execute(_NEED, (needed,)).fetchall()}
    broken = None
    for task_id in needed:
        if task_id in living:
            continue
        outcome = connection.execute(_OUTCOME, (task_id,)).fetchone()
        if outcome is None and connection.execute(_IS_DEAD, (task_id,)).fetchone() is None:
            raise NoSuchTaskError(task_id)
        if outcome is None or outcome[0] != "done":
            broken = task_id
    return sorted(living), broken


_INSERT = f"""\
INSERT INTO broker.task (type, group_name, priority, state, ready_at, deadline, slot, holds_slot, needs,
                         batch, max_attempts, payload)
SELECT name, $2, $3::int,
       CASE WHEN $8::int > 0 OR $6::text IS NOT NULL AND NOT $7::boolean THEN 'blocked'
            WHEN $4::float8 > 0 THEN 'delayed' ELSE 'ready' END,
       now() + $4::float8 * INTERVAL '1 second', now() + $5::float8 * INTERVAL '1 second',
       $6::text, $7::boolean, $8::int, $9::text, COALESCE($10::int, max_attempts), $11::jsonb
FROM broker.task_type WHERE name = $1
ON CONFLICT (slot) WHERE holds_slot DO NOTHING RETURNING id, {WAKE}"""

_MAX_ATTEMPTS = "SELECT name, max_attempts FROM broker.task_type WHERE name = ANY($1::text[])"

_INSERT_ALL = f"""\
INSERT INTO broker.task (type, group_name, priority, state, ready_at, deadline, batch, max_attempts, payload)
SELECT type, group_name, priority, CASE WHEN delay_s > 0 THEN 'delayed' ELSE 'ready' END,
       now() + delay_s * INTERVAL '1 second', now() + deadline_s * INTERVAL '1 second', batch, most,
       payload::jsonb
FROM unnest($1::text[], $2::text[], $3::int[], $4::float8[], $5::float8[], $6::text[], $7::int[], $8::text[])
     AS given (type, group_name, priority, delay_s, deadline_s, batch, most, payload)
RETURNING id, {WAKE}"""

_NEED = "UPDATE broker.task SET is_needed = true WHERE id = ANY($1::bigint[]) RETURNING id"
_DEPEND = "INSERT INTO broker.dependency (needs, task) VALUES ($1::bigint, $2::bigint)"
_OUTCOME = "SELECT outcome FROM broker.finished WHERE id = $1::bigint"
_IS_DEAD = "SELECT 1 FROM broker.dead WHERE id = $1::bigint"
