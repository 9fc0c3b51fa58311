"""Loads whose rows stand in ledgers of their own, and a replica that comes too late to read them."""

from __future__ import annotations

import asyncio

import pyarrow as pa

from herdpy.bookkeeper import BookKeeper
from herdpy.dev import LocalCluster
from tests.replica.replicas import (
    assert_equal,
    await_follower,
    await_leader,
    followers,
    run,
)
from tests.spark.loads_client import Loader, schema_of
from tests.spark.staged import staged_ledgers

ROWS = 3000


def _load(cluster: LocalCluster, leader: str, load_id: str) -> None:
    """Load rows into `loaded`, in two parts."""
    with Loader(cluster, leader) as loader:
        plan = loader.begin(load_id, "loaded", "append", ["id", "v"]).plan
        columns = [pa.array(range(ROWS), pa.int32()), pa.array(["x"] * ROWS)]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema_of(plan))
        parts = loader.stage(load_id, plan, [[batch.slice(0, 1000)], [batch.slice(1000)]])
        loader.publish(load_id, "loaded", "append", parts)


async def _delete(uri: str, ledger_id: int) -> None:
    async with BookKeeper(uri) as bk:
        await bk.delete_ledger(ledger_id)


def test_a_follower_that_finds_a_loads_ledger_gone_is_seeded(cluster: LocalCluster) -> None:
    leader = await_leader(cluster)
    late = followers(cluster, leader)[0]
    run(cluster, leader, "CREATE TABLE loaded (id INT PRIMARY KEY, v TEXT)")
    assert_equal(cluster, "loaded", [late])
    run(cluster, leader, "ALTER TABLESPACE herdpy SET (retention = '1h')")  # the log itself is to be kept
    try:
        cluster.stop(late)
        _load(cluster, leader, "gone")
        part = staged_ledgers(cluster.bookkeeper_uri, "gone")[1]
        asyncio.run(_delete(cluster.bookkeeper_uri, part))
        cluster.start(late, wait=False)
        found = await_follower(cluster, late, seedings=1)
        assert found["problem"] is not None
        assert f"staged ledger {part} " in found["problem"]
        assert assert_equal(cluster, "loaded", [late]) == ROWS
    finally:
        cluster.start(late)
        run(cluster, await_leader(cluster), "ALTER TABLESPACE herdpy SET (retention = '0s')")
