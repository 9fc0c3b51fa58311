"""Read indexes: a follower asks its leader how far the log is, for all of its reads that wait.

Below ``guard``; the questions travel on the connection of the reports (``lac_reports``), which connects
``LeaderQuestions`` of a follower with ``LeaderAnswers`` of a leader. DESIGN.md says why a follower may read
when it has applied what a leader has answered, whatever becomes of the leader.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

from herdpy.log import LSN, LogError
from herdpy.log.wait import Wait
from herdpy.rpc.read_index import ReadIndex, SendQuestion
from herdpy_server.tablespace.cluster import Basis, ReadLevel
from herdpy_sql.errors import SqlError

LEAST_S = 0.003
"""A question for which no read waits is sent so long after the last one, or later."""
_AGAIN_S = 0.5
"""A question that is not answered for so long does not hold up the next one."""


class IndexedLog(Protocol):
    """What an answer is made of: ``LeaderLog``."""

    @property
    def lac(self) -> LSN: ...

    @property
    def end(self) -> LSN: ...

    @property
    def failure(self) -> LogError | None: ...


class LeaderProof(Protocol):
    """What shows that a node leads: ``ReplicaGuard``."""

    @property
    def basis(self) -> Basis | None: ...

    async def confirm(self, level: ReadLevel, basis: Basis | None, /) -> None: ...


class LeaderAnswers:
    """Answers one follower, while a term lasts. To be made while the log is led.

    The position is read first and the lease is checked then, so that no other node can have acknowledged
    more before the position was read. Questions that come while the lease is not valid wait together.
    """

    def __init__(
        self,
        log: IndexedLog,
        epoch: int,
        proof: LeaderProof,
        want: Callable[[LSN], object] = lambda _position: None,
    ) -> None:
        """``want`` is given what the follower will wait for: reports up to there are urgent."""
        self._log = log
        self._want = want
        self._epoch = epoch
        self._proof = proof
        self._basis = proof.basis
        self._waiting: list[tuple[int, Callable[[ReadIndex], object]]] = []
        self._confirming: asyncio.Task[None] | None = None

    def answer(self, number: int, send: Callable[[ReadIndex], object]) -> None:
        """See ``ReadIndexAnswerer``."""
        index = self._index(number)
        self._want(index.end)
        if self._leads and self._basis is not None and self._basis.valid():
            send(index)
            return
        self._waiting.append((number, send))
        if self._confirming is None:
            self._confirming = asyncio.get_running_loop().create_task(self._confirm(), name="read index")

    def close(self) -> None:
        """See ``ReadIndexAnswerer``."""
        self._waiting.clear()
        if self._confirming is not None:
            self._confirming.cancel()

    @property
    def _leads(self) -> bool:
        """Whether the term goes on: an ended one says nothing, even if this node leads in another."""
        return self._log.failure is None and self._proof.basis is self._basis

    def _index(self, number: int) -> ReadIndex:
        return ReadIndex(number, self._epoch, self._log.lac, self._log.end)

    async def _confirm(self) -> None:
        """Answer the questions that wait, each with a position from before its proof."""
        try:
            while self._waiting and self._leads:
                waiting, self._waiting = self._waiting, []
                answers = [(send, self._index(number)) for number, send in waiting]
                await self._proof.confirm(ReadLevel(), self._basis)
                if self._leads:
                    for send, index in answers:
                        send(index)
        except SqlError:
            pass  # it cannot make sure that it leads: the follower asks again, or another leader
        finally:
            self._confirming = None


class Answered(NamedTuple):
    """An answer, and when its question was sent, by the follower's clock."""

    read_index: ReadIndex
    asked_s: float


class _BriefWait(Wait[Answered | None]):
    """Of reads that have another way where the leader does not answer soon."""


class LeaderQuestions:
    """Asks the leader, one question at a time, each for all reads that wait when it is sent.

    Numbers never come twice, even to different leaders: an answer counts only as that of the question that is
    under way, so a late one, or one of an earlier connection, is of no effect.

    Args:
        clock: never stops, not even with the process.
        learned: is given each answer, before the reads that wait.

    Attributes:
        is_possible: a leader may be connected to.
        sent: how many questions were sent.
    """

    def __init__(self, clock: Callable[[], float], learned: Callable[[Answered], object]) -> None:
        self.is_possible = False
        self.sent = 0
        self._clock = clock
        self._learned = learned
        self._send: SendQuestion | None = None
        self._is_refused = False
        self._sent_s = -math.inf  # of the question under way, or the last one
        self._is_under_way = self._is_due = False
        self._waiting: list[Wait[Answered | None]] = []
        self._next: list[Wait[Answered | None]] = []
        self._called_for = asyncio.Event()
        self._brief: _BriefWait | None = None  # the one in ``_next``
        self._timer: asyncio.TimerHandle | None = None  # of the question under way

    # Called for reads.

    @property
    def is_connected(self) -> bool:
        """Whether a question would be sent at once."""
        return self._send is not None

    @property
    def may_come(self) -> bool:
        """Whether an answer may come: leaders are listened to, and this one is no older version."""
        return self.is_possible and not self._is_refused

    def refresh(self) -> None:
        """Ask, unless a question is under way or was a moment ago; ``learned`` hears the answer."""
        if self._send is not None and not self._is_under_way and self._clock() - self._sent_s >= LEAST_S:
            self._ask_soon()

    async def next(self, patience_s: float) -> Answered | None:
        """The answer to a question that is sent after this call; None when it does not come in time."""
        wait: Wait[Answered | None] = Wait()
        self._add(wait)
        timer = asyncio.get_running_loop().call_later(patience_s, wait.resolve, None)
        try:
            return await wait
        finally:
            timer.cancel()
            wait.resolve(None)  # cancelled, it waits no more

    def ask(self) -> Wait[Answered | None]:
        """As ``next``, one wait for all that ask before the question is sent.

        Resolved with None after a short time, or when the connection ends: to be called while there is one.
        """
        wait = self._brief
        if wait is None or wait.done():
            wait = self._brief = _BriefWait()
            self._add(wait)
        return wait

    def _add(self, wait: Wait[Answered | None]) -> None:
        self._next.append(wait)
        if self._send is None:
            self._called_for.set()
        elif not self._is_under_way or self._clock() - self._sent_s >= _AGAIN_S:
            self._ask_soon()

    # Called by the connection with a leader: a ReadIndexAsker.

    def connected(self, send: SendQuestion | None) -> None:
        """See ``ReadIndexAsker``."""
        self._is_refused = send is None
        self._begin(send)
        if self._is_refused:
            self._let_go()

    def answered(self, index: ReadIndex) -> None:
        """See ``ReadIndexAsker``."""
        if not self._is_under_way or index.number != self.sent:
            return
        self._is_under_way = False
        self._stop_timer()
        answered = Answered(index, self._sent_s)
        waiting, self._waiting = self._waiting, []
        self._learned(answered)
        for wait in waiting:
            wait.resolve(answered)
        if self._next:
            self._ask_soon()

    def disconnected(self) -> None:
        """See ``ReadIndexAsker``."""
        self._is_refused = False
        self._begin(None)

    async def called_for(self) -> None:
        """Return when somebody waits for a leader to be connected to."""
        if not self._has_waiters():
            self._called_for.clear()
        await self._called_for.wait()

    def close(self) -> None:
        """Ask nothing more, and let go of the reads that wait."""
        self.is_possible = False
        self._begin(None)
        self._let_go()

    # The question under way.

    def _begin(self, send: SendQuestion | None) -> None:
        """Another connection, or none: reads that wait have their question sent there."""
        self._send = send
        self._is_under_way = False
        self._stop_timer()
        self._next += self._waiting
        self._waiting = []
        self._let_go_brief()
        if send is not None and self._has_waiters():
            self._ask_soon()

    def _has_waiters(self) -> bool:
        self._next = [one for one in self._next if not one.done()]
        return bool(self._next)

    def _ask_soon(self) -> None:
        """One question for all that come in this turn of the loop."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._ask)

    def _ask(self) -> None:
        self._is_due = False
        if self._send is None:
            return
        self._waiting += self._next
        self._next = []
        self._brief = None
        self.sent += 1
        self._is_under_way = True
        self._sent_s = self._clock()  # before it is sent: the answer is about a moment after that
        self._send(self.sent)
        self._stop_timer()
        self._timer = asyncio.get_running_loop().call_later(_AGAIN_S, self._let_go_brief)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _let_go_brief(self) -> None:
        for wait in (*self._waiting, *self._next):
            if isinstance(wait, _BriefWait):
                wait.resolve(None)

    def _let_go(self) -> None:
        waiting, self._next = self._next, []
        for wait in waiting:
            wait.resolve(None)
