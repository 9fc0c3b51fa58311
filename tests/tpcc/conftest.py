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
