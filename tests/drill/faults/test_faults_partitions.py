"""A leader that is cut off bites: from whom it is cut, and what comes of it; and heals."""

from __future__ import annotations

from random import Random

import psycopg
import pytest

from herdpy.drill.faults import FAULTS, Fault
from herdpy.drill.faults.partitions import (
    PartitionLeaderFromBookies,
    PartitionLeaderFromBoth,
    PartitionLeaderFromClients,
    PartitionLeaderFromZooKeeper,
    PartitionLeaderOneWay,
)
from herdpy.drill.hands import ClusterView
from herdpy.drill.hands.local import LocalHands
from herdpy.testing.waiting import await_until
from tests.drill.faults.writing import PATIENCE_S, happening, writing

pytestmark = pytest.mark.soak  # real processes for minutes: not with every commit


@pytest.fixture(autouse=True)
def _with_network(hands: LocalHands):
    if (reason := hands.can("cut", "server-1")) is not None:
        pytest.skip(reason)


@pytest.mark.parametrize(
    "kind", [PartitionLeaderFromZooKeeper, PartitionLeaderFromBoth, PartitionLeaderOneWay]
)
def test_another_leads_when_it_cannot_reach_zookeeper(
    hands: LocalHands, view: ClusterView, kind: type[Fault]
):
    with writing(view, hands.url) as writer:
        leader = view.await_following()
        with happening(kind(Random(1)), hands, view):
            new = view.await_leader(other_than=leader)
            writer.go_on()
            # The old one is heard by clients, and tells nothing that may be old.
            with pytest.raises(psycopg.Error) as refused:
                view.run(leader, "SELECT count(*) FROM herdpy.tables", "CREATE TABLE never (id INT)")
            assert refused.value.sqlstate in ("HP003", "25006", "57P03", "08007")
        view.await_standing(leader, lambda one: one["role"] == "follower", "follow when it is healed")
        assert view.standing(new)["epoch"] > view.standing(leader)["epoch"]


def test_from_bookies(hands: LocalHands, view: ClusterView):
    with writing(view, hands.url) as writer:
        leader = view.await_following()
        log = hands.cluster.log_path(leader)
        silent = log.read_text().count("no answer in time")
        with happening(PartitionLeaderFromBookies(Random(1)), hands, view):
            before = len(writer.done)
            assert await_until(lambda: log.read_text().count("no answer in time") > silent, PATIENCE_S)
            # One may have been on its way when the cut was made; another leader may have come since.
            assert len(writer.done) <= before + 1 or view.leader() != leader
        writer.go_on()


def test_from_clients(hands: LocalHands, view: ClusterView):
    leader = view.await_following()
    with happening(PartitionLeaderFromClients(Random(1)), hands, view):
        assert view.standing(leader) == {}
        followers = [view.standing(name) for name in view.names("server") if name != leader]
        assert all(one["leader"] == leader for one in followers)
    assert view.await_leader() == leader


def test_whoever_is_cut_follows_from_the_seed():
    kind = FAULTS["partition-leader"]
    assert kind(Random(1)).needs.network
    assert {cls.from_ for cls in kind.__subclasses__()} == {
        "zookeeper",
        "bookies",
        "both",
        "clients",
        "one way",
    }
