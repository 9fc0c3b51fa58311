"""The leader is cut off from others: who are all well, or are lost together with it."""

from __future__ import annotations

import threading
from random import Random
from typing import Any, ClassVar, Literal

import psycopg

from herdpy.drill.control import CLIENTS, ClusterControl, ClusterNeeds, ClusterObserver, OneWay
from herdpy.drill.control.control import ViewError
from herdpy.drill.faults.fault import Fault, first_reason
from herdpy.drill.faults.processes import without_bookies, without_followers
from herdpy.testing.process import await_until

From = Literal["zookeeper", "bookies", "most bookies", "both", "clients", "one way"]
_KINDS: tuple[From, ...] = ("zookeeper", "bookies", "most bookies", "both", "clients", "one way")
_WAYS: tuple[OneWay, ...] = ("sent", "received")


class PartitionLeader(Fault):
    """Packets between the leader and some others are lost; from whom, a drill's seed says."""

    name = "partition-leader"
    summary = (
        "packets between the leader and others are lost: ZooKeeper, bookies, all bookies but one, both,"
        " clients, or one way"
    )
    needs = ClusterNeeds(network=True)
    hold_s = 5.0
    from_: ClassVar[From | None] = None

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("server"), "cut")

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        leader = view.await_leader()
        chosen = self.from_ if self.from_ is not None else self.chance.choice(_KINDS)
        way = self.chance.choice(_WAYS) if chosen == "one way" else None
        others = self._others(view, chosen)
        return self._cut(control, leader, others, way)

    def _others(self, view: ClusterObserver, chosen: From) -> list[str]:
        zookeeper, bookies = view.names("zookeeper"), view.names("bookie")
        return {
            "zookeeper": zookeeper,
            "bookies": bookies,
            "most bookies": self.chance.sample(bookies, max(len(bookies) - 1, 1)),
            "both": [*zookeeper, *bookies],
            "clients": [CLIENTS],
            "one way": [*zookeeper, *bookies],
        }[chosen]

    def _cut(self, control: ClusterControl, leader: str, others: list[str], way: OneWay | None) -> str:
        self._undo.callback(control.heal, leader)
        control.cut(leader, from_=others, one_way=way)
        lost = f"what it {'sends' if way == 'sent' else 'is sent'} is lost" if way else "both ways"
        return f"{leader}, the leader, is cut from {', '.join(others)}: {lost}"


class PartitionLeaderFromZooKeeper(PartitionLeader):
    """It loses its session, and cannot know that another leads."""

    name = "partition-leader-from-zookeeper"
    summary = "packets between the leader and ZooKeeper are lost"
    from_ = "zookeeper"


class PartitionLeaderFromBookies(PartitionLeader):
    """It leads, and can write nothing."""

    name = "partition-leader-from-bookies"
    summary = "packets between the leader and all bookies are lost"
    from_ = "bookies"


class PartitionLeaderFromMostBookies(PartitionLeader):
    """It leads, can read its log, and can write nothing."""

    name = "partition-leader-from-two-bookies"
    summary = "packets between the leader and all bookies but one are lost"
    from_ = "most bookies"
    hold_s = 8.0


class PartitionPreferredLeader(PartitionLeader):
    """The leader that the tablespace prefers can write nothing, and would be given the leadership back.

    It leads again when it is healed, and only then.
    """

    name = "partition-preferred-leader"
    summary = "the preferred leader is cut from all bookies or all but one, both ways or one way"
    hold_s = 8.0

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        leader = view.await_leader()
        self._undo.callback(self._prefer, view, _preferred(view))
        self._prefer(view, leader)
        self._undo.callback(self._await_return, view, leader)
        kinds: tuple[From, ...] = ("bookies", "most bookies")
        others = self._others(view, self.chance.choice(kinds))
        return self._cut(control, leader, others, self.chance.choice((None, *_WAYS)))

    def _prefer(self, view: ClusterObserver, leader: str | None) -> None:
        chosen = "NONE" if leader is None else f"'{leader}'"
        _run(view, f'ALTER TABLESPACE "{view.tablespace}" LEADER {chosen}')

    def _await_return(self, view: ClusterObserver, leader: str) -> None:
        view.await_status(leader, lambda one: one["role"] == "leader", "lead again when it was healed")
        self.note(f"{leader} leads again")


def _preferred(view: ClusterObserver) -> str | None:
    query = f"SELECT preferred_leader FROM herdpy.tablespaces WHERE name = '{view.tablespace}'"
    found: str | None = _run(view, query)[0][0]
    return found


def _run(view: ClusterObserver, statement: str) -> list[tuple[Any, ...]]:
    """Run it where the leader is; again while that fails, as it may when all are busy. Raises ViewError."""
    rows: list[tuple[Any, ...]] = []
    reason = ""

    def is_done() -> bool:
        nonlocal rows, reason
        try:
            rows = view.run(view.await_leader(), statement)
        except psycopg.Error as error:
            reason = str(error).strip()
            return False
        return True

    if not await_until(is_done, view.patience_s):
        raise ViewError(f"{statement} was not done within {view.patience_s:g} s: {reason}")
    return rows


class PartitionLeaderFromBoth(PartitionLeader):
    """It is alone with its clients."""

    name = "partition-leader-from-both"
    summary = "packets between the leader, and ZooKeeper and all bookies, are lost"
    from_ = "both"


class PartitionLeaderFromClients(PartitionLeader):
    """It leads, and nobody hears of it."""

    name = "partition-leader-from-clients"
    summary = "packets between the leader and all clients are lost"
    from_ = "clients"


class PartitionLeaderOneWay(PartitionLeader):
    """It is heard and does not hear, or the other way round."""

    name = "partition-leader-one-way"
    summary = "packets from the leader to ZooKeeper and bookies are lost, or those to it"
    from_ = "one way"


class LoseInFlight(Fault):
    """What the leader sends to the bookies is lost; then it is killed, as it waits for their answers.

    Nobody has what it sent meanwhile: what of that was acknowledged was acknowledged too early.
    """

    name = "lose-in-flight"
    summary = "what the leader sends to the bookies is lost, and then the leader is"
    needs = ClusterNeeds(network=True)
    _SENDS_S = 1.0  # for so long it appends, and no bookie hears of it

    def __init__(self, chance: Random) -> None:
        super().__init__(chance)
        self._waits = threading.Event()

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("server"), "cut", "kill", "start")

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        leader = view.await_leader()
        deaf = self._deaf(view)
        self._undo.callback(control.start, leader)
        self._undo.callback(control.heal, leader)
        control.cut(leader, from_=deaf, one_way="sent")
        self._waits.wait(self._SENDS_S)
        control.kill(leader)
        lost = self._lose_others(control, view, deaf)
        return f"what {leader}, the leader, sends to {', '.join(deaf)} is lost, then it is killed{lost}"

    def _deaf(self, view: ClusterObserver) -> list[str]:
        return view.names("bookie")

    def _lose_others(self, _control: ClusterControl, _view: ClusterObserver, _deaf: list[str]) -> str:
        """Lose more, now that the leader is gone; in words, for the end of a sentence."""
        return ""


class LoseOnlyWitness(LoseInFlight):
    """What the leader sends reaches one bookie alone; then both are killed at once.

    The others must do for the next leader. What one bookie has had was never acknowledged.
    """

    name = "lose-only-witness"
    summary = "what the leader sends reaches one bookie alone, and then both are killed"

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        reason = super().cannot(control, view) or first_reason(control, view.names("bookie"), "kill", "start")
        return reason or without_bookies(view)

    def _deaf(self, view: ClusterObserver) -> list[str]:
        names = view.names("bookie")
        return self.chance.sample(names, len(names) - 1)

    def _lose_others(self, control: ClusterControl, view: ClusterObserver, deaf: list[str]) -> str:
        (witness,) = set(view.names("bookie")) - set(deaf)
        self._undo.callback(control.start, witness)
        control.kill(witness)
        new = view.await_leader()  # before the witness is back, or it shows what it has
        return f" together with {witness}; {new} leads without them"


class DelayInFlight(Fault):
    """What the leader has sent arrives when another one leads, while the leader itself stands still.

    The network holds the packets back, and TCP sends them again when it has healed. They belong to a ledger
    that is closed by then: what bookies answer, and the leader finds when it wakes, may acknowledge nothing.
    """

    name = "delay-in-flight"
    summary = "what the leader has sent to the bookies arrives when another one leads, and then it wakes"
    needs = ClusterNeeds(network=True)
    hold_s = 8.0  # TCP tries again at growing intervals
    least_s = 8.0

    def cannot(self, control: ClusterControl, view: ClusterObserver) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(control, view.names("server"), "cut", "pause", "resume") or without_followers(
            view
        )

    def begin(self, control: ClusterControl, view: ClusterObserver) -> str:
        """See `Fault.begin`."""
        leader = view.await_leader()
        poised = self.poise(leader)
        self._undo.callback(poised.end)
        self._undo.callback(control.resume, leader)
        self._undo.callback(control.heal, leader)
        control.cut(leader, from_=view.names("bookie"), one_way="sent")
        poised.speak()
        control.pause(leader)
        new = view.await_leader(other_than=leader)
        control.heal(leader)
        return f"what {leader}, the leader, has sent arrives when {new} leads, and it is stopped"


FAULTS: tuple[type[Fault], ...] = (
    PartitionLeader,
    PartitionLeaderFromZooKeeper,
    PartitionLeaderFromBookies,
    PartitionLeaderFromMostBookies,
    PartitionPreferredLeader,
    PartitionLeaderFromBoth,
    PartitionLeaderFromClients,
    PartitionLeaderOneWay,
    LoseInFlight,
    LoseOnlyWitness,
    DelayInFlight,
)
