"""The broker as one object, for programs that submit tasks and wait for them.

Layer 2 of the broker: the functions of layer 1 on connections of a pool, safe for threads.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import herdpy
from herdpy_broker import groups, letters, reading, schedule, schema, submission, types
from herdpy_broker.errors import TaskFailedError
from herdpy_broker.schedule import Schedule
from herdpy_broker.submission import Submission

_FIRST_LOOK_S, _LAST_LOOK_S = 0.005, 0.25


class Broker:
    """The broker of a database.

    Args:
        url: a directory, servers or a cluster: whatever ``herdpy.connect`` takes.
        max_connections: so many calls run at a time; others wait.
        options: the driver's other options (user, password ...).
    """

    def __init__(self, url: str, *, max_connections: int = 10, **options: Any) -> None:
        self._pool = herdpy.Pool(url, autocommit=True, max_size=max_connections, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections; calls that are under way end first."""
        self._pool.close()

    def migrate(self) -> None:
        """See ``schema.migrate``."""
        with self._pool.connection() as connection:
            schema.migrate(connection)

    def define(self, name: str, **settings: Any) -> None:
        """See ``types.define``."""
        with self._pool.connection() as connection:
            types.define(connection, name, **settings)

    def set_group(self, name: str, **settings: Any) -> None:
        """See ``groups.set_group``."""
        with self._pool.connection() as connection:
            groups.set_group(connection, name, **settings)

    def submit(self, task: Submission) -> int:
        """See ``submission.submit``."""
        with self._pool.connection() as connection:
            return submission.submit(connection, task)

    def submit_all(self, tasks: Sequence[Submission]) -> list[int]:
        """See ``submission.submit_all``."""
        with self._pool.connection() as connection:
            return submission.submit_all(connection, tasks)

    def cancel(self, task_id: int) -> None:
        """See ``letters.cancel``."""
        with self._pool.connection() as connection:
            letters.cancel(connection, task_id)

    def retry(self, task_id: int) -> None:
        """See ``letters.retry``."""
        with self._pool.connection() as connection:
            letters.retry(connection, task_id)

    def discard(self, task_id: int) -> None:
        """See ``letters.discard``."""
        with self._pool.connection() as connection:
            letters.discard(connection, task_id)

    def add_schedule(self, added: Schedule) -> None:
        """See ``schedule.add``."""
        with self._pool.connection() as connection:
            schedule.add(connection, added)

    def remove_schedule(self, name: str) -> None:
        """See ``schedule.remove``."""
        with self._pool.connection() as connection:
            schedule.remove(connection, name)

    def task(self, task_id: int) -> reading.TaskView:
        """See ``reading.task``."""
        with self._pool.connection() as connection:
            return reading.task(connection, task_id)

    def batch(self, name: str) -> list[reading.TaskView]:
        """See ``reading.batch``."""
        with self._pool.connection() as connection:
            return reading.batch(connection, name)

    def counts(self) -> list[reading.Count]:
        """See ``reading.counts``."""
        with self._pool.connection() as connection:
            return reading.counts(connection)

    def result(self, task_id: int, timeout_s: float) -> Any:
        """The result of a task, when it is done.

        Raises:
            TaskFailedError: it was cancelled, or is among the dead letters.
            TimeoutError: it was not done within ``timeout_s``.
            NoSuchTaskError: there is no such task.
        """
        until = time.monotonic() + timeout_s
        pause_s = _FIRST_LOOK_S
        while True:
            view = self.task(task_id)
            if view.state == "done":
                return view.result
            if view.state in ("cancelled", "dead", "discarded"):
                raise TaskFailedError(task_id, view.reason or view.state, view.error)
            left_s = until - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"task {task_id} is {view.state} after {timeout_s} s")
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LAST_LOOK_S)
