"""Clusters that are named by their ZooKeeper: found, and found again when leaders and servers change."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time

import pytest

import herdpy
from herdpy.dbapi.remote import hosts as remote_hosts
from herdpy.dbapi.remote.hosts import Members

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def url(cluster):
    return f"herdpy+zk://{cluster.zookeeper}/herdpy?tablespace=herdpy"


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def test_the_leader_is_found_and_followed(cluster, url):
    """That it is found when the leader is killed, too: see ``test_remote_cluster_failover``."""
    with herdpy.connect(url, autocommit=True) as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS found (n INTEGER PRIMARY KEY)")
        conn.execute("DELETE FROM found")
        old = cluster.await_leader()
        successor = next(name for name in ("server-1", "server-2", "server-3") if name != old)
        conn.execute(f"ALTER TABLESPACE herdpy LEADER '{successor}'")
        assert cluster.await_leader(other_than=old) == successor
        conn.execute("INSERT INTO found VALUES (2)")
        assert conn.execute("SHOW in_hot_standby").fetchone() == ("off",)
        with herdpy.connect(url, autocommit=True) as another:
            assert another.execute("SELECT n FROM found").fetchone() == (2,)
        conn.execute("ALTER TABLESPACE herdpy LEADER DEFAULT")


def test_one_that_follows_is_found(cluster, url):
    cluster.await_leader()
    with herdpy.connect(url, target="follower") as conn:
        assert conn.execute("SHOW in_hot_standby").fetchone() == ("on",)


def test_what_is_not_there_is_told(cluster, url):
    for place, told in (
        (url.replace("=herdpy", "=nothing"), "there is no tablespace nothing under /herdpy in ZooKeeper at "),
        (url.replace("/herdpy?", "/other?"), "there is no tablespace herdpy under /other in ZooKeeper at "),
    ):
        with pytest.raises(herdpy.OperationalError, match=told) as caught:
            herdpy.connect(place)
        assert caught.value.sqlstate == "08001"


@pytest.mark.parametrize("position", range(3))
def test_hosts_that_are_silent_hold_nobody_up(url, monkeypatch, position):
    monkeypatch.setattr(
        "herdpy.dbapi.remote.hosts.SESSION_S", 60.0
    )  # one after the other, it would be too long
    monkeypatch.setattr("herdpy.dbapi.remote.hosts.random.shuffle", lambda hosts: None)
    monkeypatch.setattr(remote_hosts, "_clusters", {})
    monkeypatch.setattr(remote_hosts, "ASK_S", 15.0)
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        hosts = [f"127.0.0.1:{silent.getsockname()[1]}" for silent in (one, two)]
        hosts.insert(position, url.removeprefix("herdpy+zk://").partition("/")[0])
        with herdpy.connect(f"herdpy+zk://{','.join(hosts)}/herdpy?tablespace=herdpy") as conn:
            assert conn.execute("SHOW in_hot_standby").fetchone() == ("off",)


def test_nothing_is_left_of_a_look_into_zookeeper(cluster, url):
    code = (
        "import herdpy, os, sys, threading\n"
        "before = len(os.listdir('/proc/self/fd'))\n"
        "conn = herdpy.connect(sys.argv[1])\n"
        "conn.close()\n"
        "files = len(os.listdir('/proc/self/fd')) - before\n"
        "print([thread.name for thread in threading.enumerate()], files)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, url],
        capture_output=True, text=True, timeout=60, check=True, env={**os.environ, "LANG": "C"},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("['MainThread'] 0\n", "")


# The rest needs no cluster: what ZooKeeper says is played.


@pytest.fixture
def said(monkeypatch):
    """What ZooKeeper says to each question, the last one to all that follow; how often it was asked."""
    answers, asked = [], []

    def members(place, tablespace, deadline):
        asked.append((str(place), tablespace))
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return Members(None, tuple(("127.0.0.1", port) for port in answer))

    monkeypatch.setattr(remote_hosts, "members", members)
    monkeypatch.setattr(remote_hosts, "_clusters", {})
    return answers, asked


def test_connections_share_what_zookeeper_said(server, said):
    answers, asked = said
    answers.append([server.port])
    for _ in range(3):
        herdpy.connect("herdpy+zk://ann@zk/c?tablespace=test").close()
    assert asked == [("zk:2181/c", "test")]


def test_zookeeper_is_asked_again_when_no_server_that_is_known_answers(server, said, free_port):
    answers, asked = said
    answers += [[free_port], [server.port]]
    with herdpy.connect("herdpy+zk://ann@zk/c?tablespace=test") as conn:
        assert conn.execute("SELECT 1").fetchone() == (1,)
    assert len(asked) == 2


def test_servers_that_replaced_all_others_are_found_by_an_open_connection(server, proxy, said):
    answers, _asked = said
    answers += [[proxy.port], [server.port]]
    with herdpy.connect("herdpy+zk://ann@zk/c?tablespace=test&sslmode=disable", autocommit=True) as conn:
        assert conn.shared_link.link._connection.wire.pgconn.port == str(proxy.port).encode()
        assert conn.execute("SELECT 1").fetchone() == (1,)
        proxy.close()
        assert conn.execute("SELECT 2").fetchone() == (2,)
        assert conn.shared_link.link._connection.wire.pgconn.port == str(server.port).encode()


def test_a_zookeeper_that_is_away_for_a_while_is_asked_again(server, proxy, said, monkeypatch):
    answers, _asked = said
    answers += [[proxy.port], remote_hosts.ZooKeeperError("away"), [server.port]]
    with herdpy.connect("herdpy+zk://ann@zk/c?tablespace=test&sslmode=disable", autocommit=True) as conn:
        assert conn.shared_link.link._connection.wire.pgconn.port == str(proxy.port).encode()
        monkeypatch.setattr("herdpy.dbapi.remote.leader._FIRST_LOOK_S", 0.1)
        proxy.close()
        assert conn.execute("SELECT 2").fetchone() == (2,)


@pytest.mark.parametrize(
    ("answer", "told"),
    [([], "no server is there"), (remote_hosts.ZooKeeperError("away"), "away")],
)
def test_no_server_is_told_at_once(said, answer, told):
    said[0].append(answer)
    began = time.monotonic()
    with pytest.raises(herdpy.OperationalError, match=told) as caught:
        herdpy.connect("herdpy+zk://zk/c?connect_timeout=60")
    assert caught.value.sqlstate == "08001"
    assert time.monotonic() - began < 30


def test_a_zookeeper_that_says_nothing_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(herdpy.OperationalError, match="does not answer") as caught:
            herdpy.connect(f"herdpy+zk://127.0.0.1:{port}/c?connect_timeout=0.3")
    assert caught.value.sqlstate == "08001"


# Names of hosts.


def test_names_are_looked_up(server):
    with herdpy.connect(f"herdpy://ann@localhost:{server.port}/test") as conn:
        assert conn.execute("SELECT 1").fetchone() == (1,)


def test_a_name_that_leads_nowhere_is_told():
    with pytest.raises(
        herdpy.OperationalError, match=r"the name nowhere\.invalid cannot be looked up"
    ) as caught:
        herdpy.connect("herdpy://nowhere.invalid/test")
    assert caught.value.sqlstate == "08001"


def test_a_resolver_that_says_nothing_holds_nobody_up(server, monkeypatch):
    over = threading.Event()
    real = socket.getaddrinfo

    def silent(host, *rest, **more):
        if host == "slow.example":
            assert over.wait(60)
            raise socket.gaierror("too late")
        return real(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    try:
        with pytest.raises(herdpy.OperationalError, match="does not answer"):
            herdpy.connect("herdpy://slow.example/test?connect_timeout=0.2")
        with herdpy.connect(f"herdpy://ann@slow.example,127.0.0.1:{server.port}/test") as conn:
            assert conn.execute("SELECT 1").fetchone() == (1,)
    finally:
        over.set()
