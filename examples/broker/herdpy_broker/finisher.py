"""How attempts reach the database when they are over: finished, or failed. Layer 3.

    Committed -> released                     Failure -> fail, in a transaction of its own -> released
    Returned  -> queue -> the finisher's thread: finish of all that is there, in one transaction -> released

An ending is tried until it is done, or the worker was given up: a task that is neither finished nor failed
would stay with a worker that lives. A task that is not this worker's any more (cancelled, or given to another
one) is let go.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import herdpy
from herdpy.backoff import Backoff
from herdpy_broker.errors import InvalidValueError, TaskLostError
from herdpy_broker.finish import fail, finish
from herdpy_broker.handlers import Attempt, Failure, Outcome, Returned, failure_of

logger = logging.getLogger("herdpy_broker")

MOST_A_BATCH = 500
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0

Result = tuple[Attempt, object]
Released = Callable[[Attempt], object]


class Finisher:
    """Finishes and fails attempts.

    Args:
        pool: lends connections in autocommit mode.
        released: called when an attempt is over.
        doubt: called when a task was not this worker's.
    """

    def __init__(self, pool: herdpy.Pool[Any], released: Released, doubt: Callable[[], object]) -> None:
        self._pool, self._released, self._doubt = pool, released, doubt
        self._results: SimpleQueue[Result | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._finish_on, name="broker-finish", daemon=True)

    def start(self) -> None:
        """Begin to finish results."""
        self._thread.start()

    def close(self) -> None:
        """Finish what is there, and end."""
        self._results.put(None)
        self._thread.join()

    def end(self, attempt: Attempt, outcome: Outcome) -> None:
        """End an attempt, in any thread; a plain handler's result is finished soon, with others."""
        if isinstance(outcome, Returned):
            self._results.put((attempt, outcome.result))
            return
        try:
            if isinstance(outcome, Failure):
                self._fail(attempt, outcome)
        finally:
            self._released(attempt)

    def _fail(self, attempt: Attempt, failure: Failure) -> None:
        if failure.was_lost:
            self._doubt()
            return
        logger.info("task %s failed: %s", attempt.task.id, failure.error)

        def work() -> None:
            with self._pool.connection() as connection:
                fail(
                    connection,
                    attempt.registration.id,
                    attempt.task.id,
                    failure.error,
                    may_retry=failure.may_retry,
                )

        try:
            insist(attempt, work)
        except TaskLostError:
            self._doubt()

    # The thread that finishes.

    def _finish_on(self) -> None:
        while True:
            batch = [self._results.get()]
            while len(batch) < MOST_A_BATCH and not self._results.empty():
                batch.append(self._results.get())
            results = [result for result in batch if result is not None]
            by_registration: dict[int, list[Result]] = {}
            for result in results:
                by_registration.setdefault(result[0].registration.id, []).append(result)
            for same in by_registration.values():
                self._finish_all(same)
            if len(results) < len(batch):
                return

    def _finish_all(self, results: Sequence[Result]) -> None:
        try:
            insist(results[0][0], lambda: self._finish(results), is_temporary)
        except (TaskLostError, InvalidValueError, herdpy.Error) as error:
            if (half := len(results) // 2) == 0:
                self.end(results[0][0], failure_of(error))
            else:  # one of them is not ours, or not fit for the database: the others are not to blame
                self._finish_all(results[:half])
                self._finish_all(results[half:])
            return
        for attempt, _ in results:
            self._released(attempt)

    def _finish(self, results: Sequence[Result]) -> None:
        registration = results[0][0].registration
        rows = [(attempt.task.id, result) for attempt, result in results]
        with self._pool.connection() as connection:
            finish(connection, registration.id, rows)


def insist(
    attempt: Attempt,
    ending: Callable[[], object],
    may_pass: Callable[[herdpy.Error], bool] = lambda error: True,
) -> None:
    """Do it until it is done or the attempt is lost; errors of the database that may not pass are raised."""
    backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
    while not attempt.is_lost:
        try:
            ending()
            return
        except herdpy.Error as error:
            if not may_pass(error):
                raise
            logger.warning("task %s could not be ended: %s", attempt.task.id, error)
        attempt.registration.wait_until_lost(backoff.pause_s())


def is_temporary(error: herdpy.Error) -> bool:
    """Whether the same may succeed later: the database is away, busy, or did not tell the outcome."""
    return (
        error.retryable
        or error.outcome == "unknown"
        or (error.sqlstate or "")[:2] in ("08", "53", "57", "58")
    )
