"""A query backend that makes rows as they are asked for, and tells how many were."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

from herdpy_server.sessions.query_backend import Answer, Export, Form, QueryRequest
from herdpy_sql.errors import SqlError
from tests.pgwire.servers import ThreadServer

BATCH_ROWS = 1000


class Fed:
    """Answers every question with the numbers from 0, in batches, up to ``rows`` of them.

    Attributes:
        made: how many batches were asked for. ``opened``, ``closed``: how many answers were begun and ended.
        fails_at: the batch, from 0, in whose place division by zero is raised.
    """

    def __init__(self, rows: int, fails_at: int = -1) -> None:
        self.rows = rows
        self.fails_at = fails_at
        self.made = self.opened = self.closed = 0

    async def ask(self, question: QueryRequest) -> Answer:
        return FedAnswer(self, question)

    async def export(self, question: QueryRequest, form: Form) -> Export:
        return FedExport(self, question, form)


class FedAnswer:
    def __init__(self, fed: Fed, question: QueryRequest) -> None:
        question.open_snapshot().close()
        self.schema = question.query.schema
        self._fed = fed
        self._at = 0
        self._is_open = True
        fed.opened += 1

    async def next(self) -> pa.RecordBatch | None:
        fed = self._fed
        assert self._is_open
        if self._at // BATCH_ROWS == fed.fails_at:
            raise SqlError("22012", "division by zero")
        if self._at >= fed.rows:
            return None
        fed.made += 1
        numbers = range(self._at, min(self._at + BATCH_ROWS, fed.rows))
        self._at = numbers.stop
        arrays = [pa.array(numbers, field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    async def all(self) -> pa.Table:
        batches = []
        while (batch := await self.next()) is not None:
            batches.append(batch)
        return pa.Table.from_batches(batches, self.schema)

    def close(self) -> None:
        self._fed.closed += self._is_open
        self._is_open = False


class FedExport:
    def __init__(self, fed: Fed, question: QueryRequest, form: Form) -> None:
        self._answer = FedAnswer(fed, question)
        self._form = form
        self._step = "start"
        self.rows = 0

    async def next(self) -> bytes | None:
        if self._step == "start":
            self._step = "rows"
            return self._form.start(self._answer.schema)
        if self._step == "over":
            return None
        batch = await self._answer.next()
        if batch is None:
            self._step = "over"
            return self._form.end()
        self.rows += batch.num_rows
        return self._form.batch(batch)

    def close(self) -> None:
        self._answer.close()


@contextlib.contextmanager
def feeding(server: ThreadServer, fed: Fed) -> Iterator[Fed]:
    """Within the block the sessions that begin ask ``fed``; at its end all that it began is closed."""
    begin = server.database.session

    def session():  # type: ignore[no-untyped-def]
        made = begin()
        made.queries.backend = fed
        return made

    server.database.session = session  # type: ignore[method-assign]
    try:
        yield fed
        server.wait_for(lambda: fed.opened == fed.closed)
    finally:
        server.database.session = begin  # type: ignore[method-assign]
