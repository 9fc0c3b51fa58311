"""A leader that is cut off bites: from whom it is cut, and what comes of it; and heals."""

from __future__ import annotations

from random import Random

import psycopg
import pytest

from herdpy.drill.control import ClusterObserver
from herdpy.drill.control.local import LocalControl
from herdpy.drill.faults import FAULTS, Fault
from herdpy.drill.faults.partitions import (
    PartitionLeaderFromBookies,
    PartitionLeaderFromBoth,
    PartitionLeaderFromClients,
    PartitionLeaderFromMostBookies,
    PartitionLeaderFromZooKeeper,
    PartitionLeaderOneWay,
    PartitionPreferredLeader,
)
from tests.drill.faults.writing import happening, writing

pytestmark = pytest.mark.soak  # real processes for minutes: not with every commit


@pytest.fixture(autouse=True)
def _with_network(control: LocalControl):
    if (reason := control.can("cut", "server-1")) is not None:
        pytest.skip(reason)


@pytest.mark.parametrize(
    "kind", [PartitionLeaderFromZooKeeper, PartitionLeaderFromBoth, PartitionLeaderOneWay]
)
def test_another_leads_when_it_cannot_reach_zookeeper(
    control: LocalControl, view: ClusterObserver, kind: type[Fault]
):
    with writing(view, control.url) as writer:
        leader = view.await_following()
        with happening(kind(Random(1)), control, view):
            new = view.await_leader(other_than=leader)
            writer.go_on()
            # The old one is heard by clients, and tells nothing that may be old.
            with pytest.raises(psycopg.Error) as refused:
                view.run(leader, "SELECT count(*) FROM herdpy.tables", "CREATE TABLE never (id INT)")
            assert refused.value.sqlstate in ("HP003", "25006", "57P03", "08007")
        view.await_status(leader, lambda one: one["role"] == "follower", "follow when it is healed")
        assert view.replica_status(new)["epoch"] > view.replica_status(leader)["epoch"]


@pytest.mark.parametrize("kind", [PartitionLeaderFromBookies, PartitionLeaderFromMostBookies])
def test_another_leads_when_it_cannot_reach_the_log(
    control: LocalControl, view: ClusterObserver, kind: type[Fault]
):
    with writing(view, control.url) as writer:
        leader = view.await_following()
        with happening(kind(Random(1)), control, view):
            status = view.await_status(leader, lambda one: one["unfit"], "say that it is cut off")
            assert status["unfit"].startswith("it cannot reach the log since ")
            new = view.await_leader(other_than=leader)
            writer.go_on()
            assert view.leader() == new
        view.await_status(leader, lambda one: one["unfit"] is None, "reach the log again")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_preferred_leader_is_back_when_it_reaches_the_log(
    control: LocalControl, view: ClusterObserver, seed: int
):
    with writing(view, control.url) as writer:
        leader = view.await_following()
        with happening(PartitionPreferredLeader(Random(seed)), control, view):
            view.await_leader(other_than=leader)
            writer.go_on()
        assert view.await_leader() == leader
        preferred = "SELECT preferred_leader FROM herdpy.tablespaces WHERE name = 'herdpy'"
        assert view.run(leader, preferred) == [(None,)]


def test_from_clients(control: LocalControl, view: ClusterObserver):
    leader = view.await_following()
    with happening(PartitionLeaderFromClients(Random(1)), control, view):
        assert view.replica_status(leader) == {}
        followers = [view.replica_status(name) for name in view.names("server") if name != leader]
        assert all(one["leader"] == leader for one in followers)
    assert view.await_leader() == leader


def test_whoever_is_cut_follows_from_the_seed():
    kind = FAULTS["partition-leader"]
    assert kind(Random(1)).needs.network
    assert {cls.from_ for cls in kind.__subclasses__()} == {
        "zookeeper",
        "bookies",
        "most bookies",
        None,  # the preferred leader, cut from either
        "both",
        "clients",
        "one way",
    }
