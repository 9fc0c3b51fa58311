"""What tests of the gRPC services share: stubs, errors, credentials."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from herdpy.rpc import (
    admin_pb2_grpc,
    backups_pb2_grpc,
    loads_pb2_grpc,
    logs_pb2_grpc,
    partitions_pb2,
    partitions_pb2_grpc,
    snapshots_pb2_grpc,
)
from tests.support.server_process import RunningServer

TIMEOUT_S = 60.0


def admin(channel: grpc.Channel) -> Any:
    """A stub."""
    return admin_pb2_grpc.AdminStub(channel)


def snapshots(channel: grpc.Channel) -> Any:
    """A stub."""
    return snapshots_pb2_grpc.SnapshotsStub(channel)


def partitions(channel: grpc.Channel) -> Any:
    """A stub."""
    return partitions_pb2_grpc.PartitionsStub(channel)


def loads(channel: grpc.Channel) -> Any:
    """A stub."""
    return loads_pb2_grpc.LoadsStub(channel)


def logs(channel: grpc.Channel) -> Any:
    """A stub."""
    return logs_pb2_grpc.LogsStub(channel)


def backups(channel: grpc.Channel) -> Any:
    """A stub."""
    return backups_pb2_grpc.BackupsStub(channel)


def run(server: RunningServer, *statements: str) -> None:
    """Run statements by SQL, as the first role."""
    with server.connect(user="herdpy", autocommit=True) as connection:
        for text in statements:
            connection.execute(text)


def basic(user: str, password: str = "") -> tuple[tuple[str, str], ...]:
    """Metadata that say who calls."""
    text = base64.b64encode(f"{user}:{password}".encode()).decode()
    return (("authorization", f"Basic {text}"),)


def refused(call: Callable[[], Any]) -> tuple[grpc.StatusCode, str, str]:
    """Code, SQLSTATE and message of a call that must fail."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return told(caught.value)


def told(error: Any) -> tuple[grpc.StatusCode, str, str]:
    """Code, SQLSTATE and message of an error."""
    return error.code(), dict(error.trailing_metadata() or ()).get("sqlstate", ""), error.details()


def rows_of(stub: Any, plan: Any) -> list[list[tuple[Any, ...]]]:
    """The rows of each partition of a plan."""
    import pyarrow as pa

    found = []
    for partition in plan.partitions:
        stream = stub.Read(partitions_pb2.ReadPartitionRequest(ticket=partition.ticket), timeout=TIMEOUT_S)
        table = pa.ipc.open_stream(b"".join(message.data for message in stream)).read_all()
        rows = [tuple(row.values()) for row in table.to_pylist()]
        assert len(rows) == partition.rows
        found.append(rows)
    return found
