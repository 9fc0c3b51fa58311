"""A replica that cannot go on by the log alone gets another one's state, and is equal to it afterwards."""

from __future__ import annotations

import shutil

import pytest

from herdpy.dev import LocalCluster
from herdpy.rpc import admin_pb2, admin_pb2_grpc
from herdpy.testing.process import await_until
from tests.replica.replicas import (
    PATIENCE_S,
    assert_equal,
    await_follower,
    await_leader,
    await_status,
    channel,
    first_ledger,
    followers,
    load,
    replica_status,
    run,
)


def await_trimmed(cluster: LocalCluster, leader: str, beyond: int) -> None:
    """Wait until the log begins after that ledger."""
    assert await_until(lambda: first_ledger(cluster, leader) > beyond, PATIENCE_S), cluster.log_tail(leader)


@pytest.mark.soak
def test_two_at_once_under_load(cluster: LocalCluster):
    """One that is new, and one that was away while the log was trimmed; the leader is the donor of both."""
    leader = await_leader(cluster)
    new, late = followers(cluster, leader)
    await_status(cluster, late, lambda one: one["durable"] == one["applied"], "has no checkpoint")
    late_position = replica_status(cluster, late)["applied"]
    for node in (new, late):
        cluster.stop(node)
    shutil.rmtree(cluster.directory / new)
    with load(cluster, "t") as running:
        await_trimmed(cluster, leader, int(late_position.split(":")[0]))
        for node in (new, late):
            cluster.start(node, wait=False)
        for node in (new, late):
            found = await_follower(cluster, node, seedings=1)
            assert "log" in found["problem"]
            assert not (cluster.directory / node / "tablespaces" / "herdpy" / "seed").exists()
        before = len(running.acknowledged)
        assert await_until(lambda: len(running.acknowledged) > before + 20, PATIENCE_S)
    count = assert_equal(cluster, "t", [new, late])
    assert count >= 20_000 + len(running.acknowledged)
    for node in (new, late):
        cluster.start(node)


def test_the_log_is_kept_for_a_follower_that_is_away_for_a_while(cluster: LocalCluster):
    leader = await_leader(cluster)
    away = followers(cluster, leader)[0]
    run(cluster, leader, "ALTER TABLESPACE herdpy SET (retention = '1h')")
    try:
        await_status(cluster, away, lambda one: one["durable"] == one["applied"], "has no checkpoint")
        before = replica_status(cluster, away)
        cluster.pause(away)
        with load(cluster, "t"):
            begun = int(replica_status(cluster, leader)["applied"].split(":")[0])
            others_are_past(cluster, leader, begun + 2)
        assert first_ledger(cluster, leader) <= int(before["durable"].split(":")[0])
        cluster.resume(away)
        assert_equal(cluster, "t", [away])
        assert replica_status(cluster, away)["seedings"] == before["seedings"]
    finally:
        run(cluster, await_leader(cluster), "ALTER TABLESPACE herdpy SET (retention = '0s')")


def others_are_past(cluster: LocalCluster, leader: str, ledger: int) -> None:
    """Wait until everybody else has a later ledger in the store, and the leader has looked what may go."""
    await_status(cluster, leader, lambda one: int(one["durable"].split(":")[0]) > ledger, "goes on")
    with channel(cluster, leader) as opened:
        for _round in range(2):  # a checkpoint has the leader look at once; the second comes after the first
            admin_pb2_grpc.AdminStub(opened).Checkpoint(admin_pb2.CheckpointRequest(), timeout=PATIENCE_S)
