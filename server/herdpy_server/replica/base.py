"""What a replica has, and tells of itself: where it stands, its log, a session on it.

Below ``playing``, which changes it; nothing here does.
"""

from __future__ import annotations

from collections.abc import Sequence

from herdpy.log import START, LedgerInfo, LogUnavailableError
from herdpy.log.bookkeeper import FollowedLog, LeaderLog, LedgerLogSettings, ZnodeLedgerList
from herdpy.log.lsn import LSN
from herdpy_server.cluster.tablespace_info import TablespaceInfo
from herdpy_server.cluster.term import Term
from herdpy_server.loading.ledgers import LedgerPlace
from herdpy_server.replica.body import Body
from herdpy_server.replica.guard import ReplicaGuard
from herdpy_server.replica.host import Host
from herdpy_server.replica.state import ReplicaState
from herdpy_server.serving.tablespaces import SeedingProgress
from herdpy_server.sessions import Session
from herdpy_server.tablespace.guard import ReadLevel
from herdpy_sql.errors import SqlError

LIST_ALARM = 0.5
"""An operator is told of a ledger list that is so full."""


class ReplicaBase:
    """For its attributes see ``Replica``."""

    def __init__(self, host: Host, info: TablespaceInfo) -> None:
        self.host = host
        self.info = info
        self.body: Body | None = None
        self.problem: str | None = None
        self.unfit: str | None = None
        self.lost: str | None = None
        self.epoch = self.takeovers = self.seedings = 0
        self.seeding: SeedingProgress | None = None
        self.log: LeaderLog | None = None
        self._paths = host.coordination.layout.tablespace(info.name)
        self._ledgers = ZnodeLedgerList(host.bk.znodes, self._paths.ledgers)
        self._followed: FollowedLog | None = None
        clock = host.coordination.renewal.clock
        self.guard = ReplicaGuard(info.name, lambda: self.applied, self._log_end, clock)
        self.guard.hurry = self._hurry
        self.guard.report = self.report
        self.reports = host.coordination.reports(info.name)
        self._term: Term | None = None
        self._closing = False
        self._at_rest = START  # what the store has that is not open

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
            what = self.state.value
            if self.state is ReplicaState.QUARANTINED and self.problem:
                what += f": {self.problem}"
            raise SqlError(
                "57P03",
                f"this replica of tablespace {self.info.name} cannot be used now: it is {what}",
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
        self.lost = None  # the log goes on
        self.guard.advanced()
        self.report()

    def report(self) -> None:
        """Tell ZooKeeper where it is; cheap."""
        if self.body is not None:
            self._report(self.lag_entries)

    def _enter(self, state: ReplicaState) -> None:
        self.guard.state = state
        self.guard.changed()
        self._report(0)

    def _report(self, lag_entries: int) -> None:
        at_rest, body = self._at_rest, self.body
        self.reports.report(
            self.state.value,
            at_rest if body is None else self.applied,
            at_rest if body is None else body.store.durable,
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
                f"its ledger list is {self.list_share:.0%} full: {len(self.ledgers())} ledgers are kept for"
                " replicas and readers that are behind. At 90 % the slowest are let go"
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

    def _extra(self, **more: object) -> dict[str, object]:
        return {"tablespace": self.info.name, **more}
