"""Procrastinate on PostgreSQL: the application, and its producer.

    procrastinate --app procrastinate_tasks.app worker        python produce.py procrastinate_tasks CLIENTS

The worker is asynchronous, listens for notifications and keeps finished jobs, all of them its defaults; the
producer defers from threads, by the connector that Procrastinate has for synchronous programs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from broker_load import StartNotes, Submit, serve
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

url = os.environ["HERDPY_BENCH_URL"]
app = App(connector=PsycopgConnector(conninfo=url, min_size=4, max_size=8))
_starts = StartNotes()


@app.task(name="work")
async def work(at: float, text: str) -> int:
    """A task that has nothing to do."""
    _starts.note(at)
    return len(text)


def produce(clients: int) -> None:
    """Be the producer."""
    connector = SyncPsycopgConnector(conninfo=url, min_size=clients, max_size=clients)
    with app.replace_connector(connector) as producer, producer.open():
        deferred = producer.tasks["work"]

        def submit(payloads: Sequence[dict[str, object]]) -> None:
            if len(payloads) == 1:
                deferred.defer(**payloads[0])
            else:
                deferred.batch_defer(*payloads)

        def connect() -> Submit:
            return submit

        serve(connect, clients)
