"""AS OF SYSTEM TIME in a cluster: each replica keeps its own past, and the log that it needs for it."""

from __future__ import annotations

import pyarrow as pa

from herdpy.log.lsn import LSN
from tests.spark.loads_client import Loader, schema_of
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


def test_the_past_has_loads_whose_rows_are_in_ledgers_of_their_own(world: World) -> None:
    leader = world.leader("herdpy")
    world.run("CREATE TABLE loaded (id INT PRIMARY KEY, v TEXT)", leader)
    status = "SELECT applied, durable FROM herdpy.log_status WHERE tablespace = 'herdpy'"
    try:
        with Loader(world.cluster, leader) as loader:
            plan = loader.begin("flashback", "loaded", "append", ["id", "v"]).plan
            columns = [pa.array(range(3000), pa.int32()), pa.array(["x"] * 3000)]
            batch = pa.RecordBatch.from_arrays(columns, schema=schema_of(plan))
            parts = loader.stage("flashback", plan, [[batch.slice(0, 1000)], [batch.slice(1000)]])
            before = world.rows(status, leader)[0]["applied"]
            loader.publish("flashback", "loaded", "append", parts)
        after = world.rows(status, leader)[0]["applied"]
        world.run("DELETE FROM loaded WHERE id >= 10", leader)
        deleted = LSN.parse(world.rows(status, leader)[0]["applied"])
        # No state of LMDB is at that position any more: it is made of an older one and the log.
        world.await_rows(status, lambda rows: LSN.parse(rows[0]["durable"]) >= deleted, leader)
        for position, expected in ((before, 0), (after, 3000), (deleted, 10)):
            query = f"SELECT count(*) AS n FROM loaded AS OF SYSTEM TIME '{position}'"
            assert world.rows(query, leader) == [{"n": expected}]
    finally:
        world.run("DROP TABLE loaded", leader)
