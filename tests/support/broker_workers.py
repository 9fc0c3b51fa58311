"""Workers of the broker, as processes and in threads of the test, and what tests ask of their database."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import Popen
from typing import Any

from herdpy_broker import submission
from herdpy_broker.handlers import Handler
from herdpy_broker.submission import Submission
from herdpy_broker.worker import Worker

from herdpy.testing.process import await_until, spawn

PATIENCE_S = 90.0
LONG_LEASE_S = 60.0

_ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def worker_process(kind: str, url: str, **settings: Any) -> Iterator[Popen[bytes]]:
    """A worker, killed at the end of the block when it still runs."""
    settings = {"upkeep_s": 0.1, "lease_s": LONG_LEASE_S, "capacity": 2, **settings}
    program = [sys.executable, "-m", "tests.support.broker_program", kind, url, json.dumps(settings)]
    path = os.pathsep.join([str(_ROOT), str(_ROOT / "examples/broker")])
    process = spawn(program, stdout=sys.__stderr__.fileno(), environment={"PYTHONPATH": path})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def working(url: str, handlers: Mapping[str, Handler], **settings: Any) -> Iterator[Worker]:
    """A worker that runs within the block, in a thread of this process; it may end its tasks."""
    worker = Worker(url, handlers, **{"upkeep_s": 0.02, "poll_s": 0.05, "grace_s": PATIENCE_S, **settings})
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def add_tasks(db: Any, type_name: str, count: int, payload: object = None) -> list[int]:
    return submission.submit_all(db, [Submission(type_name, payload)] * count)


def await_value(db: Any, query: str, value: object) -> None:
    assert await_until(lambda: db.execute(query).fetchone() == (value,), PATIENCE_S), query


def await_ends(db: Any) -> None:
    await_value(db, "SELECT count(*) FROM broker.task", 0)


def effects(db: Any) -> list[int]:
    return [row[0] for row in db.execute("SELECT task FROM effect ORDER BY task").fetchall()]


def open_gate(db: Any) -> None:
    db.execute("INSERT INTO gate VALUES (true)")


def end_leases(db: Any) -> None:
    """Let the leases of all workers there are be over, as if they had not beaten for an hour."""
    db.execute("UPDATE broker.worker SET seen_at = seen_at - INTERVAL '1 hour'")
