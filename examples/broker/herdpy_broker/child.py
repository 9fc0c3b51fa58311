"""A child process of ``ProcessWorker``: imports the handlers, and runs one attempt at a time. Layer 3.

    pipe: ChildStart, then (task, worker id) -> Outcome, again and again until the pipe's end

It ends when its parent does: a thread waits for the pipe's end while the handler runs.
"""

from __future__ import annotations

import importlib
import os
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import herdpy
from herdpy_broker.claim import ClaimedTask
from herdpy_broker.execution import executed
from herdpy_broker.handlers import Attempt, Handler, checked_handlers
from herdpy_broker.membership import Registration
from herdpy_broker.transactions import APPLICATION


@dataclass(frozen=True, slots=True)
class ChildStart:
    """What a child needs to begin.

    Attributes:
        url: of the database.
        handlers: "module:name" of a mapping.
    """

    url: str
    handlers: str


def handlers_named(name: str) -> dict[str, Handler]:
    """The mapping of handlers at ``module:name``.

    Raises:
        ValueError: there is no such module or name, or there are no handlers.
        TypeError: it is no mapping, or a handler cannot be called.
    """
    module_name, separator, attribute = name.partition(":")
    if not (module_name and separator and attribute):
        raise ValueError(f"handlers are named as module:name, not {name!r}")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except (ModuleNotFoundError, AttributeError) as error:
        raise ValueError(f"handlers {name!r}: {error}") from error
    if not isinstance(found, Mapping):
        raise TypeError(f"{name} is a {type(found).__name__}, not a mapping of types to handlers")
    return checked_handlers(found)


def main(descriptor: int) -> None:
    """Carry out what comes by the pipe, until its end."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a terminal sends them to the whole group: the parent decides
    pipe = Connection(descriptor)
    start: ChildStart = pipe.recv()
    handlers = handlers_named(start.handlers)
    pool: herdpy.Pool[Any] = herdpy.Pool(start.url, 0, 1, autocommit=True, application_name=APPLICATION)
    requests: SimpleQueue[tuple[ClaimedTask, int]] = SimpleQueue()
    threading.Thread(target=_receive, args=(pipe, requests), daemon=True).start()
    while True:
        task, worker_id = requests.get()
        pipe.send(executed(pool, Attempt(task, Registration(worker_id)), handlers[task.type]))


def _receive(pipe: Connection, requests: SimpleQueue[tuple[ClaimedTask, int]]) -> None:
    try:
        while True:
            requests.put(pipe.recv())
    except (EOFError, OSError):
        os._exit(0)  # whatever the handler does: nobody waits for it
