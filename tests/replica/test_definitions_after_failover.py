"""A leader is killed while sessions have temporary and permanent definitions open: what the next one has."""

from __future__ import annotations

from herdpy.dev import LocalCluster
from herdpy.testing.process import await_until
from tests.replica.replicas import (
    PATIENCE_S,
    assert_equal,
    await_follower,
    await_leader,
    connect,
    followers,
    run,
)

TEMPORARY = "SELECT count(*) FROM pg_class WHERE relpersistence = 't'"


def test_the_next_leader_has_what_was_committed_and_nothing_temporary(cluster: LocalCluster) -> None:
    leader = await_leader(cluster)
    one, two, three = (connect(cluster, leader) for _ in range(3))
    one.execute("CREATE TEMP TABLE own (id serial, v int)")
    for session in (one, two, three):
        session.execute("BEGIN")
    two.execute("CREATE TEMP TABLE own (id int)")
    three.execute("CREATE TABLE made_meanwhile (id serial PRIMARY KEY, v int)")
    one.execute("ALTER TABLE own ADD COLUMN w int")
    two.execute("CREATE INDEX ON own (id)")
    three.execute("INSERT INTO made_meanwhile (v) VALUES (1), (2)")
    two.execute("COMMIT")
    three.execute("COMMIT")
    two.execute("BEGIN")
    two.execute("CREATE TABLE never_made (id int)")
    assert_equal(cluster, "made_meanwhile", followers(cluster, leader))
    assert run(cluster, leader, TEMPORARY) != [(0,)]
    cluster.kill(leader)
    for session in (one, two, three):
        session.close()
    second = await_leader(cluster, other_than=leader)
    cluster.start(leader)
    await_follower(cluster, leader)
    assert await_until(lambda: run(cluster, second, TEMPORARY) == [(0,)], PATIENCE_S)
    assert run(cluster, second, "SELECT count(*) FROM pg_class WHERE relname = 'never_made'") == [(0,)]
    run(cluster, second, "INSERT INTO made_meanwhile (v) VALUES (3)")
    assert assert_equal(cluster, "made_meanwhile", followers(cluster, second)) == 3
    run(cluster, second, "DROP TABLE made_meanwhile")
