"""Real servers, bookies and ZooKeeper under a load of writes: leaders are killed, stopped and restarted.

Writers go on as an application would: with several hosts, each insert with an id of its own. What they were
told is held against what is there in the end, on every replica.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from herdpy.dev import LocalCluster
from herdpy.testing.process import await_until
from tests.replica.replicas import (
    PATIENCE_S,
    await_follower,
    await_leader,
    followers,
    replica_status,
    run,
    server,
)

SETTINGS = {
    "storage.max_ledger_age_s": 1.0,  # ledgers of few entries, which roll all the time
    "storage.checkpoint_interval_s": 0.2,
    "cluster.write_quorum": 2,
    "cluster.ack_quorum": 2,
}
GIVES_UP_S = 3.0
ROUNDS = 2
MANY_ROUNDS = 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three servers and three bookies; each test leaves the servers running."""
    directory = tmp_path_factory.mktemp("replication") / "c"
    with LocalCluster(directory, servers=3, bookies=3, server_settings=SETTINGS) as running:
        leader = await_leader(running)
        run(running, leader, "CREATE TABLE w (id int8 PRIMARY KEY, writer int8)")
        yield running


class Writers:
    """Threads that insert rows of their own and record their answers.

    Attributes:
        done, not_done, unknown: ids of rows.
        latest_s: when the last row was acknowledged (time.monotonic).
        newest: that row, and when it was.
    """

    def __init__(self, cluster: LocalCluster, base: int, count: int = 3) -> None:
        ports = ",".join(str(one.sql_port) for one in cluster.status().servers)
        hosts = ",".join("127.0.0.1" for _ in cluster.status().servers)
        self._dsn = (
            f"host={hosts} port={ports} dbname=herdpy user=herdpy "
            "target_session_attrs=read-write connect_timeout=3"
        )
        self._base = base
        self._next = base
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.done: set[int] = set()
        self.not_done: set[int] = set()
        self.unknown: set[int] = set()
        self.latest_s = 0.0
        self.newest: tuple[int, float] | None = None
        self.errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(count)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def go_on(self, rows: int = 20) -> None:
        """Return when so many more rows have been acknowledged."""
        goal = len(self.done) + rows
        assert await_until(lambda: len(self.done) >= goal or bool(self.errors), PATIENCE_S), (
            f"no {rows} rows were acknowledged: {len(self.done)}, {self.errors}"
        )

    def _run(self, writer: int) -> None:
        connection: psycopg.Connection[Any] | None = None
        try:
            while not self._stop.is_set():
                try:
                    if connection is None or connection.closed:
                        connection = psycopg.connect(self._dsn, autocommit=True)
                except psycopg.Error:
                    self._stop.wait(0.02)
                    continue
                if not self._insert(connection, writer):
                    connection.close()
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.errors.append(error)
        finally:
            if connection is not None:
                connection.close()

    def _insert(self, connection: psycopg.Connection[Any], writer: int) -> bool:
        """Insert the next row; False when another connection is wanted."""
        with self._lock:
            self._next += 1
            row = self._next
        try:
            with _patience(connection):
                connection.execute("INSERT INTO w VALUES (%s, %s)", (row, writer))
        except psycopg.Error as error:
            # Without a SQLSTATE the connection broke: nobody knows.
            known = error.sqlstate is not None and error.sqlstate not in ("08007", "57P01")
            (self.not_done if known else self.unknown).add(row)
            return False
        self.done.add(row)
        self.latest_s = time.monotonic()
        self.newest = row, self.latest_s
        return True

    def check(self, cluster: LocalCluster) -> None:
        """Every replica has the same rows: all that were acknowledged, none that was reported as not done."""
        leader = await_leader(cluster)
        rows = run(cluster, leader, f"SELECT id, writer FROM w WHERE id > {self._base} ORDER BY id")
        position = replica_status(cluster, leader)["applied"]
        there = {row[0] for row in rows}
        assert len(there) == len(rows)
        assert not self.done - there, "acknowledged rows are lost"
        assert not there & self.not_done, "rows are there that were reported as not done"
        assert there <= self.done | self.unknown
        for node in followers(cluster, leader):
            found = run(
                cluster,
                node,
                "SET herdpy.read_level = 'at_lsn'",
                f"SET herdpy.min_lsn = '{position}'",
                f"SELECT id, writer FROM w WHERE id > {self._base} ORDER BY id",
            )
            assert found == rows, f"{node} has {len(found)} rows, {leader} {len(rows)}"


@contextmanager
def _patience(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """A server that is stopped says nothing, and its kernel takes what is sent: then the client hangs up."""
    with socket.socket(fileno=os.dup(connection.fileno())) as own:

        def hang_up() -> None:
            with suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(GIVES_UP_S, hang_up)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


STALE_S = 0.5
READ_LEVELS = ("linearizable", "bounded")


class Readers:
    """A thread for each server and level, which reads there what was acknowledged last, or long enough ago.

    Attributes:
        answered: how many reads, by level.
        missed: acknowledged rows that an answer lacked.
    """

    def __init__(self, cluster: LocalCluster, writers: Writers) -> None:
        self._writers = writers
        self._stop = threading.Event()
        self.answered = dict.fromkeys(READ_LEVELS, 0)
        self.missed: list[str] = []
        self._threads = [
            threading.Thread(target=self._run, args=(one.sql_port, level))
            for one in cluster.status().servers
            for level in READ_LEVELS
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, port: int, level: str) -> None:
        options = f"-c herdpy.read_level={level} -c herdpy.max_staleness_ms={STALE_S * 1000:.0f}"
        while not self._stop.wait(0.02):
            with (
                suppress(psycopg.Error),
                psycopg.connect(
                    f"host=127.0.0.1 port={port} dbname=herdpy user=herdpy connect_timeout=3",
                    options=options,
                    autocommit=True,
                ) as connection,
            ):
                while not self._stop.wait(0.01):
                    self._read(connection, level)

    def _read(self, connection: psycopg.Connection[Any], level: str) -> None:
        newest = self._writers.newest
        if newest is None:
            return
        row, acknowledged_s = newest
        if level == "bounded" and self._stop.wait(max(acknowledged_s + STALE_S - time.monotonic(), 0.0)):
            return
        with _patience(connection):
            [(count,)] = connection.execute("SELECT count(*) FROM w WHERE id = %s", (row,)).fetchall()
        self.answered[level] += 1
        if not count:
            self.missed.append(f"{level} on {connection.info.port} without {row}")


_bases = iter(range(0, 10**12, 10**6))


@contextmanager
def writing(cluster: LocalCluster) -> Iterator[Writers]:
    """Writers that write during the block, and readers on every server; then everything is compared."""
    writers = Writers(cluster, next(_bases))
    readers = Readers(cluster, writers)
    writers.start()
    readers.start()
    try:
        writers.go_on()
        yield writers
        writers.go_on()
    finally:
        readers.stop()
        writers.stop()
    assert not readers.missed
    assert all(readers.answered.values())
    for one in cluster.status().servers:
        if one.state == "running" and one.id != await_leader(cluster):
            await_follower(cluster, one.id)
    writers.check(cluster)


def kill_leaders(cluster: LocalCluster, rounds: int) -> None:
    with writing(cluster) as writers:
        for _ in range(rounds):
            leader = await_leader(cluster)
            writers.go_on()
            cluster.kill(leader)
            writers.go_on()
            assert await_leader(cluster) != leader
            cluster.start(leader)
            await_follower(cluster, leader)


def stop_leaders(cluster: LocalCluster, rounds: int) -> None:
    with writing(cluster) as writers:
        for _ in range(rounds):
            leader = await_leader(cluster)
            writers.go_on()
            with _asleep(cluster, leader) as (sleeper, connection):
                await_leader(cluster, other_than=leader)
                writers.go_on()
                assert writers.newest is not None
                sleeper.wake()
                sleeper.expect_no_old_answer(writers.newest[0])
                with pytest.raises(psycopg.Error) as refused:
                    connection.execute("INSERT INTO w VALUES (-1, 0)")
                assert refused.value.sqlstate in ("25006", "57P03", "08007"), refused.value
            await_follower(cluster, leader)
            assert run(
                cluster, leader, "SET herdpy.read_level = 'any'", "SELECT count(*) FROM w WHERE id = -1"
            ) == [(0,)]


class _Sleeper:
    """A server that was stopped (SIGSTOP), and a connection of it that asks when it wakes."""

    def __init__(self, pid: int, connection: psycopg.Connection[Any]) -> None:
        self._pid = pid
        self._connection = connection

    def wake(self) -> None:
        os.kill(self._pid, signal.SIGCONT)

    def expect_no_old_answer(self, row: int) -> None:
        """Asked before it knows that it leads no more, it refuses; once it follows, it asks the leader."""
        found, sqlstate = [], ""
        try:
            found = self._connection.execute("SELECT count(*) FROM w WHERE id = %s", (row,)).fetchall()
        except psycopg.Error as refused:
            sqlstate = refused.sqlstate or ""
        assert found == [(1,)] or sqlstate in ("HP003", "57P03", "40001"), (found, sqlstate)


@contextmanager
def _asleep(cluster: LocalCluster, node: str) -> Iterator[tuple[_Sleeper, psycopg.Connection[Any]]]:
    port, pid = server(cluster, node).sql_port, server(cluster, node).pid
    dsn = f"host=127.0.0.1 port={port} dbname=herdpy user=herdpy"
    with psycopg.connect(dsn, autocommit=True) as reading, psycopg.connect(dsn, autocommit=True) as writing:
        reading.execute("SELECT count(*) FROM w WHERE id = 1")
        os.kill(pid, signal.SIGSTOP)
        try:
            yield _Sleeper(pid, reading), writing
        finally:
            os.kill(pid, signal.SIGCONT)


def test_killed_leaders_lose_nothing(cluster: LocalCluster) -> None:
    kill_leaders(cluster, ROUNDS)


def test_a_leader_that_slept_neither_reads_nor_writes(cluster: LocalCluster) -> None:
    stop_leaders(cluster, ROUNDS)


def test_ledgers_roll_while_followers_sleep(cluster: LocalCluster) -> None:
    with writing(cluster) as writers:
        leader = await_leader(cluster)
        asleep = followers(cluster, leader)
        for node in asleep:
            cluster.pause(node)
        try:
            first = _ledger(cluster, leader)
            assert await_until(lambda: _ledger(cluster, leader) >= first + 4, PATIENCE_S)
            writers.go_on()
        finally:
            for node in asleep:
                cluster.resume(node)


def _ledger(cluster: LocalCluster, node: str) -> int:
    """In which ledger the log ends, as the node knows it."""
    return int(str(replica_status(cluster, node)["log_end"]).partition(":")[0])


def test_followers_answer_at_the_level_that_is_asked_for(cluster: LocalCluster) -> None:
    leader = await_leader(cluster)
    follower = followers(cluster, leader)[0]
    await_follower(cluster, follower)
    where = f"127.0.0.1:{server(cluster, leader).sql_port}"
    base = next(_bases)
    with psycopg.connect(
        f"host=127.0.0.1 port={server(cluster, follower).sql_port} dbname=herdpy user=herdpy", autocommit=True
    ) as there:
        for row in range(base, base + 20):
            run(cluster, leader, f"INSERT INTO w VALUES ({row}, 0)")
            assert there.execute("SELECT writer FROM w WHERE id = %s", (row,)).fetchall() == [(0,)]
        base += 20
        for statement in (b"INSERT INTO w VALUES (0, 0)", b"CREATE TABLE other (id int8)"):
            with pytest.raises(psycopg.Error) as refused:
                there.execute(statement)
            assert refused.value.sqlstate == "25006"
            assert leader in str(refused.value.diag.message_detail)
            assert where in str(refused.value.diag.message_hint)
        there.execute("SET herdpy.read_level = 'bounded'")
        there.execute("SET herdpy.max_staleness_ms = 0")
        for number in range(1, 21):
            row = base + number
            run(cluster, leader, f"INSERT INTO w VALUES ({row}, 0)")
            assert there.execute("SELECT writer FROM w WHERE id = %s", (row,)).fetchall() == [(0,)]
        there.execute("SET herdpy.read_level = 'at_lsn'")
        for number in range(21, 31):
            row = base + number
            position = run(
                cluster, leader, f"INSERT INTO w VALUES ({row}, 0)", "SELECT herdpy.commit_position()"
            )[0][0]
            there.execute(f"SET herdpy.min_lsn = '{position}'".encode())
            assert there.execute("SELECT writer FROM w WHERE id = %s", (row,)).fetchall() == [(0,)]
        there.execute("SET herdpy.read_level = 'any'")
        assert there.execute("SELECT count(*) >= 0 FROM w").fetchone() == (True,)


@pytest.mark.soak
def test_rolling_restart_loses_and_doubles_nothing(cluster: LocalCluster) -> None:
    with writing(cluster) as writers:
        for name in [one.id for one in cluster.status().servers]:
            cluster.stop(name)
            writers.go_on()
            cluster.start(name)
            if await_leader(cluster) != name:
                await_follower(cluster, name)


def test_writing_goes_on_without_one_of_three_bookies(cluster: LocalCluster) -> None:
    """The last test of the file: the bookie does not come back."""
    with writing(cluster) as writers:
        cluster.kill("bookie-1")
        writers.go_on(100)
        cluster.kill(leader := await_leader(cluster))
        writers.go_on(100)
        cluster.start(leader)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_rounds(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "c", servers=3, bookies=3, server_settings=SETTINGS) as own:
        run(own, await_leader(own), "CREATE TABLE w (id int8 PRIMARY KEY, writer int8)")
        kill_leaders(own, MANY_ROUNDS)
        stop_leaders(own, MANY_ROUNDS)
