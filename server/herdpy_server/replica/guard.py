"""What a replica is doing, and who may read it: its lease while it leads, its position while it follows.

The lowest module of the package; see ``tablespace.cluster``.

- A leader answers after the read, and only while its lease is valid: nobody else can have led until then.
- A follower that is to be no older than N ms asks where the log's end is, waits until it has applied that,
  and may answer for N ms from the moment at which it asked.
- At a position: it waits until it has applied it.

Servers reach the leader, so no election follows when clients cannot; only clients can tell. One that is
looking for the leader, and finds replicas that follow it alone, says so once a second
(``herdpy.leader_unreached()``). One that has said so for a while counts: before, a leader that has died is
still known under its name.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial

from herdpy.bookkeeper import BookKeeperError
from herdpy.log import LogError
from herdpy.log.lsn import LSN
from herdpy.log.wait import Wait
from herdpy_server.cluster.layout import LeaderRecord
from herdpy_server.cluster.lease import Clock, Lease, boottime
from herdpy_server.tablespace.cluster import Basis, ReadLevel
from herdpy_sql.errors import SqlError


class ReplicaState(enum.Enum):
    """What a replica is doing; the value is what operators see."""

    OPENING = "opening"
    """The store is being opened."""
    SEEDING = "seeding"
    """It gets a snapshot of another replica: new, too far behind, or found to differ."""
    FOLLOWING = "following"
    TAKING_OVER = "taking over"
    """Elected; the log is being recovered."""
    LEADING = "leading"
    HANDING_OVER = "handing over"
    """What is under way is finished before another leads."""
    QUARANTINED = "quarantined"
    """It differs from the others, or its log is damaged: nobody is answered from it."""
    AHEAD = "ahead of the log"
    """It has applied what the log has lost, or what is of another log: it is kept as it is, for an operator
    to decide, and nobody is answered from it."""
    CLOSED = "closed"


UNREADABLE = frozenset(
    {
        ReplicaState.OPENING,
        ReplicaState.SEEDING,
        ReplicaState.QUARANTINED,
        ReplicaState.AHEAD,
        ReplicaState.CLOSED,
    }
)
"""What it holds then, if anything, is no state of the log; in all others it is one, if an old one."""


logger = logging.getLogger("herdpy.replica")

_LOOK_AGAIN_S = 0.02
_CONFIRM_PATIENCE_S = 5.0
_ADMIT_PATIENCE_S = 10.0


class ReplicaGuard:
    """The replica sets its attributes to what it is doing; sessions ask it.

    Attributes:
        state: what the replica is doing.
        leads: whether that is leading.
        basis: the lease of the term that it leads in; None while it does not lead.
        leader: who leads, as last heard.
        hurry: called when somebody waits for what the log has.
        report: called when it is another client that cannot reach the leader.
        without_leader: those clients.
    """

    def __init__(
        self,
        name: str,
        applied: Callable[[], LSN],
        log_end: Callable[[], Awaitable[LSN]],
        clock: Clock = boottime,
    ) -> None:
        """Args:
        applied: the position that the replica has applied.
        log_end: asks where the log's confirmed end is.
        """
        self._state = ReplicaState.OPENING
        self.leads = False
        self.basis: Lease | None = None
        self.leader: LeaderRecord | None = None
        self.hurry: Callable[[], object] = lambda: None
        self.report: Callable[[], object] = lambda: None
        self.without_leader = ClientsWithoutLeader(lambda: self.report(), clock)
        self._name = name
        self._applied = applied
        self._log_end = log_end
        self._clock = clock
        self._fresh_s = -math.inf  # nothing that was committed by then is missing
        self._states = 0
        self._asking: asyncio.Task[None] | None = None
        self._waiting: list[tuple[LSN, Wait[None]]] = []

    @property
    def state(self) -> ReplicaState:
        return self._state

    @state.setter
    def state(self, state: ReplicaState) -> None:
        self._state = state
        self.leads = state is ReplicaState.LEADING

    # Asked by sessions.

    def is_open(self, wanted: ReadLevel) -> bool:
        """See ``Guard``."""
        if self.state is ReplicaState.LEADING:
            return wanted.level != "at_lsn" or self._applied() >= wanted.min_lsn
        if self.state in UNREADABLE:
            return False
        match wanted.level:
            case "any":
                return True
            case "at_lsn":
                return self._applied() >= wanted.min_lsn
            case "bounded":
                return self._clock() - self._fresh_s <= wanted.max_staleness_s
        return False

    def holds(self, wanted: ReadLevel, basis: Basis | None) -> bool:
        """See ``Guard``. A lease that was dropped is never valid again."""
        if wanted.level in ("any", "at_lsn"):
            return True
        if basis is not None:
            return basis.valid()
        # A follower has admitted it: the age of an answer counts from when it was read.
        return wanted.level == "bounded"

    async def admit(self, wanted: ReadLevel) -> None:
        """See ``Guard``."""
        began_s = self._clock()
        until_s = began_s + _ADMIT_PATIENCE_S
        while not self.is_open(wanted):
            if self.state in UNREADABLE:
                raise SqlError(
                    "57P03",
                    f"this replica of tablespace {self._name} cannot be read now: it is {self.state.value}",
                    hint=self._where(),
                )
            if self._clock() > until_s:
                raise SqlError(
                    "57P03", f"this replica of tablespace {self._name} is too far behind", hint=self._where()
                )
            if wanted.level == "at_lsn":
                await self._reached(wanted.min_lsn, until_s)
            elif wanted.level == "bounded" and self.state is ReplicaState.FOLLOWING:
                await self._freshen()
                if self._fresh_s >= began_s and self.state is ReplicaState.FOLLOWING:
                    return  # nothing is missing that was committed before the statement came
            elif wanted.level == "linearizable" and self.state is ReplicaState.FOLLOWING:
                raise self.not_leader()
            else:
                await self._pause()

    async def confirm(self, wanted: ReadLevel, basis: Basis | None) -> None:
        """See ``Guard``."""
        until_s = self._clock() + _CONFIRM_PATIENCE_S
        while not self.holds(wanted, basis):
            if basis is None or basis is not self.basis:
                raise self._leader_changed(wanted)
            if self._clock() > until_s:
                raise SqlError(
                    "57P03",
                    f"the leader of tablespace {self._name} cannot make sure that it still leads",
                    detail="ZooKeeper does not answer.",
                )
            await self._pause(self.basis)

    def refusal(self, what: str) -> SqlError:
        """See ``Guard``."""
        return SqlError(
            "25006",
            f"cannot execute {what} here: this replica of tablespace {self._name} does not lead",
            detail=self._who(),
            hint=self._where(),
        )

    def not_leader(self) -> SqlError:
        """HP003: only the leader answers at this level."""
        return SqlError(
            "HP003",
            f"this replica of tablespace {self._name} does not lead, and the read level is linearizable",
            detail=self._who(),
            hint=self._where() + " Or read here: SET herdpy.read_level = 'bounded' (or 'at_lsn', 'any').",
        )

    def leader_unreached(self, client: str) -> str:
        """See ``Guard``."""
        leader = self.leader
        if leader is None or self.basis is not None:
            return ""
        self.without_leader.note(client, leader)
        return leader.node if leader.sql is None else f"{leader.node} {leader.sql}"

    def _leader_changed(self, wanted: ReadLevel) -> SqlError:
        if wanted.level == "linearizable" and self.state is not ReplicaState.LEADING:
            return self.not_leader()
        return SqlError(
            "40001",
            f"the leader of tablespace {self._name} changed while the statement ran",
            hint="Run the transaction again from its start.",
        )

    def _who(self) -> str:
        if self.leader is None:
            return "There is no leader at the moment."
        return f"The leader is node {self.leader.node}" + (
            f" at {self.leader.sql}." if self.leader.sql is not None else "."
        )

    def _where(self) -> str:
        if self.leader is None or self.leader.sql is None:
            return "Try again soon, or name several hosts with target_session_attrs=read-write."
        return f"Connect to {self.leader.sql}."

    # Set by the replica.

    def advanced(self) -> None:
        """The replica has applied more."""
        if not self._waiting:
            return
        applied = self._applied()
        ready = [wait for lsn, wait in self._waiting if lsn <= applied]
        self._waiting = [one for one in self._waiting if one[0] > applied]
        for wait in ready:
            wait.resolve(None)

    def replaced(self) -> None:
        """The replica has another state, which may be an older one: what was known of its age is not."""
        self._fresh_s = -math.inf
        self._states += 1

    def close(self) -> None:
        """Ask nothing more."""
        self.without_leader.close()
        if self._asking is not None:
            self._asking.cancel()

    def changed(self) -> None:
        """The replica is doing something else: whoever waits looks again."""
        waiting, self._waiting = self._waiting, []
        for _lsn, wait in waiting:
            wait.resolve(None)

    # Waiting.

    async def _reached(self, lsn: LSN, until_s: float) -> None:
        if self._applied() >= lsn:
            return
        wait: Wait[None] = Wait()
        self._waiting.append((lsn, wait))
        self.hurry()
        timer = asyncio.get_running_loop().call_later(max(until_s - self._clock(), 0), wait.resolve, None)
        try:
            await wait
        finally:
            timer.cancel()

    async def _freshen(self) -> None:
        """Learn where the log ends, and get there; all that want it at the same time share the question."""
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._ask(), name="freshness")
        wait: Wait[None] = Wait()
        self._asking.add_done_callback(lambda _task: wait.resolve(None))
        await wait

    async def _ask(self) -> None:
        try:
            asked_s, states = self._clock(), self._states
            end = await self._log_end()
            await self._reached(end, asked_s + _ADMIT_PATIENCE_S)
            if self._applied() >= end and self._states == states:
                self._fresh_s = max(self._fresh_s, asked_s)
        except (LogError, BookKeeperError) as error:
            logger.debug("the log's end is not known", extra={"reason": str(error)})
            await asyncio.sleep(_LOOK_AGAIN_S)  # nobody answers: waiting reads look at their own time
        finally:
            self._asking = None

    async def _pause(self, lease: Lease | None = None) -> None:
        """Before looking again; no longer than up to the next proof of the lease."""
        wait: Wait[None] = Wait()
        if lease is not None:
            lease.when_proved(partial(wait.resolve, None))
        timer = asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, wait.resolve, None)
        try:
            await wait
        finally:
            timer.cancel()


SETTLED_S = 3.0
"""Who has said it for so long is counted."""
FORGOTTEN_S = 30.0
"""Who has not said it for so long is not."""
_MOST = 1000


class ClientsWithoutLeader:
    """Who cannot reach the leader, by the address that they come from.

    Args:
        changed: called on the loop when somebody is counted, or may not be counted any more.
    """

    def __init__(self, changed: Callable[[], object], clock: Clock = boottime) -> None:
        self._changed = changed
        self._clock = clock
        self._leader = ("", 0)
        self._said: dict[str, tuple[float, float]] = {}  # first and last time of each
        self._later: asyncio.TimerHandle | None = None

    def note(self, client: str, leader: LeaderRecord) -> None:
        """A client says that it cannot reach this leader."""
        if self._leader != (leader.node, leader.epoch):
            self._leader = (leader.node, leader.epoch)
            self._said.clear()
        now = self._clock()
        if len(self._said) >= _MOST and client not in self._said:
            return  # those that are known say enough
        first, last = self._said.get(client, (now, -math.inf))
        self._said[client] = (first if now - last < FORGOTTEN_S else now, now)
        self._changed()
        if self._later is None:
            self._forget_later()

    def count(self, leader: LeaderRecord | None) -> int:
        """How many cannot reach it, as far as they said so."""
        if leader is None or self._leader != (leader.node, leader.epoch):
            return 0
        now = self._clock()
        return sum(
            last - first >= SETTLED_S and now - last < FORGOTTEN_S for first, last in self._said.values()
        )

    def close(self) -> None:
        """Nobody is asked any more."""
        if self._later is not None:
            self._later.cancel()

    def _forget_later(self) -> None:
        self._later = asyncio.get_running_loop().call_later(FORGOTTEN_S / 2, self._forget)

    def _forget(self) -> None:
        now = self._clock()
        self._said = {client: said for client, said in self._said.items() if now - said[1] < FORGOTTEN_S}
        self._later = None
        if self._said:
            self._forget_later()
        self._changed()
