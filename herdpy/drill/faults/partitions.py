"""The leader is cut off from others, who are all well."""

from __future__ import annotations

from typing import ClassVar, Literal

from herdpy.drill.faults.fault import Fault, first_reason
from herdpy.drill.hands import CLIENTS, ClusterView, Hands, Needs, OneWay

From = Literal["zookeeper", "bookies", "both", "clients", "one way"]
_KINDS: tuple[From, ...] = ("zookeeper", "bookies", "both", "clients", "one way")
_WAYS: tuple[OneWay, ...] = ("sent", "received")


class PartitionLeader(Fault):
    """Packets between the leader and some others are lost; from whom, a drill's seed says."""

    name = "partition-leader"
    summary = "packets between the leader and others are lost: ZooKeeper, bookies, both, clients, or one way"
    needs = Needs(network=True)
    hold_s = 5.0
    from_: ClassVar[From | None] = None

    def cannot(self, hands: Hands, view: ClusterView) -> str | None:
        """See `Fault.cannot`."""
        return first_reason(hands, view.names("server"), "cut")

    def begin(self, hands: Hands, view: ClusterView) -> str:
        """See `Fault.begin`."""
        leader = view.await_leader()
        chosen = self.from_ if self.from_ is not None else self.chance.choice(_KINDS)
        way = self.chance.choice(_WAYS) if chosen == "one way" else None
        zookeeper, bookies = view.names("zookeeper"), view.names("bookie")
        others = {
            "zookeeper": zookeeper,
            "bookies": bookies,
            "both": [*zookeeper, *bookies],
            "clients": [CLIENTS],
            "one way": [*zookeeper, *bookies],
        }[chosen]
        self._undo.callback(hands.heal, leader)
        hands.cut(leader, from_=others, one_way=way)
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
