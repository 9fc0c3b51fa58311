"""A worker of a drill, as a process of its own: `main`, with its name as the only argument.

Layer 4 of the broker, of its drill. It does the tasks of the workload `broker` until SIGTERM; their payloads
say which attempts raise. The database's URL is in the environment, where other users cannot read it.
"""

from __future__ import annotations

import os
import sys
import time

from herdpy_broker.drill.effects import leave_effect
from herdpy_broker.drill.workload import BRITTLE, STEADY
from herdpy_broker.handlers import TaskContext
from herdpy_broker.worker import Worker

URL = "HERDPY_BROKER_DRILL_URL"
"""The variable of the environment that has the URL."""
LEASE_S = 4.0
_CAPACITY = 8
_GRACE_S = 5.0


class PlannedError(Exception):
    """The payload says that this attempt fails."""


def work(context: TaskContext) -> object:
    """Leave an effect, or raise; the result is the task's key."""
    began_s, task = time.monotonic(), context.task
    if task.attempts <= task.payload["fails"]:
        raise PlannedError(f"attempt {task.attempts}")
    worker = context.attempt.registration.id
    leave_effect(
        context.connection,
        task.payload,
        task=task.id,
        attempt=task.attempts,
        worker=worker,
        began_s=began_s,
    )
    return {"key": task.payload["key"]}


def main() -> None:
    """Work until SIGTERM."""
    handlers = {STEADY: work, BRITTLE: work}
    settings = {"name": sys.argv[1], "capacity": _CAPACITY, "lease_s": LEASE_S, "grace_s": _GRACE_S}
    Worker(os.environ[URL], handlers, **settings).run()
