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


class ReplicaBase:
    """For its attributes see ``Replica``."""

    def __init__(self, host: Host, info: TablespaceInfo) -> None:
        self.host = host
        self.info = info
        self.body: Body | None = None
        self.problem: str | None = None
        self.epoch = self.takeovers = self.seedings = 0
        self.seeding: SeedingProgress | None = None
        self.log: LeaderLog | None = None
        self._paths = host.coordination.layout.tablespace(info.name)
        self._ledgers = ZnodeLedgerList(host.bk.znodes, self._paths.ledgers)
        self._followed: FollowedLog | None = None
        clock = host.coordination.renewal.clock
        self.guard = ReplicaGuard(info.name, lambda: self.applied, self._log_end, clock)
        self.guard.hurry = self._hurry
        self.reports = host.coordination.reports(info.name)
        self._term: Term | None = None
        self._closing = False

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
