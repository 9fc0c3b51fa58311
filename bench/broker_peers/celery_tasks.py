"""Celery on Redis, as its guide of optimizing says for many short tasks: the application, and its producer.

    celery -A celery_tasks worker        python produce.py celery_tasks CLIENTS

A task is acknowledged when it is done (``task_acks_late``), so one of a worker that dies comes back, as the
broker's do; a worker takes 64 tasks in advance for each of its processes. Results stay in Redis.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from broker_load import StartNotes, Submit, serve
from celery import Celery

url = os.environ["HERDPY_BENCH_URL"]
app = Celery("tasks", broker=url, backend=url)
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=64,
    broker_connection_retry_on_startup=True,
)
_starts = StartNotes()


@app.task(name="work")
def work(at: float, text: str) -> int:
    """A task that has nothing to do."""
    _starts.note(at)
    return len(text)


def produce(clients: int) -> None:
    """Be the producer, whose clients take connections of the application's pool, as ``delay`` does."""

    def submit(payloads: Sequence[dict[str, object]]) -> None:
        for one in payloads:
            work.apply_async(kwargs=one)

    def connect() -> Submit:
        return submit

    serve(connect, clients)
