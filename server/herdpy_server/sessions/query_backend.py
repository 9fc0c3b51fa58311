"""What answers the queries for DuckDB: the seam between sessions and where CPU-bound reading is done.

Below ``result`` and ``backend_queries``. A session has a :class:`QueryBackend` and does not know which: an
embedded database's is :class:`InProcess`, the thread that waits; a server's is the pool of ``workers``. Both
answer a :class:`QueryRequest` as of the snapshot that is opened while it is asked, in batches
(:class:`Answer`) or as bytes for the client (:class:`Export`). All of it is for the thread that runs the
session, and awaits :class:`~herdpy.log.wait.Wait` alone, since sessions are stepped by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from herdpy.log.wait import Pause, Work
from herdpy_sql.columnar import ColumnarQuery
from herdpy_sql.system import CatalogQuery

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.store import StoreSnapshot
    from herdpy_sql.clock import Clock
    from herdpy_sql.columnar import Interrupt, Limits


BATCH_ROWS = 8192
"""The most rows of a batch that an answer gives."""


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """What is asked.

    Attributes:
        query: a ColumnarQuery, or a CatalogQuery that has begun.
        values: its parameters as datums.
        open_snapshot: what the statement sees, as of the call; called once the answer can begin, perhaps
            more than once. Raises SourceChanged when the plan does not fit the definitions any more.
        interrupt: its ``cancel`` ends the asking and whatever is left of the answer.
        is_past: the snapshot is of long ago: only this process can open it.
    """

    query: Any
    values: Sequence[Datum]
    clock: Clock
    open_snapshot: Callable[[], StoreSnapshot]
    limits: Limits
    interrupt: Interrupt
    is_past: bool = False


class Answer(Protocol):
    """Rows that are read once, in order. Close it, or what makes it stays occupied.

    It is dropped with its session's statement; one coroutine at a time reads it. ``schema`` has the types of
    the query's columns (``herdpy.codec.arrow.arrow_type``).
    """

    @property
    def schema(self) -> pa.Schema:
        """Of the batches."""

    async def next(self) -> pa.RecordBatch | None:
        """The next batch, of at most BATCH_ROWS rows and one at least; None after the last.

        Raises:
            SqlError: what the query did wrong, 57014 when it was cancelled, 58000 when its worker died
                and others as the backend says. After an error there is nothing more to be had.
        """

    async def all(self) -> pa.Table:
        """All that is left, as one table. Raises as :meth:`next`."""

    def close(self) -> None:
        """End it; what was not read is not made. A second call does nothing."""


class Form(Protocol):
    """Makes bytes of an answer, wherever it is made. It must be picklable, and is used once.

    ``herdpy_server.copy.CopyDataForm`` is one.
    """

    def start(self, schema: pa.Schema) -> bytes:
        """What comes before all rows."""

    def batch(self, batch: pa.RecordBatch) -> bytes:
        """The rows of a batch."""

    def end(self) -> bytes:
        """What comes after all rows."""


class Export(Protocol):
    """An answer as bytes. As :class:`Answer`, but for what it gives."""

    @property
    def rows(self) -> int:
        """How many rows are in what was given so far."""

    async def next(self) -> bytes | None:
        """The next piece, some tens of kilobytes or more; None after the last. Raises as Answer's."""

    def close(self) -> None:
        """End it; a second call does nothing."""


class QueryBackend(Protocol):
    """Answers questions.

    When ``ask`` or ``export`` has returned, the request's snapshot was taken: the workspace's
    ``read_position`` is what the answer rests on. Nothing may be sent to the client before that is
    durable. What is raised while asking is as of ``Answer.next``, and SourceChanged of ``open_snapshot``.
    """

    async def ask(self, request: QueryRequest) -> Answer:
        """Begin to answer."""

    async def export(self, request: QueryRequest, form: Form) -> Export:
        """Begin to answer in the client's format."""


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
