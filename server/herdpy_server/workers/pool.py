"""The query backend of a server's sessions: answers are made in worker processes. The top of ``workers``.

    get a worker -> it opens LMDB's newest state and says which -> the statement's snapshot, taken here when
    its changes fit over that state -> the changes that the worker does not have -> the question -> batches

A worker that dies before its answer has begun is no concern of the statement: the question is asked again
of another one, with a snapshot of its own.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa

from herdpy.log.lsn import LSN
from herdpy.log.wait import Pause
from herdpy_server.sessions.query_backend import IN_PROCESS, Answer, Export, Form, QueryRequest
from herdpy_server.store import Store, StoreSnapshot
from herdpy_server.workers.exchange import LoopInterrupt, WorkerExchange
from herdpy_server.workers.messages import WorkerReady
from herdpy_server.workers.process import WorkerDiedError, WorkerProcess, WorkerStart
from herdpy_server.workers.scheduler import WorkerCounts, WorkerScheduler, WorkerSettings
from herdpy_server.workers.shipping import FlushJournal, Queries, Shipment
from herdpy_sql.errors import SqlError

_HOLD_S = 0.0005
"""The loop is held for about so long at a time by what is sent."""
_TRIES = 2


class _GoneOnError(Exception):
    """LMDB has newer states than the snapshot of a transaction that stands on an old one."""


class WorkerPool:
    """The workers of one open database. Everything is for the loop's thread.

    Attributes:
        settings: as given.
        counts: what happened.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        store: Store,
        spill: Path,
        settings: WorkerSettings,
        query_memory_bytes: int,
        column_cache_bytes: int,
        segment_bytes: int,
    ) -> None:
        """``spill`` is a directory for what queries put on disk."""
        self.settings = settings
        self.counts = WorkerCounts()
        self._loop = loop
        self._store = store
        self._journal = FlushJournal(lambda: store.disk.written.tables)
        self._queries = Queries()
        self._numbers = count(1)
        start = WorkerStart(
            store.disk.path,
            spill,
            settings.niceness,
            settings.threads,
            settings.memory_bytes,
            query_memory_bytes,
            column_cache_bytes,
            segment_bytes,
        )
        self._scheduler = WorkerScheduler(loop, start, settings, self.counts, self._worker_gone)
        store.columns.on_flush = self._journal.flushed

    # What there is, for metrics.

    @property
    def workers(self) -> set[WorkerProcess]:
        """The workers there are."""
        return self._scheduler.workers

    @property
    def busy(self) -> int:
        """How many of them are asked something."""
        return sum(worker.exchange is not None for worker in self._scheduler.workers)

    @property
    def waiting(self) -> int:
        """How many questions wait for one."""
        return len(self._scheduler.queue)

    # Asking.

    async def ask(self, question: QueryRequest) -> Answer:
        """See sessions.query_backend.QueryBackend."""
        try:
            return WorkerAnswer(*await self._begun(question, None))
        except _GoneOnError:
            return await IN_PROCESS.ask(question)

    async def export(self, question: QueryRequest, form: Form) -> Export:
        """See sessions.query_backend.QueryBackend."""
        try:
            exchange, _ = await self._begun(question, form)
        except _GoneOnError:
            return await IN_PROCESS.export(question, form)
        return WorkerExport(exchange)

    async def _begun(self, question: QueryRequest, form: Form | None) -> tuple[WorkerExchange, pa.Schema]:
        """An exchange whose answer has begun, and its schema."""
        tables = {scan.table.id for scan in question.query.scans}
        for left in reversed(range(_TRIES)):
            worker = await self._scheduler.get(tables, question.interrupt)
            try:
                return await self._asked(worker, question, form)
            except WorkerDiedError as died:
                if not left:
                    raise _died(died) from died
                self.counts.repeated += 1
        raise AssertionError

    async def _asked(
        self, worker: WorkerProcess, question: QueryRequest, form: Form | None
    ) -> tuple[WorkerExchange, pa.Schema]:
        limit_s = self.settings.query_timeout_s or None
        exchange = WorkerExchange(next(self._numbers), self._loop, worker, question.interrupt, limit_s)
        worker.begin(exchange)
        try:
            question.interrupt.attach(LoopInterrupt(self._loop, question.interrupt, exchange.fail))
            ready, snapshot = await self._opened(worker, exchange, question.open_snapshot)
            try:
                await self._ship(worker, exchange, question, form, ready, snapshot)
            finally:
                snapshot.close()
            return exchange, await exchange.schema()
        except BaseException:
            exchange.close()
            raise

    async def _opened(
        self, worker: WorkerProcess, exchange: WorkerExchange, open_snapshot: Callable[[], StoreSnapshot]
    ) -> tuple[WorkerReady, StoreSnapshot]:
        """What the worker has open of LMDB, and the snapshot whose changes fit over it."""
        while True:
            ready = await exchange.ready()
            snapshot = open_snapshot()
            opened = LSN(ready.ledger, ready.entry)
            if snapshot.until is not None and opened > snapshot.until:
                snapshot.close()
                raise _GoneOnError
            if opened >= snapshot.durable:
                return ready, snapshot
            # A flush came in between: what it moved is neither in this state of LMDB nor in the snapshot.
            snapshot.close()
            self.counts.stale += 1
            worker.begin_again(exchange)

    async def _ship(
        self,
        worker: WorkerProcess,
        exchange: WorkerExchange,
        question: QueryRequest,
        form: Form | None,
        ready: WorkerReady,
        snapshot: StoreSnapshot,
    ) -> None:
        """Send what makes the question, piece by piece."""
        query, values = question.query, question.values
        shipment = Shipment(exchange.number, query, values, snapshot, ready, self._journal)
        self._journal.watch(shipment.tables)
        if self._store.segments is not None:
            self._store.segments.files.used(shipment.tables)
        began = perf_counter()
        for piece in shipment.pieces():
            if piece is not None:
                worker.send(piece)
                await worker.room()
            if perf_counter() - began > _HOLD_S:
                await Pause()
                began = perf_counter()
            exchange.check()  # if it was called off meanwhile, the worker may be someone else's
        clock = question.clock
        inputs = pickle.dumps(
            (
                tuple(values),
                (clock.transaction_us, clock.statement_us, clock.style),
                form,
                question.limits.memory_bytes,
            ),
            pickle.HIGHEST_PROTOCOL,
        )
        exchange.asked()
        worker.send(shipment.question(self._queries.pickled(query), inputs))

    def _worker_gone(self) -> None:
        """A worker has died: what it had open of LMDB must not keep pages from being used again."""
        self._store.disk.env.reader_check()
        if not self._scheduler.workers:
            self._journal.forget()

    async def close(self, error: SqlError) -> None:
        """End all workers; who still waits for one gets ``error``. For an asyncio task."""
        await self._scheduler.close(error)
        self._store.columns.on_flush = None


class WorkerAnswer:
    """An answer that a worker makes; see sessions.query_backend.Answer."""

    def __init__(self, exchange: WorkerExchange, schema: pa.Schema) -> None:
        self.schema = schema
        self.worker_pid = exchange.worker_pid
        self._exchange = exchange

    async def next(self) -> pa.RecordBatch | None:
        """The next batch, or None."""
        found = await _next(self._exchange)
        return None if found is None else _batch(found[1], self.schema)

    async def all(self) -> pa.Table:
        """All that is left."""
        batches = []
        while (found := await _next(self._exchange)) is not None:
            batches.append(_batch(found[1], self.schema))
        return pa.Table.from_batches(batches, self.schema)

    def close(self) -> None:
        """End it."""
        self._exchange.close()


class WorkerExport:
    """An answer as bytes that a worker makes; see sessions.query_backend.Export."""

    def __init__(self, exchange: WorkerExchange) -> None:
        self.rows = 0
        self.worker_pid = exchange.worker_pid
        self._exchange = exchange

    async def next(self) -> bytes | None:
        """The next piece, or None."""
        found = await _next(self._exchange)
        if found is None:
            return None
        self.rows += found[0]
        return found[1]

    def close(self) -> None:
        """End it."""
        self._exchange.close()


async def _next(exchange: WorkerExchange) -> tuple[int, bytes] | None:
    try:
        return await exchange.next()
    except WorkerDiedError as died:
        raise _died(died) from died


def _batch(body: bytes, schema: pa.Schema) -> pa.RecordBatch:
    read: Any = pa.ipc.read_record_batch
    batch: pa.RecordBatch = read(pa.py_buffer(body), schema)
    return batch


def _died(died: WorkerDiedError) -> SqlError:
    return SqlError(
        "58000",
        "the worker process that ran the query died",
        detail=f"It was {died}." if "killed" in str(died) else f"It ended with {died}.",
        hint="Run the statement again; if it dies again, the query may need more than workers.memory_bytes.",
    )
