"""An embedded database, and what tests of loads do with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from herdpy_server.embedded import Database, opened
from herdpy_server.loading import StagingPlan, directory
from herdpy_server.store.loads import LoadOutcome


class Db:
    """A database with SQL in one word."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def __call__(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements in a session of their own; the rows of the last."""
        session = self.database.session()
        try:
            found: Any = None
            for sql in statements:
                found = self.database.run(session.execute(sql))
            return found.rows or []
        finally:
            self.database.run(session.close())

    def plan(self, table: str, mode: str, columns: Sequence[str]) -> StagingPlan:
        """What is to be staged."""
        begun = directory.begin(self.database, "planned only", table, mode, columns)
        assert isinstance(begun, StagingPlan)
        return begun

    def batch(self, table: str, mode: str, **columns: Sequence[Any]) -> pa.RecordBatch:
        """Rows of the types that are to be staged; what is not given has its DEFAULT."""
        names = list(columns)
        plan = self.plan(table, mode, names)
        count = len(columns[names[0]])
        arrays = []
        for field in plan.schema:
            if field.name in columns:
                arrays.append(pa.array(columns[field.name], field.type))
            else:
                assert plan.defaults is not None
                (value,) = plan.defaults.column(field.name).to_pylist()
                arrays.append(pa.array([value] * count, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([(f.name, f.type) for f in plan.schema]))

    def publish(self, load_id: str, table: str, mode: str, *batches: pa.RecordBatch) -> LoadOutcome:
        """Publish batches of this process."""
        return directory.publish_batches(self.database, load_id, table, mode, batches)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Db]:
    with opened(tmp_path / "db") as database:
        yield Db(database)
