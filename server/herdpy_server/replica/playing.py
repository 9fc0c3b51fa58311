"""The roles of a replica: it opens its store, is seeded, follows, leads, and stops doing so.

Above ``base``, ``following``, ``leading`` and ``seeding``; below ``replica``, which says when each is
played. A role may be cancelled at any ``await``, but for what is ``_settled``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from herdpy.log import (
    LSN,
    START,
    ChainError,
    CorruptLedgerError,
    LogError,
    LogFencedError,
    LogUnavailableError,
)
from herdpy.log.bookkeeper import FollowedLog, LeaderLog
from herdpy.log.errors import LogEntriesLostError, LogLossError
from herdpy_server.cluster.election import Election
from herdpy_server.cluster.positions import read_needs
from herdpy_server.cluster.tablespace_info import TablespaceInfo
from herdpy_server.cluster.term import Term
from herdpy_server.replica.body import Body
from herdpy_server.replica.checking import Checker
from herdpy_server.replica.duties import Duties
from herdpy_server.replica.files import is_whole, kept, mark, marked, position_of, put_in_place, unmark
from herdpy_server.replica.fitness import Fitness
from herdpy_server.replica.following import follow, staged_reader
from herdpy_server.replica.host import Host
from herdpy_server.replica.keeping import Keeping
from herdpy_server.replica.leading import hand_over, lead, lead_on
from herdpy_server.replica.seeding import NoDonorError, Seeded, SeedingFailedError
from herdpy_server.replica.standby_log import StandbyLog
from herdpy_server.replica.state import ReplicaState
from herdpy_server.serving.tablespaces import SeedingProgress
from herdpy_server.store import StoreDamagedError
from herdpy_server.tablespace import Directory
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.replica")


class Playing(Keeping):
    """One role at a time."""

    election: Election
    checker: Checker
    duties: Duties
    fitness: Fitness

    def __init__(self, host: Host, info: TablespaceInfo) -> None:
        super().__init__(host, info)
        self._change = asyncio.Event()  # another role is to be played
        self._makes_way = False
        self._settles = False  # what the role does now is not to be interrupted
        self._log_damaged: str | None = None  # why its store is whole, and does not go on

    async def _open(self) -> None:
        await self._resign()
        self._enter(ReplicaState.OPENING)
        path = self.host.path(self.info.name)
        await self._close_body(replica_closed(self.info.name))
        self._reseed = await self._in_thread(marked, path)
        if await self._in_thread(is_whole, path):
            self._log_damaged = self._reseed
        self._evidence = await self._in_thread(kept, path)
        self.reports.kept = self._evidence or ""
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

    @asynccontextmanager
    async def _settled(self) -> AsyncIterator[None]:
        """What is done meanwhile is not to be interrupted."""
        self._settles = True
        try:
            yield
        finally:
            self._settles = False

    async def _seed(self, reason: str) -> None:
        """Get another replica's state in the place of one's own, which is never a newer one.

        Raises:
            AheadOfLogError: it has what the log has not.
            KeptError: it has what the others have not.
        """
        if self.problem != reason:
            logger.warning("a replica is to be seeded", extra=self._extra(reason=reason))
        self.problem = reason
        await self._resign()
        self._enter(ReplicaState.SEEDING)
        path = self.host.path(self.info.name)
        log_damaged = self._log_damaged == reason
        await self._in_thread(partial(mark, is_whole=log_damaged), path, reason)
        await self._close_body(_made_anew(self.info.name))
        position = await self._in_thread(position_of, Directory(path).store)
        self._at_rest = position
        await self._check_evidence(position)
        is_good = await self._in_thread(is_whole, path)
        seeded: Seeded | None = None
        try:
            seeded = await self.host.seed(self.info, path / "seed", self._seeding_told, position)
        except (NoDonorError, SeedingFailedError) as error:
            if is_good and await self._log_goes_on(position):
                await self._take_up(path)
                return
            if is_good or not isinstance(error, NoDonorError) or not await self._log_is_whole(position):
                self._not_seeded(position)
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

    async def _take_up(self, path: Path) -> None:
        """The store that it has will do: the log goes on."""
        async with self._settled():
            await self._in_thread(unmark, path)
            self._reseed = self._log_damaged = None
            await self._open_body(path)
        logger.info("what was gone of the log is back", extra=self._extra(applied=str(self.applied)))

    def _not_seeded(self, position: LSN) -> None:
        """It has a store that nobody reads, and there is none to take its place."""
        if position != START:
            self._enter(ReplicaState.QUARANTINED)

    def _seeding_told(self, progress: SeedingProgress) -> None:
        self.seeding = progress

    async def _follow(self) -> None:
        body = self.body
        assert body is not None
        body.stand_on(body.standby, leads=False)
        settings = self.log_settings()
        log = FollowedLog(self.host.bk, self._ledgers, settings)
        try:
            await self._check(log, body.store.applied)  # before anybody reads what may not be in the log
            self._followed = log
            self._enter(ReplicaState.FOLLOWING)
            staged = staged_reader(self.host.bk, settings)
            await follow(body, log.tail(body.store.applied), self._advanced, staged)
        finally:
            self._followed = None
            await log.close()

    async def _heed(self) -> None:
        """Make what it has ready to be the truth: on its disk, and a candidate in the election."""
        if self.body is None or self.body.is_dead:
            async with self._settled():
                try:
                    await self._open_body(self.host.path(self.info.name))
                except StoreDamagedError as error:
                    await self._word.refuse(str(error))
                    raise
        if self.applied == START:
            await self._word.refuse("it has nothing of the tablespace")
            return
        await self._on_disk()
        self.election.reconsider()

    async def _on_disk(self) -> None:
        """LogUnavailableError while not all that it has is durable in its own store."""
        body = self.body
        assert body is not None
        await self._in_thread(body.checkpoint)
        if body.store.durable != body.store.applied:
            raise LogUnavailableError("what is to be kept is not on the disk yet")

    async def _lead_on(self, body: Body, term: Term) -> LeaderLog:
        """Have the log go on after what this replica has: an operator said so."""
        word = self._word.record
        assert word is not None
        logger.warning(
            "the log goes on after what is kept here", extra=self._extra(applied=str(self.applied))
        )
        await self._on_disk()
        lost, settings = partial(self._log_lost, term), self.log_settings()
        try:
            return await lead_on(
                self.host, body, self._ledgers, settings, term, accept_loss=word.accept_loss, lost=lost
            )
        except LogLossError as error:
            await self._word.refuse(str(error))
            raise

    async def _is_kept(self, log: LeaderLog) -> None:
        """It leads: its state is no evidence any more, but the truth."""
        try:
            await self._in_thread(unmark, self.host.path(self.info.name))
            await self._no_evidence()
        except BaseException:
            log.abandon()  # nobody could append to it yet
            raise
        self._reseed = self._log_damaged = None

    async def fulfil_word(self) -> None:
        """While it leads: say in the log that its state is right, for others to compare theirs.

        Raises:
            SqlError, BookKeeperError: it is not said yet.
        """
        if self._word.record is not None:
            await self.checker.declare()
            await self._word.done()

    async def _lead(self, term: Term) -> None:
        """Until the term is over, however it ends: then it is given back, for another to try."""
        body = self.body
        assert body is not None
        if not self._is_to_be_kept:  # else nobody reads it before it leads
            self._enter(ReplicaState.TAKING_OVER)
        try:
            await self._lead_with(body, term)
        except LogUnavailableError as error:
            self.fitness.takeover_failed(error)
            raise
        finally:
            await self._resign(term)

    async def _lead_with(self, body: Body, term: Term) -> None:
        try:
            log = await self._take_log(body, term)
        except (ChainError, CorruptLedgerError, LogUnavailableError) as error:
            if not self._is_to_be_kept or not self._may_lead_on(error):
                raise
            log = await self._lead_on(body, term)
        if self._is_to_be_kept:
            await self._is_kept(log)
        if self._term is not term:  # lost while the last step returned
            log.abandon()
            return
        self.log = log
        self.guard.lease = term.lease
        body.stand_on(log, leads=True)
        self.lost = None
        self.epoch, self.takeovers = term.epoch, self.takeovers + 1
        self._enter(ReplicaState.LEADING)
        logger.info("leads", extra=self._extra(epoch=term.epoch, end=str(log.end)))
        try:
            await self.duties.perform(log)
        finally:
            await self._stop_leading(log, body, term)

    async def _take_log(self, body: Body, term: Term) -> LeaderLog:
        return await lead(
            self.host,
            body,
            self._ledgers,
            self.log_settings(),
            term,
            applied=self._applied_anywhere,
            advanced=self._advanced,
            lost=partial(self._log_lost, term),
        )

    def _may_lead_on(self, error: LogError) -> bool:
        """Whether waiting for bookies is not what is wanted: they have lost it, or the loss is accepted."""
        word = self._word.record
        if word is None or not isinstance(error, LogUnavailableError):
            return word is not None
        return word.accept_loss or isinstance(error, LogEntriesLostError)

    async def _applied_anywhere(self) -> list[LSN]:
        """The positions that replicas have applied, as far as they have told; this one's, too."""
        needs = await read_needs(self.host.bk.znodes, self._paths)
        return [
            self.applied,
            *(one.applied for one in needs.replicas.values()),
            *(one.durable for one in needs.positions.values()),
        ]

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
            log.abandon(LogFencedError("this replica does not lead any more"))

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

    def _stand_aside(self, reason: str) -> None:
        """It has applied what the log has not: nobody reads it, it leads nobody, and it is kept as it is."""
        if self.problem != reason or self.state is not ReplicaState.AHEAD:
            logger.error("a replica is ahead of the log", extra=self._extra(reason=reason))
        self._step_down()
        self.problem = reason
        self._enter(ReplicaState.AHEAD)

    def _log_lost(self, term: Term, error: LogError) -> None:
        if self._term is term:
            logger.warning("the log was lost", extra=self._extra(reason=str(error)))
            if isinstance(error, LogUnavailableError):
                self.fitness.takeover_failed(error)
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
