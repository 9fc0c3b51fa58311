"""The driver and three servers of which one leads: killed, frozen, and restarted one by one under load.

Half the clients are given the servers, the others their ZooKeeper.
"""

from __future__ import annotations

import pytest

import herdpy
from tests.remote.writers import Writers

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def writers(cluster, request):
    by_zookeeper = f"herdpy+zk://{cluster.zookeeper}/herdpy?tablespace=herdpy"
    writers = Writers(cluster.url, request.node.name, by_zookeeper)
    yield writers
    writers.stop()


def test_nothing_is_lost_or_done_twice_when_the_leader_is_killed(cluster, writers):
    writers.await_progress()
    old = cluster.await_leader()
    cluster.kill(old)
    writers.await_progress()
    cluster.start(old)
    writers.stop()
    writers.judge()
    assert not writers.failed


def test_nor_when_it_is_frozen(cluster, writers):
    writers.await_progress()
    old = cluster.await_leader()
    cluster.pause(old)
    try:
        writers.await_progress()
    finally:
        cluster.resume(old)
    writers.await_progress()
    writers.stop()
    writers.judge()
    assert not writers.failed


@pytest.mark.soak
def test_restarting_all_servers_one_after_the_other_fails_nothing(cluster, writers):
    writers.await_progress()
    followers = [f"server-{n}" for n in (1, 2, 3)]
    leader = cluster.await_leader()
    followers.remove(leader)
    for name in [*followers, leader]:
        cluster.stop(name)
        cluster.start(name)
        writers.await_progress()
    assert cluster.await_leader() != leader
    writers.stop()
    writers.judge()
    assert not writers.failed


def test_handing_over_fails_nothing(cluster, writers):
    writers.await_progress()
    old = cluster.await_leader()
    successor = next(name for name in ("server-1", "server-2", "server-3") if name != old)
    with herdpy.connect(cluster.url, autocommit=True) as conn:
        conn.execute(f"ALTER TABLESPACE herdpy LEADER '{successor}'")
    assert cluster.await_leader(other_than=old) == successor
    writers.await_progress()
    writers.stop()
    writers.judge()
    assert not writers.failed
    with herdpy.connect(cluster.url, autocommit=True) as conn:
        conn.execute("ALTER TABLESPACE herdpy LEADER DEFAULT")


def test_a_transaction_that_was_open_says_that_it_is_lost(cluster):
    with herdpy.connect(cluster.url) as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS opened (n INTEGER)")
        conn.commit()
        conn.execute("INSERT INTO opened VALUES (1)")
        old = cluster.await_leader()
        cluster.kill(old)
        with pytest.raises(herdpy.OperationalError) as caught:
            conn.execute("INSERT INTO opened VALUES (2)")
        assert (caught.value.sqlstate, caught.value.outcome) == ("40001", "not done")
        assert caught.value.retryable
        conn.rollback()
        assert conn.execute("SELECT count(*) FROM opened").fetchone() == (0,)
    cluster.start(old)
