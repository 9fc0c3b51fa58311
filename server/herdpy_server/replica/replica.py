"""One replica of one tablespace: it follows the log, and leads when it is elected.

Above ``body``, ``following`` and ``leading``; below ``node``, which has one for each tablespace. Exactly one
*role* runs at a time, as a task: seeding, following or leading. The election tells of terms won and lost in
the turn of the loop in which it hears of them; then commits are refused and reads unanswerable at once, and
the role is changed for another by ``_run``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from herdpy.bookkeeper import BookKeeperError
from herdpy.log import (
    START,
    ChainError,
    CorruptLedgerError,
    LedgerFencedError,
    LedgerInfo,
    LedgerListConflictError,
    LogClosedError,
    LogError,
    LogTrimmedError,
    LogUnavailableError,
    RecordError,
)
from herdpy.log.bookkeeper import FollowedLog, LeaderLog, LedgerLogSettings, ZnodeLedgerList
from herdpy.log.lsn import LSN
from herdpy_server.cluster.election import Candidate
from herdpy_server.cluster.errors import ClusterError, TermLostError
from herdpy_server.cluster.layout import LeaderRecord
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.cluster.term import Term
from herdpy_server.loading.ledgers import LedgerPlace
from herdpy_server.replica.body import Body
from herdpy_server.replica.checking import Checker
from herdpy_server.replica.duties import Duties
from herdpy_server.replica.files import mark, marked, put_in_place, unmark
from herdpy_server.replica.following import follow, staged_reader
from herdpy_server.replica.guard import ReplicaGuard
from herdpy_server.replica.host import Host
from herdpy_server.replica.leading import hand_over, lead
from herdpy_server.replica.publishing import ReplicaPublishing
from herdpy_server.replica.seeding import NoDonorError, Seeded, SeedingFailedError
from herdpy_server.replica.served import ServedReplica
from herdpy_server.replica.standby_log import StandbyLog
from herdpy_server.replica.state import ReplicaState
from herdpy_server.serving.tablespaces import SeedingProgress
from herdpy_server.sessions import Session
from herdpy_server.store import StoreDamagedError
from herdpy_server.store.errors import ApplyError
from herdpy_server.tablespace import Directory
from herdpy_server.tablespace.guard import ReadLevel
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.replica")

T = TypeVar("T")
_DAMAGED = (ChainError, CorruptLedgerError, RecordError, ApplyError, StoreDamagedError)
_PAUSE_S = 0.5
_SEED_AGAIN_S = 2.0


class Replica:
    """To be made and used on the loop; :meth:`start` and :meth:`close` are its life.

    Attributes:
        info: the tablespace, as ZooKeeper has it.
        state: what it is doing.
        body: its store and what stands on it; None while it is opened or seeded.
        guard: who may read.
        problem: why it was seeded or quarantined last.
        epoch: of the newest term that it led; 0: none.
        takeovers, seedings: how often it came to lead, and got another's state.
        seeding: the snapshot that is on its way.
        served: what the doors see of it.
        checker: compares it with the others.
        publishing: publishes snapshots of it.
    """

    def __init__(self, host: Host, info: TablespaceInfo) -> None:
        self.host = host
        self.info = info
        self.body: Body | None = None
        self.problem: str | None = None
        self.epoch = self.takeovers = self.seedings = 0
        self.seeding: SeedingProgress | None = None
        self.served = ServedReplica(self)
        self.checker = Checker(self)
        self.log: LeaderLog | None = None
        self._paths = host.coordination.layout.tablespace(info.name)
        self._ledgers = ZnodeLedgerList(host.bk.znodes, self._paths.ledgers)
        self._followed: FollowedLog | None = None
        clock = host.coordination.renewal.clock
        self.guard = ReplicaGuard(info.name, lambda: self.applied, self._log_end, clock)
        self.guard.hurry = self._hurry
        candidate = Candidate(
            position=lambda: self.applied,
            lacks=self._lacks,
            won=self._won,
            lost=self._lost,
            leader=self._leader_told,
        )
        self.election = host.coordination.election(info, candidate)
        self.reports = host.coordination.reports(info.name)
        self.duties = Duties(self)
        self.publishing = ReplicaPublishing(self)
        self._term: Term | None = None
        self._role: asyncio.Task[None] | None = None
        self._change = asyncio.Event()
        self._makes_way = False
        self._running: asyncio.Task[None] | None = None
        self._closing = False
        self._settles = False  # what the role does now is not to be interrupted
        self._reseed: str | None = None

    # Its life.

    def start(self) -> None:
        """Begin."""
        self.reports.start()
        self.election.start()
        self.publishing.start()
        self._running = asyncio.get_running_loop().create_task(self._run(), name=f"replica {self.info.name}")

    async def close(self, *, forget: bool = False) -> None:
        """End: hand the leadership over if it is here, and close the store.

        Args:
            forget: the replica does not come back: nothing of the log is kept for it.
        """
        self._closing = True
        self._makes_way = True
        self._change.set()
        await self.publishing.close()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)
        await self.election.close()
        self.guard.close()
        body, self.body = self.body, None
        self._enter(ReplicaState.CLOSED)
        if body is not None:
            await body.close(_closed(self.info.name))
            if not forget:
                self.reports.report(self.state.value, body.store.applied, body.store.durable)
                with contextlib.suppress(BookKeeperError):
                    await self.reports.keep_now()
        await self.reports.close(forget=forget)

    async def _run(self) -> None:
        while not self._closing:
            self._change.clear()
            self._role = asyncio.get_running_loop().create_task(self._play(), name="role")
            changed = asyncio.ensure_future(self._change.wait())
            await asyncio.wait({self._role, changed}, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
            if not self._role.done() and not self._settles:
                self._role.cancel()
            (error,) = await asyncio.gather(self._role, return_exceptions=True)
            if isinstance(error, Exception):
                logger.error("a replica's role failed", exc_info=error, extra=self._extra())
                await asyncio.sleep(_PAUSE_S)

    async def _play(self) -> None:
        """The role that fits the moment, until it ends or is cancelled."""
        try:
            if self._reseed is not None:
                await self._seed(self._reseed)
            elif self.body is None or self.body.is_dead:
                await self._open()
            elif self._term is not None and self._term.loss is None:
                await self._lead(self._term)
            else:
                await self._follow()
        except _DAMAGED as error:
            self._quarantine(str(error))
            await self.election.resign()
        except LogTrimmedError as error:
            self._reseed = str(error)
        except LedgerListConflictError as error:
            logger.warning("another node has the log", extra=self._extra(reason=str(error)))
        except TermLostError:
            pass
        except LogClosedError as error:
            logger.info("the log is gone", extra=self._extra(reason=str(error)))
            await asyncio.sleep(_PAUSE_S)
        except (NoDonorError, SeedingFailedError) as error:
            logger.warning(
                "a replica is not seeded yet", extra=self._extra(reason=str(error), detail=error.detail)
            )
            await asyncio.sleep(_SEED_AGAIN_S)
        except (LogError, BookKeeperError, ClusterError, OSError, SqlError) as error:
            logger.warning("a replica cannot go on yet", extra=self._extra(reason=str(error)))
            await asyncio.sleep(_PAUSE_S)
        except Exception:
            logger.exception("a replica failed", extra=self._extra())
            await asyncio.sleep(_PAUSE_S)

    # Roles.

    async def _open(self) -> None:
        await self._resign()
        self._enter(ReplicaState.OPENING)
        path = self.host.path(self.info.name)
        await self._close_body(_closed(self.info.name))
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

    # What it is told.

    async def _lacks(self) -> str | None:
        if self._closing or self.body is None or self.body.is_dead or self._reseed is not None:
            return f"it is {self.state.value}"
        state = await self._ledgers.read()
        if state is not None and self.applied < state.base:
            self._reseed = f"the log begins after {state.base}, and this replica ends at {self.applied}"
            self._change.set()
            return "it lacks a part of the log"
        return None

    def _won(self, term: Term) -> None:
        self._term = term
        self._change.set()

    def _lost(self, term: Term) -> None:
        if self._term is term:
            self._step_down()
            self._change.set()

    def _log_lost(self, term: Term, error: LogError) -> None:
        if self._term is term:
            logger.warning("the log was lost", extra=self._extra(reason=str(error)))
            self._step_down()
            self._change.set()

    def _leader_told(self, leader: LeaderRecord | None) -> None:
        self.guard.leader = leader
        self.guard.changed()

    def altered(self, info: TablespaceInfo) -> None:
        """The tablespace was changed in ZooKeeper."""
        self.info = info
        self.election.prefer(info.leader)
        self.duties.look()
        self.publishing.look()

    def make_way(self) -> None:
        """Let another replica lead, after what is under way is finished."""
        if self.state is ReplicaState.LEADING:
            self._makes_way = True
            self._change.set()

    def differs(self, reason: str) -> None:
        """It was found to differ from the other replicas."""
        self._quarantine(reason)
        self._change.set()

    # What it tells.

    @property
    def state(self) -> ReplicaState:
        return self.guard.state

    @property
    def applied(self) -> LSN:
        """The position that it has applied."""
        return START if self.body is None else self.body.store.applied

    @property
    def log_end(self) -> LSN:
        """The newest entry of the log that is known here to be confirmed."""
        log = self.log or self._followed
        return self.applied if log is None else log.lac

    def ledgers(self) -> Sequence[LedgerInfo]:
        """Of the log, oldest first, as they were last seen."""
        log = self.log or self._followed
        return () if log is None else log.ledgers()

    @property
    def lag_entries(self) -> int:
        """How many entries of the log that are known to be confirmed it has not applied."""
        followed = self._followed
        if followed is None:
            return 0
        end, applied = followed.lac, self.applied
        if end.ledger_id == applied.ledger_id:
            return max(end.entry_id - applied.entry_id, 0)
        return 0 if end <= applied else end.entry_id + 1

    def session(self) -> Session:
        """A new session. SqlError 57P03 when there is nothing to be read."""
        if self.body is None or self._closing:
            raise SqlError(
                "57P03",
                f"this replica of tablespace {self.info.name} cannot be used now: it is {self.state.value}",
                hint="Try again soon, or name several hosts.",
            )
        session = self.body.session()
        session.settings.set_standby(self.state is not ReplicaState.LEADING)
        return session

    def load_ledgers(self) -> LedgerPlace | None:
        """Where loads are staged, while it leads; None: it does not."""
        log, body, guard = self.log, self.body, self.guard
        if log is None or body is None:
            return None
        basis, linearizable = guard.basis, ReadLevel()
        busy, loads = body.tablespace.load_turns.ledgers, body.store.loads

        def is_needed(ledger_id: int) -> bool:
            # Who leads no more cannot know what others have published.
            return not guard.holds(linearizable, basis) or ledger_id in busy or loads.needs(ledger_id)

        host = self.host
        return LedgerPlace(
            host.bk, self.log_settings(), host.zookeeper, host.ledgers_root, log.state.log_id, is_needed
        )

    def log_settings(self) -> LedgerLogSettings:
        """How this tablespace's log is written."""
        info, storage = self.info, self.host.settings
        return LedgerLogSettings(
            tablespace=info.name,
            ensemble=info.ensemble,
            write_quorum=info.write_quorum,
            ack_quorum=info.ack_quorum,
            strict=info.strict,
            max_ledger_bytes=storage.max_ledger_bytes,
            max_ledger_age_s=storage.max_ledger_age_s,
        )

    async def _log_end(self) -> LSN:
        followed = self._followed
        if followed is None:
            raise LogUnavailableError("this replica does not follow the log now")
        await self.host.coordination.renewal.catch_up()  # or the ledger list may be of the past
        return await followed.bound()

    def _hurry(self) -> None:
        if self._followed is not None:
            self._followed.hurry()

    def _advanced(self) -> None:
        self.guard.advanced()
        self.report()

    def report(self) -> None:
        """Tell ZooKeeper where it is; cheap."""
        body = self.body
        if body is not None:
            self.reports.report(self.state.value, body.store.applied, body.store.durable, self.lag_entries)

    def _enter(self, state: ReplicaState) -> None:
        self.guard.state = state
        self.guard.changed()
        durable = START if self.body is None else self.body.store.durable
        self.reports.report(state.value, self.applied, durable)

    def _extra(self, **more: object) -> dict[str, object]:
        return {"tablespace": self.info.name, **more}


def _closed(name: str) -> SqlError:
    return SqlError("57P01", f"the replica of tablespace {name} was closed")


def _made_anew(name: str) -> SqlError:
    return SqlError(
        "57P01",
        f"terminating connection: this replica of tablespace {name} gets another one's state",
        hint="Connect again, or to another node.",
    )
