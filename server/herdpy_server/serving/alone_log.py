"""The log of a database that is alone, as readers of it see it, and the publishing of its snapshots.

Beside ``databases``. Leases are kept in this process, and end with it. All of it is for the loop's thread but
:meth:`AloneLog.floor`, which the checkpointer asks before it trims.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import AsyncIterator, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from herdpy.log import LogError
from herdpy.log.lsn import LSN, START
from herdpy.log.published import Retention, choose, dated, load
from herdpy_server.publishing.process import MomentOf, Order
from herdpy_server.publishing.publisher import Shelf, copy, publish_and_prune
from herdpy_server.publishing.snapshot import Moment, moment_of
from herdpy_server.serving.logs import (
    From,
    LogLease,
    LogPlace,
    NodePlace,
    PublishedAt,
    Told,
    being_published,
    lease_is_over,
    no_place,
    not_kept,
)
from herdpy_server.tablespace import Directory
from herdpy_sql.errors import SqlError

if TYPE_CHECKING:
    from herdpy_server.serving.database import ServedDatabase

logger = logging.getLogger("herdpy.publishing")

T = TypeVar("T")

_RETRY_S = 60.0
_MAX_LEASES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishSettings:
    """The section ``publish`` of the configuration, by its names; no ``url``: nothing is published."""

    url: str = ""
    interval_s: float = 3600.0
    keep: int = 2
    history_s: float = 0.0
    niceness: int = 10

    @property
    def retention(self) -> Retention:
        """What stays."""
        return Retention(self.keep, self.history_s)


@dataclass(slots=True)
class _Lease:
    after: LSN
    expires_s: float
    snapshot: PublishedAt | None
    entries: bool


class AloneLog:
    """See ``ServedLog``. :meth:`start` and :meth:`close` are its life."""

    def __init__(self, tablespace: str, database: ServedDatabase, settings: PublishSettings) -> None:
        """Its snapshots are published as those of ``tablespace``."""
        self._name = tablespace
        self._database = database
        self._log = database.log
        self._settings = settings
        self._leases: dict[str, _Lease] = {}
        self._snapshots: Sequence[PublishedAt] = ()
        self._floor: LSN | None = None
        self._closing = False
        self._busy = False
        self._tasks: set[asyncio.Task[Any]] = set()
        database.checkpointer.floor = self.floor

    def start(self) -> None:
        """Publish on the cadence, if there is a place to publish to."""
        if self._settings.url:
            self._begun(self._run())

    def _begun(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name="publishing")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Give up what is under way; nothing begins any more."""
        self._closing = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # On a cadence.

    async def _run(self) -> None:
        known, reason = False, ""
        while True:
            try:
                due_s = 0.0 if known else await self._look()
                known = True
                if due_s <= 0:
                    await self._publish(lambda _rows, _total, _bytes: None)
                    due_s, reason = self._settings.interval_s, ""
            except (SqlError, LogError, OSError) as error:
                if str(error) != reason:
                    reason = str(error)
                    logger.error("a snapshot was not published, and is tried again", extra={"reason": reason})
                due_s = min(_RETRY_S, self._settings.interval_s)
            except Exception:
                logger.exception("publishing failed, and is tried again")
                due_s = _RETRY_S
            await asyncio.sleep(due_s)

    async def _look(self) -> float:
        """Find what an earlier process has published; in how many seconds the next is due."""
        url = self._settings.url
        loop = asyncio.get_running_loop()
        found, damaged = await loop.run_in_executor(None, dated, url, self._name, self._log.state.log_id)
        for error in damaged:
            logger.error("%s", error)
        kept, floor = choose(found, self._settings.retention, now_us=_now_us())
        if floor is None:
            return 0.0
        times = {one.ref.lsn: one.time_us for one in found}
        self._snapshots = [PublishedAt(url, ref.lsn, times[ref.lsn]) for ref in kept]
        self._floor = floor
        made_us = (await loop.run_in_executor(None, load, kept[0])).created_us
        return made_us / 1e6 + self._settings.interval_s - time.time()

    # Publishing.

    async def publish(self, url: str, told: Told) -> PublishedAt:
        """See ``ServedLog``."""
        url = url or self._settings.url
        if not url:
            raise no_place(self._name, "publish.url of the server's configuration names one.")
        if self._closing:
            raise _closed()
        task = self._begun(self._publish(told) if url == self._settings.url else self._copy(url, told))
        try:
            await asyncio.wait({task})
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        if task.cancelled():
            raise _closed()
        return task.result()

    async def _publish(self, told: Told) -> PublishedAt:
        if self._busy:
            raise being_published(self._name)
        self._busy = True
        try:
            async with self._kept() as moment:
                order = await self._order(self._settings.url)
                done = await publish_and_prune(
                    order, moment, self._settings.retention, self._leased, self._tell, told
                )
        finally:
            self._busy = False
        facts = {"url": done.url, "lsn": str(done.lsn), "rows": done.rows, "bytes": done.size_bytes}
        logger.info("snapshot published", extra=facts)
        return PublishedAt(done.url, done.lsn, done.time_us)

    async def _copy(self, url: str, told: Told) -> PublishedAt:
        done = await copy(await self._order(url), self._moment, told)
        return PublishedAt(done.url, done.lsn, done.time_us)

    async def _order(self, url: str) -> Order:
        """Everything is in LMDB when this returns."""
        checkpoint = partial(self._database.host.checkpoint, trim=False)
        await asyncio.get_running_loop().run_in_executor(None, checkpoint)
        store = Directory(self._database.path).store
        return Order(store, url, self._name, self._settings.niceness)

    @asynccontextmanager
    async def _kept(self) -> AsyncIterator[MomentOf]:
        """What is asked for a position's moment, and keeps the log after it until the block ends."""
        name = f"publishing {secrets.token_hex(8)}"

        async def moment(lsn: LSN) -> Moment:
            self._leases[name] = _Lease(lsn, math.inf, None, True)
            return await self._moment(lsn)

        try:
            yield moment
        finally:
            self._leases.pop(name, None)

    async def _moment(self, lsn: LSN) -> Moment:
        return await moment_of(self._log, self._log.state, lsn, _now_us())

    async def _leased(self) -> Collection[LSN]:
        return [one.after for one in self._current().values()]

    async def _tell(self, shelf: Shelf) -> None:
        url = shelf.newest.url
        self._snapshots = [PublishedAt(url, lsn, time_us) for lsn, time_us in shelf.snapshots]
        self._floor = shelf.floor

    # For readers.

    def floor(self) -> LSN | None:
        """The log's entries after it are to be kept; None: nobody wants any. From any thread."""
        wanted = [one.after for one in self._current().values() if one.entries]
        if self._floor is not None:
            wanted.append(self._floor)
        return min(wanted, default=None)

    def _current(self) -> dict[str, _Lease]:
        now_s = time.monotonic()
        return {name: one for name, one in list(self._leases.items()) if one.expires_s > now_s}

    async def place(self) -> LogPlace:
        """See ``ServedLog``."""
        state = self._log.state
        standing = NodePlace("", "", "alone", self._database.store.applied)
        return LogPlace(
            tablespace=self._name,
            log_id=state.log_id,
            base=state.base,
            directory=str(Directory(self._database.path).log),
            snapshot_url=self._settings.url,
            snapshot=self._snapshots[0] if self._snapshots else None,
            nodes=(standing,),
        )

    async def lease(self, wanted: From, lease_s: float, purpose: str) -> LogLease:
        """See ``ServedLog``."""
        self._leases = self._current()
        if len(self._leases) >= _MAX_LEASES:
            raise SqlError(
                "53400", f"there are {_MAX_LEASES} leases already", hint="Release what is not read."
            )
        chosen, base = wanted.chosen(self._snapshots), self._log.state.base
        # At its own position a snapshot needs no entries, and there may be none any more.
        entries = chosen is None or wanted.upto != chosen.lsn
        if chosen is not None:
            after = chosen.lsn
        elif wanted.after is not None:
            after = wanted.after
        elif base == START:
            after = START
        else:
            raise not_kept(
                f"no snapshot is as old as the requested position, and the log begins after {base}"
            )
        name = secrets.token_hex(8)
        self._leases[name] = _Lease(after, time.monotonic() + lease_s, chosen, entries)
        # Whoever trims from now on sees the lease; a trimming that has not seen it is over after this.
        await asyncio.get_running_loop().run_in_executor(None, self._database.checkpointer.await_trimming)
        base = self._log.state.base
        if entries and after < base:
            self._leases.pop(name, None)
            raise not_kept(f"entries after {after} were requested, and the log begins after {base}")
        logger.info("leased", extra={"lease": name, "after": str(after), "purpose": purpose})
        return LogLease(name, after, lease_s, chosen)

    async def renew(self, lease: str, after: LSN | None, lease_s: float) -> LogLease:
        """See ``ServedLog``."""
        found = self._current().get(lease)
        if found is None:
            raise lease_is_over(lease)
        if after is not None and after > found.after:
            found.after, found.snapshot = after, From(after).chosen(self._snapshots)
        found.expires_s = time.monotonic() + lease_s
        return LogLease(lease, found.after, lease_s, found.snapshot)

    async def release(self, lease: str) -> None:
        """See ``ServedLog``."""
        self._leases.pop(lease, None)


def _closed() -> SqlError:
    return SqlError("57P03", "the database is being closed")


def _now_us() -> int:
    return time.time_ns() // 1000
