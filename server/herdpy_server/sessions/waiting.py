"""What a statement waits for: locks, memory, DuckDB; and how its waiting ends. Below ``statements``.

A statement is cancelled from outside, or its time is up: then what it waits for is made to fail, and what
computes is interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from herdpy.log.wait import Wait
from herdpy_server.sessions.analyst import Analyst, Answer, Question
from herdpy_server.sessions.block import TransactionBlock
from herdpy_server.sessions.in_process import IN_PROCESS
from herdpy_server.sessions.limits import HeldSize, ResultSize
from herdpy_server.sessions.patience import CANCELLED, Patience
from herdpy_server.sessions.system_state import SessionState
from herdpy_server.tablespace import Tablespace, Transaction, now_us
from herdpy_server.tablespace.cluster import Facts
from herdpy_server.tablespace.lock import LockWait
from herdpy_sql.columnar import ColumnarQuery, Interrupt, Limits
from herdpy_sql.errors import SqlError
from herdpy_sql.execute.reference_checks import settle_deferred
from herdpy_sql.plan import Plan, SourceChanged
from herdpy_sql.storage import Clock, MustWait
from herdpy_sql.system import SystemQuery

if TYPE_CHECKING:
    from herdpy.codec.kinds import Datum
    from herdpy_server.store import StoreSnapshot

T = TypeVar("T")

_STOP_AGAIN_S = 0.05


class Waiting(TransactionBlock):
    """A session as far as it waits.

    Attributes:
        analyst: answers what DuckDB is asked; this process itself, unless a server sets another.
        facts: what the cluster was heard to say for the query that begins; None: nothing.
        declares: the statement is DECLARE; ``streams_cursors``: then its query's rows are made when they are
            fetched, also where no loop runs the session.
        source: all that came in one piece with ``text``.
        text: the newest statement; it began at ``text_began_us`` (wall clock), and ``is_running`` or is over.
    """

    def __init__(self, tablespace: Tablespace, limits: Limits) -> None:
        super().__init__(tablespace)
        self.analyst: Analyst = IN_PROCESS
        self._limits = limits
        self._interrupt: Interrupt | None = None
        self._waiting: Wait[object] | None = None
        self._patience = Patience()
        self._closed = False
        self.facts: Facts | None = None
        self.text = self.source = ""
        self.text_began_us = 0
        self.is_running = False
        self.declares = self.streams_cursors = False

    def begins(self, text: str) -> None:
        """A statement begins, whose time runs from now."""
        self.text = self.source = text
        self.text_began_us = now_us()
        self.is_running = True
        self._patience.begin(self.settings.statement_timeout_s)

    @property
    def waits_for(self) -> str | None:
        """What the running statement waits for: "Lock" (or memory), "Query"; None for neither."""
        if self._waiting is not None:
            return "Lock"
        return None if self._interrupt is None else "Query"

    def runs_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on ``loop`` runs this session's statements, and keeps their time."""
        self._patience.loop = loop

    @property
    def streams(self) -> bool:
        """Whether large answers are given piece by piece: to cursors, and where others wait for the loop."""
        return (self.declares and self.streams_cursors) or self._patience.loop is not None

    @property
    def shares_analyst(self) -> bool:
        """Whether an answer that is not read to its end keeps others waiting: those of the same loop."""
        return self._patience.loop is not None

    def check_patience(self) -> None:
        """SqlError (57014, or why the session was closed) when the running statement shall end."""
        self._patience.check()

    @property
    def is_closed(self) -> bool:
        """Whether the session has ended, or is about to."""
        return self._closed

    def _question(
        self, transaction: Transaction, plan: Plan, values: Sequence[Datum], clock: Clock
    ) -> Question:
        """What the plan asks of the columnar engine."""
        query = plan.source
        assert query is not None
        if isinstance(query, SystemQuery):
            query = query.begun(SessionState(self), values)
        workspace = transaction.workspace
        catalog = workspace.catalog

        def open_snapshot() -> StoreSnapshot:
            now = workspace.catalog
            if now is not catalog and any(now.tables.get(one.table.id) != one.table for one in query.scans):
                raise SourceChanged("definitions were changed meanwhile")
            for one in query.scans:
                workspace.reads_range(one.table, *one.bounds(values))
            return workspace.snapshot()

        limits = self._limits.within(self.settings.statement_timeout_s)
        return Question(query, values, clock, open_snapshot, limits, Interrupt())

    def held_bytes(self, plan: Plan) -> int:
        """How much of a plan's answer may be in memory at the same time; 0: as much as there is."""
        query = plan.source
        is_endless = isinstance(query, ColumnarQuery) and query.is_recursive
        return (self._limits.memory_bytes or 0) if is_endless else 0

    def _analyst_of(self, question: Question) -> Analyst:
        """Who is asked; what the system catalog knows, this process alone does."""
        return IN_PROCESS if isinstance(question.query, SystemQuery) else self.analyst

    @contextlib.contextmanager
    def _asking(self, interrupt: Interrupt) -> Iterator[None]:
        """Within the block ``interrupt`` is what a cancelled statement, or one out of time, is ended by."""
        self._interrupt = interrupt
        try:
            self._patience.check()  # it may have been cancelled when there was nothing to interrupt
            with self._patience.alarm(partial(self._stop, interrupt)):
                yield
        finally:
            self._interrupt = None

    def _stop(self, interrupt: Interrupt, message: str = CANCELLED) -> None:
        """Cancel, and again until the waiting is over: DuckDB forgets what comes just before it starts."""
        interrupt.cancel(message)
        loop = self._patience.loop
        if loop is not None:
            loop.call_soon_threadsafe(loop.call_later, _STOP_AGAIN_S, self._stop_again, interrupt)
        elif self._interrupt is interrupt:
            again = threading.Timer(_STOP_AGAIN_S, self._stop_again, (interrupt,))
            again.daemon = True
            again.start()

    def _stop_again(self, interrupt: Interrupt) -> None:
        if self._interrupt is interrupt:
            self._stop(interrupt)

    async def _columnar(
        self, transaction: Transaction, plan: Plan, values: Sequence[Datum], clock: Clock
    ) -> pa.Table:
        """All that DuckDB says of the plan's source, as of now; the engine is free meanwhile."""
        await self._hear(plan)
        question = self._question(transaction, plan, values, clock)
        self.facts = None
        with self._asking(question.interrupt):
            answer = await self._analyst_of(question).ask(question)
            try:
                return await _all_of(answer, self.settings.max_result_bytes, self.held_bytes(plan))
            finally:
                answer.close()
                if self.advisory is not None and self.transaction is None:
                    self.advisory.end_transaction()

    async def _hear(self, plan: Plan) -> None:
        """Before a query over what the cluster knows: have it say that."""
        query, cluster = plan.source, self.tablespace.cluster
        if cluster is not None and isinstance(query, SystemQuery) and query.told:
            facts, remark = await self.waiting_for(cluster.facts())
            self.facts = facts
            if remark is not None:
                self.notice(*remark)

    async def _wait_for_lock(self, transaction: Transaction, conflict: MustWait) -> None:
        wait: Wait[object] = conflict.wait  # type: ignore[assignment]
        if isinstance(wait, LockWait):
            wait.timeout_s = self.settings.lock_timeout_s  # the transaction may have set it since it began
        self._waiting = wait
        if self.advisory is not None:
            self.advisory.waiting_as = transaction
        try:
            with self._patience.alarm(lambda message: wait.fail(SqlError("57014", message))):
                await wait
        except BaseException:
            self.tablespace.locks.forget(transaction)
            if self.advisory is not None:
                self.advisory.stop_waiting()
            raise
        finally:
            self._waiting = None
            if self.advisory is not None:
                self.advisory.waiting_as = None

    async def _settle(self, transaction: Transaction) -> None:
        """Before a commit: make the checks that the transaction has put off. SqlError 23503."""
        while True:
            try:
                settle_deferred(transaction.workspace)
            except MustWait as conflict:
                await self._wait_for_lock(transaction, conflict)
            else:
                return

    async def waiting_for(self, wait: Wait[T]) -> T:
        """Await what is done elsewhere; the statement's end (cancel, time-out) ends the waiting."""
        self._waiting = wait  # type: ignore[assignment]
        try:
            with self._patience.alarm(lambda message: wait.fail(SqlError("57014", message))):
                return await wait
        finally:
            self._waiting = None

    async def _room(self) -> None:
        """Wait, before writing, until there is memory for it, and room in the log."""
        while self.tablespace.is_full:
            await self.waiting_for(self.tablespace.room())

    async def log_room(self) -> None:
        """See TransactionBlock."""
        while self.tablespace.log.is_full:
            await self.waiting_for(self.tablespace.log_room())

    def _end_waiting(self, error: SqlError) -> None:
        self._patience.end(error)
        waiting, interrupt = self._waiting, self._interrupt
        if interrupt is not None:
            self._stop(interrupt)
        if waiting is not None:
            waiting.fail(error)


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
