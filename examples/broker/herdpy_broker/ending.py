"""What follows when tasks end: their slots pass on, and the tasks that need them go on or die.

Layer 1 of the broker, under ``finish``, ``letters``, ``workers`` and ``upkeep``. All of it belongs to the
transaction in which the tasks end; tasks with no slot that nobody needs cost no statement.

    Gone (rows that a DELETE returned) -> slots pass to the oldest that wait
                                       -> done: dependents need one less; else: dependents die, and theirs
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from herdpy_broker.transactions import Connection
from herdpy_broker.waking import WAKE

GONE = "id, CASE WHEN holds_slot THEN slot END, is_needed"
"""What a DELETE returns last, for ``Gone``."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A task that has ended.

    Attributes:
        slot: the slot that it held.
        is_needed: other tasks may need it.
    """

    id: int
    slot: str | None
    is_needed: bool


def settle(connection: Connection, gone: Sequence[Gone], *, done: bool) -> None:
    """Pass on the slots of tasks that ended, and free or bury the tasks that need them."""
    while gone:
        _pass_slots(connection, gone)
        needed = [task.id for task in gone if task.is_needed]
        if not needed:
            return
        links = connection.execute(_UNLINK, (needed,)).fetchall()
        if done:
            _free(connection, Counter(task for _, task in links))
            return
        causes = {task: needs for needs, task in links}
        gone = _bury_dependents(connection, causes)


def bury(connection: Connection, ids: Sequence[int], reason: str, error: str | None = None) -> list[int]:
    """Move living tasks to the dead letters, with all that follows; which of them there were.

    Args:
        reason: "failed", "deadline", "worker died" or "dependency".
        error: what is kept as their error; None keeps the error of their last attempts.
    """
    gone = _remove(connection, ids, reason, dict.fromkeys(ids, error))
    settle(connection, gone, done=False)
    return [task.id for task in gone]


def held_by(connection: Connection, slot: str) -> int | None:
    """The task that holds a slot, with its row locked; None: it is free.

    The holder stays until this transaction ends, so it cannot pass its slot on before it sees a task that
    begins to wait for it here.
    """
    row = connection.execute(_HOLDER, (slot,)).fetchone()
    return None if row is None else int(row[0])


def _bury_dependents(connection: Connection, causes: dict[int, int]) -> list[Gone]:
    errors: dict[int, str | None] = {task: f"task {cause} was not done" for task, cause in causes.items()}
    return _remove(connection, sorted(causes), "dependency", errors)


def _remove(
    connection: Connection, ids: Sequence[int], reason: str, errors: dict[int, str | None]
) -> list[Gone]:
    """Move tasks to the dead letters, and nothing else."""
    if not ids:
        return []
    rows = connection.execute(_DELETE, (list(ids),)).fetchall()
    letters = [_letter(row, reason, errors[row[0]]) for row in rows]
    if letters:
        connection.cursor().executemany(_LETTER, letters)
    return [Gone(*row[-3:]) for row in rows]


def _letter(row: Sequence[Any], reason: str, error: str | None) -> tuple[Any, ...]:
    """The parameters of ``_LETTER``."""
    *task, last_error, payload = row[:11]
    return (*task, payload, reason, last_error if error is None else error)


def _pass_slots(connection: Connection, gone: Iterable[Gone]) -> None:
    for slot in sorted({task.slot for task in gone if task.slot is not None}):
        # A row that is locked and deleted meanwhile is passed over: the next one is the oldest then.
        oldest = connection.execute(_OLDEST, (slot,)).fetchone()
        if oldest is not None:
            connection.execute(_GIVE_SLOT, oldest)


def _free(connection: Connection, met: Counter[int]) -> None:
    """Tasks need so many others less."""
    for count in sorted(set(met.values())):
        ids = sorted(task for task, times in met.items() if times == count)
        connection.execute(_NEED_LESS, (count, ids))


_DELETE = f"""\
DELETE FROM broker.task WHERE id = ANY($1::bigint[])
RETURNING id, type, group_name, priority, slot, batch, attempts, max_attempts, submitted_at, error,
          payload::text, {GONE}"""

_LETTER = """\
INSERT INTO broker.dead (id, type, group_name, priority, slot, batch, attempts, max_attempts, submitted_at,
                         payload, reason, error)
VALUES ($1::bigint, $2, $3, $4::int, $5::text, $6::text, $7::int, $8::int, $9::timestamptz, $10::jsonb, $11,
        $12::text)"""

_HOLDER = "SELECT id FROM broker.task WHERE slot = $1 AND holds_slot FOR KEY SHARE"

_OLDEST = "SELECT id FROM broker.task WHERE slot = $1 AND NOT holds_slot ORDER BY id LIMIT 1 FOR UPDATE"

_GIVE_SLOT = f"""\
UPDATE broker.task
SET holds_slot = true,
    state = CASE WHEN needs > 0 THEN 'blocked' WHEN ready_at > now() THEN 'delayed' ELSE 'ready' END
WHERE id = $1::bigint RETURNING {WAKE}"""

_UNLINK = "DELETE FROM broker.dependency WHERE needs = ANY($1::bigint[]) RETURNING needs, task"

_NEED_LESS = f"""\
UPDATE broker.task
SET needs = needs - $1::int,
    state = CASE WHEN needs > $1::int OR slot IS NOT NULL AND NOT holds_slot THEN 'blocked'
                 WHEN ready_at > now() THEN 'delayed' ELSE 'ready' END
WHERE id = ANY($2::bigint[]) RETURNING {WAKE}"""
