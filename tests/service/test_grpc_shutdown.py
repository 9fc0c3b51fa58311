"""How gRPC ends: watchers at once, streams of data gracefully, all of it when it must be fast."""

from __future__ import annotations

import signal

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from herdpy.rpc import partitions_pb2, snapshots_pb2
from tests.service.calls import partitions, refused, snapshots, told
from tests.service.test_snapshot_service import fill

NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVING = health_pb2.HealthCheckResponse.SERVING
FIXED_WINDOW = ("grpc.http2.bdp_probe", 0)
"""Else gRPC takes ever more of a stream that nobody reads, by how quick the connection was: all of it."""

GONE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}


def test_watchers_and_reflection_hold_nothing_up(start, channels):
    server = start("--set", "shutdown.graceful_timeout_s=3600").ready()
    channel = channels(server)
    watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
    assert next(watch).status == SERVING
    asked = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(waiting())
    assert next(asked).list_services_response.service
    server.signal(signal.SIGTERM)
    assert server.wait() == 0
    assert [answer.status for answer in watch] == [NOT_SERVING]
    with pytest.raises(grpc.RpcError) as caught:
        next(asked)
    assert told(caught.value)[:2] == (grpc.StatusCode.UNAVAILABLE, "57P01")


def waiting():
    """One request, and the stream stays open."""
    import threading

    yield reflection_pb2.ServerReflectionRequest(list_services="")
    threading.Event().wait()


def test_a_download_comes_to_its_end_before_the_server_does(start, channels):
    server = start("--set", "shutdown.graceful_timeout_s=3600").ready()
    fill(server, "graceful", 16)
    stub = snapshots(channels(server))
    one = stub.Begin(snapshots_pb2.BeginSnapshotRequest())
    stream = stub.Fetch(snapshots_pb2.FetchRequest(id=one.id))
    size = len(next(stream).data)
    server.signal(signal.SIGTERM)
    server.wait_for("SIGTERM")
    size += sum(len(chunk.data) for chunk in stream)
    assert size == one.size_bytes
    assert server.wait() == 0
    assert refused(lambda: stub.List(snapshots_pb2.ListSnapshotsRequest(), timeout=10))[0] in {
        *GONE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    }


@pytest.mark.parametrize(
    "how",
    ["patience is over", *(pytest.param(how, marks=pytest.mark.soak) for how in ("SIGINT", "SIGTERM twice"))],
)
def test_streams_that_nobody_reads_do_not_keep_it_open(start, channels, how):
    patience = 0.1 if how == "patience is over" else 3600
    server = start("--set", f"shutdown.graceful_timeout_s={patience}").ready()
    fill(server, "stuck", 24)
    channel = channels(server, FIXED_WINDOW)
    one = snapshots(channel).Begin(snapshots_pb2.BeginSnapshotRequest())
    fetch = snapshots(channel).Fetch(snapshots_pb2.FetchRequest(id=one.id))
    next(fetch)
    plan = partitions(channel).Plan(partitions_pb2.PlanRequest(table="stuck", partitions=1))
    read = partitions(channel).Read(partitions_pb2.ReadPartitionRequest(ticket=plan.partitions[0].ticket))
    next(read)
    if how == "SIGINT":
        server.signal(signal.SIGINT)
    else:
        server.signal(signal.SIGTERM)
        if how == "SIGTERM twice":
            server.wait_for("SIGTERM")
            server.signal(signal.SIGTERM)
    assert server.wait() == 0
    server.wait_for("stopped")
    assert not [record for record in server.records() if record["level"] == "error"]
    for stream in (fetch, read):
        with pytest.raises(grpc.RpcError) as caught:
            for _message in stream:
                pass
        assert told(caught.value)[0] in GONE


def test_it_can_be_left_out(start):
    ready = start("--set", "grpc.enabled=false").ready().wait_for("ready")
    assert "grpc_port" not in ready


def test_a_port_that_is_taken_is_told(start, tmp_path):
    first = start().ready()
    second = start("--set", f"grpc.port={first.grpc_port}", data=tmp_path / "other")
    assert second.wait() == 1
    said = second.wait_for("cannot start")
    assert f"grpc cannot listen on 127.0.0.1:{first.grpc_port}" in said["message"]
