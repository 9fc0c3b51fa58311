"""A server whose statements are counted, for the tests of statistics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from herdpy_server.process.statements import StatementStatistics
from tests.pgwire.servers import ThreadServer, thread_server


class Counted:
    """A server, and what it counts."""

    def __init__(self, server: ThreadServer) -> None:
        self.server = server
        self.statistics = StatementStatistics()
        server.database.observer_of = self.statistics.of_session
        server.server.registry.statements = self.statistics.table

    def connect(self, user: str = "herdpy") -> psycopg.Connection:
        return psycopg.connect(
            f"host=127.0.0.1 port={self.server.port} user={user} dbname=herdpy", autocommit=True
        )

    def waits(self, pid: int) -> None:
        """Until a session waits for a lock."""
        registry = self.server.server.registry

        def look() -> bool:
            entry = registry.get(pid)
            return entry is not None and entry.session.waits.lock_wait is not None

        self.server.wait_for(look)


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Counted]:
    """A server of its own."""
    with thread_server(tmp_path / "data") as server:
        yield Counted(server)
