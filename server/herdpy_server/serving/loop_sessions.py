"""Sessions that all run on one loop: what each of them is given, and how they are ended.

Between ``tablespace_host``, which makes a session, and whoever serves a tablespace on a loop: ``database``,
whose tablespace is alone, and a replica.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Protocol

from herdpy_server.serving.driver import Driver
from herdpy_server.sessions import Session
from herdpy_server.sessions.identity import Observer
from herdpy_server.sessions.limits import SessionLimits
from herdpy_server.tablespace import Directory
from herdpy_server.tablespace_host import TablespaceHost
from herdpy_server.workers.pool import WorkerPool
from herdpy_server.workers.scheduler import WorkerSettings
from herdpy_sql.errors import SqlError


class SessionContext(Protocol):
    """What sessions get that begin from now on.

    Attributes:
        observer: is called for every statement.
        limits: what a session may keep.
    """

    observer: Observer | None
    limits: SessionLimits


class LoopSessions:
    """The sessions of one tablespace that somebody holds, and the processes that compute for them.

    Attributes:
        workers: they answer what DuckDB is asked; None: threads of this process do.

    Args:
        workers: of these processes; None: there are to be none.
    """

    def __init__(
        self, host: TablespaceHost, driver: Driver, context: SessionContext, workers: WorkerSettings | None
    ) -> None:
        self._host = host
        self._loop = driver.loop
        self._context = context
        self._open: weakref.WeakSet[Session] = weakref.WeakSet()
        self.workers: WorkerPool | None = None
        if workers is not None:
            self.workers = WorkerPool(
                driver.loop,
                host.store,
                Directory(host.path).spill,
                workers,
                host.settings.query_memory_bytes,
                host.settings.column_cache_bytes,
            )

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._open))

    def begin(self) -> Session:
        """A new session."""
        context = self._context
        session = self._host.session()
        session.waits.runs_on(self._loop)
        session.observer = context.observer
        session.allowed = context.limits
        session.settings.max_custom = context.limits.custom_settings
        if self.workers is not None:
            session.queries.backend = self.workers
        self._open.add(session)
        return session

    def shut(self) -> None:
        """End what their statements do now; again and again, for DuckDB may miss an early interrupt."""
        for session in self:
            session.shut()

    def roll_back(self) -> None:
        """Roll back every transaction, once no statement runs."""
        for session in self:
            session.roll_back_now()

    async def close_workers(self, error: SqlError) -> None:
        """End the processes; who waits for one gets the error."""
        if self.workers is not None:
            await self.workers.close(error)
