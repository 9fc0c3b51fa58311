"""Many workers on a server at once: each task is done once, or dead with its reason."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest
from herdpy_broker import claim, finish, groups, reading, types, workers
from herdpy_broker.claim import ClaimedTask
from herdpy_broker.errors import TaskLostError
from herdpy_broker.reading import counts
from herdpy_broker.submission import Submission, submit_all
from herdpy_broker.transactions import Connection

import herdpy

TASKS, THREADS, MOST_AT_ONCE = 120, 8, 12
HOUR_S = 3600.0


@pytest.fixture
def effects(server_db: Connection) -> Iterator[None]:
    """A table that workers write to."""
    server_db.execute("CREATE TABLE effect (task BIGINT NOT NULL, worker BIGINT NOT NULL)")
    yield
    server_db.execute("DROP TABLE effect")


class Worker(threading.Thread):
    """Finishes, fails and abandons tasks as its random numbers say, until none lives.

    Attributes:
        error: what ended it before.
    """

    def __init__(self, url: str, seed: int) -> None:
        super().__init__()
        self.url = url
        self.random = random.Random(seed)
        self.error: BaseException | None = None
        self.late: list[tuple[int, int]] = []  # (worker, task) that were abandoned

    def run(self) -> None:
        try:
            with herdpy.connect(self.url, autocommit=True) as connection:
                self.work(connection)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.error = error

    def work(self, connection: Connection) -> None:
        me = self.register(connection)
        while True:
            group = self.random.choice("ab")
            tasks = claim.claim(connection, me, group, self.random.randint(1, 4))
            if not tasks and all(count.state == "dead" for count in counts(connection)):
                return
            if tasks and self.random.random() < 0.15:
                connection.execute(
                    "UPDATE broker.worker SET seen_at = now() - INTERVAL '2 hours' WHERE id = $1", (me,)
                )
                self.late += [(me, task.id) for task in tasks]
                me = self.register(connection)
            else:
                self.end(connection, me, tasks)
            if self.late and self.random.random() < 0.5:
                self.done(connection, *self.late.pop(0))
            workers.reap(connection)

    def register(self, connection: Connection) -> int:
        return workers.register(connection, self.name, MOST_AT_ONCE, HOUR_S)

    def end(self, connection: Connection, me: int, tasks: list[ClaimedTask]) -> None:
        for task in tasks:
            if self.random.random() < 0.2:
                finish.fail(connection, me, task.id, "it broke")
            else:
                assert self.done(connection, me, task.id)

    def done(self, connection: Connection, me: int, task: int) -> bool:
        """Finish a task with its effect, unless it is lost."""

        def work(within: Connection) -> None:
            within.execute("INSERT INTO effect VALUES ($1, $2)", (task, me))
            finish.finish(within, me, [(task, me)])

        try:
            herdpy.run_transaction(connection, work)
        except TaskLostError:
            return False
        return True


@pytest.mark.usefixtures("effects")
def test_each_task_is_done_once_or_dead_with_its_reason(server_url: str) -> None:
    with herdpy.connect(server_url, autocommit=True) as connection:
        types.define(connection, "t", max_attempts=3, backoff_s=0)
        groups.set_group(connection, "b", max_running=5)
        ids = submit_all(
            connection,
            [
                Submission(
                    "t",
                    group="ab"[n % 2],
                    priority=n % 3,
                    slot=f"s{n % 40}" if n % 5 == 0 else None,
                    waits_for_slot=n % 5 == 0,
                )
                for n in range(TASKS)
            ],
        )
        pairs = list(zip(ids[::8], ids[1::8], strict=True))
        dependents = submit_all(connection, [Submission("t", group="a", after=pair) for pair in pairs])
        fleet = [Worker(server_url, seed) for seed in range(THREADS)]
        for worker in fleet:
            worker.start()
        for worker in fleet:
            worker.join()
        for worker in fleet:
            if worker.error is not None:
                raise worker.error
        done = {row[0] for row in connection.execute("SELECT id FROM broker.finished WHERE outcome = 'done'")}
        dead = dict(connection.execute("SELECT id, reason FROM broker.dead").fetchall())
        effects = [row[0] for row in connection.execute("SELECT task FROM effect")]
        assert sorted(effects) == sorted(done)
        assert done | dead.keys() == set(ids) | set(dependents)
        assert not done & dead.keys()
        assert set(dead.values()) <= {"failed", "worker died", "dependency"}
        assert connection.execute("SELECT count(*) FROM broker.task").fetchone() == (0,)
        for pair, dependent in zip(pairs, dependents, strict=True):
            assert (dependent in done) <= ({*pair} <= done)


def test_a_frozen_claim_does_not_keep_others_from_a_limited_group(
    server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that claims and then idles stands for a process that is stopped in the middle of it."""
    monkeypatch.setattr(claim, "_IDLES_AT_MOST", claim._IDLES_AT_MOST.replace("10000", "100"))
    with (
        herdpy.connect(server_url, autocommit=True) as frozen,
        herdpy.connect(server_url, autocommit=True) as other,
    ):
        types.define(other, "limited")
        groups.set_group(other, "limited", max_running=3)
        submit_all(other, [Submission("limited", group="limited") for _ in range(6)])
        mine, others = (workers.register(one, "w", 9, HOUR_S) for one in (frozen, other))
        frozen.execute("BEGIN")
        assert len(claim.claim(frozen, mine, "limited", 2)) == 2
        assert len(claim.claim(other, others, "limited", 9)) == 3  # the frozen claim was rolled back
        with pytest.raises(herdpy.Error) as ended:
            frozen.execute("COMMIT")
        assert ended.value.outcome == "not done"


def test_payloads_and_results_of_a_batch_pass_over_the_wire(server_db):
    values = [{"a": [1, 'say "so" \\ \n é \U0001f600', None]}, "text", 7, None, [], {}, "{}", "null", "1"]
    types.define(server_db, "wire")
    worker = workers.register(server_db, "wire", 10, HOUR_S)
    ids = submit_all(server_db, [Submission("wire", one, group="wire") for one in values])
    taken = claim.claim(server_db, worker, "wire", 10)
    assert [task.payload for task in taken] == values
    finish.finish(server_db, worker, [(task.id, task.payload) for task in taken])
    assert [reading.task(server_db, one).result for one in ids] == values
