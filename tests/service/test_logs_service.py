"""Where a log is, leases on it, and snapshots that are published: on a server that is alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from herdpy.log.lsn import LSN
from herdpy.log.published import load, snapshots
from herdpy.rpc import admin_pb2, common_pb2, logs_pb2
from tests.service.calls import TIMEOUT_S, admin, basic, logs, refused, run
from tests.support.server_process import RunningServer

Lease = logs_pb2.LeaseLogRequest


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server publishes to."""
    return tmp_path_factory.mktemp("published")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, place: Path) -> Iterator[RunningServer]:
    """One that publishes when it is asked to, and keeps no more of the log than it must."""
    running = RunningServer(
        tmp_path_factory.mktemp("shared") / "data",
        *("--set", f"publish.url={place}", "--set", "publish.keep=1"),
        *("--set", "storage.log_retention_bytes=0", "--set", "storage.flashback_s=0"),
    ).ready()
    run(running, "CREATE TABLE t (x int PRIMARY KEY, s text)")
    run(running, "CREATE ROLE herdpy LOGIN SUPERUSER", "CREATE ROLE guest LOGIN PASSWORD 'x'")
    run(running, "CREATE ROLE spark LOGIN REPLICATION PASSWORD 'x'")
    running.wait_for("snapshot published")  # the first one, as nothing was published before
    yield running
    running.close()


def lsn(told: Any) -> LSN:
    return LSN(told.ledger_id, told.entry_id)


def position(at: LSN) -> Any:
    return common_pb2.Lsn(ledger_id=at.ledger_id, entry_id=at.entry_id)


def publish(channel: grpc.Channel, url: str | Path = "") -> Any:
    """The snapshot that is there when it is done."""
    request = logs_pb2.PublishSnapshotRequest(url=str(url))
    *_, last = logs(channel).Publish(request, timeout=TIMEOUT_S)
    assert last.rows == last.total_rows
    return last.done


def trim(channel: grpc.Channel) -> LSN:
    """Let all of the log go that may; the last entry that went."""
    admin(channel).Checkpoint(admin_pb2.CheckpointRequest(), timeout=TIMEOUT_S)
    return lsn(logs(channel).Describe(logs_pb2.DescribeLogRequest(), timeout=TIMEOUT_S).base)


def test_describe(server: RunningServer, channel: grpc.Channel, place: Path) -> None:
    told = logs(channel).Describe(logs_pb2.DescribeLogRequest(table="t"), timeout=TIMEOUT_S)
    assert (told.tablespace, told.kind, told.snapshot_url) == ("default", logs_pb2.LOG_KIND_FILES, str(place))
    assert told.directory == str(server.data / "log")
    assert len(told.log_id) == 32
    definition = json.loads(told.table.definition)
    assert (definition["name"], [one["name"] for one in definition["columns"]]) == ("t", ["x", "s"])
    assert lsn(told.table.lsn) == lsn(told.applied) == lsn(told.nodes[0].applied)
    code, state, _ = refused(lambda: logs(channel).Describe(logs_pb2.DescribeLogRequest(table="no")))
    assert (code, state) == (grpc.StatusCode.NOT_FOUND, "42P01")
    code, state, _ = refused(lambda: logs(channel).Describe(logs_pb2.DescribeLogRequest(tablespace="no")))
    assert (code, state) == (grpc.StatusCode.NOT_FOUND, "3D000")


def test_only_who_may_replicate_leases_and_publishes(channel: grpc.Channel) -> None:
    """Others learn where the log is."""
    stub = logs(channel)
    calls: list[Callable[..., Any]] = [
        lambda **who: stub.Lease(Lease(), **who),
        lambda **who: stub.Renew(logs_pb2.RenewLogLeaseRequest(id="x"), **who),
        lambda **who: stub.Release(logs_pb2.LogLeaseId(id="x"), **who),
        lambda **who: list(stub.Publish(logs_pb2.PublishSnapshotRequest(), **who)),
    ]
    for call in calls:
        code, state, _ = refused(lambda: call(metadata=basic("guest"), timeout=TIMEOUT_S))  # noqa: B023
        assert (code, state) == (grpc.StatusCode.PERMISSION_DENIED, "42501")
    assert stub.Describe(logs_pb2.DescribeLogRequest(), metadata=basic("guest"), timeout=TIMEOUT_S).log_id
    lease = stub.Lease(Lease(), metadata=basic("spark"), timeout=TIMEOUT_S)
    stub.Release(logs_pb2.LogLeaseId(id=lease.id), metadata=basic("spark"), timeout=TIMEOUT_S)


def test_a_snapshot_is_published_and_the_log_kept_after_it(
    server: RunningServer, channel: grpc.Channel, place: Path
) -> None:
    """Whatever is trimmed, the newest snapshot and the entries after it are the state."""
    run(server, "INSERT INTO t VALUES (1, 'one')")
    done = publish(channel)
    assert done.url == str(place)
    (ref,) = snapshots(str(place), "default")
    assert ref.lsn == lsn(done.lsn)
    manifest = load(ref)
    described = logs(channel).Describe(logs_pb2.DescribeLogRequest(), timeout=TIMEOUT_S)
    assert (manifest.log_id, manifest.time_us) == (described.log_id, done.time_us)
    assert lsn(described.snapshot.lsn) == ref.lsn
    run(server, "INSERT INTO t VALUES (2, 'two')")
    trim(channel)
    run(server, "INSERT INTO t VALUES (3, 'three')")
    base = trim(channel)
    assert base <= ref.lsn
    run(server, "DELETE FROM t WHERE x = 3")
    newer = lsn(publish(channel).lsn)
    assert [one.lsn for one in snapshots(str(place), "default")] == [newer]
    assert ref.lsn < trim(channel) <= newer


def test_a_lease_keeps_a_snapshot_and_the_log_after_it(
    server: RunningServer, channel: grpc.Channel, place: Path
) -> None:
    """From its snapshot on; from its release on they go."""
    stub = logs(channel)
    first = lsn(publish(channel).lsn)
    lease = stub.Lease(Lease(purpose="a test"), timeout=TIMEOUT_S)
    assert (lsn(lease.after), lsn(lease.snapshot.lsn)) == (first, first)
    run(server, "UPDATE t SET s = 'new'")
    second = lsn(publish(channel).lsn)
    assert [one.lsn for one in snapshots(str(place), "default")] == [second, first]
    assert trim(channel) <= first
    renewed = stub.Renew(logs_pb2.RenewLogLeaseRequest(id=lease.id, lease_s=500), timeout=TIMEOUT_S)
    assert (lsn(renewed.after), renewed.lease.remaining_s) == (first, 500)
    # At its own position a snapshot is of use without the log.
    stub.Release(logs_pb2.LogLeaseId(id=lease.id), timeout=TIMEOUT_S)
    exact = stub.Lease(Lease(upto=position(first)), timeout=TIMEOUT_S)
    assert lsn(exact.snapshot.lsn) == first
    assert trim(channel) > first
    run(server, "UPDATE t SET s = 'newer'")
    publish(channel)
    assert first in [one.lsn for one in snapshots(str(place), "default")]
    stub.Release(logs_pb2.LogLeaseId(id=exact.id), timeout=TIMEOUT_S)
    stub.Release(logs_pb2.LogLeaseId(id=exact.id), timeout=TIMEOUT_S)
    run(server, "UPDATE t SET s = 'newest'")
    publish(channel)
    assert len(snapshots(str(place), "default")) == 1
    code, state, text = refused(
        lambda: stub.Renew(logs_pb2.RenewLogLeaseRequest(id=lease.id), timeout=TIMEOUT_S)
    )
    assert (code, state) == (grpc.StatusCode.NOT_FOUND, "42704")
    assert "may be gone" in text


def test_what_is_gone_cannot_be_leased(server: RunningServer, channel: grpc.Channel) -> None:
    """Entries that were trimmed; a moment before every snapshot."""
    stub = logs(channel)
    publish(channel)
    run(server, "UPDATE t SET s = 'x'")
    done = publish(channel)
    base = trim(channel)
    for request in (
        Lease(after=position(LSN(base.ledger_id, base.entry_id - 1))),
        Lease(upto=position(LSN(-1, -1))),
        Lease(upto_us=done.time_us - 1),
    ):
        code, state, text = refused(lambda: stub.Lease(request, timeout=TIMEOUT_S))  # noqa: B023
        assert (code, state) == (grpc.StatusCode.OUT_OF_RANGE, "22003")
        assert "the log begins after" in text
    there = stub.Lease(Lease(upto_us=done.time_us), timeout=TIMEOUT_S)
    assert lsn(there.snapshot.lsn) == lsn(done.lsn)
    kept = stub.Lease(Lease(after=position(base)), timeout=TIMEOUT_S)
    assert not kept.HasField("snapshot") or lsn(done.lsn) == base
    moved = stub.Renew(
        logs_pb2.RenewLogLeaseRequest(id=kept.id, after=done.lsn, lease_s=1), timeout=TIMEOUT_S
    )
    assert lsn(moved.after) == lsn(moved.snapshot.lsn) == lsn(done.lsn)
    for lease in (there, kept):
        stub.Release(logs_pb2.LogLeaseId(id=lease.id), timeout=TIMEOUT_S)


def test_a_server_that_is_alone_has_no_followers(channel: grpc.Channel) -> None:
    stream = logs(channel).ReportLac(logs_pb2.ReportLacRequest(), timeout=TIMEOUT_S)
    code, state, text = refused(lambda: next(stream))
    assert (code, state) == (grpc.StatusCode.UNIMPLEMENTED, "0A000")
    assert "no followers" in text


def test_a_copy_elsewhere_is_the_callers_own(channel: grpc.Channel, place: Path, tmp_path: Path) -> None:
    """It is no part of what the tablespace publishes, and nobody removes it."""
    before = snapshots(str(place), "default")
    first = lsn(publish(channel, tmp_path / "copy").lsn)
    assert [one.lsn for one in snapshots(str(tmp_path / "copy"), "default")] == [first]
    assert snapshots(str(place), "default") == before
    described = logs(channel).Describe(logs_pb2.DescribeLogRequest(), timeout=TIMEOUT_S)
    assert described.snapshot.url == str(place)
    (tmp_path / "file").write_text("")
    _code, state, text = refused(lambda: publish(channel, tmp_path / "file"))
    assert state == "58030"
    assert str(tmp_path / "file") in text


def test_what_was_published_is_found_again(
    start: Callable[..., RunningServer], channels: Callable[..., grpc.Channel], tmp_path: Path
) -> None:
    """By the next process, which publishes no sooner than is due, and by itself when it is."""
    place = tmp_path / "place"
    options = ("--set", f"publish.url={place}", "--set", "publish.interval_s=3600")
    server = start(*options).ready()
    server.wait_for("snapshot published")
    (ref,) = snapshots(str(place), "default")
    server.stop()
    server = start(*options).ready()
    channel = channels(server)
    deadline = logs(channel)
    while not (told := deadline.Describe(logs_pb2.DescribeLogRequest(), timeout=TIMEOUT_S)).HasField(
        "snapshot"
    ):
        pass
    assert lsn(told.snapshot.lsn) == ref.lsn
    assert snapshots(str(place), "default") == [ref]


def test_without_a_place(start: Callable[..., RunningServer], channels: Callable[..., grpc.Channel]) -> None:
    """There is nothing to publish to; the whole log can be leased."""
    channel = channels(start().ready())
    code, state, text = refused(lambda: publish(channel))
    assert (code, state) == (grpc.StatusCode.FAILED_PRECONDITION, "55000")
    assert "no place" in text
    lease = logs(channel).Lease(Lease(), timeout=TIMEOUT_S)
    assert lsn(lease.after) == LSN(-1, -1)
    assert not lease.HasField("snapshot")
