"""Servers as processes of their own, on free ports, ended with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.server_process import RunningServer


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., RunningServer]]:
    """``start(*arguments, data=..., **environment)``: a server that has begun to start."""
    servers: list[RunningServer] = []

    def begin(*arguments: object, data: Path | None = None, **environment: str) -> RunningServer:
        server = RunningServer(data or tmp_path / "data", *arguments, **environment)
        servers.append(server)
        return server

    yield begin
    for server in servers:
        server.close()


@pytest.fixture
def server(start: Callable[..., RunningServer]) -> RunningServer:
    """A server that serves an empty database."""
    return start().ready()


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server for all tests of a file; each uses tables of its own."""
    running = RunningServer(tmp_path_factory.mktemp("shared") / "data").ready()
    yield running
    running.close()
