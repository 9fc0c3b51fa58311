"""Sessions that insert the same keys at once: no violation is reported, no insert is lost."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import psycopg
import pytest

from tests.support.server_process import RunningServer

SESSIONS, ROUNDS, KEYS = 4, 40, 5
SEED = 7

COUNT = "INSERT INTO t VALUES (%s, 1) ON CONFLICT (k) DO UPDATE SET n = t.n + excluded.n"
STATEMENTS = {
    "by key": COUNT,
    "by unique index": "INSERT INTO t VALUES (%s, 1, %s) ON CONFLICT (u) DO UPDATE SET n = t.n + 1",
    "in WITH": f"WITH q AS ({COUNT} RETURNING k) SELECT k FROM q",
}


class Counter(threading.Thread):
    """Counts keys, some of them within transactions; ``done`` by key."""

    def __init__(self, server: RunningServer, number: int, statement: str) -> None:
        super().__init__(daemon=True)
        self.random = random.Random(SEED * 100 + number)
        self.connection = server.connect()
        self.statement = statement
        self.done = [0] * KEYS
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            for _ in range(ROUNDS):
                self._one()
        except BaseException as error:  # noqa: BLE001 - the test's thread looks at it
            self.error = error

    def _one(self) -> None:
        keys = sorted(self.random.sample(range(KEYS), self.random.randrange(1, 3)))
        rolled_back = self.random.random() < 0.2
        with self.connection.transaction(force_rollback=rolled_back):
            for key in keys:
                self.connection.execute(self.statement, (key,) * self.statement.count("%s"))
            if self.random.random() < 0.1:
                self.connection.execute("DELETE FROM gone WHERE k = %s", (keys[0],))
        if not rolled_back:
            for key in keys:
                self.done[key] += 1


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> RunningServer:
    running = RunningServer(tmp_path_factory.mktemp("upserts") / "data").ready()
    yield running
    running.close()


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_insert_is_lost(server: RunningServer, name: str) -> None:
    setup = server.connect()
    setup.execute("DROP TABLE IF EXISTS t, gone")
    setup.execute("CREATE TABLE t (k int PRIMARY KEY, n int NOT NULL, u int UNIQUE)")
    setup.execute("CREATE TABLE gone (k int PRIMARY KEY)")
    counters = [Counter(server, number, STATEMENTS[name]) for number in range(SESSIONS)]
    for one in counters:
        one.start()
    for one in counters:
        one.join(60)
        assert not one.is_alive()
        assert one.error is None, one.error
    wanted = {key: sum(one.done[key] for one in counters) for key in range(KEYS)}
    found = dict(setup.execute("SELECT k, n FROM t").fetchall())
    assert found == {key: count for key, count in wanted.items() if count}


def test_an_insert_waits_for_the_other_and_then_meets_it(server: RunningServer) -> None:
    one, other = server.connect(), server.connect()
    one.execute("DROP TABLE IF EXISTS w")
    one.execute("CREATE TABLE w (k int PRIMARY KEY, n int)")
    for end, wanted in (("COMMIT", 11), ("ROLLBACK", 10)):
        one.execute("DELETE FROM w")
        one.execute("BEGIN")
        one.execute("INSERT INTO w VALUES (1, 1)")
        waiting = threading.Thread(
            target=other.execute,
            args=("INSERT INTO w VALUES (1, 10) ON CONFLICT (k) DO UPDATE SET n = w.n + excluded.n",),
        )
        waiting.start()
        while True:
            row = one.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            ).fetchone()
            if row == (1,):
                break
        one.execute(end)
        waiting.join(30)
        assert one.execute("SELECT n FROM w").fetchone() == (wanted,)


def test_do_nothing_beside_an_insert(server: RunningServer) -> None:
    one, other = server.connect(), server.connect()
    one.execute("CREATE TABLE d (k int PRIMARY KEY)")
    one.execute("BEGIN")
    one.execute("INSERT INTO d VALUES (1)")
    other.execute("SET lock_timeout = '50ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        other.execute("INSERT INTO d VALUES (1) ON CONFLICT DO NOTHING")
    one.execute("COMMIT")
    assert other.execute("INSERT INTO d VALUES (1) ON CONFLICT DO NOTHING").rowcount == 0


def test_merge_meets_what_is_there_when_it_writes(server: RunningServer, tmp_path: Path) -> None:
    del tmp_path
    one, other = server.connect(), server.connect()
    one.execute("CREATE TABLE m (k int PRIMARY KEY, n int)")
    one.execute("INSERT INTO m VALUES (1, 1)")
    one.execute("BEGIN")
    one.execute("UPDATE m SET n = 100 WHERE k = 1")
    merge = "MERGE INTO m USING (VALUES (1)) AS v (x) ON k = x WHEN MATCHED THEN UPDATE SET n = n + 1"
    waiting = threading.Thread(target=other.execute, args=(merge,))
    waiting.start()
    while one.execute("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchone() != (
        1,
    ):
        pass
    one.execute("COMMIT")
    waiting.join(30)
    assert one.execute("SELECT n FROM m").fetchone() == (101,)
