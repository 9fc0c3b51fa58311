"""A leader that servers reach and clients do not: clients and operators learn it, and any server moves it."""

from __future__ import annotations

import threading

import pytest
from typer.testing import CliRunner

import herdpy
from herdpy.cli.app import app
from herdpy.testing.process import await_until

pytestmark = pytest.mark.timeout(120)


def nodes(cluster, state):
    """The nodes whose replica is in a state."""
    with herdpy.connect(cluster.url, autocommit=True) as conn:
        found = conn.execute("SELECT node FROM herdpy.replicas WHERE state = %s ORDER BY node", (state,))
        return [node for (node,) in found.fetchall()]


def host(cluster, node):
    """Where clients find it."""
    hosts = cluster.url.partition("//")[2].partition("/")[0].split(",")
    return hosts[int(node.removeprefix("server-")) - 1]


def without(cluster, node):
    """The URL of a client that cannot reach this one."""
    hosts = cluster.url.partition("//")[2].partition("/")[0].split(",")
    return f"herdpy://{','.join(one for one in hosts if one != host(cluster, node))}/herdpy"


def problems(cluster):
    with herdpy.connect(cluster.url, autocommit=True) as conn:
        return [text for (text,) in conn.execute("SELECT problem FROM herdpy.replicas").fetchall() if text]


@pytest.fixture
def leader(cluster):
    assert await_until(lambda: len(nodes(cluster, "following")) == 2, 60.0)
    (leads,) = nodes(cluster, "leading")
    return leads


def test_the_error_names_the_leader(cluster, leader):
    with pytest.raises(herdpy.OperationalError) as caught:
        herdpy.connect(without(cluster, leader), connect_timeout=3)
    assert caught.value.sqlstate == "08001"
    assert (
        f"it follows {leader} {host(cluster, leader)}, which is not reached from here" in caught.value.detail
    )
    assert "ALTER TABLESPACE" in caught.value.hint


def test_operators_are_told_and_move_leadership_by_any_server(cluster, leader):
    entered = []

    def enter():
        with herdpy.connect(without(cluster, leader), autocommit=True, connect_timeout=60) as conn:
            entered.append(conn.execute("SELECT 1").fetchone())

    client = threading.Thread(target=enter)
    client.start()
    assert await_until(lambda: problems(cluster), 30.0)
    status = CliRunner().invoke(app, ["status", without(cluster, leader)])
    assert status.exit_code == 1
    assert f"do not reach {leader} at {host(cluster, leader)}" in status.stderr.replace("does not", "do not")

    follower = nodes(cluster, "following")[0]
    by_follower = f"herdpy://{host(cluster, follower)}/herdpy"
    with herdpy.connect(by_follower, autocommit=True, target="follower") as operator:
        operator.execute(f"ALTER TABLESPACE herdpy LEADER '{follower}'")
    client.join()
    assert entered == [(1,)]
    assert nodes(cluster, "leading") == [follower]
    assert await_until(lambda: not problems(cluster), 30.0)  # who leads now is reached
    with herdpy.connect(cluster.url, autocommit=True) as conn:
        conn.execute("ALTER TABLESPACE herdpy LEADER NONE")


def test_who_wants_a_follower_complains_of_nothing(cluster, leader):
    with herdpy.connect(without(cluster, leader), autocommit=True, target="follower") as conn:
        assert conn.execute("SHOW in_hot_standby").fetchone() == ("on",)
        assert conn.execute("SELECT herdpy.leader_unreached()").fetchone() == (
            f"{leader} {host(cluster, leader)}",
        )
    with herdpy.connect(cluster.url, autocommit=True) as conn:
        assert conn.execute("SELECT herdpy.leader_unreached()").fetchone() == ("",)
