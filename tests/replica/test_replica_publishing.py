"""A cluster publishes snapshots, by its followers, and keeps the log after them and for who leases it."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from herdpy.dev import LocalCluster
from herdpy.log.lsn import LSN
from herdpy.log.published import load as load_manifest
from herdpy.log.published import read_batches, snapshots
from herdpy.rpc import admin_pb2, common_pb2, logs_pb2
from herdpy.rpc.admin_pb2_grpc import AdminStub
from herdpy.rpc.logs_pb2_grpc import LogsStub
from herdpy.testing.process import await_until
from herdpy.testing.zookeeper import ClusterZnodes
from tests.replica.replicas import (
    PATIENCE_S,
    await_leader,
    channel,
    followers,
    load,
    run,
    server,
)

pytestmark = pytest.mark.soak  # real processes for minutes: not with every commit


def lsn(told: Any) -> LSN:
    return LSN(told.ledger_id, told.entry_id)


def call(cluster: LocalCluster, node: str, method: str, request: Any) -> Any:
    """One call of Logs to one node; of Publish the last message."""
    with channel(cluster, node) as opened:
        answer = getattr(LogsStub(opened), method)(request, timeout=PATIENCE_S)
        return list(answer)[-1].done if method == "Publish" else answer


def record(cluster: LocalCluster) -> dict[str, Any]:
    """What is reported of published snapshots; {} as long as there is nothing."""
    with ClusterZnodes(cluster.zookeeper) as znodes:
        found = znodes.read("/herdpy/tablespaces/herdpy/published")
    return {} if found is None else json.loads(found)


@contextmanager
def publishing(cluster: LocalCluster, place: Path) -> Iterator[None]:
    """The tablespace publishes to ``place``; the first snapshot is there when the block begins."""
    run(
        cluster,
        await_leader(cluster),
        f"ALTER TABLESPACE herdpy SET (snapshot_url = '{place}', snapshot_keep = 1)",
    )
    try:
        assert await_until(lambda: record(cluster).get("url") == str(place), PATIENCE_S)
        yield
    finally:
        run(cluster, await_leader(cluster), "ALTER TABLESPACE herdpy SET (snapshot_url = '')")


def base(cluster: LocalCluster) -> LSN:
    """The last entry that was trimmed."""
    return lsn(call(cluster, await_leader(cluster), "Describe", logs_pb2.DescribeLogRequest()).base)


def await_trimmed(cluster: LocalCluster, beyond: LSN) -> None:
    assert await_until(lambda: base(cluster) > beyond, PATIENCE_S), cluster.log_tail(await_leader(cluster))


def rolled(cluster: LocalCluster, beyond: int) -> None:
    """Wait until nothing but what is published and leased keeps that ledger, and who trims has looked."""

    def past() -> bool:
        with ClusterZnodes(cluster.zookeeper) as znodes:
            found = [
                znodes.read(f"/herdpy/tablespaces/herdpy/positions/{one.id}")
                for one in cluster.status().servers
            ]
        return all(data is not None and json.loads(data)["durable"][0] > beyond + 1 for data in found)

    assert await_until(past, PATIENCE_S)
    with channel(cluster, await_leader(cluster)) as opened:
        for _round in range(3):  # each has the leader look at once; a later one comes after an earlier
            AdminStub(opened).Checkpoint(admin_pb2.CheckpointRequest(), timeout=PATIENCE_S)


def test_a_follower_publishes_and_the_log_is_kept(cluster: LocalCluster, tmp_path: Path) -> None:
    """After the newest snapshot, and for a lease that was made and renewed at different nodes."""
    place = tmp_path / "place"
    leader = await_leader(cluster)
    follower, other = followers(cluster, leader)
    with publishing(cluster, place), load(cluster, "t"):
        assert record(cluster)["node"] in {follower, other}
        told = call(cluster, other, "Describe", logs_pb2.DescribeLogRequest(table="t"))
        first = lsn(told.snapshot.lsn)
        (ref,) = snapshots(str(place), "herdpy")
        manifest = load_manifest(ref)
        assert (ref.lsn, manifest.log_id, manifest.time_us) == (first, told.log_id, told.snapshot.time_us)
        assert manifest.crc is not None
        table = manifest.table("t")
        assert table is not None
        assert sum(batch.num_rows for batch in read_batches(ref, table.files, ["id"])) == table.rows >= 20_000
        assert json.loads(told.table.definition)["id"] == table.id
        assert (told.kind, told.zookeeper) == (logs_pb2.LOG_KIND_BOOKKEEPER, cluster.zookeeper)
        assert (told.ledger_list, told.leader) == ("/herdpy/tablespaces/herdpy/ledgers", leader)
        doors = {one.node: one.grpc for one in told.nodes}
        assert doors == {one.id: f"127.0.0.1:{one.grpc_port}" for one in cluster.status().servers}
        row = run(
            cluster, other, "SELECT snapshot, snapshot_keep, snapshot_interval_s FROM herdpy.tablespaces"
        )
        assert row == [(str(first), 1, 3600.0)]

        rolled(cluster, first.ledger_id)
        assert base(cluster) <= first
        lease = call(cluster, follower, "Lease", logs_pb2.LeaseLogRequest(lease_s=60, purpose="a test"))
        assert (lsn(lease.after), lsn(lease.snapshot.lsn)) == (first, first)
        second = lsn(call(cluster, other, "Publish", logs_pb2.PublishSnapshotRequest()).lsn)
        assert [one.lsn for one in snapshots(str(place), "herdpy")] == [second, first]
        rolled(cluster, second.ledger_id)
        assert base(cluster) <= first
        renewal = logs_pb2.RenewLogLeaseRequest(
            id=lease.id,
            lease_s=60,
            after=common_pb2.Lsn(ledger_id=second.ledger_id, entry_id=second.entry_id),
        )
        assert lsn(call(cluster, leader, "Renew", renewal).snapshot.lsn) == second
        await_trimmed(cluster, first)
        with pytest.raises(grpc.RpcError, match="may be gone"):
            call(cluster, leader, "Lease", logs_pb2.LeaseLogRequest(after=lease.after))
        third = lsn(call(cluster, leader, "Publish", logs_pb2.PublishSnapshotRequest()).lsn)
        assert [one.lsn for one in snapshots(str(place), "herdpy")] == [third, second]
        call(cluster, other, "Release", logs_pb2.LogLeaseId(id=lease.id))
        await_trimmed(cluster, second)
        with pytest.raises(grpc.RpcError, match="has expired"):
            call(cluster, follower, "Renew", renewal)
    await_trimmed(cluster, third)  # nothing is kept for who publishes no more


def publishers(node_pid: int) -> list[int]:
    """The publishing processes of a server."""
    found = []
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit() and b"publishing" in Path(f"/proc/{name}/cmdline").read_bytes():
                stat = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                if int(stat[1]) == node_pid:
                    found.append(int(name))
    return found


def test_a_node_is_killed_while_it_publishes(cluster: LocalCluster, tmp_path: Path) -> None:
    """Its process goes with it, there is no half of a snapshot, and another node publishes."""
    place = tmp_path / "place"
    killed, other = followers(cluster, await_leader(cluster))
    with publishing(cluster, place):
        before = [one.lsn for one in snapshots(str(place), "herdpy")]
        run(cluster, await_leader(cluster), "INSERT INTO t VALUES (-1, 'x')")
        refused: list[grpc.RpcError] = []

        def publish() -> None:
            try:
                call(cluster, killed, "Publish", logs_pb2.PublishSnapshotRequest())
            except grpc.RpcError as error:
                refused.append(error)

        caller = threading.Thread(target=publish)
        caller.start()
        pid = server(cluster, killed).pid or 0
        assert await_until(lambda: len(publishers(pid)) == 1, PATIENCE_S)
        (process,) = publishers(pid)
        os.kill(process, signal.SIGSTOP)
        with pytest.raises(grpc.RpcError, match=f"published by node {killed}"):
            call(cluster, other, "Publish", logs_pb2.PublishSnapshotRequest())
        cluster.kill(killed)
        caller.join(PATIENCE_S)
        assert len(refused) == 1
        with suppress(ProcessLookupError):  # it was stopped before it could ask to go with its parent
            os.kill(process, signal.SIGCONT)
        assert await_until(lambda: not Path(f"/proc/{process}").exists(), PATIENCE_S)
        assert [one.lsn for one in snapshots(str(place), "herdpy")] == before
        done: list[LSN] = []

        def published() -> bool:
            try:
                done.append(lsn(call(cluster, other, "Publish", logs_pb2.PublishSnapshotRequest()).lsn))
            except grpc.RpcError as error:
                return "is being published" not in str(error.details())
            return True

        assert await_until(published, PATIENCE_S)
        assert [one.lsn for one in snapshots(str(place), "herdpy")] == done
    cluster.start(killed)
    run(cluster, await_leader(cluster), "DELETE FROM t WHERE id = -1")
