"""One replica of one tablespace: it follows the log, and leads when it is elected.

Above ``base`` and the parts that are given it (``checking``, ``evidence``, ``fitness``, ``leader_tasks``,
``served``), and above ``following``, ``leading`` and ``seeding``, which do the work of a
role; below ``node``, which has one replica for each tablespace.

Exactly one *role* runs at a time, as a task: opening, seeding, following or leading. The election reports
terms won and lost in the turn of the loop in which it hears of them; then commits are refused and reads
unanswerable at once, and ``_run`` changes the role for another. A role may be cancelled at any ``await``, but
for what is ``_settled``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from herdpy.bookkeeper import BookKeeperError
from herdpy.log import (
    LSN,
    START,
    AheadOfLogError,
    ChainError,
    CorruptLedgerError,
    LedgerListConflictError,
    LogClosedError,
    LogEntry,
    LogError,
    LogFencedError,
    LogTrimmedError,
    LogUnavailableError,
    RecordError,
    StagedPart,
)
from herdpy.log.bookkeeper import FollowedLog, LeaderLog, SpareLedger
from herdpy.log.errors import LogEntriesLostError, LogLossError
from herdpy.log.ledger_list import LedgerListState
from herdpy_server.backup.archiver import LogArchiver
from herdpy_server.cluster.election import Candidate
from herdpy_server.cluster.errors import ClusterError, TermLostError
from herdpy_server.cluster.layout import LeaderRecord
from herdpy_server.cluster.lease import Term
from herdpy_server.cluster.positions import applied_positions
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica.archived import ArchivedBookies
from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.checking import ReplicaChecker
from herdpy_server.replica.evidence import Evidence, KeepWord, KeptError, log_goes_on, log_is_whole
from herdpy_server.replica.files import is_whole, mark, marked, position_of, put_in_place, unmark
from herdpy_server.replica.fitness import Fitness
from herdpy_server.replica.following import follow, read_staged, staged_reader
from herdpy_server.replica.guard import ReplicaState
from herdpy_server.replica.host import Host
from herdpy_server.replica.lac_reports import LacListener
from herdpy_server.replica.leader_tasks import LeaderTasks
from herdpy_server.replica.leading import hand_over, lead, lead_on
from herdpy_server.replica.open_replica import OpenReplica, StandbyLog
from herdpy_server.replica.seeding import NoDonorError, Seeded, SeedingFailedError
from herdpy_server.replica.served import BookKeeperLogBackend, ServedReplica
from herdpy_server.replica.spares import NextTerm
from herdpy_server.serving.backup_schedule import BackupSchedule
from herdpy_server.serving.backups import BackupMaking
from herdpy_server.serving.logs import ServedLog
from herdpy_server.serving.node import SeedingProgress
from herdpy_server.serving.publishing import SnapshotPublishing
from herdpy_server.store import StoreDamagedError
from herdpy_server.store.disk import ApplyError
from herdpy_server.tablespace import Directory
from herdpy_server.tracing import EntryTracer
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.replica")

_DAMAGED = (ChainError, CorruptLedgerError, RecordError, ApplyError, StoreDamagedError)
_PAUSE_S = 0.5
_SEED_AGAIN_S = 2.0
_LOOK_AGAIN_S = 2.0
_LEAVE_LOOK_S = 0.01


class Replica(ReplicaBase):
    """To be made and used on the loop; :meth:`start` and :meth:`close` are its life.

    Attributes:
        info: the tablespace, as ZooKeeper has it.
        state: what it is doing.
        opened: its store and what stands on it; None while it is opened or seeded.
        guard: who may read.
        problem: why it was seeded or quarantined last, or is kept for an operator to decide.
        unfit: why it should not lead now, as ``fitness`` has found; None: it may.
        lost: what the bookies have lost of the log, so that it could not be taken over.
        epoch: of the newest term that it led; 0: none.
        takeovers, seedings: how often it came to lead, and got another's state.
        seeding: the snapshot that is on its way.
        served: what the front ends see of it.
        checker: compares it with the others.
        publishing: publishes snapshots of it.
        archiver: archives the log while it leads.
        backups: makes backups that are due.
        fitness: has another replica lead while this one cannot well.
        leader_tasks: trims the log, and more, while it leads.
        evidence: why nothing but an operator may replace its store.
    """

    def __init__(self, host: Host, info: TablespaceInfo) -> None:
        super().__init__(host, info)
        candidate = Candidate(
            position=lambda: self.applied,
            lacks=self._lacks,
            won=self._won,
            lost=self._lost,
            leader=self._leader_changed,
            heard_until_s=lambda leader: self._listener.heard_until_s(leader),
        )
        self.election = host.coordination.election(info, candidate)
        backend = BookKeeperLogBackend(self)
        self.publishing = SnapshotPublishing(backend, host.node)
        making = BackupMaking(backend, host.node)
        self.served = ServedReplica(self, ServedLog(backend, self.publishing.now), making)
        self.checker = ReplicaChecker(self, self.differs, self.differs_and_has_more)
        self.archiver = LogArchiver(host.archive, info.name)
        self.backups = BackupSchedule(
            backend, host.backups, making.make, host.node, lambda: self.archiver.status().gap_upto
        )
        making.made = self.backups.look
        self.leader_tasks = LeaderTasks(self, self.hand_over, self.archiver.floor, self._fulfil_word)
        self.checkpointed = self.leader_tasks.look
        self.fitness = Fitness(self, self.election, self.hand_over, self.give_up)
        self.evidence = Evidence(self)
        self._listener = LacListener(
            host.reports,
            host.node,
            info.name,
            lambda: self.guard.leader,
            self.guard.questions,
            clock=host.coordination.renewal.clock,
            lost=self.election.reconsider,
        )
        self._word = KeepWord(host.bk.znodes, self.paths, host.node, self._word_changed)
        self._reseed: str | None = None  # why its store is not to be read
        self._log_damaged: str | None = None  # why its store is whole, and does not go on
        self._change = asyncio.Event()  # another role is to be played
        self._spare: SpareLedger | None = None
        self._expects: NextTerm | None = None
        self._list_read: LedgerListState | None = None  # the ledger list, as the election saw it last
        self._hands_over = False
        self._settles = False  # what the role does now is not to be interrupted
        self._role: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None

    # Its life.

    def start(self) -> None:
        """Begin."""
        self.reports.start()
        self.election.start()
        self.publishing.start()
        self.backups.start()
        self.fitness.start()
        self._word.start()
        self._spare = self.host.spares.add(self._next_term)
        self._running = asyncio.get_running_loop().create_task(self._run(), name=f"replica {self.info.name}")

    async def close(self, *, forget: bool = False) -> None:
        """End: hand the leadership over if it is here, and close the store.

        Args:
            forget: the replica does not come back: nothing of the log is kept for it.
        """
        self.is_closing = True
        self._hands_over = True
        self._change.set()
        self._word.close()
        await self.publishing.close()
        await self.backups.close()
        await self.fitness.close()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)
        await self.election.close()
        if self._spare is not None:
            await self.host.spares.remove(self._spare)
        self.guard.close()
        opened, self.opened = self.opened, None
        self._enter(ReplicaState.CLOSED)
        if opened is not None:
            await opened.close(_replica_closed(self.info.name))
            if not forget:
                self.reports.report(self.state.value, opened.store.applied, opened.store.durable)
                with contextlib.suppress(BookKeeperError):
                    await self.reports.keep_now()
        await self.reports.close(forget=forget)

    async def _run(self) -> None:
        while not self.is_closing:
            self._change.clear()
            self._role = asyncio.get_running_loop().create_task(self._run_role(), name="role")
            changed = asyncio.ensure_future(self._change.wait())
            await asyncio.wait({self._role, changed}, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
            if not self._role.done() and not self._settles:
                self._role.cancel()
            (error,) = await asyncio.gather(self._role, return_exceptions=True)
            if isinstance(error, Exception):
                logger.error("a replica's role failed", exc_info=error, extra=self.log_extra())
                await asyncio.sleep(_PAUSE_S)

    async def _run_role(self) -> None:
        """The role that fits the moment, until it ends or is cancelled."""
        try:
            is_elected = self.term is not None and self.term.loss is None and self.opened is not None
            if self._is_to_be_kept and not is_elected:
                await self._prepare_kept()
                await asyncio.sleep(_LOOK_AGAIN_S)
            elif self._reseed is not None and not self._is_to_be_kept:
                await self._seed(self._reseed)
            elif self.opened is None or self.opened.is_dead:
                await self._open()
            elif self.term is not None and self.term.loss is None:
                await self._lead(self.term)
            else:
                await self._follow()
        except AheadOfLogError as error:
            self._set_ahead(str(error))
            await self.election.resign()
            await self.evidence.keep(str(error))
            await asyncio.sleep(_LOOK_AGAIN_S)
        except KeptError as error:
            self.problem = str(error)
            self._enter(ReplicaState.QUARANTINED)
            await asyncio.sleep(_LOOK_AGAIN_S)
        except LogEntriesLostError as error:
            logger.error("the log lacks what was applied", extra=self.log_extra(reason=str(error)))
            self.lost = str(error)
            self.report()
            await asyncio.sleep(_LOOK_AGAIN_S)
        except _DAMAGED as error:
            self._quarantine(str(error))
            self._log_damaged = str(error) if isinstance(error, CorruptLedgerError) else None
            await self.election.resign()
        except LogTrimmedError as error:
            self._reseed = str(error)
        except LedgerListConflictError as error:
            logger.warning("another node has the log", extra=self.log_extra(reason=str(error)))
        except TermLostError:
            pass
        except LogClosedError as error:
            logger.info("the log is gone", extra=self.log_extra(reason=str(error)))
            await asyncio.sleep(_PAUSE_S)
        except (NoDonorError, SeedingFailedError) as error:
            logger.warning(
                "a replica is not seeded yet", extra=self.log_extra(reason=str(error), detail=error.detail)
            )
            await asyncio.sleep(_SEED_AGAIN_S)
        except (LogError, BookKeeperError, ClusterError, OSError, SqlError) as error:
            logger.warning("a replica cannot recover yet", extra=self.log_extra(reason=str(error)))
            await asyncio.sleep(_PAUSE_S)
        except Exception:
            logger.exception("a replica failed", extra=self.log_extra())
            await asyncio.sleep(_PAUSE_S)

    # Its roles.

    async def _open(self) -> None:
        await self._resign()
        self._enter(ReplicaState.OPENING)
        path = self.host.path(self.info.name)
        await self._close_store(_replica_closed(self.info.name))
        self._reseed = await self.in_thread(marked, path)
        if await self.in_thread(is_whole, path):
            self._log_damaged = self._reseed
        await self.evidence.read()
        if self._reseed is None:
            async with self._settled():
                await self._open_store(path)

    async def _close_store(self, error: SqlError) -> None:
        """Close the state that there is, for another in its place; its sessions get the error."""
        async with self._settled():
            opened, self.opened = self.opened, None
            if opened is not None:
                await opened.close(error)

    async def _open_store(self, path: Path) -> None:
        self.opened = await OpenReplica.open(
            self.host,
            path,
            lambda store: StandbyLog(lambda: self.guard.refusal("COMMIT"), lambda: store.applied),
            self.guard,
        )
        past = self.opened.tablespace.past
        past.read, past.read_part = self._read_log, self._read_part
        self.reports.floor = self._floor
        self.guard.replaced()
        self.opened.on_loop.on_checkpoint = self._checkpointed
        self.checker.attach(self.opened)
        logger.info("store opened", extra=self.log_extra(applied=str(self.applied)))
        self.election.reconsider()

    def _read_log(self, after: LSN, end: LSN) -> AsyncIterator[tuple[LSN, LogEntry]]:
        log = self.log or self.followed
        if log is None:
            raise SqlError("57P03", "the log cannot be read here just now", hint="Try again soon.")
        return log.read(after, end)

    async def _read_part(self, part: StagedPart) -> bytearray:
        return await read_staged(part, staged_reader(self.host.bk, self.log_settings()))

    def _floor(self) -> LSN | None:
        """What it needs of the log, for what it keeps of the past."""
        return None if self.opened is None else self.opened.store.floor

    @property
    def _is_to_be_kept(self) -> bool:
        """Whether an operator said that its state is the truth, and it does not lead yet."""
        return self._word.record is not None and self.log is None

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
            logger.warning("a replica is to be seeded", extra=self.log_extra(reason=reason))
        self.problem = reason
        await self._resign()
        self._enter(ReplicaState.SEEDING)
        path = self.host.path(self.info.name)
        log_damaged = self._log_damaged == reason
        await self.in_thread(partial(mark, is_whole=log_damaged), path, reason)
        await self._close_store(_made_anew(self.info.name))
        position = await self.in_thread(position_of, Directory(path).store)
        self.at_rest = position
        await self.evidence.check_store(position)
        is_good = await self.in_thread(is_whole, path)
        seeded: Seeded | None = None
        try:
            seeded = await self.host.seed(self.info, path / "seed", self._seeding_moved, position)
        except (NoDonorError, SeedingFailedError) as error:
            if is_good and await log_goes_on(self, position):
                await self._take_up(path)
                return
            if is_good or not isinstance(error, NoDonorError) or not await log_is_whole(self, position):
                self._not_seeded(position)
                raise
            logger.warning("no replica is there to seed from: the log is replayed", extra=self.log_extra())
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
        await self.in_thread(put_in_place, data, Directory(path).store)
        await self.in_thread(unmark, path)
        self._reseed = None
        self.seedings += 1
        await self._open_store(path)
        logger.info("a replica was seeded", extra=self.log_extra(applied=str(self.applied)))

    async def _take_up(self, path: Path) -> None:
        """The store that it has will do: the log goes on."""
        async with self._settled():
            await self.in_thread(unmark, path)
            self._reseed = self._log_damaged = None
            await self._open_store(path)
        logger.info("missing entries of the log are back", extra=self.log_extra(applied=str(self.applied)))

    def _not_seeded(self, position: LSN) -> None:
        """It has a store that nobody reads, and there is none to take its place."""
        if position != START:
            self._enter(ReplicaState.QUARANTINED)

    def _seeding_moved(self, progress: SeedingProgress) -> None:
        self.seeding = progress

    async def _follow(self) -> None:
        opened = self.opened
        assert opened is not None
        opened.switch_log(opened.standby, leads=False)
        settings = self.log_settings()
        log = FollowedLog(self.host.bk, self.ledger_list, settings)
        try:
            await self.evidence.check_log(
                log, opened.store.applied
            )  # before anybody reads what may not be in the log
            self.followed = log
            self._enter(ReplicaState.FOLLOWING)
            staged = staged_reader(self.host.bk, settings)
            async with self._listener.listening(log):
                tail = log.tail_runs(opened.store.applied)
                await follow(opened, tail, self._advanced, staged, self._tracer())
        finally:
            self.followed = None
            await log.close()

    async def _prepare_kept(self) -> None:
        """Make what it has ready to be the truth: on its disk, and a candidate in the election."""
        if self.opened is None or self.opened.is_dead:
            async with self._settled():
                try:
                    await self._open_store(self.host.path(self.info.name))
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
        opened = self.opened
        assert opened is not None
        await self.in_thread(opened.checkpoint)
        if opened.store.durable != opened.store.applied:
            raise LogUnavailableError("what is to be kept is not on the disk yet")

    async def _lead_on(self, opened: OpenReplica, term: Term) -> LeaderLog:
        """Have the log go on after what this replica has: an operator said so."""
        word = self._word.record
        assert word is not None
        logger.warning(
            "the log continues after the position that this replica holds",
            extra=self.log_extra(applied=str(self.applied)),
        )
        await self._on_disk()
        lost, settings = partial(self._log_lost, term), self.log_settings()
        try:
            return await lead_on(
                self.host, opened, self.ledger_list, settings, term, accept_loss=word.accept_loss, lost=lost
            )
        except LogLossError as error:
            await self._word.refuse(str(error))
            raise

    async def _is_kept(self, log: LeaderLog) -> None:
        """It leads: its state is no evidence any more, but the truth."""
        try:
            await self.in_thread(unmark, self.host.path(self.info.name))
            await self.evidence.drop()
        except BaseException:
            log.abandon()  # nobody could append to it yet
            raise
        self._reseed = self._log_damaged = None

    async def _fulfil_word(self) -> None:
        """While it leads: say in the log that its state is right, for others to compare theirs.

        Raises:
            SqlError, BookKeeperError: it is not said yet.
        """
        if self._word.record is not None:
            await self.checker.declare()
            await self._word.done()

    async def _lead(self, term: Term) -> None:
        """Until the term is over, however it ends: then it is given back, for another to try."""
        opened = self.opened
        assert opened is not None
        if not self._is_to_be_kept:  # else nobody reads it before it leads
            self._enter(ReplicaState.TAKING_OVER)
        try:
            await self._lead_with(opened, term)
        except LogUnavailableError as error:
            self.fitness.takeover_failed(error)
            raise
        finally:
            await self._resign(term)

    async def _lead_with(self, opened: OpenReplica, term: Term) -> None:
        try:
            log = await self._take_log(opened, term)
        except (ChainError, CorruptLedgerError, LogUnavailableError) as error:
            if not self._is_to_be_kept or not self._may_lead_on(error):
                raise
            log = await self._lead_on(opened, term)
        if self._is_to_be_kept:
            await self._is_kept(log)
        if self.term is not term:  # lost while the last step returned
            log.abandon()
            return
        log.counts = self.log_counts  # of all its terms: a metric does not begin anew
        tracer = self._tracer()
        if tracer is not None:
            log.look_on(tracer)
        self.log = log
        self.guard.basis = term.lease
        opened.switch_log(log, leads=True)
        self.lost = None
        self.epoch, self.takeovers = term.epoch, self.takeovers + 1
        self._enter(ReplicaState.LEADING)
        logger.info("leads", extra=self.log_extra(epoch=term.epoch, end=str(log.end)))
        try:
            self.archiver.start(
                ArchivedBookies(self, log), self.info.parent or None, self.info.branched or None
            )
            await self.leader_tasks.perform(log)
        finally:
            try:
                await self._stop_leading(log, opened, term)
            finally:
                await self.archiver.close()

    def _tracer(self) -> EntryTracer | None:
        """What is given the entries of this tablespace's log, for traces."""
        tracer_of = self.host.tracer_of
        return None if tracer_of is None else tracer_of(self.info)

    async def _take_log(self, opened: OpenReplica, term: Term) -> LeaderLog:
        return await lead(
            self.host,
            opened,
            self.ledger_list,
            self.log_settings(),
            term,
            applied=self._applied_anywhere,
            advanced=self._advanced,
            lost=partial(self._log_lost, term),
            known=self._list_read,
            spare=self._spare,
        )

    def _next_term(self) -> NextTerm | None:
        """The term in which it may lead next; None: none, as it leads already, or cannot."""
        leader, followed = self.guard.leader, self.followed
        if self.state is ReplicaState.FOLLOWING and leader is not None and followed is not None:
            known = followed.known
            is_begun = known is not None and known.version > 0 and self.unfit is None
            expected = NextTerm(known, leader.epoch + 1, self.log_settings()) if known and is_begun else None
            self._expects = expected
        elif self.state not in (ReplicaState.FOLLOWING, ReplicaState.TAKING_OVER):
            self._expects = None
        return self._expects

    def _may_lead_on(self, error: LogError) -> bool:
        """Whether waiting for bookies is not what is wanted: they have lost it, or the loss is accepted."""
        word = self._word.record
        if word is None or not isinstance(error, LogUnavailableError):
            return word is not None
        return word.accept_loss or isinstance(error, LogEntriesLostError)

    async def _applied_anywhere(self) -> list[LSN]:
        """The positions that replicas have applied, as far as they have published them; this one's, too."""
        return [self.applied, *await applied_positions(self.host.bk.znodes, self.paths)]

    async def _stop_leading(self, log: LeaderLog, opened: OpenReplica, term: Term) -> None:
        """Whatever ended the term: nothing is answered or acknowledged any more when this returns."""
        try:
            if self._hands_over and self.term is term and log.failure is None:
                self._enter(ReplicaState.HANDING_OVER)
                opened.switch_log(opened.standby, leads=False)
                await hand_over(log)
        finally:
            self._hands_over = self.is_closing
            if self.log is log:
                self._step_down()

    def _step_down(self) -> None:
        """At once, whatever is under way: reads are refused, commits fail."""
        log, self.log = self.log, None
        self.guard.basis = None
        self.term = None
        if self.opened is not None:
            self.opened.switch_log(self.opened.standby, leads=False)
        if self.state is ReplicaState.LEADING:
            self._enter(ReplicaState.FOLLOWING)
        if log is not None:
            log.abandon(LogFencedError("this replica does not lead any more"))

    async def _resign(self, term: Term | None = None) -> None:
        """Give back the term, or whatever term there is."""
        if term is None or self.term is term:
            self._step_down()
        if term is None or self.election.term is term:
            await self.election.resign()

    def _checkpointed(self) -> None:
        """LMDB goes on no more once its last page could not be written: then the store is opened anew, and
        the log replayed. As long as the disk is full that fails, and is tried again."""
        self.report()
        if self.opened is not None and self.followed is not None:
            self.opened.store.log_trimmed(self.followed.base)
        if self.opened is not None and self.opened.is_dead and self.state is not ReplicaState.OPENING:
            logger.error("a store failed, and is opened again", extra=self.log_extra())
            self._step_down()
            self._enter(ReplicaState.OPENING)
            self._change.set()

    def _quarantine(self, reason: str) -> None:
        """It differs from the log, or from the other replicas: nobody reads it, and it is made anew."""
        logger.error("a replica is quarantined", extra=self.log_extra(reason=reason))
        self._step_down()
        self._enter(ReplicaState.QUARANTINED)
        self.problem = self._reseed = reason

    def _set_ahead(self, reason: str) -> None:
        """It has applied what the log has not: nobody reads it, it leads nobody, and it is kept as it is."""
        if self.problem != reason or self.state is not ReplicaState.AHEAD:
            logger.error("a replica is ahead of the log", extra=self.log_extra(reason=reason))
        self._step_down()
        self.problem = reason
        self._enter(ReplicaState.AHEAD)

    def _log_lost(self, term: Term, error: LogError) -> None:
        if self.term is term:
            logger.warning("the log was lost", extra=self.log_extra(reason=str(error)))
            if isinstance(error, LogUnavailableError):
                self.fitness.takeover_failed(error)
            self._step_down()
            self._change.set()

    # What others call.

    async def _lacks(self) -> str | None:
        is_open = not self.is_closing and self.opened is not None and not self.opened.is_dead
        if is_open and self._is_to_be_kept:
            return None
        if not is_open or self._reseed is not None or self.state is ReplicaState.AHEAD:
            return f"it is {self.state.value}"
        self._list_read = state = await self.ledger_list.read()
        if state is not None and self.applied < state.base:
            if self.evidence.reason is not None:
                return "it is ahead of the log"  # which it says itself when it looks again
            self._reseed = f"the log begins after {state.base}, and this replica ends at {self.applied}"
            self._change.set()
            return "it lacks a part of the log"
        return await self.fitness.lacks()

    def _word_changed(self) -> None:
        if self.log is None:  # what leads goes on
            self._change.set()
        self.election.reconsider()
        self.leader_tasks.look()

    def _won(self, term: Term) -> None:
        self.term = term
        self._change.set()

    def _lost(self, term: Term) -> None:
        if self.term is term:
            self._step_down()
            self._change.set()

    def _leader_changed(self, leader: LeaderRecord | None) -> None:
        self.guard.leader = leader
        self.guard.changed()
        self._listener.look()

    def altered(self, info: TablespaceInfo) -> None:
        """The tablespace was changed in ZooKeeper."""
        self.info = info
        self.election.prefer(info.leader)
        self.leader_tasks.look()
        self.publishing.look()

    def hand_over(self) -> None:
        """Let another replica lead, after what is under way is finished."""
        if self.state is ReplicaState.LEADING:
            self._hands_over = True
            self._change.set()

    async def leave(self) -> None:
        """Lead no more, as the server ends, if another replica is fit to; else go on until it is closed.

        Returns when the term is given back, or no other can lead now. A cancel leaves what has begun.
        """
        await self.fitness.leave()
        while (self._hands_over or self.state is ReplicaState.HANDING_OVER) and not self.is_closing:
            await asyncio.sleep(_LEAVE_LOOK_S)

    def give_up(self) -> None:
        """Let another replica lead at once: this one cannot finish what is under way."""
        self._step_down()
        self._change.set()

    async def differs_and_has_more(self, reason: str) -> None:
        """As ``differs``, and it has what the others have not: it is kept until an operator decides."""
        self._quarantine(reason)
        await self.evidence.keep(reason)
        self._change.set()

    def differs(self, reason: str) -> None:
        """It was found to differ from the other replicas."""
        if self.state is ReplicaState.AHEAD:
            logger.warning("the differing replica is set aside", extra=self.log_extra(reason=reason))
            return
        self._quarantine(reason)
        self._change.set()


def _replica_closed(name: str) -> SqlError:
    """57P01: for the sessions of a replica that was closed, or is opened anew."""
    return SqlError("57P01", f"the replica of tablespace {name} was closed")


def _made_anew(name: str) -> SqlError:
    return SqlError(
        "57P01",
        f"terminating connection: this replica of tablespace {name} gets another one's state",
        hint="Connect again, or to another node.",
    )
