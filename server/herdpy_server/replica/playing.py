"""The roles of a replica: it opens its store, is seeded, follows, leads, and stops doing so.

Above ``base``, ``following``, ``leading`` and ``seeding``; below ``replica``, which says when each is
played. A role may be cancelled at any ``await``, but for what is ``_settled``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from herdpy.log import START, LedgerFencedError, LogError
from herdpy.log.bookkeeper import FollowedLog, LeaderLog
from herdpy_server.cluster.election import Election
from herdpy_server.cluster.tablespace_info import TablespaceInfo
from herdpy_server.cluster.term import Term
from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.body import Body
from herdpy_server.replica.checking import Checker
from herdpy_server.replica.duties import Duties
from herdpy_server.replica.files import mark, marked, put_in_place, unmark
from herdpy_server.replica.following import follow, staged_reader
from herdpy_server.replica.host import Host
from herdpy_server.replica.leading import hand_over, lead
from herdpy_server.replica.seeding import NoDonorError, Seeded
from herdpy_server.replica.standby_log import StandbyLog
from herdpy_server.replica.state import ReplicaState
from herdpy_server.serving.tablespaces import SeedingProgress
from herdpy_server.tablespace import Directory
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.replica")

T = TypeVar("T")


class Playing(ReplicaBase):
    """One role at a time."""

    election: Election
    checker: Checker
    duties: Duties

    def __init__(self, host: Host, info: TablespaceInfo) -> None:
        super().__init__(host, info)
        self._change = asyncio.Event()  # another role is to be played
        self._makes_way = False
        self._settles = False  # what the role does now is not to be interrupted
        self._reseed: str | None = None

    async def _open(self) -> None:
        await self._resign()
        self._enter(ReplicaState.OPENING)
        path = self.host.path(self.info.name)
        await self._close_body(replica_closed(self.info.name))
        self._reseed = await self._in_thread(marked, path)
        if self._reseed is None:
            async with self._settled():
                await self._open_body(path)

    async def _close_body(self, told: SqlError) -> None:
        """Close the state that there is, for another in its place; its sessions get the error."""
        async with self._settled():
            body, self.body = self.body, None
            if body is not None:
                await body.close(told)

    async def _open_body(self, path: Path) -> None:
        self.body = await Body.open(
            self.host,
            path,
            lambda store: StandbyLog(lambda: self.guard.refusal("COMMIT"), lambda: store.applied),
            self.guard,
        )
        self.guard.replaced()
        self.body.on_checkpoint = self._checkpoint_told
        self.checker.attach(self.body)
        self.election.reconsider()

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.host.threads.opening, work, *arguments)

    @asynccontextmanager
    async def _settled(self) -> AsyncIterator[None]:
        """What is done meanwhile is not to be interrupted."""
        self._settles = True
        try:
            yield
        finally:
            self._settles = False

    async def _seed(self, reason: str) -> None:
        """Get another replica's state in the place of one's own."""
        if self.problem != reason:
            logger.warning("a replica is to be seeded", extra=self._extra(reason=reason))
        self.problem = reason
        await self._resign()
        self._enter(ReplicaState.SEEDING)
        path = self.host.path(self.info.name)
        await self._in_thread(mark, path, reason)
        await self._close_body(_made_anew(self.info.name))
        seeded: Seeded | None = None
        try:
            seeded = await self.host.seed(self.info, path / "seed", self._seeding_told)
        except NoDonorError:
            if not await self._log_is_whole():
                raise
            logger.warning("no replica is there to seed from: the log is replayed", extra=self._extra())
        finally:
            self.seeding = None
        try:
            async with self._settled():
                await self._replace(path, None if seeded is None else seeded.data)
            if seeded is not None:
                self.report()
                await self.reports.keep_now()
        finally:
            if seeded is not None:
                await seeded.release()

    async def _replace(self, path: Path, data: Path | None) -> None:
        await self._in_thread(put_in_place, data, Directory(path).store)
        await self._in_thread(unmark, path)
        self._reseed = None
        self.seedings += 1
        await self._open_body(path)
        logger.info("a replica was seeded", extra=self._extra(applied=str(self.applied)))

    async def _log_is_whole(self) -> bool:
        """Whether nothing of the log was trimmed: an empty store gets everything from it."""
        state = await self._ledgers.read()
        return state is None or state.base == START

    def _seeding_told(self, progress: SeedingProgress) -> None:
        self.seeding = progress

    async def _follow(self) -> None:
        body = self.body
        assert body is not None
        body.stand_on(body.standby, leads=False)
        settings = self.log_settings()
        log = self._followed = FollowedLog(self.host.bk, self._ledgers, settings)
        self._enter(ReplicaState.FOLLOWING)
        try:
            staged = staged_reader(self.host.bk, settings)
            await follow(body, log.tail(body.store.applied), self._advanced, staged)
        finally:
            self._followed = None
            await log.close()

    async def _lead(self, term: Term) -> None:
        """Until the term is over, however it ends: then it is given back, for another to try."""
        body = self.body
        assert body is not None
        self._enter(ReplicaState.TAKING_OVER)
        try:
            await self._lead_with(body, term)
        finally:
            await self._resign(term)

    async def _lead_with(self, body: Body, term: Term) -> None:
        settings = self.log_settings()
        lost = partial(self._log_lost, term)
        log = await lead(self.host, body, self._ledgers, settings, term, advanced=self._advanced, lost=lost)
        if self._term is not term:  # lost while the last step returned
            log.abandon()
            return
        self.log = log
        self.guard.lease = term.lease
        body.stand_on(log, leads=True)
        self.epoch, self.takeovers = term.epoch, self.takeovers + 1
        self._enter(ReplicaState.LEADING)
        logger.info("leads", extra=self._extra(epoch=term.epoch, end=str(log.end)))
        try:
            await self.duties.perform(log)
        finally:
            await self._stop_leading(log, body, term)

    async def _stop_leading(self, log: LeaderLog, body: Body, term: Term) -> None:
        """Whatever ended the term: nothing is answered or acknowledged any more when this returns."""
        try:
            if self._makes_way and self._term is term and log.failure is None:
                self._enter(ReplicaState.HANDING_OVER)
                body.stand_on(body.standby, leads=False)
                await hand_over(log)
        finally:
            self._makes_way = self._closing
            if self.log is log:
                self._step_down()

    def _step_down(self) -> None:
        """At once, whatever is under way: reads are refused, commits fail."""
        log, self.log = self.log, None
        self.guard.lease = None
        self._term = None
        if self.body is not None:
            self.body.stand_on(self.body.standby, leads=False)
        if self.state is ReplicaState.LEADING:
            self._enter(ReplicaState.FOLLOWING)
        if log is not None:
            log.abandon(LedgerFencedError("this replica does not lead any more"))

    async def _resign(self, term: Term | None = None) -> None:
        """Give back the term, or whatever term there is."""
        if term is None or self._term is term:
            self._step_down()
        if term is None or self.election.term is term:
            await self.election.resign()

    def _checkpoint_told(self) -> None:
        """LMDB goes on no more once its last page could not be written: then the store is opened anew, and
        the log replayed. As long as the disk is full that fails, and is tried again."""
        self.report()
        if self.body is not None and self._followed is not None:
            self.body.store.log_trimmed(self._followed.base)
        if self.body is not None and self.body.is_dead and self.state is not ReplicaState.OPENING:
            logger.error("a store can be used no more, and is opened anew", extra=self._extra())
            self._step_down()
            self._enter(ReplicaState.OPENING)
            self._change.set()

    def _quarantine(self, reason: str) -> None:
        """It differs from the log, or from the other replicas: nobody reads it, and it is made anew."""
        logger.error("a replica is quarantined", extra=self._extra(reason=reason))
        self._step_down()
        self._enter(ReplicaState.QUARANTINED)
        self.problem = self._reseed = reason

    def _log_lost(self, term: Term, error: LogError) -> None:
        if self._term is term:
            logger.warning("the log was lost", extra=self._extra(reason=str(error)))
            self._step_down()
            self._change.set()


def replica_closed(name: str) -> SqlError:
    """57P01: told to the sessions of a replica that was closed, or is opened anew."""
    return SqlError("57P01", f"the replica of tablespace {name} was closed")


def _made_anew(name: str) -> SqlError:
    return SqlError(
        "57P01",
        f"terminating connection: this replica of tablespace {name} gets another one's state",
        hint="Connect again, or to another node.",
    )
