"""The leader's lease: until when nobody else can lead, by a clock that never stops.

Between ``session`` and ``election``. A ``Lease`` is pure: ``Renewal`` gives it each proof that the leader's
session lived, ``Term`` opens it once the predecessor's is over, and whoever answers a read asks ``valid()``
*after* the read and before the answer. Why that suffices is in DESIGN.md.

A proof is a write to an ephemeral znode of this session's own, under ``beats``, whose name nobody else
knows. Writes are ordered by ZooKeeper's leader, so one that succeeds shows that the session had not ended
when it was sent; as long as the session lives, so do all of its ephemeral znodes, the ``leader`` znodes
among them, which nobody but their owner deletes. One write proves it for all leaders of this node. Nothing
is written while this node leads nothing, nor while nobody has asked for a lease for a while: then leases
lapse, and the next question waits for a write.

The tablespace's replica recovers the log with the term's epoch, then awaits ``alone()`` before it
acknowledges or answers anything.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import math
from collections.abc import Callable

from herdpy.bookkeeper.errors import ClosedClientError, SessionExpiredError
from herdpy.bookkeeper.metadata.znodes import ANY_VERSION, UNANSWERED, NoNodeError, Znodes, ZooKeeperState
from herdpy.machine import CLOCK_DRIFT, boot_time_s
from herdpy_server.cluster.certain import token
from herdpy_server.cluster.errors import TermLostError
from herdpy_server.cluster.layout import Layout
from herdpy_server.cluster.session import ZooKeeperSession

Clock = Callable[[], float]
"""Seconds from some fixed moment, running also while the process is stopped or the machine sleeps."""

boottime: Clock = boot_time_s

DRIFT = CLOCK_DRIFT
"""So much earlier a holder counts its lease as over."""


def _nothing() -> None:
    """Nobody waits."""


class Lease:
    """One term's lease, of ``lease_s`` seconds from the sending of each proof.

    The holder counts a little less than ``lease_s`` (DRIFT), the successor waits all of it.

    Attributes:
        session: the number of the ZooKeeper session that the term lives in.
        since_s: when the term began, by the lease's clock; no proof from before counts.
        asked_s: when somebody asked last whether it is valid.
        proved: called after each proof.
        lapsed: called when somebody asks and it is not valid: it may be at rest.
    """

    __slots__ = (
        "_clock",
        "_held_s",
        "_is_open",
        "_proved_until_s",
        "_until_s",
        "_waiting",
        "asked_s",
        "lapsed",
        "proved",
        "session",
        "since_s",
    )

    def __init__(self, lease_s: float, session: int, clock: Clock = boottime) -> None:
        self.session = session
        self.since_s = self.asked_s = clock()
        self.proved: Callable[[], object] = _nothing
        self.lapsed: Callable[[], object] = _nothing
        self._waiting: list[Callable[[], object]] = []
        self._clock = clock
        self._held_s = lease_s * (1 - DRIFT)
        self._is_open: bool | None = False
        self._until_s = -math.inf
        self._proved_until_s = -math.inf

    def valid(self) -> bool:
        """Whether nobody else can have led up to this moment."""
        now_s = self.asked_s = self._clock()
        if now_s < self._until_s:
            return True
        self.lapsed()
        return False

    @property
    def is_held(self) -> bool:
        """As :meth:`valid`, for a look that is not a question."""
        return self._clock() < self._until_s

    def when_proved(self, call: Callable[[], object]) -> None:
        """Call that after the next proof, once."""
        self._waiting.append(call)

    @property
    def until_s(self) -> float:
        """When it ends unless it is renewed, by the lease's clock; in the past when there is none."""
        return self._until_s

    def prove(self, sent_s: float, session: int) -> None:
        """The session lived when it was asked, at ``sent_s`` or later, and answered."""
        if session != self.session or sent_s < self.since_s:
            return
        self._proved_until_s = max(self._proved_until_s, sent_s + self._held_s)
        if self._is_open:
            self._until_s = self._proved_until_s
        self.proved()
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()

    def open(self) -> None:
        """The predecessor's lease is over: from now on each proof counts, and so does the last one."""
        if self._is_open is False:
            self._is_open = True
            self._until_s = self._proved_until_s

    def carry_over(self, session: int) -> None:
        """The term goes on in another session: only proofs of that one, from now on, count."""
        self.session = session
        self.since_s = self._clock()

    def drop(self) -> None:
        """It is over, for good."""
        self._is_open = None
        self._until_s = -math.inf


_log = logging.getLogger("herdpy.cluster")

_SHARE = 3  # renewals in a lease's time: one may get lost
_MOST_UNANSWERED = 4
REST_S = 5.0
"""After so long without a question leases are renewed no more, until the next question."""


class Renewal:
    """Renews the leases it is given, each third of ``lease_s`` seconds, while they are asked for.

    Made on the loop, one a node.
    """

    def __init__(
        self,
        znodes: Znodes,
        session: ZooKeeperSession,
        layout: Layout,
        node: str,
        lease_s: float,
        clock: Clock = boottime,
    ) -> None:
        self.lease_s = lease_s
        self.clock = clock
        self._znodes = znodes
        self._session = session
        self._prefix = f"{layout.beats}/{node}-"
        self._leases: set[Lease] = set()
        self._beat: tuple[int, str] | None = None  # session, path
        self._timer: asyncio.TimerHandle | None = None
        self._proofs: set[asyncio.Task[None]] = set()
        self._watch = session.on_change(self._session_changed)
        self._closed = False

    def add(self, lease: Lease) -> None:
        """Renew this one too, from now on."""
        self._leases.add(lease)
        lease.lapsed = self._wake
        self.prove_now()

    def discard(self, lease: Lease) -> None:
        """Renew it no more."""
        self._leases.discard(lease)
        lease.lapsed = _nothing

    @property
    def rests(self) -> bool:
        """Whether nothing is renewed, because nobody asks."""
        return self._timer is None

    def _wake(self) -> None:
        if self.rests:
            self.prove_now()

    def _renew(self) -> None:
        """A third of the lease's time has passed."""
        self._timer = None
        since_s = self.clock() - REST_S
        if any(lease.asked_s >= since_s for lease in self._leases):
            self.prove_now()

    def prove_now(self) -> None:
        """Ask for a proof at once, unless several are unanswered; the next one after a third of the lease."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._leases or self._closed:
            return
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self.lease_s / _SHARE, self._renew)
        if len(self._proofs) < _MOST_UNANSWERED and self._session.state is ZooKeeperState.CONNECTED:
            proof = loop.create_task(self._prove(), name="lease renewal")
            self._proofs.add(proof)
            proof.add_done_callback(self._proofs.discard)

    async def catch_up(self) -> None:
        """Write something: what this session reads afterwards is no older than this moment.

        A server of ZooKeeper answers reads from what it has, which may be behind; but a session's own write
        is not answered before its server has everything up to it. BookKeeperError.
        """
        path = await self._own_znode(self._session.number)
        if path is None:
            raise SessionExpiredError
        try:
            await self._znodes.set(path, b"", ANY_VERSION)
        except NoNodeError as error:
            self._beat = None
            raise SessionExpiredError from error

    async def close(self) -> None:
        """Renew no more."""
        self._closed = True
        self._watch.cancel()
        if self._timer is not None:
            self._timer.cancel()
        proofs = tuple(self._proofs)
        for proof in proofs:
            proof.cancel()
        await asyncio.gather(*proofs, return_exceptions=True)

    def _session_changed(self, state: ZooKeeperState) -> None:
        if state is ZooKeeperState.CONNECTED:
            self.prove_now()

    async def _prove(self) -> None:
        number = self._session.number
        try:
            path = await self._own_znode(number)
            if path is None:
                return
            sent_s = self.clock()  # before it is sent: what is true then is all that the answer shows
            await self._znodes.set(path, b"", ANY_VERSION)
        except UNANSWERED:
            return  # no proof; the next one tries again
        except NoNodeError:
            self._beat = None
            return
        except ClosedClientError:
            return
        if self._session.number == number:
            for lease in self._leases:
                lease.prove(sent_s, number)

    async def _own_znode(self, number: int) -> str | None:
        """The path of a znode made in session ``number``; None when that session is over."""
        beat = self._beat
        if beat is not None and beat[0] == number:
            return beat[1]
        path = self._prefix + token()
        await self._znodes.create(path, ephemeral=True, make_parents=True)
        if self._session.number != number:
            return None
        beat = self._beat
        if beat is not None and beat[0] == number:  # another proof was as quick
            await self._znodes.delete(path)
            return beat[1]
        _log.debug("session heartbeat znode made", extra={"path": path})
        self._beat = (number, path)
        return path


class Loss(enum.Enum):
    """Why a term is over."""

    SESSION = "the ZooKeeper session was lost, and another node was elected"
    REMOVED = "the leader znode is gone"
    RESIGNED = "it was given back"


class Term:
    """Attributes:
    epoch: rises by at least one with each term of the tablespace.
    tag: of its ``leader`` znode.
    tags: all under which the ``term`` may be this one: those of znodes that an interrupted attempt to go on
        in another session may have made, too.
    predecessor_until_s: when the last lease that another can hold is over, by the lease's clock.
    lease: asked after each read.
    loss: why it is over, or None.
    """

    def __init__(
        self, epoch: int, tag: str, lease: Lease, renewal: Renewal, predecessor_until_s: float
    ) -> None:
        self.epoch = epoch
        self.tag = tag
        self.tags = {tag}
        self.lease = lease
        self.predecessor_until_s = predecessor_until_s
        self.loss: Loss | None = None
        self._renewal = renewal
        self._over = asyncio.Event()
        self._news = asyncio.Event()  # a proof, or the end
        lease.proved = self._news.set

    @property
    def is_alone(self) -> bool:
        """Whether no predecessor can hold a lease any more."""
        return self._clock() >= self.predecessor_until_s

    async def alone(self) -> None:
        """Wait until no predecessor can hold a lease, and this term's own is valid. Raises TermLostError."""
        while self.loss is None:
            self._news.clear()
            left_s = self.predecessor_until_s - self._clock()
            if left_s > 0:
                await self._sleep(left_s)
                continue
            self.lease.open()
            if self.lease.valid():
                return
            self._renewal.prove_now()
            await self._sleep(self._renewal.lease_s)
        raise TermLostError(self.epoch, self.loss.value)

    async def over(self) -> Loss:
        """Wait until the term is over; why."""
        await self._over.wait()
        assert self.loss is not None
        return self.loss

    def carry_over(self, tag: str, session: int) -> None:
        """For the election: it goes on in another session, with this tag."""
        self.tag = tag
        self.tags = {tag}
        self.lease.carry_over(session)
        self._renewal.prove_now()

    def end(self, loss: Loss) -> None:
        """For the election: it is over. The lease ends with it."""
        self.lease.drop()
        self._renewal.discard(self.lease)
        self.loss = self.loss or loss
        self._over.set()
        self._news.set()

    @property
    def _clock(self) -> Clock:
        return self._renewal.clock

    async def _sleep(self, most_s: float) -> None:
        try:
            async with asyncio.timeout(most_s):
                await self._news.wait()
        except TimeoutError:
            pass
