"""What a statement waits for: locks, memory, DuckDB; and how its waiting ends. Below ``statements``.

A statement is cancelled from outside, or its time is up: then what it waits for is made to fail, and what
computes is interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from herdpy.log.wait import Wait
from herdpy_server.sessions.block import TransactionBlock
from herdpy_server.sessions.patience import Patience
from herdpy_server.sessions.system_state import SessionState
from herdpy_server.sessions.work import Work
from herdpy_server.tablespace import Tablespace, Transaction, now_us
from herdpy_sql.columnar import Interrupt, Limits
from herdpy_sql.errors import SqlError
from herdpy_sql.plan import Plan
from herdpy_sql.storage import Clock, MustWait
from herdpy_sql.system import SystemQuery

if TYPE_CHECKING:
    import pyarrow as pa

    from herdpy.codec.kinds import Datum


class Waiting(TransactionBlock):
    """A session as far as it waits.

    Attributes:
        text: the newest statement; it began at ``text_began_us`` (wall clock), and ``is_running`` or is over.
    """

    def __init__(self, tablespace: Tablespace, limits: Limits) -> None:
        super().__init__(tablespace)
        self._limits = limits
        self._interrupt: Interrupt | None = None
        self._waiting: Wait[object] | None = None
        self._patience = Patience()
        self._closed = False
        self.text = ""
        self.text_began_us = 0
        self.is_running = False

    def begins(self, text: str) -> None:
        """A statement begins, whose time runs from now."""
        self.text = text
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
    def is_closed(self) -> bool:
        """Whether the session has ended, or is about to."""
        return self._closed

    async def _columnar(
        self, transaction: Transaction, plan: Plan, values: Sequence[Datum], clock: Clock
    ) -> pa.Table:
        """What DuckDB says of the plan's source, as of now; the engine is free meanwhile."""
        query = plan.source
        assert query is not None
        if isinstance(query, SystemQuery):
            query = query.begun(SessionState(self), values)
        snapshot = transaction.workspace.snapshot()
        self._interrupt = interrupt = Interrupt()
        limits = self._limits.within(self.settings.statement_timeout_s)

        def answer() -> pa.Table:
            sources = {}
            for scan in query.scans:
                low, high = scan.bounds(values)
                sources[scan.name] = snapshot.arrow(scan.table, scan.positions, low, high)
            found: pa.Table = query.run(sources, values, clock, limits, interrupt)
            return found

        try:
            with self._patience.alarm(interrupt.cancel):
                return await Work(answer)
        finally:
            self._interrupt = None
            snapshot.close()

    async def _wait_for_lock(self, transaction: Transaction, conflict: MustWait) -> None:
        wait: Wait[object] = conflict.wait  # type: ignore[assignment]
        self._waiting = wait
        try:
            with self._patience.alarm(lambda message: wait.fail(SqlError("57014", message))):
                await wait
        except BaseException:
            self.tablespace.locks.forget(transaction)
            raise
        finally:
            self._waiting = None

    async def _room(self) -> None:
        """Wait, before writing, until there is memory for it."""
        while self.tablespace.is_full:
            self._waiting = wait = self.tablespace.room()  # type: ignore[assignment]
            try:
                await wait
            finally:
                self._waiting = None

    def _end_waiting(self, error: SqlError) -> None:
        self._patience.end(error)
        waiting, interrupt = self._waiting, self._interrupt
        if interrupt is not None:
            interrupt.cancel()
        if waiting is not None:
            waiting.fail(error)
