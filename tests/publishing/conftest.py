"""An open database whose store is published, and what its log says of positions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from herdpy.log.lsn import LSN
from herdpy_server.embedded import Database
from herdpy_server.publishing.snapshot import Moment, moment_of


class Source:
    """The database, and its log as ``publish`` asks it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.session = database.session()
        self.asked: list[Moment] = []

    @property
    def store(self) -> Path:
        return self.database.path / "store"

    def run(self, *statements: str) -> list[tuple[object, ...]]:
        """Rows of the last statement."""
        rows: list[tuple[object, ...]] = []
        for text in statements:
            result = self.database.run(self.session.execute(text))
            rows = [] if result.rows is None else [tuple(row) for row in result.rows]
        return rows

    def checkpoint(self) -> LSN:
        """Everything into LMDB; the position."""
        self.database.checkpointer.checkpoint(trim=False)
        return self.database.store.durable

    async def moment(self, lsn: LSN) -> Moment:
        log = self.database.log
        found = await moment_of(log, log.state, lsn, time.time_ns() // 1000)
        self.asked.append(found)
        return found


@pytest.fixture
def source(tmp_path: Path) -> Iterator[Source]:
    database = Database.open(tmp_path / "database", checkpoint_interval_s=3600.0)
    yield Source(database)
    database.close()
