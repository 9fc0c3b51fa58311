"""What a replica has, and reports of itself: its position, its log, its store, a session on it.

The lowest of a replica's parts. ``replica`` is made from it and changes its state; the parts between them
(``checking``, ``evidence``, ``fitness``, ``leader_tasks``, ``served``) are given it, with
what they may call of ``replica``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from herdpy.bookkeeper.metadata.znodes import ZooKeeperState
from herdpy.log import START, LedgerInfo, LogUnavailableError
from herdpy.log.bookkeeper import FollowedLog, LeaderLog, LedgerLogSettings, ZnodeLedgerList
from herdpy.log.log_counts import LogCounts
from herdpy.log.lsn import LSN
from herdpy_server.cluster.lease import Term
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.loading.ledgers import LedgerPlace
from herdpy_server.replica.guard import UNREADABLE, ReplicaGuard, ReplicaState
from herdpy_server.replica.host import Host
from herdpy_server.replica.open_replica import OpenReplica
from herdpy_server.serving.node import SeedingProgress, Use
from herdpy_server.sessions import Session
from herdpy_server.tablespace.cluster import ReadLevel
from herdpy_sql.errors import SqlError

T = TypeVar("T")

NEWEST_EPOCH = 1 << 62
"""Greater than each that there is."""
LIST_ALARM = 0.5
"""A ledger list that is so full is reported to operators."""


class ReplicaBase:
    """For its attributes see ``Replica``."""

    def __init__(self, host: Host, info: TablespaceInfo) -> None:
        self.host = host
        self.info = info
        self.opened: OpenReplica | None = None
        self.problem: str | None = None
        self.unfit: str | None = None
        self.lost: str | None = None
        self.epoch = self.takeovers = self.seedings = 0
        self.seeding: SeedingProgress | None = None
        self.log: LeaderLog | None = None
        self.log_counts = LogCounts()
        self.paths = host.coordination.layout.tablespace(info.name)
        self.ledger_list = ZnodeLedgerList(host.bk.znodes, self.paths.ledgers)
        self.followed: FollowedLog | None = None
        clock = host.coordination.renewal.clock
        self.guard = ReplicaGuard(info.name, lambda: self.applied, self._log_end, clock)
        self.guard.hurry = self._hurry
        self.guard.report = self.report
        self.guard.applied_epoch = self._applied_epoch
        self.guard.questions.is_possible = host.reports is not None
        self._epoch_found = (START.ledger_id, 0)  # a ledger, and the epoch that it was written in
        self.guard.ask_log = lambda: None if self.log is None else self.log.confirm()
        session = host.coordination.session
        self.guard.zookeeper_is_silent = lambda: session.state is not ZooKeeperState.CONNECTED
        self.reports = host.coordination.reports(info.name)
        self.reports.renew = self.report
        self.checkpointed: Callable[[], object] = lambda: None
        self.term: Term | None = None
        self.is_closing = False
        self.at_rest = START  # what the store has that is not open

    @property
    def state(self) -> ReplicaState:
        return self.guard.state

    @property
    def applied(self) -> LSN:
        """The position that it has applied."""
        return START if self.opened is None else self.opened.store.applied

    @property
    def log_end(self) -> LSN:
        """The newest entry of the log that is known here to be confirmed."""
        log = self.log or self.followed
        return self.applied if log is None else log.lac

    def ledgers(self) -> Sequence[LedgerInfo]:
        """Of the log, oldest first, as they were last seen."""
        log = self.log or self.followed
        return () if log is None else log.ledgers()

    @property
    def lag_entries(self) -> int:
        """How many entries of the log that are known to be confirmed it has not applied."""
        followed = self.followed
        if followed is None:
            return 0
        end, applied = followed.lac, self.applied
        if end.ledger_id == applied.ledger_id:
            return max(end.entry_id - applied.entry_id, 0)
        return 0 if end <= applied else end.entry_id + 1

    def session(self) -> Session:
        """A new session. SqlError 57P03 when there is nothing to be read."""
        if self.opened is None or self.is_closing:
            what = self.state.value
            if self.state is ReplicaState.QUARANTINED and self.problem:
                what += f": {self.problem}"
            raise SqlError(
                "57P03",
                f"this replica of tablespace {self.info.name} cannot be used now: it is {what}",
                hint="Try again soon, or name several hosts.",
            )
        session = self.opened.session()
        session.settings.set_standby(self.state is not ReplicaState.LEADING)
        return session

    def readable(self) -> OpenReplica:
        """Its store and what belongs to it. SqlError 57P03 when what it holds is no state of the log."""
        if self.opened is None or self.state in UNREADABLE:
            raise SqlError(
                "57P03",
                f"this replica of tablespace {self.info.name} cannot be read now: it is {self.state.value}",
                hint="Try again soon, or ask another node.",
            )
        return self.opened

    def use(self, give_up: Callable[[], object]) -> Use:
        """Its store, to be read; see :meth:`Uses.enter`. SqlError as :meth:`readable`."""
        opened = self.readable()
        return Use(opened.store, opened.checkpointer, opened.uses.enter(give_up))

    async def checkpoint(self) -> None:
        """Bring everything into LMDB. SqlError as :meth:`readable`, and when it cannot be written."""
        opened = self.readable()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self.host.threads.checkpoints, opened.checkpoint)
        self.checkpointed()

    async def in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        """Run what must be done before it can follow or lead, in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.host.threads.opening, work, *arguments)

    def load_ledgers(self) -> LedgerPlace | None:
        """Where loads are staged, while it leads; None: it does not."""
        log, opened, guard = self.log, self.opened, self.guard
        if log is None or opened is None:
            return None
        basis, linearizable = guard.basis, ReadLevel()
        busy, loads = opened.tablespace.load_turns.ledgers, opened.store.loads

        def is_needed(ledger_id: int) -> bool:
            # Who leads no more cannot know what others have published.
            return not guard.holds(linearizable, basis) or ledger_id in busy or loads.needs(ledger_id)

        host = self.host
        return LedgerPlace(
            host.bk, self.log_settings(), host.zookeeper, host.ledgers_root, log.state.log_id, is_needed
        )

    def log_settings(self) -> LedgerLogSettings:
        """How this tablespace's log is written."""
        info, host = self.info, self.host
        storage = host.settings
        return LedgerLogSettings(
            tablespace=info.name,
            ensemble=info.ensemble,
            write_quorum=info.write_quorum,
            ack_quorum=info.ack_quorum,
            strict=info.strict,
            max_ledger_bytes=storage.max_ledger_bytes,
            max_ledger_age_s=storage.max_ledger_age_s,
            commit_delay_s=host.commit_delay_s,
            commit_siblings=host.commit_siblings,
        )

    async def _log_end(self) -> LSN:
        followed = self.followed
        if followed is None:
            raise LogUnavailableError("this replica does not follow the log now")
        await self.host.coordination.renewal.catch_up()  # or the ledger list may be of the past
        return await followed.bound()

    def _applied_epoch(self) -> int:
        """In which term the newest entry was written that it has applied; 0: it is not known any more."""
        ledger_id = self.applied.ledger_id
        if ledger_id != self._epoch_found[0]:
            ledgers = self.ledgers()
            if not ledgers or ledger_id > ledgers[-1].ledger_id:
                return NEWEST_EPOCH  # the list is not known yet
            epochs = (one.epoch for one in ledgers if one.ledger_id == ledger_id)
            self._epoch_found = ledger_id, next(epochs, 0)
        return self._epoch_found[1]

    def _hurry(self) -> None:
        if self.followed is not None:
            self.followed.hurry()

    def _advanced(self) -> None:
        self.guard.advanced()
        if self.lost is None:
            self.reports.moved()
        else:
            self.lost = None  # the log goes on
            self.report()

    def report(self) -> None:
        """Tell ZooKeeper where it is; cheap."""
        if self.opened is not None:
            self._report(self.lag_entries)

    def _enter(self, state: ReplicaState) -> None:
        self.guard.state = state
        self.guard.changed()
        self._report(0)

    def _report(self, lag_entries: int) -> None:
        at_rest, opened = self.at_rest, self.opened
        self.reports.report(
            self.state.value,
            at_rest if opened is None else self.applied,
            at_rest if opened is None else opened.store.durable,
            lag_entries,
            self._to_be_seen_to(),
            self.unfit or "",
        )

    @property
    def bookies_missing(self) -> int:
        """How many bookies fewer than wanted the log is written to, while it is written here."""
        quorums = None if self.log is None else self.log.quorums
        return 0 if quorums is None else max(self.info.write_quorum - quorums.write, 0)

    @property
    def list_share(self) -> float:
        """How full the ledger list is, while the log is written here: 1 is what ZooKeeper takes."""
        return 0.0 if self.log is None else self.log.list_share

    @property
    def clients_without_leader(self) -> int:
        """How many clients of this node cannot reach the one that leads."""
        return self.guard.without_leader.count(self.guard.leader)

    def _to_be_seen_to(self) -> str:
        """What an operator should see to; empty: nothing."""
        if self.state in (ReplicaState.AHEAD, ReplicaState.QUARANTINED, ReplicaState.SEEDING):
            return self.problem or ""
        if self.lost is not None:
            return self.lost
        if self.unfit is not None:
            return self.unfit
        if self.list_share > LIST_ALARM:
            return (
                f"its ledger list is {self.list_share:.0%} full: {len(self.ledgers())} ledgers are"
                " retained for replicas and readers that are behind. At 90 % they are no longer retained"
                " for the slowest"
            )
        if self.clients_without_leader:
            return self._not_reached()
        if not self.bookies_missing:
            return ""
        left, acks = self.info.write_quorum - self.bookies_missing, self.info.ack_quorum
        return (
            f"its log is written to {left} bookies of {self.info.write_quorum}: commits stop when "
            f"{left - acks + 1} more cannot be reached, and what is written now outlives the loss of "
            f"{acks - 1} of their disks"
        )

    def _not_reached(self) -> str:
        leader, count = self.guard.leader, self.clients_without_leader
        assert leader is not None
        clients, do = ("clients", "do") if count > 1 else ("client", "does")
        return (
            f"{count} {clients} that can reach this node {do} not reach {leader.node} at {leader.sql}, which"
            f" leads: see to the network between them, or have this node lead"
            f" (ALTER TABLESPACE {self.info.name} LEADER '{self.host.node}')"
        )

    def log_extra(self, **more: object) -> dict[str, object]:
        """What a line of the server's log says of this replica."""
        return {"tablespace": self.info.name, **more}
