"""Workers are registered, beat, leave, and are given up when they do not beat.

Layer 1 of the broker. A worker's row is its fence: a worker that finds a row too old deletes it and gives its
tasks back in one transaction. Times are the leader's ``now()`` alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from herdpy_broker import ending, values
from herdpy_broker.errors import WorkerLostError
from herdpy_broker.transactions import Connection, transaction
from herdpy_broker.waking import WAKE

REAP_MOST = 1_000
"""Tasks that one call gives back."""


def register(connection: Connection, name: str, capacity: int, lease_s: float) -> int:
    """A new worker's id.

    Args:
        name: what people see; it need not be unique.
        capacity: so many tasks it runs at a time.
        lease_s: seconds without ``beat`` after which it is given up; longer than a change of leaders takes.
    """
    values.name("a worker's name", name)
    values.integer("capacity", capacity, 1)
    values.seconds("lease_s", lease_s, 0.001)
    return transaction(connection, lambda within: _number(within, _REGISTER, (name, capacity, lease_s)))


def beat(connection: Connection, worker_id: int) -> None:
    """Say that the worker lives.

    Raises:
        WorkerLostError: it was given up, and its tasks were given back.
    """
    # One statement: a process that is stopped within a transaction would keep its own row from being deleted.
    if connection.execute(_BEAT, (worker_id,)).rowcount == 0:
        raise WorkerLostError(worker_id)


def leave(connection: Connection, worker_id: int) -> list[int]:
    """End a worker, and give back the tasks that it still has; their ids. The attempts count."""
    return transaction(connection, lambda within: _leave(within, worker_id))


def reap(connection: Connection) -> list[int]:
    """Give up workers that have not beaten for their leases; the ids of tasks that were given back.

    A task whose attempts are used up dies ("worker died") instead, and is not among them. A task that is
    being finished at this moment is passed over, and given back later if it is not finished after all.
    """
    return transaction(connection, _reap)


def there(connection: Connection) -> list[int]:
    """The ids of the workers that were not given up."""
    return [row[0] for row in connection.execute(_THERE).fetchall()]


def _leave(connection: Connection, worker_id: int) -> list[int]:
    connection.execute(_LEAVE, (worker_id,))
    rows = connection.execute(_TASKS_OF, ([worker_id],)).fetchall()
    return _give_back(connection, rows)


def _reap(connection: Connection) -> list[int]:
    late = [row[0] for row in connection.execute(_LATE).fetchall()]
    gone = [row[0] for row in connection.execute(_REAP, (late,)).fetchall()] if late else []
    # A claim may have been under way when its worker was given up: tasks of workers that are no more, too.
    gone += _absent(connection)
    if not gone:
        return []
    return _give_back(connection, connection.execute(_TASKS_OF, (gone,)).fetchall())


def _absent(connection: Connection) -> list[int]:
    """Workers that have running tasks, but no row."""
    running, last = [], 0
    while (row := connection.execute(_NEXT_RUNNING, (last,)).fetchone()) is not None:
        last = row[0]
        running.append(last)
    living = set(there(connection))  # read last: a worker that registers and claims meanwhile is among them
    return [worker for worker in running if worker not in living]


def _give_back(connection: Connection, rows: Sequence[tuple[int, int, int]]) -> list[int]:
    """Make locked tasks ready again, or bury those whose attempts are used up."""
    spent = [task for task, attempts, most in rows if attempts >= most]
    ending.bury(connection, spent, "worker died", "its worker was given up")
    again = [task for task, attempts, most in rows if attempts < most]
    if again:
        connection.execute(_AGAIN, (again,))
    return again


def _number(connection: Connection, statement: str, parameters: tuple[object, ...]) -> int:
    return int(connection.execute(statement, parameters).fetchall()[0][0])


_REGISTER = """\
INSERT INTO broker.worker (name, capacity, lease_s) VALUES ($1, $2::int, $3::float8) RETURNING id"""

_BEAT = "UPDATE broker.worker SET seen_at = now() WHERE id = $1::bigint"

_LEAVE = "DELETE FROM broker.worker WHERE id = $1::bigint"

_LATE = """\
SELECT id FROM broker.worker WHERE seen_at < now() - lease_s * INTERVAL '1 second'
ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED"""

_REAP = "DELETE FROM broker.worker WHERE id = ANY($1::bigint[]) RETURNING id"

_THERE = "SELECT id FROM broker.worker ORDER BY id LIMIT 100000"
"""With a limit it is an own query; one of all rows would be columnar."""

_NEXT_RUNNING = """\
SELECT worker FROM broker.task WHERE state = 'running' AND worker > $1::bigint ORDER BY worker LIMIT 1"""
"""One step in the index of running tasks for each worker; DISTINCT would read all of them."""

_TASKS_OF = f"""\
SELECT id, attempts, max_attempts FROM broker.task
WHERE worker = ANY($1::bigint[]) AND state = 'running' ORDER BY id LIMIT {REAP_MOST} FOR UPDATE SKIP LOCKED"""

_AGAIN = f"""\
UPDATE broker.task SET state = 'ready', worker = NULL, started_at = NULL, error = 'its worker was given up'
WHERE id = ANY($1::bigint[]) RETURNING {WAKE}"""
