"""Whether a replica should lead, although it follows: it may be cut off from the log that others reach.

Between ``base`` and ``replica``. What is found stands in the replica's report, so that nobody hands over to
it, and asked by its election. A leader that is unfit lets a replica lead that is fit; where there is none it
stays: as nobody else can do better, a lone leader, or one whose bookies are all gone, waits as if nothing
were found. Four degrees:

- *Cut off*: fewer bookies answer than must have an entry. It can neither write nor take over.
- *Leaves*: its server ends. It leads as long as its sessions take, unless another is there that can.
- *Worn*: its disk has no room, or its store cannot be written. It leads as long as its memory lasts.
- *Tried*: its last takeover failed. It leads where nobody else can, and goes on if it can.

A leader's commits are durable on the bookies, whatever becomes of its own disk: it can go on until its memory
is full. That is time enough to have another one lead, and none to be wasted.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from herdpy.bookkeeper import BookKeeperError
from herdpy.bookkeeper.metadata.znodes import Watch
from herdpy.log import LogUnavailableError
from herdpy_server.cluster.election import Election
from herdpy_server.cluster.errors import MalformedMetadataError
from herdpy_server.cluster.layout import ReplicaRecord
from herdpy_server.cluster.positions import read_needs
from herdpy_server.replica.base import ReplicaBase
from herdpy_server.replica.guard import ReplicaState
from herdpy_server.replica.host import ASK_S, IDLE_ASK_S, IDLE_LOOK_S, LOOK_S
from herdpy_server.replica.leader_tasks import CLOSE_ENTRIES, entries_after
from herdpy_server.tablespace import store_error

_ENOUGH_AGAIN = 1.5
"""Room is back when there is so many times as much as there has to be: not to and fro at the edge."""
_CADENCE_S = 0.5
_TOO_MANY_READERS = "53400"


class DiskHealth:
    """Of one replica.

    Args:
        least_free_bytes: how much room there has to be; 0: any.
    """

    def __init__(self, least_free_bytes: int) -> None:
        self._least = least_free_bytes
        self._problem: str | None = None
        self._next_s = 0.0
        self._since = ""

    def problem(self, replica: ReplicaBase) -> str | None:
        """Why the disk is not well; None: it is. Asked anew now and then."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._next_s:
            self._next_s = now_s + _CADENCE_S
            found = self._find(replica)
            if found is not None and self._problem is None:
                self._since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            self._problem = None if found is None else f"{found} since {self._since}"
        return self._problem

    def _find(self, replica: ReplicaBase) -> str | None:
        opened = replica.opened
        if opened is None:
            return None  # it does not lead anyway
        failure = opened.checkpointer.failure
        if failure is not None:
            reason = store_error(failure)
            if reason.sqlstate != _TOO_MANY_READERS:  # they end, and would be no fewer elsewhere
                return f"its store cannot be written ({reason.detail or reason})"
        if self._least:
            least = self._least if self._problem is None else int(self._least * _ENOUGH_AGAIN)
            try:
                if free_bytes(opened.path) < least:
                    return f"its disk has less than {self._least >> 20} MiB free"
            except OSError as error:
                return f"its disk does not answer ({error.strerror})"
        return None


def free_bytes(path: Path) -> int:
    """How much room there is where ``path`` lies; of a mounted file system that is known without a wait."""
    about = os.statvfs(path)
    return about.f_bavail * about.f_frsize


logger = logging.getLogger("herdpy.replica")

SILENT_S = 0.6
"""Bookies that have said nothing for so long do not answer."""
GIVE_UP_S = 1.2
"""A leader that is cut off for so long looks for another: whoever is cut off with it has said so by then."""
WORN_S = 2.0
"""The same of disks, which are looked at less often."""
_AGAIN_S = 0.5
_BACKOFF_FIRST_S, _BACKOFF_LAST_S = 2.0, 300.0
_FORGIVEN_S = 600.0
_HOLDS = frozenset({ReplicaState.TAKING_OVER, ReplicaState.LEADING, ReplicaState.HANDING_OVER})


class Degree(enum.Enum):
    """What follows."""

    CUT_OFF = "it cannot lead"
    LEAVES = "it hands leadership over at once"
    WORN = "it hands leadership over"
    TRIED = "others go first"


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a replica should not lead."""

    reason: str
    degree: Degree


class Fitness:
    """Of one replica.

    Args:
        election: asked to look again when something changed.
        hand_over: has another replica lead, after what is under way is finished.
        give_up: has another replica lead at once.
    """

    def __init__(
        self,
        replica: ReplicaBase,
        election: Election,
        hand_over: Callable[[], object],
        give_up: Callable[[], object],
    ) -> None:
        self._replica = replica
        self._election = election
        self._hand_over = hand_over
        self._give_up = give_up
        self._reach = replica.host.reach
        self._found: Unfit | None = None
        self._found_s = 0.0
        self._failed: _Failed | None = None
        self._disk = DiskHealth(replica.host.least_free_bytes)
        self._watch: Watch | None = None
        self._yielding: asyncio.Task[None] | None = None
        self._again_s = -math.inf
        self._leaves = False

    def start(self) -> None:
        """Look from now on."""
        self._reach.start()
        self._watch = self._reach.listeners.add(self._look)

    async def close(self) -> None:
        """Look no more."""
        if self._watch is not None:
            self._watch.cancel()
        if self._yielding is not None:
            self._yielding.cancel()
            await asyncio.gather(self._yielding, return_exceptions=True)

    # Called by the replica.

    async def lacks(self) -> str | None:
        """Why it cannot lead, for its election. BookKeeperError: ZooKeeper does not say who else can."""
        found = self._find()
        if found is None or not (found.degree is Degree.CUT_OFF or await self._others()):
            return None
        return found.reason

    async def leave(self) -> None:
        """Its server ends: another replica leads from now on, as soon as one is fit to.

        Returns when the hand-over has begun, or no other is fit now; then that is asked again and
        again. A cancel leaves what has begun.
        """
        self._leaves, self._again_s = True, -math.inf
        self._look()
        if self._yielding is not None:
            await asyncio.wait({self._yielding})

    def takeover_failed(self, error: LogUnavailableError) -> None:
        """It led, or was about to, and the log could not be had: others first, longer each time."""
        now_s = asyncio.get_running_loop().time()
        before = self._failed
        pause_s = _BACKOFF_FIRST_S
        if before is not None and now_s - before.at_s < before.pause_s + _FORGIVEN_S:
            pause_s = min(2 * before.pause_s, _BACKOFF_LAST_S)
        reason = f"it could not lead at {_moment(0.0)}, and is tried again after others: {error}"
        self._failed = _Failed(now_s, pause_s, reason, self._reach.answering(SILENT_S))
        self._look()

    # What is found.

    def _find(self) -> Unfit | None:
        silent_s, now = self._reach.silent_s(self._needed()), self._found
        if silent_s > SILENT_S:
            if now is not None and now.degree is Degree.CUT_OFF:
                return now
            return Unfit(f"it cannot reach the log since {_moment(silent_s)}", Degree.CUT_OFF)
        if self._leaves:
            return Unfit("its server ends", Degree.LEAVES)
        problem = self._disk.problem(self._replica)
        if problem is not None:
            return Unfit(problem, Degree.WORN)
        failed = self._failed
        if failed is not None and failed.counts(self._reach.answering(SILENT_S)):
            return Unfit(failed.reason, Degree.TRIED)
        return None

    def _needed(self) -> int:
        """How many bookies must answer for an entry to be written."""
        info = self._replica.info
        return info.write_quorum if info.strict else info.ack_quorum

    def _look(self) -> None:
        """Something may have changed; also called when nothing did, again and again."""
        replica, found = self._replica, self._find()
        if found != self._found:
            if found is None or self._found is None or found.degree is not self._found.degree:
                self._found_s = asyncio.get_running_loop().time()
            self._found = found
            replica.unfit = None if found is None else found.reason
            logger.warning("fit to lead again" if found is None else "unfit to lead", extra=self._extra())
            replica.report()
            self._election.reconsider()
        if found is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._again_s or (self._yielding is not None and not self._yielding.done()):
            return
        if self._must_go():
            self._yielding = loop.create_task(self._let_another_lead(), name="another leads")
        elif replica.state not in _HOLDS and self._election.leader is None:
            self._election.reconsider()  # those that were fit may not be any more
        else:
            return
        self._again_s = loop.time() + _AGAIN_S

    async def _let_another_lead(self) -> None:
        """Have another lead, if one is fit to."""
        try:
            others = await self._others()
        except BookKeeperError as error:
            logger.info("the fitness of other replicas is not known", extra=self._extra(error=str(error)))
            return
        found = self._found
        if found is None or not self._must_go():
            return
        is_cut_off = found.degree is Degree.CUT_OFF
        if not is_cut_off:
            others = [one for one in others if self._is_close(one)]
        if others:
            logger.warning("gives up leadership", extra=self._extra(to=[one.node for one in others]))
            (self._give_up if is_cut_off else self._hand_over)()

    def _must_go(self) -> bool:
        """Whether it leads, and had better not."""
        found, state = self._found, self._replica.state
        if found is None or found.degree is Degree.TRIED:
            return False
        if found.degree is Degree.LEAVES:
            return state is ReplicaState.LEADING
        if found.degree is Degree.WORN:
            worn_s = asyncio.get_running_loop().time() - self._found_s
            return state is ReplicaState.LEADING and worn_s > WORN_S
        # Replicas that are idle find out later, each at its own time.
        wait_s = GIVE_UP_S + (IDLE_ASK_S - ASK_S + IDLE_LOOK_S if self._reach.is_idle else 0.0)
        return state in _HOLDS and self._reach.silent_s(self._needed()) > wait_s - LOOK_S / 2

    def _is_close(self, other: ReplicaRecord) -> bool:
        """Whether nobody would wait long for the other to have all of the log."""
        log = self._replica.log
        return log is not None and entries_after(log.ledgers(), other.applied, log.lac) <= CLOSE_ENTRIES

    async def _others(self) -> list[ReplicaRecord]:
        """The other replicas that are fit to lead, as they say. BookKeeperError."""
        host, info = self._replica.host, self._replica.info
        try:
            needs = await read_needs(host.bk.znodes, host.coordination.layout.tablespace(info.name))
        except MalformedMetadataError as error:
            logger.error("the fitness of other replicas cannot be read", extra=self._extra(error=str(error)))
            return []
        return [
            one
            for one in needs.replicas.values()
            if one.node != host.node and one.state == ReplicaState.FOLLOWING.value and not one.unfit
        ]

    def _extra(self, **more: object) -> dict[str, object]:
        return {"tablespace": self._replica.info.name, "reason": self._replica.unfit, **more}


@dataclass(frozen=True, slots=True)
class _Failed:
    """A takeover that failed: when, by the loop's clock, and the bookies that answered then."""

    at_s: float
    pause_s: float
    reason: str
    answered: frozenset[str]

    def counts(self, answering: frozenset[str]) -> bool:
        """Whether it is held against the replica: for a while, unless bookies answer that did not."""
        return asyncio.get_running_loop().time() < self.at_s + self.pause_s and answering <= self.answered


def _moment(ago_s: float, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> str:
    return (now() - timedelta(seconds=ago_s)).strftime("%Y-%m-%d %H:%M:%S UTC")
