"""Faults of whole processes and sessions bite, and heal, and nothing that was acknowledged is lost."""

from __future__ import annotations

from random import Random

import pytest

from herdpy.drill.control import ClusterObserver
from herdpy.drill.control.control import ViewError
from herdpy.drill.control.local import LocalControl
from herdpy.drill.faults.processes import (
    ExpireSession,
    KillBookie,
    KillFollower,
    KillLeader,
    KillZooKeeper,
    PauseBookie,
    PauseLeader,
    RollingRestart,
    owner,
)
from herdpy.testing.process import await_until
from tests.drill.faults.writing import PATIENCE_S, happening, writing

DRILLED = pytest.mark.soak
"""Its drill in tests/drill/test_drills.py is made with every commit, and judges more."""


def state_of(control: LocalControl, name: str) -> str:
    """running, paused or stopped."""
    return next(one.state for one in control.cluster.status().processes if one.id == name)


@DRILLED
def test_kill_leader(control: LocalControl, view: ClusterObserver):
    with writing(view, control.url) as writer:
        leader = view.await_leader()
        with happening(KillLeader(Random(1)), control, view) as text:
            assert text == f"{leader}, the leader, is killed"
            assert not control.is_running(leader)
            assert view.await_leader(other_than=leader) != leader
            writer.go_on()
        assert control.is_running(leader)
        assert view.replica_status(leader)["role"] in ("follower", "leader", "opening")


@DRILLED
def test_pause_leader(control: LocalControl, view: ClusterObserver):
    with writing(view, control.url) as writer:
        leader = view.await_leader()
        with happening(PauseLeader(Random(1)), control, view):
            assert state_of(control, leader) == "paused"
            new = view.await_leader(other_than=leader)
            writer.go_on()
        assert state_of(control, leader) == "running"
        view.await_status(leader, lambda one: one["role"] == "follower", "follow when it is awake")
        assert view.replica_status(new)["epoch"] > view.replica_status(leader)["epoch"]


@pytest.mark.soak
def test_kill_follower(control: LocalControl, view: ClusterObserver):
    with writing(view, control.url) as writer:
        leader = view.await_following()
        with happening(KillFollower(Random(1)), control, view) as text:
            killed = text.partition(",")[0]
            assert killed != leader
            assert not control.is_running(killed)
            writer.go_on()
            assert view.leader() == leader
        assert control.is_running(killed)


def test_which_follower_follows_from_the_seed(control: LocalControl, view: ClusterObserver):
    leader = view.await_following()
    chosen = {Random(seed).choice(view.followers(leader)) for seed in range(20)}
    assert chosen == set(view.names("server")) - {leader}


@pytest.mark.parametrize(
    ("kind", "state"), [pytest.param(KillBookie, "stopped", marks=DRILLED), (PauseBookie, "paused")]
)
def test_without_a_bookie(control: LocalControl, view: ClusterObserver, kind: type[KillBookie], state: str):
    with writing(view, control.url) as writer:
        with happening(kind(Random(2)), control, view) as text:
            bookie = text.split()[0]
            assert state_of(control, bookie) == state
            writer.go_on()
        assert state_of(control, bookie) == "running"


def test_kill_zookeeper(control: LocalControl, view: ClusterObserver):
    with writing(view, control.url):
        leader = view.await_following()
        with view.connect(leader) as connection:
            assert connection.execute("SELECT 1 + count(*) FROM herdpy.tables").fetchone()
            with happening(KillZooKeeper(Random(1)), control, view):
                assert state_of(control, "zookeeper") == "stopped"
                connection.execute("CREATE TABLE meanwhile (id INT PRIMARY KEY)")  # nobody renews the lease
                assert connection.execute("SELECT count(*) FROM meanwhile").fetchone() == (0,)
                connection.execute("DROP TABLE meanwhile")
        assert state_of(control, "zookeeper") == "running"


def test_expire_session(control: LocalControl, view: ClusterObserver):
    assert view.zookeeper is not None
    path = f"/herdpy/tablespaces/{view.tablespace}/leader"
    with writing(view, control.url) as writer:
        before = owner(view.zookeeper, path)
        with happening(ExpireSession(Random(1)), control, view) as text:
            assert f"0x{before:x}" in text

            def has_another() -> bool:
                try:
                    return owner(view.zookeeper, path) != before
                except ViewError:  # nobody's at the moment
                    return False

            assert await_until(has_another, PATIENCE_S)
            writer.go_on()


@pytest.mark.soak  # its drill in tests/drill/test_drills.py does the same in short
def test_rolling_restart(control: LocalControl, view: ClusterObserver):
    before = {one.id: one.pid for one in control.cluster.status().servers}
    with writing(view, control.url) as writer, happening(RollingRestart(Random(1)), control, view):
        after = {one.id: one.pid for one in control.cluster.status().servers}
        assert all(after[name] not in (None, pid) for name, pid in before.items())
        writer.go_on()
