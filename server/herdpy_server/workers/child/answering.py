"""One question: its columns out of the snapshot, DuckDB over them, batches to the server as it takes them.

Above ``state``. LMDB's state is let go of as soon as the columns are there, before DuckDB begins. Columns
that were built become files after the answer, when nobody waits for it.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from herdpy_server.store.segment_file import SegmentDraft
from herdpy_server.workers.child.channel import Channel
from herdpy_server.workers.child.state import WatchedView, WorkerCache, WorkerDisk
from herdpy_server.workers.messages import (
    AskQuestion,
    BeginQuestion,
    QuestionFailed,
    ResultBatch,
    ResultEnd,
    ResultSchema,
    WorkerReady,
)
from herdpy_sql.clock import Clock
from herdpy_sql.columnar import ColumnarQuery, Interrupt, Limits
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.store.snapshot import StoreSnapshot

_QUERIES = 256
_BATCH_BYTES = 1 << 20


class Answering:
    """Answers questions, one after the other."""

    def __init__(self, channel: Channel, base: WorkerDisk, state: WorkerCache, limits: Limits) -> None:
        self._channel = channel
        self._base = base
        self._state = state
        self._limits = limits
        self._view: tuple[int, WatchedView] | None = None
        self._queries: OrderedDict[int, ColumnarQuery] = OrderedDict()
        self._drafts: list[SegmentDraft] = []

    def begin(self, begin: BeginQuestion) -> None:
        """Open LMDB's newest state for a question, and say what is known already."""
        self.forget()
        self._state.begin()
        position, view = self._base.newest()
        self._view = begin.number, view
        self._channel.send(WorkerReady(begin.number, *position, self._state.kept, self._state.held))

    def forget(self, number: int | None = None) -> None:
        """The question that was begun (if it has this number) will not be asked."""
        if self._view is not None and number in (None, self._view[0]):
            self._base.release(self._view[1])
            self._view = None

    def answer(self, ask: AskQuestion) -> bool:
        """Answer; False when this process had better end."""
        failure: QuestionFailed | None = None
        with self._channel.cancellable(ask.number) as interrupt:
            try:
                self._answer(ask, interrupt)
            except SqlError as error:
                failure = _failed(ask.number, error, last=False)
            except (MemoryError, pa.ArrowMemoryError):
                failure = _failed(ask.number, _out_of_memory(), last=True)
            finally:
                self.forget()
        if failure is None:
            self._channel.send(ResultEnd(ask.number, self._state.columns.tables))
        else:
            self._channel.send(failure)
        self._keep_columns()
        pa.default_memory_pool().release_unused()
        return failure is None or not failure.last

    def _keep_columns(self) -> None:
        drafts, self._drafts = self._drafts, []
        for draft in drafts:
            assert self._state.columns.segments is not None
            self._state.columns.segments.write(draft)

    def _answer(self, ask: AskQuestion, interrupt: Interrupt) -> None:
        query = self._query(ask)
        values, times, form, memory_bytes = pickle.loads(ask.inputs)  # of our own parent
        assert self._view is not None
        _, view = self._view
        view.watch = interrupt.check
        snapshot = self._state.snapshot(ask, view)
        sources = _columns(query, values, snapshot)
        if self._state.columns.has_drafts:
            self._drafts = self._state.columns.drafts(snapshot, {scan.table.id for scan in query.scans})
        snapshot.close()
        self.forget()
        limits = replace(self._limits, memory_bytes=memory_bytes)
        batches = query.stream(sources, values, Clock(*times), limits, interrupt)
        if form is None:
            self._send(ask.number, query.schema, batches)
        else:
            self._export(ask.number, query.schema, batches, form)

    def _query(self, ask: AskQuestion) -> ColumnarQuery:
        query = self._queries.get(ask.query_id)
        if query is None:
            query = self._queries[ask.query_id] = pickle.loads(ask.query)
        self._queries.move_to_end(ask.query_id)
        if len(self._queries) > _QUERIES:
            self._queries.popitem(last=False)
        return query

    def _send(self, number: int, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        """The rows; the head goes out with the first, when most of the work is done."""
        send = self._channel.send
        first = next(batches, None)
        send(ResultSchema(number), schema.serialize())
        while first is not None:
            for part in _parts(first):
                send(ResultBatch(number, part.num_rows), part.serialize())
            first = next(batches, None)

    def _export(self, number: int, schema: pa.Schema, batches: Iterator[pa.RecordBatch], form: Any) -> None:
        send = self._channel.send
        first = next(batches, None)
        send(ResultSchema(number), schema.serialize())
        send(ResultBatch(number, 0), form.start(schema))
        while first is not None:
            for part in _parts(first):
                send(ResultBatch(number, part.num_rows), form.batch(part))
            first = next(batches, None)
        send(ResultBatch(number, 0), form.end())


def _columns(query: ColumnarQuery, values: Any, snapshot: StoreSnapshot) -> dict[str, pa.Table]:
    found = {}
    for scan in query.scans:
        low, high = scan.bounds(values)
        found[scan.name] = snapshot.arrow(scan.table, scan.positions, low, high)
    return found


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in parts of about a megabyte, where rows are that wide."""
    count = max(1, min(batch.num_rows, batch.num_rows * _BATCH_BYTES // max(batch.nbytes, 1)))
    for start in range(0, batch.num_rows, count):
        yield batch.slice(start, count)


def _failed(number: int, error: SqlError, *, last: bool) -> QuestionFailed:
    return QuestionFailed(number, error.sqlstate, error.message, error.detail, error.hint, error.fields, last)


def _out_of_memory() -> SqlError:
    return SqlError(
        "53200",
        "out of memory",
        detail="The worker process needs more than it may use.",
        hint="The limit is the setting workers.memory_bytes.",
    )
