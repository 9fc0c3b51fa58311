"""A queue in a table: jobs are put, and each is taken by one worker.

A worker takes the first that nobody else has locked (FOR UPDATE SKIP LOCKED), or looks for jobs that nobody
has and takes one by an UPDATE that says so again; who comes second then changes no row, and looks on.
"""

from __future__ import annotations

from herdpy.drill.checkers import queue
from herdpy.drill.clients import Client
from herdpy.drill.history import DrillHistory
from herdpy.drill.judging import Verdict
from herdpy.drill.sessions import ClientSession
from herdpy.drill.workloads.workload import Numbers, Workload

_SEEN = 4


class Queue(Workload):
    """Every client puts and takes."""

    name = "queue"
    summary = "jobs that are put and taken; each is taken by one client, and none is lost"

    def __init__(self, suffix: str = "", isolation: str = "READ COMMITTED") -> None:
        super().__init__(suffix, isolation)
        self._jobs = Numbers()

    def setup(self, client: Client) -> None:
        """See `Workload.setup`."""
        client.session.execute(
            f"CREATE TABLE {self.table} (job BIGINT PRIMARY KEY, worker INTEGER, is_waiting BOOLEAN NOT NULL)"
        )
        client.session.execute(f"CREATE INDEX ON {self.table} (is_waiting, job)")

    def step(self, client: Client) -> None:
        """A little more is put than taken."""
        if client.random.random() < 0.52:
            job = next(self._jobs)

            def put() -> None:
                client.session.execute(f"INSERT INTO {self.table} VALUES (%s, NULL, true)", job)

            client.attempt("put", [job], put)
        else:
            client.attempt("take", [], lambda: client.transaction(lambda: self._take(client)))

    def finish(self, client: Client) -> None:
        """What is waiting still."""

        def waiting(session: ClientSession) -> list[int]:
            return [
                int(job) for (job,) in session.execute(f"SELECT job FROM {self.table} WHERE is_waiting").rows
            ]

        client.read_now("waiting", [], waiting)

    def judge(self, history: DrillHistory) -> list[Verdict]:
        """See `Workload.judge`."""
        return [queue.check(history)]

    def _take(self, client: Client) -> int | None:
        return self._take_locked(client) if client.random.random() < 0.5 else self._take_seen(client)

    def _take_locked(self, client: Client) -> int | None:
        first = f"SELECT job FROM {self.table} WHERE is_waiting = true ORDER BY job LIMIT 1"
        sql = f"{first} FOR UPDATE SKIP LOCKED"
        for (job,) in client.session.execute(sql).rows:
            client.session.execute(
                f"UPDATE {self.table} SET is_waiting = false, worker = %s WHERE job = %s", client.process, job
            )
            return int(job)
        return None

    def _take_seen(self, client: Client) -> int | None:
        sql = f"SELECT job FROM {self.table} WHERE is_waiting = true ORDER BY job LIMIT {_SEEN}"
        jobs = [int(job) for (job,) in client.session.execute(sql).rows]
        client.random.shuffle(jobs)
        for job in jobs:
            taken = client.session.execute(
                f"UPDATE {self.table} SET is_waiting = false, worker = %s "
                "WHERE job = %s AND is_waiting = true",
                client.process,
                job,
            )
            if taken.count != 0:
                return job
        return None
