"""AS OF SYSTEM TIME in a cluster: each replica keeps its own past, and the log that it needs for it."""

from __future__ import annotations

from tests.tablespaces.world import World


def test_each_replica_reads_the_past(world: World, made) -> None:
    name = made("WITH (expected_replicas = 2)")
    applied = f"SELECT applied FROM herdpy.log_status WHERE tablespace = '{name}'".encode()
    leader = world.leader(name)
    (follower,) = world.replicas(name).keys() - {leader}
    with world.leader_session(name) as conn:
        conn.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
        conn.execute("INSERT INTO t SELECT g, 'old' FROM generate_series(1, 100) g")
        (before,) = conn.execute(applied).fetchone() or ()
        conn.execute("UPDATE t SET v = 'new'")
        conn.execute("DELETE FROM t WHERE id > 10")
        (dropped,) = conn.execute(applied).fetchone() or ()
        conn.execute("DROP TABLE t")
        (after,) = conn.execute(applied).fetchone() or ()
    for node in (leader, follower):
        with world.connect(node, database=name) as conn:
            conn.execute(f"SET herdpy.read_level = 'at_lsn'; SET herdpy.min_lsn = '{after}'".encode())
            for position, expected in ((before, (100, "old")), (dropped, (10, "new"))):
                query = f"SELECT count(*), max(v) FROM t AS OF SYSTEM TIME '{position}'"
                assert conn.execute(query.encode()).fetchone() == expected
                point = f"SELECT v FROM t AS OF SYSTEM TIME '{position}' WHERE id = %s"
                assert conn.execute(point.encode(), (7,)).fetchone() == (expected[1],)
            kept = f"SELECT node, flashback_s, marks FROM herdpy.flashback WHERE tablespace = '{name}'"
            ((where, flashback_s, marks),) = conn.execute(kept.encode()).fetchall()
            assert (where, flashback_s, marks >= 1) == (node, 600.0, True)
