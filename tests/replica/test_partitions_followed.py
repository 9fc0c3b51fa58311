"""Partitions at followers: made, written, dropped, detached and attached, and the same rows at every node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from herdpy.dev import LocalCluster
from tests.replica.replicas import assert_equal, await_leader, followers, run

MAKE = (
    "CREATE SCHEMA spread",
    "CREATE TABLE spread.p (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)",
    "CREATE INDEX ON spread.p (v)",
    *(
        f"CREATE TABLE spread.p{n} PARTITION OF spread.p FOR VALUES FROM ({n}00) TO ({n + 1}00)"
        for n in range(3)
    ),
    "INSERT INTO spread.p SELECT n, 'v' || n % 7 FROM generate_series(0, 299) AS s (n)",
)
CHANGES = (
    "UPDATE spread.p SET id = id + 100 WHERE id = 50 OR v = 'none'",
    "DROP TABLE spread.p0",
    "ALTER TABLE spread.p DETACH PARTITION spread.p1",
    "INSERT INTO spread.p1 VALUES (1000, 'alone')",
    "DELETE FROM spread.p1 WHERE id = 1000",
    "ALTER TABLE spread.p ATTACH PARTITION spread.p1 FOR VALUES FROM (100) TO (200)",
    "CREATE TABLE spread.rest PARTITION OF spread.p DEFAULT",
    "INSERT INTO spread.p VALUES (5000, 'rest')",
)


@pytest.fixture
def leader(cluster: LocalCluster) -> Iterator[str]:
    """The node that leads; a partitioned table is there meanwhile."""
    found = await_leader(cluster)
    run(cluster, found, *MAKE)
    yield found
    run(cluster, await_leader(cluster), "DROP SCHEMA spread CASCADE")


def test_followers_have_the_rows_of_each_partition(cluster: LocalCluster, leader: str) -> None:
    nodes = followers(cluster, leader)
    assert assert_equal(cluster, "spread.p", nodes) == 300
    run(cluster, leader, "DELETE FROM spread.p WHERE id = 150", *CHANGES)
    assert assert_equal(cluster, "spread.p", nodes) == 201
    assert [assert_equal(cluster, f"spread.{one}", nodes) for one in ("p1", "p2", "rest")] == [100, 100, 1]
    assert assert_equal(cluster, "spread.p WHERE v = 'v3' AND id >= 150", nodes) == 21
