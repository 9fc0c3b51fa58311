"""Threads for real: transfers, races for a key, readers, definitions, dying sessions, closing."""

from __future__ import annotations

import gc
import random
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

import herdpy
from herdpy.dbapi import link
from herdpy.log.wait import Work
from herdpy_server.embedded import Database, opened
from herdpy_server.sessions.session import Session
from herdpy_server.tablespace import LockWait
from herdpy_sql.errors import SqlError

ACCOUNTS = 8
BALANCE = 1000
RETRIED = {"40P01", "40001"}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with opened(tmp_path / "db", checkpoint_interval_s=0.02, checkpoint_rows=500) as made:
        yield made
        made.checkpoint()
        assert list(made.store.check()) == []
        assert len(made.tablespace.locks) == 0


def sql(database: Database, text: str, *values: object) -> list[tuple[object, ...]]:
    return database.run(database.session().execute(text, values)).rows


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread is about to do."""
    pause = threading.Event()
    for _ in range(20_000):
        if condition():
            return
        pause.wait(0.001)
    raise AssertionError("it never happened")


def waiting(session) -> bool:
    return session.waits.kind == "Lock"


class Runner(threading.Thread):
    """Runs a call in a thread and keeps what came of it."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.call = call
        self.result: object = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self.call()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error

    def end(self) -> object:
        self.join(60)
        assert not self.is_alive(), "the thread hangs"
        if self.error is not None:
            raise self.error
        return self.result


def make_accounts(database: Database) -> None:
    sql(database, "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, moves INTEGER)")
    rows = [(i, BALANCE, 0) for i in range(ACCOUNTS)]
    database.run(database.session().execute_many("INSERT INTO account VALUES ($1, $2, $3)", rows))


def transfer(database: Database, session, rng: random.Random) -> None:
    source, target = rng.sample(range(ACCOUNTS), 2)
    while True:
        try:
            database.run(session.execute("BEGIN"))
            for account, change in ((source, -7), (target, 7)):
                database.run(
                    session.execute(
                        "UPDATE account SET balance = balance + $2, moves = moves + 1 WHERE id = $1",
                        (account, change),
                    )
                )
            database.run(session.execute("COMMIT"))
        except SqlError as error:
            database.run(session.rollback())
            if error.sqlstate not in RETRIED:
                raise
        else:
            return


def test_sixteen_threads_move_money_and_none_of_it_is_lost(database: Database) -> None:
    make_accounts(database)
    done = threading.Event()
    each = 25

    def work(seed: int) -> None:
        session, rng = database.session(), random.Random(seed)
        for _ in range(each):
            transfer(database, session, rng)

    def look(text: str) -> int:
        session, looks = database.session(), 0
        while not done.is_set() or not looks:
            rows = database.run(session.execute(text)).rows
            assert sum(row[0] for row in rows) == ACCOUNTS * BALANCE, "half a transaction was seen"
            assert sum(row[1] for row in rows) % 2 == 0
            looks += 1
        return looks

    readers = [
        Runner(lambda text=text: look(text))
        for text in (
            "SELECT balance, moves FROM account WHERE id >= 0",  # own plan
            "SELECT sum(balance), sum(moves) FROM account",  # DuckDB
        )
    ]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    done.set()
    for reader in readers:
        assert reader.end()
    assert sql(database, "SELECT sum(balance), sum(moves) FROM account") == [
        (ACCOUNTS * BALANCE, 16 * each * 2)
    ]


def test_of_those_who_want_one_key_exactly_one_gets_it(database: Database) -> None:
    sql(database, "CREATE TABLE u (id INTEGER PRIMARY KEY, a INTEGER UNIQUE)")
    start = threading.Barrier(8)

    def race(nth: int) -> list[int]:
        session, won = database.session(), []
        for number in range(20):
            start.wait()
            try:
                if nth % 2:
                    database.run(
                        session.execute("INSERT INTO u VALUES ($1, $2)", (number * 100 + nth, number))
                    )
                else:
                    data = pa.record_batch(
                        {
                            "id": pa.array([number * 100 + nth], pa.int32()),
                            "a": pa.array([number], pa.int32()),
                        }
                    )
                    database.run(session.ingest("u", [data], data.schema, "append"))
                won.append(number)
            except SqlError as error:
                if error.sqlstate != "23505":
                    raise
        return won

    with ThreadPoolExecutor(8) as pool:
        winners = [number for won in pool.map(race, range(8)) for number in won]
    assert sorted(winners) == list(range(20))
    assert sql(database, "SELECT count(*), count(DISTINCT a) FROM u") == [(20, 20)]


def test_a_deadlock_is_told_to_one_and_the_other_goes_on(database: Database) -> None:
    make_accounts(database)
    a, b = database.session(), database.session()
    update = "UPDATE account SET moves = moves + 1 WHERE id = $1"
    for session, account in ((a, 0), (b, 1)):
        database.run(session.execute("BEGIN"))
        database.run(session.execute(update, (account,)))
    waiter = Runner(lambda: database.run(a.execute(update, (1,))))
    until(lambda: waiting(a))
    with pytest.raises(SqlError) as caught:  # at once: it draws the edge that closes the cycle
        database.run(b.execute(update, (0,)))
    assert caught.value.sqlstate == "40P01"
    assert caught.value.retryable
    database.run(b.rollback())
    waiter.end()
    database.run(a.commit())
    assert sql(database, "SELECT id, moves FROM account WHERE id <= 1 ORDER BY id") == [(0, 1), (1, 1)]


@pytest.fixture
def held(database: Database) -> Iterator[tuple[Session, Session]]:
    """A session that holds the row of account 0, and one that wants it."""
    make_accounts(database)
    holder, other = database.session(), database.session()
    database.run(holder.execute("BEGIN"))
    database.run(holder.execute("UPDATE account SET balance = balance - 1 WHERE id = 0"))
    yield holder, other
    database.run(other.rollback())
    database.run(holder.rollback())


WANTS = "UPDATE account SET balance = balance + 1 WHERE id = 0"


@pytest.mark.parametrize("explicit", [False, True])
def test_lock_timeout(database: Database, held, explicit: bool) -> None:
    holder, other = held
    database.run(other.execute("SET lock_timeout = '10ms'"))
    if explicit:
        database.run(other.execute("BEGIN"))
    with pytest.raises(SqlError) as caught:
        database.run(other.execute(WANTS))
    assert caught.value.sqlstate == "55P03"
    assert other.status == ("failed" if explicit else "idle")
    database.run(other.rollback())
    database.run(holder.commit())
    database.run(other.execute(WANTS))


def test_a_waiting_statement_is_cancelled(database: Database, held) -> None:
    holder, other = held
    waiter = Runner(lambda: database.run(other.execute(WANTS)))
    until(lambda: waiting(other))
    other.cancel()
    with pytest.raises(SqlError) as caught:
        waiter.end()
    assert caught.value.sqlstate == "57014"
    database.run(holder.rollback())
    database.run(other.execute(WANTS))
    assert sql(database, "SELECT balance FROM account WHERE id = 0") == [(BALANCE + 1,)]


@pytest.mark.parametrize("explicit", [False, True])
def test_an_interrupt_during_a_wait_leaves_the_session_usable(
    database: Database, held, explicit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, other = held
    if explicit:
        database.run(other.execute("BEGIN"))
        database.run(other.execute("UPDATE account SET moves = 5 WHERE id = 3"))

    def interrupted(self, timeout_s=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(LockWait, "block", interrupted)
    with pytest.raises(KeyboardInterrupt):
        database.run(other.execute(WANTS))
    monkeypatch.undo()
    assert other.status == ("failed" if explicit else "idle")
    database.run(other.rollback())
    database.run(holder.commit())
    database.run(other.execute(WANTS))
    assert (
        sql(database, "SELECT balance, moves FROM account WHERE id IN (0, 3) ORDER BY id")
        == [(BALANCE, 0)] * 2
    )


def test_an_interrupted_commit_is_still_made_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from herdpy.log.group_commit import QueuedAppend

    def interrupted(self, timeout_s=None):
        raise KeyboardInterrupt

    with opened(tmp_path / "db") as database:
        session = database.session()
        sql(database, "CREATE TABLE t (a INTEGER PRIMARY KEY)")
        monkeypatch.setattr(QueuedAppend, "block", interrupted)
        with pytest.raises(KeyboardInterrupt):
            database.run(session.execute("INSERT INTO t VALUES (1)"))
        monkeypatch.undo()
        # Nobody waits for it; whoever reads it sees to it that it is durable first.
        before = database.log.lac
        assert sql(database, "SELECT a FROM t WHERE a = 1") == [(1,)]
        assert database.log.lac > before
        monkeypatch.setattr(QueuedAppend, "block", interrupted)
        with pytest.raises(KeyboardInterrupt):
            database.run(session.execute("INSERT INTO t VALUES (2)"))
        monkeypatch.undo()
    with opened(tmp_path / "db") as database:
        assert sql(database, "SELECT a FROM t ORDER BY a") == [(1,), (2,)]


def test_definitions_against_eight_writers(database: Database) -> None:
    sql(database, "CREATE TABLE w (id INTEGER PRIMARY KEY, a INTEGER, b TEXT)")
    sql(database, "CREATE TABLE gone (id INTEGER PRIMARY KEY, a INTEGER UNIQUE)")
    done = threading.Event()

    def write(nth: int) -> int:
        session, rng, kept = database.session(), random.Random(nth), 0
        while not done.is_set():
            number = rng.randrange(10**8) * 8 + nth
            for text in ("INSERT INTO w VALUES ($1, $1, 'w')", "INSERT INTO gone VALUES ($1, $1)"):
                try:
                    database.run(session.execute(text, (number,)))
                    kept += "INTO w" in text
                except SqlError as error:
                    if error.sqlstate not in {"42P01", "40001", "40P01"}:
                        raise
        return kept

    writers = [Runner(lambda nth=nth: write(nth)) for nth in range(8)]
    definer = database.session()
    try:
        for turn in range(6):
            for text in (
                f"CREATE INDEX w_{turn} ON w (b, a)",
                "TRUNCATE gone",
                f"CREATE UNIQUE INDEX g_{turn} ON gone (a, id)",
                "DROP TABLE gone",
                "CREATE TABLE gone (id INTEGER PRIMARY KEY, a INTEGER UNIQUE)",
                f"DROP INDEX w_{turn}" if turn % 2 else "CHECKPOINT",
            ):
                database.run(definer.execute(text))
    finally:
        done.set()
    kept = sum(writer.end() for writer in writers)
    assert sql(database, "SELECT count(*) FROM w") == [(kept,)]
    database.checkpoint()
    assert list(database.store.check()) == []  # every index complete, no entry without its row


def test_rows_that_others_keep_changing_are_locked_in_the_end(database: Database) -> None:
    """An UPDATE whose rows DuckDB chose runs again when they changed, and takes the table's lock at last."""
    make_accounts(database)
    session = database.session()
    statement = session.execute(
        "UPDATE account SET balance = balance * 2 WHERE balance >= (SELECT max(balance) FROM account)"
    )
    works = 0

    def resume() -> bool:
        nonlocal works
        try:
            wait = statement.send(None)
        except StopIteration:
            return False
        wait.block()
        works += isinstance(wait, Work)
        return True

    while resume():
        if works in (1, 3, 5):  # each time the columns are read (one work), and DuckDB chooses rows (another)
            sql(database, "UPDATE account SET balance = balance + 1 WHERE id = 0")
    assert works == 8  # the fourth time nobody could come between
    assert sql(database, "SELECT balance FROM account WHERE id <= 1 ORDER BY id") == [
        ((BALANCE + 3) * 2,),
        (BALANCE,),
    ]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("end", ["closed", "collected", "thread"])
def test_a_connection_that_dies_gives_its_locks_back(tmp_path: Path, end: str) -> None:
    url = f"herdpy://{tmp_path}/db"
    with herdpy.connect(url, autocommit=True) as keeper:
        keeper.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, n INTEGER)")
        keeper.execute("INSERT INTO t VALUES (1, 0)")
        database = keeper.shared_link.link.database

        def die() -> None:
            connection = herdpy.connect(url)
            connection.execute("UPDATE t SET n = n + 1 WHERE a = 1")
            assert len(database.tablespace.locks)
            if end == "closed":
                connection.close()

        if end == "thread":
            Runner(die).end()
        else:
            die()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()
        link.settle()
        assert len(database.tablespace.locks) == 0
        keeper.execute("UPDATE t SET n = n + 10 WHERE a = 1")
        assert keeper.execute("SELECT n FROM t WHERE a = 1").fetchone() == (10,)


def test_closing_tells_those_who_work_and_loses_nothing(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "db", checkpoint_interval_s=0.01)
    sql(database, "CREATE TABLE t (a BIGINT PRIMARY KEY, n INTEGER)")
    sql(database, "INSERT INTO t VALUES (-1, 0)")
    holder, other = database.session(), database.session()
    database.run(holder.execute("BEGIN"))
    database.run(holder.execute("UPDATE t SET n = 1 WHERE a = -1"))
    waiter = Runner(lambda: database.run(other.execute("UPDATE t SET n = 2 WHERE a = -1")))
    acknowledged: list[int] = []

    def write(nth: int) -> None:
        session = database.session()
        for number in range(10**6):
            database.run(session.execute("INSERT INTO t VALUES ($1, 0)", (number * 8 + nth,)))
            acknowledged.append(number * 8 + nth)

    def query() -> None:
        session = database.session()
        while True:
            database.run(session.execute("SELECT sum(a.n) FROM t a JOIN t b ON a.n = b.n WHERE a.a > 5"))

    workers = [Runner(lambda nth=nth: write(nth)) for nth in range(6)] + [Runner(query)]
    until(lambda: waiting(other) and len(acknowledged) > 50)
    database.close()
    database.close()
    for thread in (waiter, *workers):
        with pytest.raises(SqlError) as caught:
            thread.end()
        assert caught.value.sqlstate in {"57P01", "57P03", "57014", "08003"}, caught.value
    with pytest.raises(SqlError) as caught:
        database.session()
    assert caught.value.sqlstate == "57P03"
    with opened(tmp_path / "db") as again:
        found = {row[0] for row in sql(again, "SELECT a FROM t WHERE a >= 0")}
        assert found >= set(acknowledged)
        assert sql(again, "SELECT n FROM t WHERE a = -1") == [(0,)]
        assert list(again.store.check()) == []


CHILD = """
import sys, threading, herdpy
one = herdpy.connect(sys.argv[1], autocommit=True)
one.execute("CREATE TABLE IF NOT EXISTS t (a INTEGER PRIMARY KEY)")
one.execute("INSERT INTO t SELECT coalesce(max(a), 0) + 1 FROM t")
two = herdpy.connect(sys.argv[1])
two.execute("INSERT INTO t VALUES (1000)")
two.execute("UPDATE t SET a = -1 WHERE a = 1")
held = threading.Event()
def wait():
    three = herdpy.connect(sys.argv[1], autocommit=True)
    held.set()
    try:
        three.execute("UPDATE t SET a = a WHERE a = 1")
    except herdpy.Error:
        pass
threading.Thread(target=wait, daemon=True).start()
held.wait()
print("ready", flush=True)
if sys.argv[2] == "wait":
    threading.Event().wait()
"""


@pytest.mark.parametrize("how", ["exit", "wait"])
def test_a_process_may_end_with_open_connections(tmp_path: Path, how: str) -> None:
    """At its own end, or told to by TERM, which ends it where it stands."""
    url = f"herdpy://{tmp_path}/db"
    for turn in (1, 2):
        child = subprocess.Popen([sys.executable, "-c", CHILD, url, how], stdout=subprocess.PIPE)
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        if how == "wait":
            child.send_signal(signal.SIGTERM)
        child.stdout.close()
        assert child.wait(60) == (0 if how == "exit" else -signal.SIGTERM)
        with opened(tmp_path / "db") as database:
            assert sql(database, "SELECT a FROM t ORDER BY a") == [(i,) for i in range(1, turn + 1)]
            assert list(database.store.check()) == []
