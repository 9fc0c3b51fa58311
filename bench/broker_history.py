"""Rows that the broker's benchmark puts into a system's tables at once: finished tasks, and ready ones.

HerdPy gets them as Arrow, PostgreSQL by INSERT ... SELECT.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from broker_load import FILLER
from broker_systems import System

_BATCH = 500_000
_CLAIMS = 200
_READY = 1_000
"""Tasks that are ready where a claim is timed alone."""
_PEER_JOBS = """
    INSERT INTO procrastinate_jobs (queue_name, task_name, args, status, attempts)
    SELECT 'default', 'work', jsonb_build_object('at', 0.0, 'text', %s::text), %s, %s
    FROM generate_series(1, %s)
"""
_PEER_EVENTS = """
    INSERT INTO procrastinate_events (job_id, type)
    SELECT id, kind::procrastinate_job_event_type
    FROM procrastinate_jobs AS job, unnest(ARRAY['deferred', 'started', 'succeeded']) kind
    WHERE status = 'succeeded' AND NOT EXISTS (SELECT FROM procrastinate_events WHERE job_id = job.id)
"""
"""A job that has gone through its states leaves these: its triggers write them."""


def fill_history(connection: Any, system: System, count: int) -> None:
    """Put in so many tasks that were finished, a second apart, up to an hour ago."""
    if not system.is_ours:
        connection.execute("ALTER TABLE procrastinate_jobs DISABLE TRIGGER USER")
        connection.execute(_PEER_JOBS, (FILLER, "succeeded", 1, count))
        connection.execute("ALTER TABLE procrastinate_jobs ENABLE TRIGGER USER")
        connection.execute(_PEER_EVENTS)
        connection.execute("ANALYZE")
        return
    first = _reserve(connection, count)
    last_s = int(time.time()) - 3600
    with connection.cursor() as cursor:
        for at in range(0, count, _BATCH):
            ids = np.arange(at, min(at + _BATCH, count), dtype=np.int64)
            finished = _instants((last_s - count + ids) * 1_000_000)
            rows = {
                "id": first + ids,
                "type": _same("work", len(ids)),
                "group_name": _same("default", len(ids)),
                "outcome": _same("done", len(ids)),
                "attempts": np.ones(len(ids), dtype=np.int32),
                "worker": np.ones(len(ids), dtype=np.int64),
                "submitted_at": finished,
                "started_at": finished,
                "finished_at": finished,
                "result": _same(str(len(FILLER)), len(ids)),
            }
            cursor.adbc_ingest("finished", pa.table(rows), "append", db_schema_name="broker")


def fill_backlog(connection: Any, system: System, count: int) -> None:
    """Put in so many tasks that are ready."""
    if not system.is_ours:
        connection.execute(_PEER_JOBS, (FILLER, "todo", 0, count))
        connection.execute("ANALYZE")
        return
    first = _reserve(connection, count)
    ids = np.arange(first, first + count, dtype=np.int64)
    now = _instants(np.full(count, int(time.time()) * 1_000_000, dtype=np.int64))
    rows = {
        "id": ids,
        "type": _same("work", count),
        "group_name": _same("default", count),
        "priority": np.zeros(count, dtype=np.int32),
        "state": _same("ready", count),
        "ready_at": now,
        "max_attempts": np.ones(count, dtype=np.int32),
        "submitted_at": now,
        "payload": _same(f'{{"at": 0.0, "text": "{FILLER}"}}', count),
    }
    with connection.cursor() as cursor:
        cursor.adbc_ingest("task", pa.table(rows), "append", db_schema_name="broker")


def time_claims(connection: Any, system: System) -> float:
    """The median of a claim of one task, in milliseconds. Some tasks are made ready for it."""
    fill_backlog(connection, system, _READY)
    if system.is_ours:
        from herdpy_broker.claim import claim
        from herdpy_broker.workers import leave, register

        worker = register(connection, "bench", 1, 3600.0)
        taken = median(_timed_ms(lambda: claim(connection, worker, "default", 1)) for _ in range(_CLAIMS))
        leave(connection, worker)
        return taken
    worker = connection.execute("INSERT INTO procrastinate_workers DEFAULT VALUES RETURNING id").fetchone()[0]
    fetch = "SELECT * FROM procrastinate_fetch_job_v2(NULL::varchar[], %s)"
    return median(_timed_ms(lambda: connection.execute(fetch, (worker,)).fetchone()) for _ in range(_CLAIMS))


def _timed_ms(claim: Any) -> float:
    began = time.perf_counter()
    if not claim():
        raise SystemExit("a claim found no task")
    return (time.perf_counter() - began) * 1e3


def _reserve(connection: Any, count: int) -> int:
    """The first of so many ids of tasks that no other task gets."""
    sequence = "pg_get_serial_sequence('broker.task', 'id')"
    first = int(connection.execute(f"SELECT nextval({sequence})").fetchone()[0])
    connection.execute(f"SELECT setval({sequence}, %s)", (first + count,))
    return first


def _same(value: str, count: int) -> pa.DictionaryArray:
    """A column of one text."""
    return pa.DictionaryArray.from_arrays(np.zeros(count, dtype=np.int32), [value])


def _instants(microseconds: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array(microseconds, pa.timestamp("us", "UTC"))
