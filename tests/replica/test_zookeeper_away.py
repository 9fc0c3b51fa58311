"""A real ZooKeeper is away for a while: the leader commits and answers, and keeps its term."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from herdpy.dev import LocalCluster
from herdpy.testing.process import await_until
from tests.replica.replicas import PATIENCE_S, await_leader, connect, replica_status, run


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three servers and three bookies."""
    directory = tmp_path_factory.mktemp("away") / "c"
    with LocalCluster(directory, servers=3, bookies=3) as running:
        run(running, await_leader(running), "CREATE TABLE w (id int8 PRIMARY KEY)")
        yield running


class Client:
    """Inserts a row and reads how many there are, again and again, on one connection to the leader.

    Attributes:
        rounds: how many succeeded.
        longest_s: the longest one.
        failure: what ended it.
    """

    def __init__(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.rounds = 0
        self.longest_s = 0.0
        self.failure: BaseException | None = None
        self._connection = connection
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """End; raises what went wrong."""
        self._stop.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def go_on(self, rounds: int = 20) -> None:
        """Return when so many more have succeeded."""
        goal = self.rounds + rounds
        assert await_until(lambda: self.rounds >= goal or self.failure is not None, PATIENCE_S)
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            first = self._count()
            while not self._stop.is_set():
                began_s = time.monotonic()
                self._connection.execute("INSERT INTO w VALUES (%s)", (first + self.rounds,))
                found = self._count()
                assert found == first + self.rounds + 1
                self.longest_s = max(self.longest_s, time.monotonic() - began_s)
                self.rounds += 1
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.failure = error

    def _count(self) -> int:
        row = self._connection.execute("SELECT count(*) FROM w").fetchone()
        assert row is not None
        return int(row[0])


def _away(cluster: LocalCluster, away_s: float, *, paused: bool) -> None:
    leader = await_leader(cluster)
    before = replica_status(cluster, leader)
    with connect(cluster, leader) as connection:
        connection.execute("SET herdpy.engine = 'own'")
        client = Client(connection)
        try:
            client.go_on()
            (cluster.pause if paused else cluster.kill)("zookeeper")
            until_s = time.monotonic() + away_s
            while time.monotonic() < until_s:
                client.go_on()
            (cluster.resume if paused else cluster.start)("zookeeper")
            client.go_on()
            # Its lease is back, so reads need no entry any more.
            assert await_until(lambda: _reads_by_lease(cluster, leader), PATIENCE_S)
            client.go_on()
        finally:
            client.stop()
    print(
        f"away for {away_s} s, paused {paused}: {client.rounds} rounds, the longest {client.longest_s:.3f} s"
    )
    after = replica_status(cluster, leader)
    assert (after["role"], after["epoch"]) == ("leader", before["epoch"])
    assert after["log_confirmed_reads"] > before["log_confirmed_reads"]


def _reads_by_lease(cluster: LocalCluster, leader: str) -> bool:
    before = replica_status(cluster, leader).get("log_confirmed_reads")
    time.sleep(0.2)
    return before is not None and replica_status(cluster, leader).get("log_confirmed_reads") == before


@pytest.mark.parametrize("paused", [False, True], ids=["killed", "paused"])
def test_the_leader_goes_on(cluster: LocalCluster, paused: bool) -> None:
    _away(cluster, 3.0, paused=paused)


@pytest.mark.soak
@pytest.mark.parametrize("away_s", [60.0, 180.0])
@pytest.mark.parametrize("paused", [False, True], ids=["killed", "paused"])
def test_the_leader_goes_on_for_minutes(cluster: LocalCluster, away_s: float, paused: bool) -> None:
    _away(cluster, away_s, paused=paused)
