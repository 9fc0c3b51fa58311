"""Reads on servers that follow: never of the leader's, as new as was asked for, and on when one fails."""

from __future__ import annotations

import pytest

import herdpy
from herdpy.dbapi.remote.connection import FailoverConnection
from herdpy.testing.process import await_until

pytestmark = pytest.mark.timeout(120)


def server_of(cluster, conn):
    """The name of the server that a connection is on."""
    hosts = cluster.url.partition("//")[2].partition("/")[0].split(",")
    port = conn.shared_link.link._connection.wire.pgconn.port.decode()
    return f"server-{[host.rpartition(':')[2] for host in hosts].index(port) + 1}"


def knows(host):
    """Whether the server at a host has heard of the table; who plans does not wait for definitions."""
    with herdpy.connect(f"herdpy://{host}/herdpy", autocommit=True, read_level="any") as conn:
        found = conn.execute("SELECT count(*) FROM pg_tables WHERE tablename = 'seen'").fetchone()
    return found == (1,)


@pytest.fixture(scope="module")
def seen(cluster):
    with herdpy.connect(cluster.url, autocommit=True) as conn:
        conn.execute("CREATE TABLE seen (n INTEGER)")
    for host in cluster.url.partition("//")[2].partition("/")[0].split(","):
        assert await_until(lambda host=host: knows(host), 30.0)


@pytest.fixture
def writer(cluster, seen):
    with herdpy.connect(cluster.url, autocommit=True) as conn:
        conn.execute("DELETE FROM seen")
        yield conn


def test_a_follower_is_found_and_takes_no_writes(cluster, writer):
    with herdpy.connect(cluster.url, autocommit=True, target="follower", max_staleness=0) as reader:
        assert reader.execute("SHOW in_hot_standby").fetchone() == ("on",)
        assert reader.execute("SHOW herdpy.read_level").fetchone() == ("bounded",)
        assert reader.execute("SELECT count(*) FROM seen").fetchone() == (0,)
        with pytest.raises(herdpy.InternalError) as caught:
            reader.execute("INSERT INTO seen VALUES (1)")
        assert caught.value.sqlstate == "25006"
        assert reader.execute("SHOW in_hot_standby").fetchone() == ("on",)


def test_reading_ones_own_writes_elsewhere(cluster, writer):
    with herdpy.connect(cluster.url, autocommit=True, target="follower", read_level="at_lsn") as reader:
        for n in range(1, 30):
            writer.execute("INSERT INTO seen VALUES (%s)", (n,))
            (position,) = writer.execute("SELECT herdpy.commit_position()").fetchone()
            reader.execute(f"SET herdpy.min_lsn = '{position}'")
            assert reader.execute("SELECT count(*) FROM seen").fetchone() == (n,)


def test_ones_own_writes_are_read_without_a_word(cluster, writer):
    """Whoever writes in this process, and however its connection found the cluster."""
    by_zookeeper = f"herdpy+zk://{cluster.zookeeper}/herdpy?tablespace=herdpy"
    with (
        herdpy.connect(by_zookeeper) as another,
        herdpy.connect(cluster.url, autocommit=True, target="follower", read_level="at_lsn") as reader,
        herdpy.connect(by_zookeeper, target="follower") as late,
    ):
        for n in range(1, 20, 2):
            writer.execute("INSERT INTO seen VALUES (%s)", (n,))
            assert reader.execute("SELECT count(*) FROM seen").fetchone() == (n,)
            another.execute("INSERT INTO seen VALUES (%s)", (n,))
            another.commit()
            assert reader.execute("SELECT count(*) FROM seen; SELECT 1").fetchone() == (n + 1,)
            assert reader.execute("SHOW herdpy.min_lsn").fetchone() == (another.info.commit_position,)
        late.execute("SET herdpy.read_level = 'at_lsn'")
        late.commit()
        assert late.execute("SELECT count(*) FROM seen").fetchone() == (20,)


def says_no_position(monkeypatch):
    """The bug of a driver that leaves it to chance whether a follower has what was written."""
    monkeypatch.setattr(FailoverConnection, "catch_up", lambda self, wire: None)


def test_a_driver_that_says_no_position_is_noticed(cluster, writer, monkeypatch):
    says_no_position(monkeypatch)
    missed = 0
    with herdpy.connect(cluster.url, autocommit=True, target="follower", read_level="at_lsn") as reader:
        for n in range(1, 500):
            writer.execute("INSERT INTO seen VALUES (%s)", (n,))
            missed += reader.execute("SELECT count(*) FROM seen").fetchone() != (n,)
            if missed:
                break
    assert missed


def test_a_position_that_was_said_counts_when_it_is_later(cluster, writer):
    with herdpy.connect(cluster.url, autocommit=True, target="follower", read_level="at_lsn") as reader:
        writer.execute("INSERT INTO seen VALUES (1)")
        reader.execute("SET herdpy.min_lsn = '0:1'")
        assert reader.execute("SELECT count(*) FROM seen").fetchone() == (1,)
        assert reader.execute("SHOW herdpy.min_lsn").fetchone() == (writer.info.commit_position,)
        later = f"{int(writer.info.commit_position.partition(':')[0]) + 1}:0"
        reader.execute(f"SET herdpy.min_lsn = '{later}'")
        writer.execute("INSERT INTO seen VALUES (2)")
        reader.execute("SET herdpy.read_level = 'any'")
        assert reader.execute("SHOW herdpy.min_lsn").fetchone() == (later,)


def test_definitions_are_as_new_as_what_is_read(cluster, writer):
    with herdpy.connect(cluster.url, autocommit=True, target="follower", read_level="at_lsn") as reader:
        for n in range(10):
            writer.execute(f"CREATE TABLE defined{n} (a INTEGER)")
            (position,) = writer.execute("SELECT herdpy.commit_position()").fetchone()
            reader.execute(f"SET herdpy.min_lsn = '{position}'")
            assert reader.execute(f"SELECT count(*) FROM defined{n}").fetchone() == (0,)
            writer.execute(f"DROP TABLE defined{n}")


def test_when_the_follower_fails_another_one_answers(cluster, writer):
    writer.execute("INSERT INTO seen VALUES (1)")
    with herdpy.connect(cluster.url, autocommit=True, target="follower", max_staleness=0) as reader:
        name = server_of(cluster, reader)
        cluster.kill(name)
        try:
            assert reader.execute("SELECT count(*) FROM seen").fetchone() == (1,)
            assert server_of(cluster, reader) != name
        finally:
            cluster.start(name)


def test_a_follower_serves_the_leaders_level(cluster, writer):
    with herdpy.connect(cluster.url, autocommit=True, target="follower", read_level="linearizable") as reader:
        for _ in range(5):
            writer.execute("INSERT INTO seen VALUES (1)")
            assert (
                reader.execute("SELECT count(*) FROM seen").fetchone()
                == writer.execute("SELECT count(*) FROM seen").fetchone()
            )
        assert reader.execute("SHOW in_hot_standby").fetchone() == ("on",)


def test_without_a_target_a_write_leads_to_the_leader(cluster, writer):
    with herdpy.connect(cluster.url, autocommit=True, read_level="any") as conn:
        conn.execute("INSERT INTO seen VALUES (7)")
        assert conn.execute("SHOW in_hot_standby").fetchone() == ("off",)
        assert conn.execute("SELECT n FROM seen").fetchone() == (7,)
