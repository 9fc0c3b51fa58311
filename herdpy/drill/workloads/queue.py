"""A queue in a table: jobs are put, and each is taken by one worker.

A worker takes the first that nobody else has locked (FOR UPDATE SKIP LOCKED), or looks for jobs that nobody
has and takes one by an UPDATE that says so again; who comes second then changes no row, and looks on. `check`
judges that each job is taken once, none is lost, and none is taken that was not put.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from herdpy.drill.clients import Client
from herdpy.drill.history import ClientOperation, DrillHistory, HistoryError, Json, OperationOutcome
from herdpy.drill.judging import Anomaly, Verdict
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
        return [check(history)]

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


NAME = "queue"


def check(history: DrillHistory) -> Verdict:
    """Judge "put", "take" and "waiting". Kinds: taken twice, lost job, undone job, unexpected job, job back.

    Of an unknown take nobody knows which job it took: as many jobs as there are of those may be missing. Jobs
    are missing if no take answered with them and a last "waiting", called when all had ended, does not hold
    them.

    Raises: HistoryError: an operation is not as herdpy.drill.history describes it, or a job is put twice.
    """
    puts: dict[str, ClientOperation] = {}
    for operation in history.of("put"):
        job = _job(operation.arguments)
        if job in puts:
            raise HistoryError(f"job {job} is put twice")
        puts[job] = operation
    takes = history.of("take").operations
    taken: dict[str, list[ClientOperation]] = {}
    for operation in takes:
        if operation.outcome is OperationOutcome.DONE and operation.result is not None:
            taken.setdefault(json.dumps(operation.result, sort_keys=True), []).append(operation)
    anomalies = list(_wrongly_taken(puts, taken))
    unknown = [
        each
        for each in takes
        if each.outcome is OperationOutcome.UNKNOWN and each.final is not OperationOutcome.NOT_DONE
    ]
    last = _last_look(history)
    if last is not None:
        anomalies.extend(_at_the_end(puts, taken, unknown, last))
    looked = "" if last is not None else " (the remaining jobs were not read)"
    return Verdict.of(NAME, anomalies, f"{len(puts)} jobs put, {len(taken)} taken{looked}")


def _wrongly_taken(
    puts: dict[str, ClientOperation], taken: dict[str, list[ClientOperation]]
) -> Iterator[Anomaly]:
    for job, takes in taken.items():
        put, first = puts.get(job), takes[0]
        if len(takes) > 1:
            who = " and ".join(f"process {each.process}" for each in takes)
            yield Anomaly("taken twice", f"job {job} was taken by {who}", [*([put] if put else []), *takes])
        if put is None or put.called_s > first.returned_s:
            text = f"process {first.process} took job {job}, which no operation had put by then"
            yield Anomaly("unexpected job", text, [first] if put is None else [first, put])
        elif put.final is OperationOutcome.NOT_DONE:
            text = f"process {first.process} took job {job}, which was reported as not put"
            yield Anomaly("undone job", text, [put, first])


def _at_the_end(
    puts: dict[str, ClientOperation],
    taken: dict[str, list[ClientOperation]],
    unknown: list[ClientOperation],
    last: ClientOperation,
) -> Iterator[Anomaly]:
    if not isinstance(last.result, list):
        raise HistoryError(f"waiting jobs are a list, not {last.result!r}")
    left = {json.dumps(each, sort_keys=True) for each in last.result}
    for job in sorted(left):
        put = puts.get(job)
        if put is None:
            yield Anomaly("unexpected job", f"job {job} waits, which no operation put", [last])
        elif put.final is OperationOutcome.NOT_DONE:
            text = f"job {job} waits, which was reported as not put"
            yield Anomaly("undone job", text, [put, last])
        if job in taken:
            text = f"job {job} waits, though process {taken[job][0].process} took it"
            yield Anomaly("job back", text, [*([put] if put else []), *taken[job], last])
    missing = [
        (job, put)
        for job, put in puts.items()
        if put.final is OperationOutcome.DONE and job not in taken and job not in left
    ]
    if len(missing) > len(unknown):
        for job, put in missing:
            text = f"job {job} was put, was not taken, and does not wait"
            if unknown:
                text += f" ({len(unknown)} of {len(missing)} such jobs may be gone by unknown takes)"
            yield Anomaly("lost job", text, [put, *unknown, last])


def _last_look(history: DrillHistory) -> ClientOperation | None:
    """The last "waiting" that was called when everything else had ended, or been given up."""
    end_s = max((each.returned_s for each in history.of("put", "take")), default=float("-inf"))
    looks = [
        each
        for each in history.of("waiting")
        if each.outcome is OperationOutcome.DONE and each.sees_from_s > end_s
    ]
    return max(looks, key=lambda each: each.called_s, default=None)


def _job(arguments: Json) -> str:
    if not isinstance(arguments, list) or len(arguments) != 1:
        raise HistoryError(f"put has one argument, not {arguments!r}")
    return json.dumps(arguments[0], sort_keys=True)
