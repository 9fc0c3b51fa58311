"""The backend of an embedded database: DuckDB in this process, in the thread that waits.

Beside ``query_backend``, whose protocols these are. A query's columns are read first and the snapshot let
go of; rows are made when they are asked for, a batch at a time, and none that nobody asks for.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pyarrow as pa

from herdpy_server.sessions.query_backend import BATCH_ROWS
from herdpy_server.tablespace.work import Pause, Work
from herdpy_sql.columnar import ColumnarQuery
from herdpy_sql.system import CatalogQuery

if TYPE_CHECKING:
    from herdpy_server.sessions.query_backend import Answer, Export, Form, QueryRequest


class InProcess:
    """Answers in the thread that waits, or in an executor's thread of its loop, batch by batch.

    What the system catalog answers is all there before ``ask`` returns.
    """

    async def ask(self, request: QueryRequest) -> Answer:
        """See :class:`QueryBackend`."""
        sources = await self._sources(request)
        if isinstance(request.query, ColumnarQuery):
            return MadeAnswer(request, sources)
        query, values = request.query, request.values
        work: Work[pa.Table] = Work(
            lambda: query.run(sources, values, request.clock, request.limits, request.interrupt)
        )
        found = await work
        if isinstance(query, CatalogQuery):
            found = query.ended(found)
            request.interrupt.check()  # it may have cancelled itself
        return WholeAnswer(found)

    async def export(self, request: QueryRequest, form: Form) -> Export:
        """See :class:`QueryBackend`. The bytes are made where the session runs."""
        return MadeExport(await self.ask(request), form)

    async def _sources(self, request: QueryRequest) -> dict[str, pa.Table]:
        """What the query reads of tables; the snapshot is let go of as soon as that is there."""
        values = request.values
        snapshot = request.open_snapshot()

        def read() -> dict[str, pa.Table]:
            found = {}
            for scan in request.query.scans:
                low, high = scan.bounds(values)
                found[scan.name] = snapshot.arrow(scan.table, scan.positions, low, high)
            return found

        try:
            return await Work(read)
        finally:
            snapshot.close()


class MadeAnswer:
    """An answer of a ColumnarQuery that is made while it is read, by DuckDB in this process."""

    def __init__(self, request: QueryRequest, sources: dict[str, pa.Table]) -> None:
        self.schema: pa.Schema = request.query.schema
        self._request: QueryRequest | None = request
        self._sources = sources
        self._batches: Generator[pa.RecordBatch] | None = None

    async def next(self) -> pa.RecordBatch | None:
        """See :class:`Answer`."""
        request = self._request
        if request is None:
            return None
        if self._batches is None:
            self._batches = request.query.stream(
                self._sources,
                request.values,
                request.clock,
                request.limits,
                request.interrupt,
                BATCH_ROWS,
            )
        batches = self._batches
        assert batches is not None
        batch = await Work(lambda: next(batches, None))
        if batch is None:
            self.close()
        return batch

    async def all(self) -> pa.Table:
        """See :class:`Answer`. From the beginning it is made in one go, which is faster."""
        request = self._request
        if request is None:
            return self.schema.empty_table()
        if self._batches is None:
            given = request.values, request.clock, request.limits, request.interrupt
            work: Work[pa.Table] = Work(lambda: request.query.run(self._sources, *given))
            whole = await work
            self.close()
            return whole
        found = []
        while (batch := await self.next()) is not None:
            found.append(batch)
        return pa.Table.from_batches(found, self.schema)

    def close(self) -> None:
        """See :class:`Answer`."""
        request, self._request = self._request, None
        batches, self._batches = self._batches, None
        self._sources = {}
        if request is not None and batches is not None:
            try:
                batches.close()
            except ValueError:  # another thread is within it, whose session was shut
                request.interrupt.cancel()


class WholeAnswer:
    """An answer that is all there."""

    def __init__(self, table: pa.Table) -> None:
        self.schema = table.schema
        self._table: pa.Table | None = table
        self._at = 0

    async def next(self) -> pa.RecordBatch | None:
        """See :class:`Answer`."""
        if self._table is None or self._at >= self._table.num_rows:
            return None
        # Within one chunk, so that nothing is copied.
        batch = next(iter(self._table.slice(self._at).to_batches(max_chunksize=BATCH_ROWS)))
        self._at += batch.num_rows
        return batch

    async def all(self) -> pa.Table:
        """See :class:`Answer`."""
        table = self.schema.empty_table() if self._table is None else self._table
        rest = table.slice(self._at)
        self._at = table.num_rows
        return rest

    def close(self) -> None:
        """See :class:`Answer`."""
        self._table = None


class MadeExport:
    """An export of an answer of this process."""

    def __init__(self, answer: Answer, form: Form) -> None:
        self.rows = 0
        self._form = form
        self._answer = answer
        self._started = self._ended = False

    async def next(self) -> bytes | None:
        """See :class:`Export`."""
        if self._ended:
            return None
        if not self._started:
            self._started = True
            return self._form.start(self._answer.schema)
        await Pause()
        batch = await self._answer.next()
        if batch is None:
            self._ended = True
            return self._form.end()
        self.rows += batch.num_rows
        return self._form.batch(batch)

    def close(self) -> None:
        """See :class:`Export`."""
        self._ended = True
        self._answer.close()


IN_PROCESS = InProcess()
"""It keeps nothing, so that one does for all."""
