"""What the sessions ask of the columnar engine: a plan's query, its snapshot, and the answer as it comes.

Above ``binding`` and ``portals``, below ``execution``. :meth:`BackendQueries.whole` asks in the midst of a
plan. The rows of a SELECT that the columnar engine answers alone are asked for when they are first wanted,
by a :class:`RemoteQuery`, and nothing of them is given away before all that they rest on is durable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from herdpy_server.sessions.binding import redefined
from herdpy_server.sessions.limits import HeldSize, ResultSize
from herdpy_server.sessions.plans import shape_of
from herdpy_server.sessions.query_backend import IN_PROCESS, Answer, QueryBackend, QueryRequest
from herdpy_server.sessions.system_state import SessionState
from herdpy_server.tablespace import Transaction
from herdpy_sql.clock import Clock
from herdpy_sql.columnar import ColumnarQuery, Interrupt, Limits
from herdpy_sql.plan import Plan, SourceChanged
from herdpy_sql.system import CatalogQuery

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from herdpy.codec.kinds import Datum
    from herdpy_server.sessions.binding import BoundStatement
    from herdpy_server.sessions.block import TransactionBlock
    from herdpy_server.sessions.portals import Cursors
    from herdpy_server.sessions.query_backend import Export, Form
    from herdpy_server.store import StoreSnapshot
    from herdpy_server.tablespace.cluster import Facts
    from herdpy_server.tablespace.past import PastState
    from herdpy_server.tracing.statements import OpenSpan

Found = TypeVar("Found", bound="Answer | Export")


class BackendQueries:
    """The queries of one session.

    Attributes:
        block, limits: as given.
        backend: answers what DuckDB is asked; this process itself, unless a server sets another.
    """

    def __init__(self, block: TransactionBlock, cursors: Cursors, limits: Limits) -> None:
        self.block = block
        self.limits = limits
        self.backend: QueryBackend = IN_PROCESS
        self._cursors = cursors
        self._facts: Facts | None = None  # what the cluster said for the query that begins; None: nothing

    def request(
        self,
        transaction: Transaction,
        plan: Plan,
        values: Sequence[Datum],
        clock: Clock,
        past: PastState | None = None,
    ) -> QueryRequest:
        """What the plan asks of the columnar engine, of a state of the past where it is given one."""
        query = plan.source
        assert query is not None
        if isinstance(query, CatalogQuery):
            query = query.begun(SessionState(self.block, self._facts), values)
        workspace = transaction.workspace

        def open_snapshot() -> StoreSnapshot:
            catalog = workspace.catalog  # the plan may be of another one: it was made before waits
            tables = catalog.tables
            if any(tables.get(one.table.id) != one.table for one in query.scans) or any(
                tuple(one.id for one in catalog.partitions.get(number, ())) != ids
                for number, ids in getattr(query, "spreads", ())
            ):
                raise SourceChanged("definitions were changed meanwhile")
            for one in query.scans:
                workspace.note_range(one.table, *one.bounds(values))
            return workspace.snapshot()

        limits = self.limits.within(self.block.settings.statement_timeout_s)
        if past is not None:
            return QueryRequest(query, values, clock, past.snapshot, limits, Interrupt(), is_past=True)
        return QueryRequest(query, values, clock, open_snapshot, limits, Interrupt())

    def held_bytes(self, plan: Plan) -> int:
        """How much of a plan's answer may be in memory at the same time; 0: as much as there is."""
        query = plan.source
        is_endless = isinstance(query, ColumnarQuery) and query.is_recursive
        return (self.limits.memory_bytes or 0) if is_endless else 0

    def backend_of(self, request: QueryRequest) -> QueryBackend:
        """What answers; what the system catalog knows, and states of the past, this process alone has."""
        if request.is_past or isinstance(request.query, CatalogQuery):
            return IN_PROCESS
        return self.backend

    async def whole(
        self,
        transaction: Transaction,
        plan: Plan,
        values: Sequence[Datum],
        clock: Clock,
        past: PastState | None = None,
    ) -> pa.Table:
        """All that DuckDB says of the plan's source, as of now or the past; the engine is free meanwhile."""
        await self._hear(plan)
        request = self.request(transaction, plan, values, clock, past)
        self._facts = None
        trace = self.block.trace
        span = None if trace is None else trace.child("columnar query")
        with self.block.waits.interruptible(request.interrupt):
            answer = await self.backend_of(request).ask(request)
            if span is not None:
                _say_worker(span, answer)
            try:
                return await _all_of(answer, self.block.settings.max_result_bytes, self.held_bytes(plan))
            finally:
                answer.close()
                if span is not None:
                    span.end()
                if self.block.advisory is not None and self.block.transaction is None:
                    self.block.advisory.end_transaction()

    async def _hear(self, plan: Plan) -> None:
        """Before a query over what the cluster knows: have it say that."""
        query, cluster = plan.source, self.block.tablespace.cluster
        if cluster is not None and isinstance(query, CatalogQuery) and query.server_facts:
            facts, remark = await self.block.waits.until(cluster.facts())
            self._facts = facts
            if remark is not None:
                self.block.notice(*remark)

    async def settle_cursors(self) -> None:
        """Before a query is asked for: a session occupies the columnar engine of a loop once at a time."""
        if self.block.portals and self.block.waits.deadline.loop is not None:
            await self._cursors.settle()


def _say_worker(span: OpenSpan, answer: object) -> None:
    """Say in a span which worker process answers, if one does."""
    pid = getattr(answer, "worker_pid", None)
    if pid is not None:
        span.say("process.pid", pid)


async def _all_of(answer: Answer, most_bytes: int, held: int) -> pa.Table:
    """The whole answer, or the error that it is too large, as soon as it is."""
    if not most_bytes and not held:
        return await answer.all()
    sizes, batches = (ResultSize(most_bytes), HeldSize(held)), []
    while (batch := await answer.next()) is not None:
        for size in sizes:
            size.take(batch.nbytes)
        batches.append(batch)
    return pa.Table.from_batches(batches, answer.schema)


class RemoteQuery:
    """A plan of the columnar engine that is to be asked for; see ``result.PendingQuery``."""

    def __init__(self, queries: BackendQueries, bound: BoundStatement) -> None:
        self._queries = queries
        self._bound = bound
        self._bound_under = queries.block.seen
        self._basis = queries.block.checks.basis
        self._request: QueryRequest | None = None

    async def answer(self) -> Answer:
        """See PendingQuery."""
        return await self._ask(lambda backend, request: backend.ask(request))

    async def export(self, form: Form) -> Export:
        """See PendingQuery."""
        return await self._ask(lambda backend, request: backend.export(request, form))

    def asking(self) -> AbstractContextManager[None]:
        """See PendingQuery."""
        assert self._request is not None
        return self._queries.block.waits.interruptible(self._request.interrupt)

    @property
    def held_bytes(self) -> int:
        """See PendingQuery."""
        return self._queries.held_bytes(self._bound.ready.plan)

    async def _ask(self, ask: Callable[[QueryBackend, QueryRequest], Awaitable[Found]]) -> Found:
        queries = self._queries
        block, checks = queries.block, queries.block.checks
        await queries.settle_cursors()
        transaction, found = block.transaction, None
        own = transaction is None
        if transaction is None:
            transaction = block.tablespace.begin(instant=True)
        try:
            await checks.admit_further(self._bound.ready.plan, self._basis)
            transaction.begin_statement()
            if transaction.workspace.catalog is not self._bound_under:  # others had turns since
                self._bind_again()
            found = await self._asked(transaction, ask)
            if own or not checks.settings.early_answers:
                await checks.durable(None, transaction.workspace)
            await checks.vouch(self._bound.ready.plan)
        except BaseException as error:
            if found is not None:
                found.close()
            if own:
                block.tablespace.rollback(transaction)
            await checks.confirm(error, transaction.workspace)
            raise
        if own:
            block.tablespace.commit(transaction)  # it wrote nothing: there is nothing to wait for
        return found

    async def _asked(
        self, transaction: Transaction, ask: Callable[[QueryBackend, QueryRequest], Awaitable[Found]]
    ) -> Found:
        queries = self._queries
        clock = transaction.clock(queries.block.settings.style)
        bound = self._bound
        while True:
            plan = bound.ready.plan
            self._request = request = queries.request(transaction, plan, bound.values, clock, bound.past)
            trace = queries.block.trace
            span = None if trace is None else trace.child("columnar query")
            try:
                with queries.block.waits.interruptible(request.interrupt):
                    found = await ask(queries.backend_of(request), request)
                if span is not None:
                    _say_worker(span, found)
                    span.end()
                return found
            except SourceChanged:
                self._bind_again()
                if bound.ready.plan is plan:
                    raise redefined() from None

    def _bind_again(self) -> None:
        """Definitions have changed. SqlError 40001: the columns are others now; and as binding raises."""
        bound = self._bound
        shape = shape_of(bound.ready.plan.columns)
        bound.bind()
        if bound.ready.plan.source is None or shape_of(bound.ready.plan.columns) != shape:
            raise redefined()
