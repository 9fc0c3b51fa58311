"""A server killed while pgbench moves money: what was acknowledged is there, and of nothing only a half.

Beside pgbench a few writers run the same transaction with names of their own in the history, and keep a
book of what they asked for and what was acknowledged to them.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.server.postgres_tools import SUMS, environment, pgbench, program
from tests.support.server_process import RunningServer

ROUNDS = 3
WRITERS = 2
ACKNOWLEDGED_BEFORE_KILL = 150
"""How many transactions of the writers are acknowledged before the server is killed."""


class Book:
    """What the writers know: shared by them, changed under a lock."""

    def __init__(self) -> None:
        self.acknowledged: set[str] = set()
        self.asked: set[str] = set()
        self.enough = threading.Event()
        self._goal = 0
        self._lock = threading.Lock()

    def begin_round(self) -> None:
        """``enough`` is set when so many more are acknowledged."""
        self.enough.clear()
        self._goal = len(self.acknowledged) + ACKNOWLEDGED_BEFORE_KILL

    def ask(self, name: str) -> None:
        """A transaction with this name is about to be sent."""
        with self._lock:
            self.asked.add(name)

    def acknowledge(self, name: str) -> None:
        """Its COMMIT was answered."""
        with self._lock:
            self.acknowledged.add(name)
            if len(self.acknowledged) >= self._goal:
                self.enough.set()


class Writer(threading.Thread):
    """TPC-B's transaction again and again, until the server is gone."""

    def __init__(self, number: int, turn: int, port: int, book: Book) -> None:
        super().__init__(daemon=True)
        self.error: BaseException | None = None
        self._prefix = f"w{turn}.{number}."
        self._number = number
        self._book = book
        self._connection = psycopg.connect(
            host="127.0.0.1", port=port, user="herdpy", dbname="test", autocommit=True
        )

    def run(self) -> None:
        try:
            self._write()
        except psycopg.OperationalError:
            pass  # the server was killed: what this thread is here for
        except BaseException as error:  # noqa: BLE001 - the test's thread tells it
            self.error = error
        finally:
            self._connection.close()

    def _write(self) -> None:
        count = 0
        while True:
            count += 1
            name = f"{self._prefix}{count}"
            account, teller, delta = count * 7 % 100_000 + 1, count % 10 + 1, count % 19 - 9
            self._book.ask(name)
            with self._connection.transaction():
                run = self._connection.execute
                run("UPDATE pgbench_accounts SET abalance = abalance + %s WHERE aid = %s", (delta, account))
                run("UPDATE pgbench_tellers SET tbalance = tbalance + %s WHERE tid = %s", (delta, teller))
                run("UPDATE pgbench_branches SET bbalance = bbalance + %s WHERE bid = 1", (delta,))
                run(
                    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime, filler) "
                    "VALUES (%s, 1, %s, %s, CURRENT_TIMESTAMP, %s)",
                    (teller, account, delta, name),
                )
            self._book.acknowledge(name)


@contextmanager
def pgbench_running(port: int, mode: str) -> Iterator[subprocess.Popen[bytes]]:
    """TPC-B by pgbench until the server is gone (or for ten minutes, which no test lasts)."""
    running = subprocess.Popen(
        [program("pgbench"), "-n", "-c", "3", "-T", "600", "-M", mode],
        env=environment(port),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield running
    finally:
        if running.poll() is None:
            running.kill()
        running.wait()


def wait_for_pgbench(server: RunningServer, bench: subprocess.Popen[bytes], before: int) -> int:
    """How many of pgbench's transactions are seen, once they are more than ``before``."""
    with server.connect() as connection:
        while True:
            assert bench.poll() is None, "pgbench ended by itself"
            row = connection.execute("SELECT count(*) FROM pgbench_history WHERE filler IS NULL").fetchone()
            assert row is not None
            if row[0] > before:
                return int(row[0])


def check(server: RunningServer, book: Book) -> int:
    """See that the sums agree and the writers' book is kept; the number of pgbench's transactions."""
    with server.connect() as connection:
        sums = connection.execute(SUMS).fetchone()
        names = [
            name
            for (name,) in connection.execute(
                "SELECT rtrim(filler) FROM pgbench_history WHERE filler LIKE 'w%'"
            )
        ]
    assert sums is not None
    accounts, tellers, branches, history, rows = sums
    assert accounts == tellers == branches == history
    assert len(names) == len(set(names)), "a transaction happened twice"
    assert book.acknowledged - set(names) == set(), "an acknowledged transaction is lost"
    assert set(names) <= book.asked
    return int(rows) - len(names)


def test_a_kill_loses_nothing(start: Callable[..., RunningServer], tmp_path: Path) -> None:
    data = tmp_path / "data"
    often = ["--set", "storage.checkpoint_interval_s=0.2"]  # so that kills fall into checkpoints, too
    server = start(*often, data=data).ready()
    pgbench(server.port, "-i", "-s", "1")
    book = Book()
    of_pgbench = 0
    for turn, mode in zip(range(ROUNDS), ("simple", "extended", "prepared"), strict=True):
        book.begin_round()
        with pgbench_running(server.port, mode) as bench:
            writers = [Writer(number, turn, server.port, book) for number in range(WRITERS)]
            for writer in writers:
                writer.start()
            seen = wait_for_pgbench(server, bench, of_pgbench)
            assert book.enough.wait(60), "the writers did not come far enough"
            assert bench.poll() is None, "pgbench ended by itself"
            server.process.kill()
            for writer in writers:
                writer.join(30)
                assert not writer.is_alive()
                assert writer.error is None
        server.wait()
        server = start(*often, data=data).ready()
        of_pgbench = check(server, book)
        assert of_pgbench >= seen, "what was read is lost"
    assert server.stop() == 0
