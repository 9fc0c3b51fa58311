"""A worker whose handlers run in threads. Layer 3; ``service`` has what all kinds of workers share.

Worker(url, {"mail": send, "thumbnail": plain(shrink)}, capacity=20).run()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import herdpy
from herdpy_broker.execution import Threads, executed
from herdpy_broker.finisher import Finisher
from herdpy_broker.handlers import Attempt, Handler, checked_handlers
from herdpy_broker.service import BlockingWorker, Runner, WorkerService, WorkerSettings


class Worker(BlockingWorker):
    """Takes tasks and runs their handlers in threads.

    A handler gets a :class:`TaskContext`: its statements and the finish of the task are one transaction. A
    handler that is ``plain(function)`` gets the payload alone. What a handler returns is the task's result,
    as JSON. What it raises fails the attempt, which is tried again as its type says; ``RejectError`` ends the
    task for good.

    Args:
        url: of the database, as for :func:`herdpy.connect`.
        handlers: for each type of tasks that this worker takes.
        settings: the attributes of :class:`WorkerSettings`, by name.

    Raises:
        InvalidValueError: a setting is out of its limits.
        ValueError: there are no handlers.
        TypeError: a handler cannot be called.
    """

    def __init__(self, url: str, handlers: Mapping[str, Handler], **settings: Any) -> None:
        self._handlers = checked_handlers(handlers)
        self._service = WorkerService(url, self._handlers, WorkerSettings(**settings), self._runner)

    def _runner(self, pool: herdpy.Pool[Any], finisher: Finisher) -> Runner:
        def run(attempt: Attempt) -> None:
            finisher.end(attempt, executed(pool, attempt, self._handlers[attempt.task.type]))

        return Threads(run)
