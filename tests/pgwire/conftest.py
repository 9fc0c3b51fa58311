"""A server for the tests of a file, and the PostgreSQL that it is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pgwire.servers import ChildServer, ThreadServer, child_server, thread_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadServer]:
    """A server in a thread; what a module leaves behind in it is looked at when it ends."""
    with thread_server(tmp_path_factory.mktemp("pgwire") / "data") as found:
        yield found
        found.wait_for(found.is_clean)


@pytest.fixture
def child(tmp_path: Path) -> Iterator[ChildServer]:
    """A server in a child process."""
    with child_server(tmp_path / "data") as found:
        yield found
        assert found.process.poll() is None, "the server has exited"


@pytest.fixture(scope="session")
def postgres_address(postgres: str) -> str:
    """The socket of a real PostgreSQL."""
    host = dict(part.split("=") for part in postgres.split())["host"]
    return f"{host}/.s.PGSQL.5432"
