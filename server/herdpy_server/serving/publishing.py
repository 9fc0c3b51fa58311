"""Publishes the snapshots of a tablespace: on a cadence, when they are due here, and when somebody asks.

Above ``logs``, whose ``LogBackend`` says what is due and where; ``alone`` and replicas have one each. Any
replica publishes: a follower does it where there is one, so that it costs the leader nothing. A process of
its own reads the store and writes (``publishing.publisher``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from herdpy.bookkeeper import BookKeeperError
from herdpy.log import LogError
from herdpy.log.lsn import LSN
from herdpy_server.cluster.certain import GivenUpError
from herdpy_server.cluster.errors import ClusterError
from herdpy_server.cluster.layout import PublishedRecord, SnapshotRecord
from herdpy_server.cluster.positions import now_us
from herdpy_server.publishing.publisher import (
    Order,
    Published,
    ReportProgress,
    Shelf,
    copy,
    publish_and_prune,
)
from herdpy_server.publishing.snapshot import Moment
from herdpy_server.serving.logs import LogBackend, being_published, with_store
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.publishing")

Work = Callable[[Order], Coroutine[Any, Any, Published]]

_LOOK_S = 15.0
_RETRY_S = 60.0


class SnapshotPublishing:
    """Of one tablespace; :meth:`start` and :meth:`close` are its life.

    Args:
        node: who publishes, for others to know.

    Attributes:
        failure: why the last snapshot was not published; None when it was.
    """

    def __init__(self, backend: LogBackend, node: str = "") -> None:
        self._backend = backend
        self._node = node
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self.failure: Exception | None = None

    def start(self) -> None:
        """Publish from now on."""
        self._running = asyncio.get_running_loop().create_task(self._run(), name="publishing")

    async def close(self) -> None:
        """Give up what is under way on the cadence; what somebody asked for ends with the store's use."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def look(self) -> None:
        """The tablespace was changed, or is led by another."""
        self._changed.set()

    # When.

    async def _run(self) -> None:
        backend = self._backend
        while True:
            self._changed.clear()
            wait_s = _LOOK_S
            if backend.settings.url:
                try:
                    wait_s = await self._round()
                    self.failure = None
                except (BookKeeperError, ClusterError, LogError, GivenUpError, SqlError, OSError) as error:
                    self._failed(error)
                    wait_s = min(_RETRY_S, backend.settings.interval_s)
                except Exception as error:
                    logger.exception(
                        "publishing failed, and is tried again", extra={"tablespace": backend.tablespace}
                    )
                    self.failure, wait_s = error, _RETRY_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    def _failed(self, error: Exception) -> None:
        if str(error) != str(self.failure):
            logger.error(
                "a snapshot was not published, and is tried again",
                extra={"tablespace": self._backend.tablespace, "reason": str(error)},
            )
        self.failure = error

    async def _round(self) -> float:
        """Publish if it is due and to be done here; returns after how many seconds to look again."""
        due_s = await self._due_s()
        if due_s > 0 or not await self._backend.is_ours(-due_s):
            return min(max(due_s, 1.0), _LOOK_S)
        lock = self._backend.publishing_lock()
        if await lock.take() is not None:
            return 1.0
        try:
            if await self._due_s() <= 0:  # another may just have done it
                await self._publish(lambda _rows, _total, _bytes: None)
        finally:
            await asyncio.shield(lock.release())
        return 1.0

    async def _due_s(self) -> float:
        """In how many seconds a snapshot is due; negative: it was."""
        found = await self._backend.last_published()
        if found is None:
            return 0.0
        return found.created_us / 1e6 + self._backend.settings.interval_s - time.time()

    # How.

    async def now(self, url: str, report: ReportProgress) -> Published:
        """Publish now, whatever is due; to another place than the tablespace's it is a copy.

        Raises:
            SqlError: 55006, another is being published; 57P03, the store cannot be read now; as
                ``publishing.publisher``.
        """
        backend = self._backend
        if url != backend.settings.url:
            return await self._with_store(lambda order: copy(order, backend.moment, report), url)
        lock = backend.publishing_lock()
        if (node := await lock.take()) is not None:
            raise being_published(backend.tablespace, f" by node {node}" if node else "")
        try:
            return await self._publish(report)
        finally:
            await asyncio.shield(lock.release())

    async def _publish(self, report: ReportProgress) -> Published:
        backend, settings = self._backend, self._backend.settings
        began_us = now_us()

        async def record(shelf: Shelf) -> None:
            newest = shelf.newest
            await backend.keep_published(
                PublishedRecord(
                    lsn=newest.lsn,
                    url=newest.url,
                    time_us=newest.time_us,
                    created_us=began_us,
                    node=self._node,
                    floor=shelf.floor,
                    snapshots=tuple(SnapshotRecord(lsn, time_us) for lsn, time_us in shelf.snapshots),
                )
            )

        async with AsyncExitStack() as kept:

            async def moment(lsn: LSN) -> Moment:
                # Until it is recorded, nothing but this keeps the log after it.
                await kept.enter_async_context(backend.keeping(lsn))
                return await backend.moment(lsn)

            done = await self._with_store(
                lambda order: publish_and_prune(
                    order, moment, settings.retention, backend.leased, record, report
                ),
                settings.url,
            )
        logger.info(
            "snapshot published",
            extra={
                "tablespace": backend.tablespace,
                "url": done.url,
                "lsn": str(done.lsn),
                "rows": done.rows,
                "bytes": done.size_bytes,
                "seconds": round((now_us() - began_us) / 1e6, 3),
            },
        )
        return done

    async def _with_store(self, work: Work, url: str) -> Published:
        """Let a process work on all that there is now."""
        backend = self._backend

        def begin() -> Coroutine[Any, Any, Published]:
            return work(Order(backend.store, url, backend.tablespace, backend.settings.niceness))

        return await with_store(backend, begin, checkpointed=True)
