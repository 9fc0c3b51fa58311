"""A replica publishes snapshots of its tablespace, when it is due and no other one does.

Between ``base`` and ``replica``, for as long as that is open. Any replica can: a follower does it where there
is one, so that it costs the leader nothing. The znode ``publishing`` says who is at it, ``published`` what
there is; the leader keeps the log's entries after the latter's floor (``leader_tasks``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from herdpy.bookkeeper import BookKeeperError
from herdpy.log import LogError
from herdpy.log.bookkeeper import FollowedLog, ZnodeLedgerList
from herdpy.log.lsn import LSN
from herdpy.log.published import Retention
from herdpy_server.cluster.certain import GivenUpError
from herdpy_server.cluster.errors import ClusterError
from herdpy_server.cluster.layout import PublishedRecord, SnapshotRecord
from herdpy_server.cluster.positions import now_us, read_needs
from herdpy_server.cluster.published import PublishingLock, published_of, tell_published
from herdpy_server.cluster.readers import lease_reader
from herdpy_server.publishing.process import Order, Published, Told
from herdpy_server.publishing.publisher import Shelf, copy, publish_and_prune
from herdpy_server.publishing.snapshot import Moment, moment_of
from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.state import ReplicaState
from herdpy_server.serving.logs import being_published
from herdpy_server.tablespace import Directory
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.publishing")

Work = Callable[[Order], Coroutine[Any, Any, Published]]

_LOOK_S = 15.0
_RETRY_S = 60.0
_LEASE_S = 60.0
_LEADER_WAITS_S = 30.0
"""How long after a snapshot was due a leader lets followers do it."""


class ReplicaPublishing:
    """Of one replica; :meth:`start` and :meth:`close` are its life.

    Attributes:
        failure: why the last snapshot was not published; None when it was.
    """

    def __init__(self, replica: ReplicaBase) -> None:
        self._replica = replica
        self._host = replica.host
        self._wanted = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self.failure: Exception | None = None

    def start(self) -> None:
        """Publish from now on."""
        self._running = asyncio.get_running_loop().create_task(self._run(), name="publishing")

    async def close(self) -> None:
        """Give up what is under way."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def look(self) -> None:
        """The tablespace was changed, or this replica has another role."""
        self._wanted.set()

    # When.

    async def _run(self) -> None:
        while True:
            self._wanted.clear()
            wait_s = _LOOK_S
            if self._replica.info.snapshot_url:
                try:
                    wait_s = await self._round()
                    self.failure = None
                except (BookKeeperError, ClusterError, LogError, GivenUpError, SqlError, OSError) as error:
                    self._failed(error)
                    wait_s = min(_RETRY_S, self._replica.info.snapshot_interval_s)
                except Exception as error:
                    logger.exception(
                        "publishing failed, and is tried again", extra={"tablespace": self._replica.info.name}
                    )
                    self.failure, wait_s = error, _RETRY_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wanted.wait()

    def _failed(self, error: Exception) -> None:
        if str(error) != str(self.failure):
            logger.error(
                "a snapshot was not published, and is tried again",
                extra={"tablespace": self._replica.info.name, "reason": str(error)},
            )
        self.failure = error

    async def _round(self) -> float:
        """Publish if it is due and this replica's to do; returns after how many seconds to look again."""
        due_s = await self._due_s()
        if due_s > 0 or not await self._is_ours(-due_s):
            return min(max(due_s, 1.0), _LOOK_S)
        lock = PublishingLock(self._host.bk.znodes, self._replica.paths, self._host.node)
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
        info = self._replica.info
        found = await published_of(self._host.bk.znodes, self._replica.paths, info)
        return 0.0 if found is None else found.created_us / 1e6 + info.snapshot_interval_s - time.time()

    async def _is_ours(self, late_s: float) -> bool:
        """Whether this replica may, and no follower does it in a leader's place."""
        state = self._replica.state
        if state is not ReplicaState.LEADING or late_s >= _LEADER_WAITS_S:
            return state in {ReplicaState.LEADING, ReplicaState.FOLLOWING}
        needs = await read_needs(self._host.bk.znodes, self._replica.paths)
        following = ReplicaState.FOLLOWING.value
        return not any(one.state == following for one in needs.replicas.values())

    # How.

    async def now(self, url: str, told: Told) -> Published:
        """Publish now, whatever is due; to another place than the tablespace's it is a copy.

        Raises:
            SqlError: 55006, another is being published; 57P03, this replica cannot be read now; as
                ``publishing.process``.
        """
        if url != self._replica.info.snapshot_url:
            return await self._with_store(lambda order: copy(order, self._moment, told), url)
        lock = PublishingLock(self._host.bk.znodes, self._replica.paths, self._host.node)
        if (node := await lock.take()) is not None:
            raise being_published(self._replica.info.name, f" by node {node}")
        try:
            return await self._publish(told)
        finally:
            await asyncio.shield(lock.release())

    async def _publish(self, told: Told) -> Published:
        info = self._replica.info
        retention = Retention(info.snapshot_keep, info.snapshot_history_s)
        began_us = now_us()

        async def tell(shelf: Shelf) -> None:
            record = PublishedRecord(
                lsn=shelf.newest.lsn,
                url=shelf.newest.url,
                time_us=shelf.newest.time_us,
                created_us=began_us,
                node=self._host.node,
                floor=shelf.floor,
                snapshots=tuple(SnapshotRecord(lsn, time_us) for lsn, time_us in shelf.snapshots),
            )
            await tell_published(self._host.bk.znodes, self._replica.paths, record)

        async with AsyncExitStack() as kept:

            async def moment(lsn: LSN) -> Moment:
                # Until it is told of, nothing but this keeps the log after it.
                await kept.enter_async_context(self._log_kept(lsn))
                return await self._moment(lsn)

            done = await self._with_store(
                lambda order: publish_and_prune(order, moment, retention, self._leased, tell, told),
                info.snapshot_url,
            )
        logger.info(
            "snapshot published",
            extra={
                "tablespace": info.name,
                "url": done.url,
                "lsn": str(done.lsn),
                "rows": done.rows,
                "bytes": done.size_bytes,
                "seconds": round((now_us() - began_us) / 1e6, 3),
            },
        )
        return done

    @asynccontextmanager
    async def _log_kept(self, lsn: LSN) -> AsyncIterator[None]:
        """Keep the log's entries after ``lsn``. PositionTrimmedError: they are gone."""
        znodes, purpose = self._host.bk.znodes, f"publishing by {self._host.node}"
        lease = await lease_reader(znodes, self._replica.paths, lsn, purpose, lease_s=_LEASE_S)
        keeping = asyncio.ensure_future(lease.keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await lease.release()

    async def _with_store(self, work: Work, url: str) -> Published:
        """Bring everything into LMDB, and let a process work on that, while the store stays where it is."""
        loop, name = asyncio.get_running_loop(), self._replica.info.name
        task: asyncio.Task[Published] | None = None

        def give_up() -> None:
            if task is not None:
                task.cancel()

        use = self._replica.use(give_up)
        try:
            await self._replica.checkpoint()
            store = Directory(self._host.path(name)).store
            task = loop.create_task(work(Order(store, url, name)))
            await asyncio.wait({task})
            if task.cancelled():
                raise SqlError("57P03", f"the replica of tablespace {name} is being closed here")
            return task.result()
        finally:
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait({task})
            use.leave()

    async def _leased(self) -> Collection[LSN]:
        needs = await read_needs(self._host.bk.znodes, self._replica.paths)
        now = now_us()
        return [one.lsn for one in needs.readers.values() if one.expires_us > now]

    async def _moment(self, lsn: LSN) -> Moment:
        """By a log of its own: the replica's is closed when its role changes."""
        ledgers = ZnodeLedgerList(self._host.bk.znodes, self._replica.paths.ledgers)
        log = FollowedLog(self._host.bk, ledgers, self._replica.log_settings())
        try:
            return await moment_of(log, await log.state(), lsn, now_us())
        finally:
            await log.close()
