"""The programs of herdpy_broker in the broker's benchmark: the producer, and a worker.

    python broker_herdpy.py produce URL CLIENTS        python broker_herdpy.py work URL

Both take and give what the peers' programs do (``broker_load``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from broker_load import StartNotes, Submit, serve
from herdpy_broker.handlers import plain
from herdpy_broker.submission import Submission, submit, submit_all
from herdpy_broker.worker import Worker

import herdpy

CAPACITY = 64
"""Tasks that a worker holds at a time, as Celery's worker has for each of its processes."""


def produce(url: str, clients: int) -> None:
    """Submit what standard input asks for."""

    def client() -> Submit:
        connection = herdpy.connect(url, autocommit=True)

        def submit_payloads(payloads: Sequence[dict[str, object]]) -> None:
            if len(payloads) == 1:
                submit(connection, Submission("work", payloads[0]))
            else:
                submit_all(connection, [Submission("work", one) for one in payloads])

        return submit_payloads

    serve(client, clients)


def work(url: str) -> None:
    """Work until SIGTERM."""
    starts = StartNotes()

    def note(payload: dict[str, object]) -> int:
        """A task that has nothing to do."""
        starts.note(float(str(payload["at"])))
        return len(str(payload["text"]))

    Worker(url, {"work": plain(note)}, capacity=CAPACITY).run()


if __name__ == "__main__":
    if sys.argv[1] == "produce":
        produce(sys.argv[2], int(sys.argv[3]))
    else:
        work(sys.argv[2])
