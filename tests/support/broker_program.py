"""A worker of the broker as a process of its own, for tests: ``python -m tests.support.broker_program``.

Its handlers write to a table ``effect (task, process)``; those of type "gated" wait, in their transaction,
until the table ``gate`` has a row.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any

from herdpy_broker.async_worker import AsyncWorker
from herdpy_broker.handlers import AsyncTaskContext, TaskContext, plain
from herdpy_broker.process_worker import ProcessWorker
from herdpy_broker.worker import Worker

_EFFECT = "INSERT INTO effect VALUES (%s, %s)"
_GATE = "SELECT count(*) FROM gate"
_LOOK_S = 0.01


def effect(context: TaskContext) -> None:
    """One row."""
    context.connection.execute(_EFFECT, (context.task.id, os.getpid()))


def gated(context: TaskContext) -> None:
    """One row, and then a wait for the gate."""
    effect(context)
    while context.connection.execute(_GATE).fetchone() == (0,):
        time.sleep(_LOOK_S)


def die(payload: Any) -> None:
    """End the process that runs it."""
    os._exit(payload)


async def async_effect(context: AsyncTaskContext) -> None:
    """As ``effect``."""
    await context.connection.execute(_EFFECT, (context.task.id, os.getpid()))


async def async_gated(context: AsyncTaskContext) -> None:
    """As ``gated``."""
    await async_effect(context)
    while await (await context.connection.execute(_GATE)).fetchone() == (0,):
        await asyncio.sleep(_LOOK_S)


HANDLERS = {"effect": effect, "gated": gated, "plain": plain(abs), "die": plain(die)}
ASYNC_HANDLERS = {"effect": async_effect, "gated": async_gated, "plain": plain(abs)}


def main(kind: str, url: str, settings: str) -> None:
    """Run a worker until it is stopped by a signal."""
    options = json.loads(settings)
    if kind == "processes":
        ProcessWorker(url, "tests.support.broker_program:HANDLERS", **options).run()
    elif kind == "coroutines":
        asyncio.run(AsyncWorker(url, ASYNC_HANDLERS, **options).run(handles_signals=True))
    else:
        Worker(url, HANDLERS, **options).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
