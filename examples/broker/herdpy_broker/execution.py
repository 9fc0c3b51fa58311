"""Running attempts: the handler, and the finish in the transaction of its work. Layer 3.

Threads.start(attempt) -> queue -> a thread: executed(attempt) -> Outcome -> Finisher
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import herdpy
from herdpy_broker.errors import BrokerError, TaskLostError
from herdpy_broker.finish import finish
from herdpy_broker.handlers import (
    Attempt,
    Committed,
    Handler,
    Outcome,
    Plain,
    Returned,
    TaskContext,
    failure_of,
)


class TransactionEndedError(BrokerError):
    """A handler committed or rolled back a transaction that is not its own, or hid an error of SQL."""


def executed(pool: herdpy.Pool[Any], attempt: Attempt, handler: Handler) -> Outcome:
    """Run the handler in this thread; whatever it raises becomes a Failure.

    Args:
        pool: lends connections in autocommit mode.
    """
    try:
        if isinstance(handler, Plain):
            return Returned(handler(attempt.task.payload))
        herdpy.run_transaction(pool, lambda connection: work(connection, attempt, handler))
        return Committed()
    except BaseException as error:  # noqa: BLE001 - SystemExit in a handler ends the attempt, not the worker
        return failure_of(error)


def work(
    connection: herdpy.Connection[Any], attempt: Attempt, handler: Callable[[TaskContext], object]
) -> None:
    """The handler's work and the finish, in the transaction of the caller.

    Raises:
        TaskLostError: the task is not this worker's any more; the caller rolls back.
        TransactionEndedError: the transaction is not the one that was begun.
    """
    check_held(attempt)
    result = handler(TaskContext(attempt, connection))
    finish_within(connection, attempt, result)


def check_held(attempt: Attempt) -> None:
    """TaskLostError when the worker was given up: the task is another worker's."""
    if attempt.is_lost:
        raise TaskLostError(attempt.registration.id, [attempt.task.id])


def finish_within(connection: herdpy.Connection[Any], attempt: Attempt, result: object) -> None:
    """Finish a task in the transaction of its work. Errors as those of :func:`work`."""
    status = connection.info.transaction_status
    if status is not herdpy.TransactionStatus.INTRANS:
        raise TransactionEndedError(
            f"the handler left its transaction {status.name}: it must not commit or roll back, and catch"
            " errors of SQL only around a transaction() block"
        )
    check_held(attempt)
    finish(connection, attempt.registration.id, [(attempt.task.id, result)])


class Threads:
    """Threads that run attempts: as many as run at a time, made when they are needed.

    They are daemons: a handler that does not return keeps neither the worker nor the program from ending.

    Args:
        run: runs an attempt, and has its task ended.
    """

    def __init__(self, run: Callable[[Attempt], object]) -> None:
        self._run_attempt = run
        self._queue: SimpleQueue[Attempt | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._made = 0

    def start(self, attempt: Attempt) -> None:
        """Begin an attempt in a thread that is idle, or a new one."""
        if not self._idle.acquire(blocking=False):
            self._made += 1
            threading.Thread(target=self._run, name=f"broker-task-{self._made}", daemon=True).start()
        self._queue.put(attempt)

    def close(self) -> None:
        """Let the threads end when they are idle."""
        for _ in range(self._made):
            self._queue.put(None)

    def _run(self) -> None:
        while (attempt := self._queue.get()) is not None:
            self._run_attempt(attempt)
            self._idle.release()
