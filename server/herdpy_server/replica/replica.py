"""One replica of one tablespace: it follows the log, and leads when it is elected.

Above ``playing``, whose roles it changes; below ``node``, which has one for each tablespace. Exactly one
*role* runs at a time, as a task: seeding, following or leading. The election tells of terms won and lost in
the turn of the loop in which it hears of them; then commits are refused and reads unanswerable at once, and
the role is changed for another by ``_run``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from herdpy.bookkeeper import BookKeeperError
from herdpy.log import (
    AheadOfLogError,
    ChainError,
    CorruptLedgerError,
    LedgerListConflictError,
    LogClosedError,
    LogError,
    LogTrimmedError,
    RecordError,
)
from herdpy.log.errors import LogEntriesLostError
from herdpy_server.cluster.candidate import Candidate
from herdpy_server.cluster.errors import ClusterError, TermLostError
from herdpy_server.cluster.layout import LeaderRecord
from herdpy_server.cluster.tablespace_info import TablespaceInfo
from herdpy_server.cluster.term import Term
from herdpy_server.replica.checking import Checker
from herdpy_server.replica.duties import Duties
from herdpy_server.replica.fitness import Fitness
from herdpy_server.replica.host import Host
from herdpy_server.replica.keeping import KeptError
from herdpy_server.replica.playing import Playing, replica_closed
from herdpy_server.replica.publishing import ReplicaPublishing
from herdpy_server.replica.seeding import NoDonorError, SeedingFailedError
from herdpy_server.replica.served import ServedReplica
from herdpy_server.replica.state import ReplicaState
from herdpy_server.store import StoreDamagedError
from herdpy_server.store.errors import ApplyError
from herdpy_sql.errors import SqlError

logger = logging.getLogger("herdpy.replica")

_DAMAGED = (ChainError, CorruptLedgerError, RecordError, ApplyError, StoreDamagedError)
_PAUSE_S = 0.5
_SEED_AGAIN_S = 2.0
_LOOK_AGAIN_S = 2.0


class Replica(Playing):
    """To be made and used on the loop; :meth:`start` and :meth:`close` are its life.

    Attributes:
        info: the tablespace, as ZooKeeper has it.
        state: what it is doing.
        body: its store and what stands on it; None while it is opened or seeded.
        guard: who may read.
        problem: why it was seeded or quarantined last, or is kept for an operator to decide.
        unfit: why it should not lead now, as ``fitness`` has found; None: it may.
        lost: what the bookies have lost of the log, so that it could not be taken over.
        epoch: of the newest term that it led; 0: none.
        takeovers, seedings: how often it came to lead, and got another's state.
        seeding: the snapshot that is on its way.
        served: what the doors see of it.
        checker: compares it with the others.
        publishing: publishes snapshots of it.
        fitness: has another replica lead while this one cannot well.
    """

    def __init__(self, host: Host, info: TablespaceInfo) -> None:
        super().__init__(host, info)
        candidate = Candidate(
            position=lambda: self.applied,
            lacks=self._lacks,
            won=self._won,
            lost=self._lost,
            leader=self._leader_told,
        )
        self.election = host.coordination.election(info, candidate)
        self.served = ServedReplica(self)
        self.checker = Checker(self)
        self.duties = Duties(self)
        self.publishing = ReplicaPublishing(self)
        self.fitness = Fitness(self)
        self._role: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None

    # Its life.

    def start(self) -> None:
        """Begin."""
        self.reports.start()
        self.election.start()
        self.publishing.start()
        self.fitness.start()
        self._word.start()
        self._running = asyncio.get_running_loop().create_task(self._run(), name=f"replica {self.info.name}")

    async def close(self, *, forget: bool = False) -> None:
        """End: hand the leadership over if it is here, and close the store.

        Args:
            forget: the replica does not come back: nothing of the log is kept for it.
        """
        self._closing = True
        self._makes_way = True
        self._change.set()
        self._word.close()
        await self.publishing.close()
        await self.fitness.close()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)
        await self.election.close()
        self.guard.close()
        body, self.body = self.body, None
        self._enter(ReplicaState.CLOSED)
        if body is not None:
            await body.close(replica_closed(self.info.name))
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
            is_elected = self._term is not None and self._term.loss is None and self.body is not None
            if self._is_to_be_kept and not is_elected:
                await self._heed()
                await asyncio.sleep(_LOOK_AGAIN_S)
            elif self._reseed is not None and not self._is_to_be_kept:
                await self._seed(self._reseed)
            elif self.body is None or self.body.is_dead:
                await self._open()
            elif self._term is not None and self._term.loss is None:
                await self._lead(self._term)
            else:
                await self._follow()
        except AheadOfLogError as error:
            self._stand_aside(str(error))
            await self.election.resign()
            await self._keep_evidence(str(error))
            await asyncio.sleep(_LOOK_AGAIN_S)
        except KeptError as error:
            self.problem = str(error)
            self._enter(ReplicaState.QUARANTINED)
            await asyncio.sleep(_LOOK_AGAIN_S)
        except LogEntriesLostError as error:
            logger.error("the log lacks what was applied", extra=self._extra(reason=str(error)))
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

    # What it is told.

    async def _lacks(self) -> str | None:
        is_open = not self._closing and self.body is not None and not self.body.is_dead
        if is_open and self._is_to_be_kept:
            return None
        if not is_open or self._reseed is not None or self.state is ReplicaState.AHEAD:
            return f"it is {self.state.value}"
        state = await self._ledgers.read()
        if state is not None and self.applied < state.base:
            if self._evidence is not None:
                return "it is ahead of the log"  # which it says itself when it looks again
            self._reseed = f"the log begins after {state.base}, and this replica ends at {self.applied}"
            self._change.set()
            return "it lacks a part of the log"
        return await self.fitness.lacks()

    def _word_changed(self) -> None:
        if self.log is None:  # what leads goes on
            self._change.set()
        self.election.reconsider()
        self.duties.look()

    def _won(self, term: Term) -> None:
        self._term = term
        self._change.set()

    def _lost(self, term: Term) -> None:
        if self._term is term:
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

    def give_up(self) -> None:
        """Let another replica lead at once: this one cannot finish what is under way."""
        self._step_down()
        self._change.set()

    async def differs_and_has_more(self, reason: str) -> None:
        """As ``differs``, and it has what the others have not: it is kept until an operator decides."""
        self._quarantine(reason)
        await self._keep_evidence(reason)
        self._change.set()

    def differs(self, reason: str) -> None:
        """It was found to differ from the other replicas."""
        if self.state is ReplicaState.AHEAD:
            logger.warning("what differs is kept", extra=self._extra(reason=reason))
            return
        self._quarantine(reason)
        self._change.set()
