"""SIGTERM of a leader: another one leads at once, however long open transactions go on.

Real servers and bookies. A server that ends waits for open transactions for an hour here, so whatever happens
while one is open does not happen because it has waited.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

import herdpy
from herdpy.dev import LocalCluster
from herdpy.testing.process import await_until
from tests.replica.replicas import (
    PATIENCE_S,
    await_follower,
    await_leader,
    await_status,
    connect,
    followers,
    run,
    server,
)

SETTINGS = {"cluster.write_quorum": 2, "cluster.ack_quorum": 2, "shutdown.graceful_timeout_s": 3600.0}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three servers and three bookies; each test leaves the servers running."""
    directory = tmp_path_factory.mktemp("ends") / "c"
    with LocalCluster(directory, servers=3, bookies=3, server_settings=SETTINGS) as running:
        run(running, await_leader(running), "CREATE TABLE t (id int8 PRIMARY KEY)")
        yield running


@pytest.fixture
def leader(cluster: LocalCluster) -> str:
    """The server that leads, with followers that are able to."""
    found = await_leader(cluster)
    for node in followers(cluster, found):
        await_follower(cluster, node)
    return found


def terminate(cluster: LocalCluster, node: str) -> None:
    pid = server(cluster, node).pid
    assert pid is not None
    os.kill(pid, signal.SIGTERM)


def await_end(cluster: LocalCluster, node: str) -> None:
    ended = await_until(lambda: server(cluster, node).pid is None, PATIENCE_S)
    assert ended, cluster.log_tail(node)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE_S).close()
    except OSError:
        return False
    return True


@contextmanager
def writing(cluster: LocalCluster) -> Iterator[list[int]]:
    """A driver that knows all servers inserts rows meanwhile, and feels no error; those acknowledged."""
    acknowledged: list[int] = []
    errors: list[herdpy.Error] = []
    stop = threading.Event()

    def write() -> None:
        try:
            with herdpy.connect(cluster.url, autocommit=True) as connection, connection.cursor() as cursor:
                for number in range(1_000_000):
                    if stop.is_set():
                        return
                    cursor.execute("INSERT INTO t VALUES (%s)", (number,))
                    acknowledged.append(number)
        except herdpy.Error as error:
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield acknowledged
    finally:
        stop.set()
        thread.join(PATIENCE_S)
    assert not errors, errors


@pytest.mark.parametrize("preferred", [False, True])
def test_another_leads_while_a_transaction_is_open(
    cluster: LocalCluster, leader: str, preferred: bool
) -> None:
    run(cluster, leader, "DELETE FROM t", f"ALTER TABLESPACE herdpy LEADER '{leader}'" if preferred else "")
    with connect(cluster, leader) as open_one, writing(cluster) as acknowledged:
        open_one.execute("BEGIN")
        open_one.execute("INSERT INTO t VALUES (-1)")
        assert await_until(lambda: len(acknowledged) > 10, PATIENCE_S)
        terminate(cluster, leader)
        successor = await_leader(cluster, other_than=leader)
        before = len(acknowledged)
        assert await_until(lambda: len(acknowledged) > before + 100, PATIENCE_S)
        assert server(cluster, leader).pid is not None
        assert await_leader(cluster) == successor  # it is not given back, to a preferred leader either
        with pytest.raises(psycopg.errors.Error) as caught:
            open_one.execute("COMMIT")
        assert caught.value.sqlstate in ("25006", "40001"), caught.value
    await_end(cluster, leader)
    rows = run(cluster, successor, "SET herdpy.engine = 'own'", "SELECT id FROM t ORDER BY id")
    assert [row[0] for row in rows] == acknowledged
    run(cluster, successor, "ALTER TABLESPACE herdpy LEADER NONE")
    cluster.start(leader)


def test_a_second_signal_ends_the_open_transaction(cluster: LocalCluster, leader: str) -> None:
    open_one = connect(cluster, leader)
    open_one.execute("BEGIN")
    open_one.execute("INSERT INTO t VALUES (-4)")
    terminate(cluster, leader)
    await_leader(cluster, other_than=leader)
    terminate(cluster, leader)
    await_end(cluster, leader)
    with pytest.raises(psycopg.errors.AdminShutdown):
        open_one.execute("COMMIT")
    open_one.close()
    cluster.start(leader)


def test_the_last_one_leads_until_its_transactions_have_ended(cluster: LocalCluster, leader: str) -> None:
    others = followers(cluster, leader)
    for node in others:
        cluster.stop(node)
    with connect(cluster, leader) as open_one:
        open_one.execute("BEGIN")
        open_one.execute("INSERT INTO t VALUES (-2)")
        terminate(cluster, leader)
        await_status(cluster, leader, lambda one: one["unfit"] == "its server ends", "does not end")
        open_one.execute("COMMIT")
    await_end(cluster, leader)
    for node in (leader, *others):
        cluster.start(node)
    assert run(cluster, await_leader(cluster), "SELECT count(*) FROM t WHERE id = -2") == [(1,)]


def test_zookeeper_is_silent_and_it_leads_until_its_transactions_have_ended(
    cluster: LocalCluster, leader: str
) -> None:
    with connect(cluster, leader) as open_one:
        open_one.execute("BEGIN")
        open_one.execute("INSERT INTO t VALUES (-3)")
        pid, port = server(cluster, leader).pid, open_one.info.port
        assert pid is not None
        cluster.pause("zookeeper")
        try:
            os.kill(pid, signal.SIGTERM)
            assert await_until(lambda: not listens(port), PATIENCE_S), cluster.log_tail(leader)
            open_one.execute("COMMIT")
        finally:
            cluster.resume("zookeeper")
    await_end(cluster, leader)
    cluster.start(leader)
    assert run(cluster, await_leader(cluster), "SELECT count(*) FROM t WHERE id = -3") == [(1,)]
