"""gRPC of a node: which part it has, its state as a snapshot and in partitions, at a position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc

from herdpy.dev import LocalCluster
from herdpy.log.lsn import LSN
from herdpy.rpc import admin_pb2, common_pb2, logs_pb2, partitions_pb2, snapshots_pb2
from herdpy_server.store import Store
from tests.replica.replicas import await_leader, await_status, channel, followers, replica_status, run
from tests.service.calls import admin, logs, partitions, refused, rows_of, snapshots


def test_each_node_tells_its_part(cluster: LocalCluster):
    leader = await_leader(cluster)
    roles = {}
    for node in ("server-1", "server-2", "server-3"):
        with channel(cluster, node) as opened:
            assert admin(opened).GetNode(admin_pb2.GetNodeRequest()).node == node
            (one,) = admin(opened).ListTablespaces(admin_pb2.ListTablespacesRequest()).tablespaces
            roles[node] = one.role
            assert (one.name, one.leader) == ("herdpy", leader)
            assert one.tables > 0
            ledgers = admin(opened).ListLedgers(admin_pb2.ListLedgersRequest(tablespace="herdpy")).ledgers
            assert not ledgers[-1].closed
    assert roles.pop(leader) == "leader"
    assert set(roles.values()) == {"follower"}
    assert {one.id: one.role for one in cluster.status().servers} == {leader: "leader", **roles}


def test_a_follower_is_read_at_a_position(cluster: LocalCluster):
    leader = await_leader(cluster)
    follower = followers(cluster, leader)[0]
    run(cluster, leader, "CREATE TABLE g (id INT PRIMARY KEY)", "INSERT INTO g VALUES (1), (2), (3)")
    position = LSN.parse(replica_status(cluster, leader)["applied"])
    reached = common_pb2.Lsn(ledger_id=position.ledger_id, entry_id=position.entry_id)
    with channel(cluster, follower) as opened:
        stub = partitions(opened)
        plan = stub.Plan(partitions_pb2.PlanRequest(table="g", partitions=2, reached=reached), timeout=60)
        assert (plan.lsn.ledger_id, plan.lsn.entry_id) >= position
        assert sorted(row for part in rows_of(stub, plan) for row in part) == [(1,), (2,), (3,)]
        stub.Release(partitions_pb2.PlanId(id=plan.id))


def test_a_snapshot_of_a_follower(cluster: LocalCluster, tmp_path: Path):
    leader = await_leader(cluster)
    follower = followers(cluster, leader)[1]
    run(cluster, leader, "CREATE TABLE s (id INT PRIMARY KEY)", "INSERT INTO s VALUES (1)")
    position = LSN.parse(replica_status(cluster, leader)["applied"])
    reached = common_pb2.Lsn(ledger_id=position.ledger_id, entry_id=position.entry_id)
    with channel(cluster, follower) as opened:
        stub = snapshots(opened)
        made = stub.Begin(
            snapshots_pb2.BeginSnapshotRequest(reached=reached, tablespace="herdpy"), timeout=60
        )
        data = b"".join(one.data for one in stub.Fetch(snapshots_pb2.FetchRequest(id=made.id), timeout=60))
        stub.Release(snapshots_pb2.SnapshotId(id=made.id))
    (tmp_path / "data.mdb").write_bytes(data)
    store = Store.open(tmp_path)
    assert store.durable == LSN(made.lsn.ledger_id, made.lsn.entry_id) >= position
    assert "s" in store.catalog.by_name
    assert not list(store.check())
    store.close()


def test_the_leader_reports_what_is_confirmed_and_followers_hear_it(cluster: LocalCluster):
    leader = await_leader(cluster)
    run(cluster, leader, "CREATE TABLE h (id INT PRIMARY KEY)")
    with channel(cluster, leader) as opened:
        reports = logs(opened).ReportLac(logs_pb2.ReportLacRequest(tablespace="herdpy"), timeout=60)
        before = _confirmed(next(reports))
        run(cluster, leader, "INSERT INTO h VALUES (1)")
        written = LSN.parse(replica_status(cluster, leader)["applied"])
        assert before < written
        while _confirmed(next(reports)) < written:
            pass
        reports.cancel()
    for node in followers(cluster, leader):
        await_status(cluster, node, lambda one: one["hears_leader"], "does not hear the leader")
    assert not replica_status(cluster, leader)["hears_leader"]


def _confirmed(report: Any) -> LSN:
    return LSN(report.confirmed.ledger_id, report.confirmed.entry_id)


def test_a_follower_reports_nothing(cluster: LocalCluster):
    follower = followers(cluster, await_leader(cluster))[0]
    with channel(cluster, follower) as opened:
        reports = logs(opened).ReportLac(logs_pb2.ReportLacRequest(tablespace="herdpy"), timeout=60)
        code, sqlstate, text = refused(lambda: next(reports))
    assert (code, sqlstate) == (grpc.StatusCode.UNAVAILABLE, "57P03")
    assert "does not lead" in text


def test_a_tablespace_that_is_not_there(cluster: LocalCluster):
    with channel(cluster, "server-1") as opened:
        request = snapshots_pb2.BeginSnapshotRequest(tablespace="nosuch")
        code, sqlstate, text = refused(lambda: snapshots(opened).Begin(request))
    assert (code, sqlstate) == (grpc.StatusCode.NOT_FOUND, "3D000")
    assert "nosuch" in text
