"""A worker whose handlers run in processes, for work that needs a processor. Layer 3.

    Threads -> a thread, its child: task ──pipe──> the handler, in the child ──pipe──> Outcome -> Finisher

A handler with a connection has its transaction in the child, the finish included.

The parent claims, beats and ends tasks; a child (``child``) runs one at a time. A child that dies
fails its own task alone, and another one takes its place.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import Pipe
from typing import Any

import herdpy
from herdpy_broker.child import ChildStart, handlers_named
from herdpy_broker.execution import Threads
from herdpy_broker.finisher import Finisher
from herdpy_broker.handlers import Attempt, Failure, Outcome
from herdpy_broker.service import BlockingWorker, Runner, WorkerService, WorkerSettings

_LOOK_S = 0.2
"""So soon is a child ended whose attempt is lost."""

_PROGRAM = "import sys; sys.path[:] = {path!r}; from herdpy_broker import child; child.main({pipe})"


class ProcessWorker(BlockingWorker):
    """Takes tasks and runs their handlers in processes of their own, one task a process at a time.

    As :class:`Worker`, with these differences. ``capacity`` is by default the number of processors. A
    handler's connection is its process's own, so the database is one of servers where handlers use it: a
    directory is one process's. When the worker is given up, or stopped without waiting, the processes that
    run its tasks are killed.

    Args:
        url: of the database, as for :func:`herdpy.connect`.
        handlers: where they are, as ``"module:name"`` of a mapping by type: each process imports it.
        settings: the attributes of :class:`WorkerSettings`, by name.

    Raises:
        InvalidValueError: a setting is out of its limits.
        ValueError: ``handlers`` names none.
        TypeError: a handler cannot be called.
    """

    def __init__(self, url: str, handlers: str, **settings: Any) -> None:
        self._start = ChildStart(url, handlers)
        chosen = WorkerSettings(**{"capacity": os.cpu_count() or 1, **settings})
        self._service = WorkerService(url, handlers_named(handlers), chosen, self._runner)

    def _runner(self, _pool: herdpy.Pool[Any], finisher: Finisher) -> Runner:
        return Processes(self._start, finisher)


class Processes:
    """Runs attempts in child processes, each with a thread that waits for it."""

    def __init__(self, start: ChildStart, finisher: Finisher) -> None:
        self._start, self._finisher = start, finisher
        self._threads = Threads(self._run)
        self._lock = threading.Lock()
        self._idle: list[Child] = []
        self._is_closed = False

    def start(self, attempt: Attempt) -> None:
        """Begin an attempt in a child that is idle, or a new one."""
        self._threads.start(attempt)

    def close(self) -> None:
        """End the children: idle ones now, others when they are done with their attempts."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for child in idle:
            child.close()
        self._threads.close()

    def _run(self, attempt: Attempt) -> None:
        with self._lock:
            child = self._idle.pop() if self._idle else None
        child = child or Child(self._start)
        outcome = child.executed(attempt)
        with self._lock:
            is_kept = child.is_usable and not self._is_closed
            if is_kept:
                self._idle.append(child)
        if not is_kept:
            child.close()
        self._finisher.end(attempt, outcome)


class Child:
    """A process that runs attempts, seen from its parent.

    Attributes:
        is_usable: it lives, and waits for the next attempt.
    """

    def __init__(self, start: ChildStart) -> None:
        self._pipe, theirs = Pipe()
        with theirs:
            command = [sys.executable, "-c", _PROGRAM.format(path=sys.path, pipe=theirs.fileno())]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        self.is_usable = True
        with contextlib.suppress(OSError):  # it has ended: the first attempt tells
            self._pipe.send(start)

    def executed(self, attempt: Attempt) -> Outcome:
        """Carry out an attempt. A Failure when the process dies; it is killed when the attempt is lost."""
        try:
            self._pipe.send((attempt.task, attempt.registration.id))
            while not self._pipe.poll(_LOOK_S):
                if attempt.is_lost:
                    self.is_usable = False
                    return Failure("the worker was given up", was_lost=True)
            outcome: Outcome = self._pipe.recv()
            return outcome
        except (EOFError, OSError):
            self.is_usable = False
            return Failure(f"the handler's process {self._end()}")

    def close(self) -> None:
        """End the process, in the midst of its work if need be."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()

    def _end(self) -> str:
        code = self._process.wait()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
