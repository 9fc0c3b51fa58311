"""LISTEN at every node of a cluster: each hears all commits once, in their order, over changes of the leader.

Real servers and bookies.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

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

SETTINGS = {"cluster.write_quorum": 2, "cluster.ack_quorum": 2}
END = "the end"
_RETRY_S = 0.05
"""Before a listener connects to a server again that is down."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three servers and three bookies; each test leaves the servers running."""
    directory = tmp_path_factory.mktemp("notifications") / "c"
    with LocalCluster(directory, servers=3, bookies=3, server_settings=SETTINGS) as running:
        leader = await_leader(running)
        run(running, leader, "CREATE TABLE sent (id int8 PRIMARY KEY, payload text)")
        for node in followers(running, leader):
            await_follower(running, node)
        yield running


def forwarded(cluster: LocalCluster, node: str) -> Any:
    port = server(cluster, node).sql_port
    dsn = f"host=127.0.0.1 port={port} dbname=herdpy user=herdpy options='-c herdpy.forward=on'"
    return psycopg.connect(dsn, autocommit=True)


def heard(listener: Any, sender: Any) -> list[tuple[str, str, int]]:
    """What a listener has heard of what was committed by now."""
    listener.execute(f'LISTEN "{END}"')
    sender.execute(f'NOTIFY "{END}"')
    found = []
    for one in listener.notifies():
        if one.channel == END:
            break
        found.append((one.channel, one.payload, one.pid))
    return found


def test_a_session_listens_at_a_follower(cluster: LocalCluster) -> None:
    leader = await_leader(cluster)
    with connect(cluster, leader) as sender, connect(cluster, followers(cluster, leader)[0]) as listener:
        listener.execute("LISTEN a")
        pid = sender.info.backend_pid
        sender.execute("NOTIFY a, '1'")
        sender.execute("BEGIN; NOTIFY a, 'lost'; ROLLBACK")
        sender.execute("BEGIN; INSERT INTO sent VALUES (-1, ''); NOTIFY a, '2'; CREATE TABLE more (); COMMIT")
        sender.execute("DROP TABLE more")
        assert heard(listener, sender) == [("a", "1", pid), ("a", "2", pid)]
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            listener.execute("NOTIFY a")
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            listener.execute("SELECT pg_notify('a', '')")
        assert heard(listener, sender) == []


def test_a_forwarded_session_listens_at_its_own_node(cluster: LocalCluster) -> None:
    leader = await_leader(cluster)
    with forwarded(cluster, followers(cluster, leader)[0]) as one, connect(cluster, leader) as other:
        other.execute("LISTEN a")
        pid = one.info.backend_pid
        one.execute("LISTEN a")
        one.execute("NOTIFY a, '1'")
        one.execute("BEGIN")
        one.execute("NOTIFY a, '2'")
        one.execute("LISTEN b")  # the transaction is at the leader
        one.execute("COMMIT")
        one.execute("BEGIN")
        one.execute("NOTIFY a, 'lost'")
        one.execute("LISTEN c")
        one.execute("ROLLBACK")
        assert one.execute("SELECT * FROM pg_listening_channels()").fetchall() == [("a",), ("b",)]
        other.execute("NOTIFY b, '3'; NOTIFY c, '4'")
        mine = [("a", "1", pid), ("a", "2", pid)]
        assert heard(one, one) == [*mine, ("b", "3", other.info.backend_pid)]
        assert heard(other, other) == mine
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            one.execute("LISTEN d; NOTIFY d")


class Sender(threading.Thread):
    """Commits numbered notifications, each with a row, through whoever leads; every third is rolled back."""

    def __init__(self, cluster: LocalCluster, first: int) -> None:
        super().__init__(daemon=True)
        self.cluster, self.number = cluster, first
        self.committed = 0
        self.stopping = threading.Event()
        self.errors: list[BaseException] = []

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                with connect(self.cluster, self.cluster.await_leader(timeout_s=PATIENCE_S)) as connection:
                    while not self.stopping.is_set():
                        self._send(connection)
            except psycopg.Error:
                self.number += 1  # the outcome of that one is in the table, if it was committed
            except BaseException as error:  # noqa: BLE001 - raised by the test
                self.errors.append(error)
                return

    def _send(self, connection: psycopg.Connection[Any]) -> None:
        self.number += 1
        with connection.transaction(force_rollback=self.number % 3 == 0):
            connection.execute("INSERT INTO sent VALUES (%s, '')", (self.number,))
            connection.execute("SELECT pg_notify('n', %s::text)", (self.number,))
        self.committed += self.number % 3 != 0

    def goes_on(self) -> None:
        """Wait until some more are committed."""
        aim = self.committed + 20
        assert await_until(lambda: self.committed >= aim or bool(self.errors), PATIENCE_S)
        assert not self.errors


class NodeListener(threading.Thread):
    """Listens at one node, and again when its session ends: one list of numbers for each session."""

    def __init__(self, cluster: LocalCluster, node: str) -> None:
        super().__init__(daemon=True)
        self.cluster, self.node = cluster, node
        self.sessions: list[list[int]] = []
        self.listens, self.ended = threading.Event(), threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                with connect(self.cluster, self.node) as connection:
                    connection.execute(f'LISTEN n; LISTEN "{END}"')
                    self.sessions.append([])
                    self.listens.set()
                    self._hear(connection, self.sessions[-1])
            except psycopg.Error:
                self.listens.clear()
                self.ended.wait(_RETRY_S)

    def _hear(self, connection: psycopg.Connection[Any], numbers: list[int]) -> None:
        for one in connection.notifies():
            if one.channel == END:
                self.ended.set()
                return
            numbers.append(int(one.payload))


def test_every_node_hears_all_commits_once_over_changes_of_the_leader(cluster: LocalCluster) -> None:
    first = await_leader(cluster)
    steady, second = followers(cluster, first)
    listeners = {node: NodeListener(cluster, node) for node in (first, second, steady)}
    for one in listeners.values():
        one.start()
        assert one.listens.wait(PATIENCE_S)
    senders = [Sender(cluster, first) for first in (1_000_000, 2_000_000)]
    for sender in senders:
        sender.start()
        sender.goes_on()
    run(cluster, first, f"ALTER TABLESPACE herdpy SET (leader = '{second}')")
    assert await_leader(cluster, other_than=first) == second
    for sender in senders:
        sender.goes_on()
    listeners[second].listens.clear()
    cluster.kill(second)
    await_leader(cluster, other_than=second)
    for sender in senders:
        sender.goes_on()
    cluster.start(second)
    await_status(cluster, second, lambda one: one["role"] == "leader", "does not lead again")
    assert listeners[second].listens.wait(PATIENCE_S)
    for sender in senders:
        sender.goes_on()
        sender.stopping.set()
        sender.join()
    run(cluster, second, f'NOTIFY "{END}"')
    for one in listeners.values():
        assert one.ended.wait(PATIENCE_S), one.node
        one.join()
    rows = {number for (number,) in run(cluster, second, "SELECT id FROM sent WHERE id > 0")}
    (heard_by_steady,) = listeners[steady].sessions
    assert sorted(heard_by_steady) == sorted(rows)
    assert listeners[first].sessions == [heard_by_steady], "a session outlives the change of its node's role"
    # Between sessions it misses some, or hears some again: a replica that catches up gives what it applies.
    before, *_, after = listeners[second].sessions
    assert before
    assert after
    for numbers in filter(None, listeners[second].sessions):
        begin = heard_by_steady.index(numbers[0])
        assert numbers == heard_by_steady[begin : begin + len(numbers)]
    assert (before[0], after[-1]) == (heard_by_steady[0], heard_by_steady[-1])
