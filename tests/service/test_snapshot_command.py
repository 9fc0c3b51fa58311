"""``herdpy snapshot``: a copy of a running server that opens, whatever breaks on the way."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import herdpy
from herdpy.rpc import snapshots_pb2 as pb
from tests.service.calls import snapshots
from tests.service.cutting_proxy import CuttingProxy
from tests.service.test_snapshot_service import MIB, fill


def run(*arguments: object, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command; fails when it does not end with ``code``."""
    done = subprocess.run(
        [sys.executable, "-m", "herdpy.cli", "snapshot", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture
def proxies():
    """``proxies(server, limits)``: a proxy, closed with the test."""
    made: list[CuttingProxy] = []

    def make(server, limits) -> CuttingProxy:
        made.append(CuttingProxy(server.grpc_port, limits))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()


def content(directory: Path, table: str) -> tuple[int, int]:
    """Rows and length of a table, of a copy that is opened and written to."""
    with herdpy.connect(f"herdpy://{directory}", autocommit=True) as connection:
        connection.execute(f"INSERT INTO {table} VALUES (0, 'x')").close()
        cursor = connection.execute(f"SELECT count(*), sum(length(body)) FROM {table}")
        count, length = cursor.fetchone()
    return count - 1, length - 1


def test_a_copy_opens_and_takes_changes(server, tmp_path):
    fill(server, "opened", 2)
    done = run(f"grpc://127.0.0.1:{server.grpc_port}", tmp_path / "copy", "--json")
    facts = json.loads(done.stdout)
    assert (facts["directory"], facts["resumed_bytes"]) == (str(tmp_path / "copy"), 0)
    assert content(tmp_path / "copy", "opened") == (256, 256 * 8000)
    assert not (tmp_path / "copy" / "download").exists()
    error = run(f"grpc://127.0.0.1:{server.grpc_port}", tmp_path / "copy", code=1).stderr
    assert "there is a database" in error


def test_a_download_goes_on_over_broken_connections(server, proxies, tmp_path):
    fill(server, "interrupted", 12)
    proxy = proxies(server, [3 * MIB, 100, 2 * MIB + 12345, 4 * MIB])
    done = run(f"grpc://127.0.0.1:{proxy.port}", tmp_path / "copy")
    assert "is a database as of" in done.stdout
    assert proxy.cuts == 4
    assert content(tmp_path / "copy", "interrupted") == (12 * 128, 12 * 128 * 8000)


def test_the_command_goes_on_where_an_earlier_one_was(server, channel, proxies, tmp_path):
    fill(server, "resumed", 8)
    proxy = proxies(server, [7 * MIB] + [0] * 1000)
    failed = run(f"grpc://127.0.0.1:{proxy.port}", tmp_path / "copy", "--patience", 0, code=1)
    assert "Run the same command to resume" in failed.stderr
    assert not (tmp_path / "copy" / "HERDPY").exists()
    with pytest.raises(herdpy.Error) as caught:
        herdpy.connect(f"herdpy://{tmp_path}/copy")
    assert caught.value.sqlstate == "55000"
    facts = json.loads(run(f"grpc://127.0.0.1:{server.grpc_port}", tmp_path / "copy", "--json").stdout)
    assert facts["resumed_bytes"] >= MIB
    assert content(tmp_path / "copy", "resumed") == (8 * 128, 8 * 128 * 8000)
    assert not snapshots(channel).List(pb.ListSnapshotsRequest()).snapshots


def test_a_snapshot_that_is_gone_is_begun_anew(server, channel, proxies, tmp_path):
    fill(server, "anew", 8)
    proxy = proxies(server, [5 * MIB] + [0] * 1000)
    run(f"grpc://127.0.0.1:{proxy.port}", tmp_path / "copy", "--patience", 0, code=1)
    stub = snapshots(channel)
    for one in stub.List(pb.ListSnapshotsRequest()).snapshots:
        stub.Release(pb.SnapshotId(id=one.id))
    done = run(f"grpc://127.0.0.1:{server.grpc_port}", tmp_path / "copy", "--json")
    assert "beginning anew" in done.stderr
    assert json.loads(done.stdout)["resumed_bytes"] == 0
    assert content(tmp_path / "copy", "anew") == (8 * 128, 8 * 128 * 8000)


def test_a_server_that_is_not_there_is_told_and_nothing_is_made(tmp_path, unused_tcp_port):
    told = run(f"grpc://127.0.0.1:{unused_tcp_port}", tmp_path / "copy", code=1).stderr
    assert told.startswith("ERROR:  08006: ")
    assert not (tmp_path / "copy").exists()


@pytest.fixture
def unused_tcp_port():
    """A port where nobody listens, and nobody else can."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def test_wrong_usage_is_told(server, tmp_path):
    assert "grpc://host:port" in run("localhost:8481", tmp_path / "a", code=2).stderr
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine").touch()
    url = f"grpc://127.0.0.1:{server.grpc_port}"
    assert "It holds mine" in run(url, tmp_path / "other", code=1).stderr
    assert (tmp_path / "other" / "mine").exists()


def test_passwords_are_asked_for_and_not_shown(start, tmp_path):
    rules = '[{ method = "trust", user = "ann", network = "loopback" }, { method = "scram-sha-256" }]'
    server = start("--set", f"authentication.rules={rules}").ready()
    server.connect().execute("CREATE ROLE copier REPLICATION LOGIN PASSWORD 'a secret'")
    url = f"grpc://copier@127.0.0.1:{server.grpc_port}"
    told = run(url, tmp_path / "copy", code=1, HERDPY_PASSWORD="a wrong secret").stderr
    assert "28P01" in told
    assert "secret" not in told
    run(url, tmp_path / "copy", HERDPY_PASSWORD="a secret")
    assert "a secret" not in "\n".join(server.lines)
