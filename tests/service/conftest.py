"""Servers as processes of their own, and channels to their gRPC services."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from tests.support.server_process import RunningServer


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RunningServer]]:
    """``start(*arguments, data=...)``: a server that has begun to start."""
    servers: list[RunningServer] = []

    def begin(*arguments: object, data: Path | None = None) -> RunningServer:
        servers.append(RunningServer(data or tmp_path / "data", *arguments))
        return servers[-1]

    yield begin
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for all tests of a file; each uses tables of its own."""
    data = tmp_path_factory.mktemp("shared") / "data"
    # Ledgers are trimmed by what the tests do: the past would keep them.
    running = RunningServer(data, "--set", "storage.flashback_s=0").ready()
    yield running
    running.close()


@pytest.fixture
def channels() -> Iterator[Callable[..., grpc.Channel]]:
    """``channels(server, *options)``: a channel to its gRPC services, closed with the test."""
    opened: list[grpc.Channel] = []

    def channel(server: RunningServer, *options: tuple[str, int], port: int | None = None) -> grpc.Channel:
        # A connection of its own for each: what one test leaves is no other's.
        alone = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 64 << 20)]
        place = f"127.0.0.1:{port or server.grpc_port}"
        opened.append(grpc.insecure_channel(place, [*alone, *options]))
        return opened[-1]

    yield channel
    for one in opened:
        one.close()


@pytest.fixture
def channel(server: RunningServer, channels: Callable[..., grpc.Channel]) -> grpc.Channel:
    """A channel to the shared server."""
    return channels(server)
