"""The load of the broker's benchmark, the same for every system: tasks are submitted at a fixed rate, and
each notes when it starts.

The peers' programs import this module in an environment of their own, so it uses the standard library alone.
A payload is JSON with the time of its submission, by the machine's monotonic clock. A handler appends that
time and the time of its start to a file of its process, which the benchmark reads: nothing of the systems
under test is part of it.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

PAIR = struct.Struct("=dd")
"""A line of a file of starts: when the task was submitted, and when it started, in seconds."""
STARTS = "HERDPY_BENCH_STARTS"
"""The environment variable with the directory of these files."""
FILLER = "a task has some words: whose it is, what is to be done, and which of their things it is; " * 2

Submit = Callable[[Sequence[dict[str, object]]], object]
"""Submits the payloads given, by a connection of its own, and returns when the system has them."""


def payload() -> dict[str, object]:
    """What a task that is submitted now carries: about 250 bytes."""
    return {"at": time.monotonic(), "text": FILLER}


class StartNotes:
    """Where the handlers of this process note their starts. Safe for threads: an append is one write."""

    def __init__(self) -> None:
        self._pid = 0
        self._file = -1

    def note(self, submitted_at: float) -> None:
        """A task that was submitted then starts now."""
        if self._pid != os.getpid():  # of a process that was forked, which has a file of its own
            self._pid = os.getpid()
            path = Path(os.environ[STARTS]) / str(self._pid)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.write(self._file, PAIR.pack(submitted_at, time.monotonic()))


def serve(connect: Callable[[], Submit], clients: int) -> None:
    """Be a producer: submit what standard input asks for, a line of JSON each, until it ends.

    A request has ``rate`` (tasks a second), ``seconds``, and ``batch`` (tasks a submission). Its answer, a
    line of JSON, has ``submitted`` and ``took_s``, or ``error``. The first line says that it is ready.
    """
    submits = [connect() for _ in range(clients)]
    print(json.dumps({"ready": clients}), flush=True)
    for line in sys.stdin:
        try:
            answer: dict[str, object] = submit_paced(submits, **json.loads(line))
        except Exception as error:  # noqa: BLE001 - the benchmark raises it
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


def submit_paced(submits: Sequence[Submit], rate: float, seconds: float, batch: int) -> dict[str, object]:
    """Submit at a rate by these clients, each in a thread. A submission that is late is made at once.

    Raises:
        Exception: what a client raised first.
    """
    began, pause_s = time.monotonic(), batch / rate
    count = max(round(rate * seconds / batch), 1)
    turns = itertools.count()
    errors: list[BaseException] = []

    def work(submit: Submit) -> None:
        try:
            while not errors and (turn := next(turns)) < count:
                time.sleep(max(began + turn * pause_s - time.monotonic(), 0.0))
                submit([payload() for _ in range(batch)])
        except BaseException as error:  # noqa: BLE001 - raised by the caller's thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(submit,)) for submit in submits]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return {"submitted": count * batch, "took_s": time.monotonic() - began}
