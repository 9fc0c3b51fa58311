"""What a replica is doing, and who may read it: its lease while it leads, its position while it follows.

The lowest module of the package; see ``tablespace.cluster``.

- A leader answers after the read, and only while its lease is valid: nobody else can have led until then.
  Without a lease, as while ZooKeeper is silent, an entry that is sent after the read and acknowledged proves
  the same: the next leader fences the log first.
- A follower that is to be no older than N ms asks the leader how far the log is (``read_index``), or where
  that is not possible ZooKeeper and the bookies. It waits until it has applied that, and may answer for N ms
  from the moment of its question. It asks again before that time is over, while it is read.
- A follower's linearizable reads wait for the leader's answer to one question that is sent after they came,
  and until it is applied. Afterwards it makes sure that its state is still the one that it was.
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
from herdpy_server.replica.read_index import Answered, LeaderQuestions
from herdpy_server.tablespace.cluster import Basis, LeaderPlace, ReadLevel
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
_INDEX_PATIENCE_S = 5.0
_ANSWER_PATIENCE_S = 0.5
"""A bounded read waits no longer for the leader: then the follower asks ZooKeeper and the bookies."""
_SHARE = 3  # of the time for which an answer is good: then the follower asks again, while it is read


class FollowerBasis:
    """What a linearizable read on a follower rests on: an answer of the leader that the replica has applied.

    See ``Basis``. It is good for a state that contains what it contained then, and nothing of a later term
    than the newest whose leader has answered: a predecessor could still answer without that.
    """

    __slots__ = ("_guard", "states")

    def __init__(self, guard: ReplicaGuard, states: int) -> None:
        self._guard = guard
        self.states = states

    def valid(self) -> bool:
        """See ``Basis``."""
        return self._guard.still_follows(self)


class FollowerAdmission:
    """See ``Admission``: the leader is asked, and its answer applied; for all reads of one question."""

    __slots__ = ("_guard", "answer", "wait")

    def __init__(self, guard: ReplicaGuard, answer: Wait[Answered | None]) -> None:
        self.wait: Wait[None] = Wait()
        self._guard = guard
        self.answer = answer
        answer.when_done(self._answered)

    def _answered(self) -> None:
        answered = self.answer.result()
        if answered is None:
            self.wait.resolve(None)
        else:
            self._guard.when_applied(answered.read_index.end, self.wait)

    def basis(self) -> Basis | None:
        """See ``Admission``."""
        answered = self.answer.result()
        return None if answered is None else self._guard.basis_at(answered.read_index.end)


class ReplicaGuard:
    """The replica sets its attributes to what it is doing; sessions ask it.

    Attributes:
        state: what the replica is doing.
        leads: whether that is leading.
        basis: the lease of the term that it leads in; None while it does not lead.
        leader: who leads, as last heard.
        hurry: called when somebody waits for what the log has.
        ask_log: asks the log of the term for a confirmation (``LeaderLog.confirm``); None: there is no log.
        zookeeper_is_silent: whether no proof of the lease can come now.
        log_confirmed: how many reads the log has confirmed.
        report: called when it is another client that cannot reach the leader.
        applied_epoch: in which term the newest entry was written that the replica has applied.
        questions: asks the leader, while this replica follows.
        reads_in_place: how many reads at ``bounded`` a follower has let begin at once.
        reads_waited: how many reads had to wait for the log, at whatever level.
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
        self.ask_log: Callable[[], Wait[None] | None] = lambda: None
        self.zookeeper_is_silent: Callable[[], bool] = lambda: False
        self.log_confirmed = 0
        self.report: Callable[[], object] = lambda: None
        self.applied_epoch: Callable[[], int] = lambda: 0
        self.questions = LeaderQuestions(clock, self._learn)
        self.reads_in_place = self.reads_waited = 0
        self.without_leader = ClientsWithoutLeader(lambda: self.report(), clock)
        self._name = name
        self._applied = applied
        self._log_end = log_end
        self._clock = clock
        self._fresh_s = -math.inf  # nothing that was committed by then is missing
        self._states = 0
        self._answered_epoch = -1  # of the newest leader that has answered
        self._admission: FollowerAdmission | None = None  # of the newest question
        self._aim: Answered | None = None  # the oldest answer whose position is not applied yet
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
                return self._is_fresh(wanted.max_staleness_s)
        return False

    def _is_fresh(self, max_staleness_s: float) -> bool:
        """Whether a follower is new enough; it asks ahead of time, for the reads that come next."""
        age_s = self._clock() - self._fresh_s
        if age_s * _SHARE > max_staleness_s:
            self.questions.refresh()
            if age_s > max_staleness_s:
                return False
        self.reads_in_place += 1
        return True

    def holds(self, wanted: ReadLevel, basis: Basis | None) -> bool:
        """See ``Guard``. A lease that was dropped is never valid again."""
        if wanted.level in ("any", "at_lsn"):
            return True
        if basis is not None:
            return basis.valid()
        # A follower has admitted it: the age of an answer counts from when it was read.
        return wanted.level == "bounded"

    async def admit(self, wanted: ReadLevel) -> Basis | None:
        """See ``Guard``."""
        began_s = self._clock()
        until_s = began_s + _ADMIT_PATIENCE_S
        has_waited = False
        while not self.is_open(wanted):
            self.reads_waited += not has_waited
            has_waited = True
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
                    break  # nothing is missing that was committed before the statement came
            elif wanted.level == "linearizable" and self.state is ReplicaState.FOLLOWING:
                basis = await self._follower_basis(began_s + _INDEX_PATIENCE_S)
                if basis is not None:
                    return basis
            else:
                await self._pause()
        return self.basis

    def ask_leader(self) -> FollowerAdmission | None:
        """See ``Guard``."""
        if self._state is not ReplicaState.FOLLOWING or not self.questions.is_connected:
            return None
        self.reads_waited += 1
        answer, admission = self.questions.ask(), self._admission
        if admission is None or admission.answer is not answer:
            admission = self._admission = FollowerAdmission(self, answer)
        return admission

    def when_applied(self, lsn: LSN, wait: Wait[None]) -> None:
        """Resolve it when the replica has applied that, or does something else, or has not for a while."""
        if self._applied() >= lsn:
            wait.resolve(None)
            return
        self._waiting.append((lsn, wait))
        asyncio.get_running_loop().call_later(_ANSWER_PATIENCE_S, wait.resolve, None)

    def basis_at(self, lsn: LSN) -> FollowerBasis | None:
        """What a linearizable read may rest on that begins in this turn, where it waits for that position."""
        basis = FollowerBasis(self, self._states)
        return basis if self._applied() >= lsn and basis.valid() else None

    async def confirm(self, wanted: ReadLevel, basis: Basis | None) -> None:
        """See ``Guard``."""
        until_s = self._clock() + _CONFIRM_PATIENCE_S
        if isinstance(basis, FollowerBasis):
            await self._confirm_followed(basis, until_s)
            return
        proof, is_patient = _LogProof(), not self.zookeeper_is_silent()
        while not self.holds(wanted, basis):
            if proof.is_given:
                self.log_confirmed += 1
                return
            if basis is None or basis is not self.basis:
                raise self._leader_changed(wanted)
            if self._clock() > until_s:
                raise SqlError(
                    "57P03",
                    f"the leader of tablespace {self._name} cannot make sure that it still leads",
                    detail="Neither ZooKeeper nor enough bookies answer.",
                    hint="Try again soon.",
                )
            if not is_patient:
                proof.ask(self.ask_log)
            await self._pause(self.basis, proof.wait)
            is_patient = False  # no proof of the lease came soon

    def refusal(self, what: str) -> SqlError:
        """See ``Guard``."""
        return SqlError(
            "25006",
            f"cannot execute {what} here: this replica of tablespace {self._name} does not lead",
            detail=self._who(),
            hint=self._where(),
        )

    def not_leader(self) -> SqlError:
        """HP003: this level requires the leader's answer, and there is none."""
        return SqlError(
            "HP003",
            f"this replica of tablespace {self._name} does not lead, the read level is linearizable, and"
            " the leader does not answer it",
            detail=self._who(),
            hint=self._where() + " Or read here: SET herdpy.read_level = 'bounded' (or 'at_lsn', 'any').",
        )

    def leader_place(self) -> LeaderPlace | None:
        """See ``Guard``."""
        leader = self.leader
        if leader is None or leader.sql is None or self.basis is not None:
            return None
        return LeaderPlace(leader.node, leader.epoch, leader.sql.host, leader.sql.port)

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
        if self._aim is not None:
            self._take_aim()
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
        self._aim = None
        self._states += 1

    def close(self) -> None:
        """Ask nothing more."""
        self.without_leader.close()
        self.questions.close()
        if self._asking is not None:
            self._asking.cancel()

    def changed(self) -> None:
        """The replica is doing something else: whoever waits looks again."""
        waiting, self._waiting = self._waiting, []
        for _lsn, wait in waiting:
            wait.resolve(None)

    # Waiting.

    async def _reached(self, lsn: LSN, until_s: float, *, hurry: bool = True) -> None:
        if self._applied() >= lsn:
            return
        wait: Wait[None] = Wait()
        self._waiting.append((lsn, wait))
        if hurry:
            self.hurry()
            self.questions.refresh()  # its answer comes with a report
        timer = asyncio.get_running_loop().call_later(max(until_s - self._clock(), 0), wait.resolve, None)
        try:
            await wait
        finally:
            timer.cancel()

    def still_follows(self, basis: FollowerBasis) -> bool:
        """Whether what is read now may be answered on this basis."""
        return (
            self._state is ReplicaState.FOLLOWING
            and basis.states == self._states
            and self.applied_epoch() <= self._answered_epoch
        )

    async def _follower_basis(self, until_s: float) -> FollowerBasis | None:
        """What a linearizable read may rest on; None: look again. HP003, 57P03: the leader is not reached."""
        left_s, states = until_s - self._clock(), self._states
        answered = None
        if self.questions.may_come and left_s > 0:
            answered = await self.questions.next(left_s)
        if answered is None:
            if self.state is not ReplicaState.FOLLOWING:
                return None
            raise self.not_leader()
        end = answered.read_index.end
        await self._reached(end, until_s, hurry=False)  # the reports come on the same connection
        basis = FollowerBasis(self, states)
        return basis if self._applied() >= end and basis.valid() else None

    async def _confirm_followed(self, basis: FollowerBasis, until_s: float) -> None:
        """``confirm`` of a follower's answer: a leader of another term may have to say that it leads."""
        while not basis.valid():
            if basis.states != self._states or self.state in UNREADABLE:
                raise self._leader_changed(ReadLevel())
            if self._clock() > until_s:
                raise self.not_leader()
            if self.leads:  # what it has read is in the log that it leads
                await self.confirm(ReadLevel(), self.basis)
                return
            if self.state is ReplicaState.FOLLOWING:
                await self._follower_basis(until_s)
            else:
                await self._pause()

    def _learn(self, answered: Answered) -> None:
        """The leader has answered: whoever has applied that far is as new as the question."""
        self._answered_epoch = max(self._answered_epoch, answered.read_index.epoch)
        if self._aim is None:
            self._aim = answered
            self._take_aim()

    def _take_aim(self) -> None:
        aim = self._aim
        if aim is not None and self._applied() >= aim.read_index.confirmed:
            self._fresh_s = max(self._fresh_s, aim.asked_s)
            self._aim = None

    async def _freshen(self) -> None:
        """Learn where the log ends, and get there; all that want it at the same time share the question."""
        if self.questions.is_connected:
            states = self._states
            answered = await self.questions.next(_ANSWER_PATIENCE_S)
            if answered is not None:
                confirmed = answered.read_index.confirmed
                await self._reached(confirmed, answered.asked_s + _ADMIT_PATIENCE_S, hurry=False)
                if self._applied() >= confirmed and self._states == states:
                    self._fresh_s = max(self._fresh_s, answered.asked_s)
                return
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

    async def _pause(self, lease: Lease | None = None, confirmed: Wait[None] | None = None) -> None:
        """Before looking again; no longer than up to the next proof of the lease, or the log's."""
        wait: Wait[None] = Wait()
        if confirmed is not None and not confirmed.done():
            confirmed.when_done(partial(wait.resolve, None))
        if lease is not None:
            lease.when_proved(partial(wait.resolve, None))
        timer = asyncio.get_running_loop().call_later(_LOOK_AGAIN_S, wait.resolve, None)
        try:
            await wait
        finally:
            timer.cancel()


class _LogProof:
    """What the log proves of one read, which was done before the question.

    Attributes:
        wait: the question, while it is not answered.
        is_given: whether the log was still the leader's after the read.
    """

    def __init__(self) -> None:
        self.wait: Wait[None] | None = None

    def ask(self, ask_log: Callable[[], Wait[None] | None]) -> None:
        """Ask, unless that is under way."""
        if self.wait is None or self.wait.done():
            self.wait = ask_log()

    @property
    def is_given(self) -> bool:
        if self.wait is None or not self.wait.done():
            return False
        try:
            self.wait.result()
        except LogError:  # the log ended: its term does, too
            return False
        return True


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
