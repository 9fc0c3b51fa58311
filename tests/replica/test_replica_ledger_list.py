"""A ledger list that grows because somebody is behind: it is reported, and then the slowest are let go."""

from __future__ import annotations

import asyncio
from pathlib import Path

from herdpy_server.cluster.positions import read_needs, trimmed_before
from herdpy_server.replica import leader_tasks
from herdpy_server.tablespace_host import DatabaseSettings
from tests.replica.simulation.run import arranged, make_tables
from tests.replica.simulation.steps import followers_have, leader_of, leads, write
from tests.replica.simulation.world import NAME, Node, World


def test_a_full_list_lets_the_slowest_go_and_writing_goes_on(tmp_path: Path) -> None:
    world = World(1, tmp_path)
    world.settings = DatabaseSettings()

    async def program() -> None:
        try:
            for name in world.names:
                await world.start(name)
            await make_tables(world)
            async with asyncio.timeout(300):
                await _fill(world)
        finally:
            for node in world.nodes.values():
                node.resume()
                await asyncio.wait([node.begin(node.close(), "close")], timeout=30)

    with arranged(world.seed):
        world.cluster.run(program)


async def _fill(world: World) -> None:
    leader = leader_of(world)
    replica = leader.replica
    assert replica is not None
    assert replica.log is not None
    assert replica.opened is not None
    slow = next(one for one in world.nodes.values() if one is not leader)
    await write(world, leader)
    await followers_have(world, leader)
    slow.pause()
    replica.ledger_list.limit_bytes = 6000
    said: set[str] = set()
    shares = []
    for _ in range(80):
        assert (await write(world, leader)).outcome == "done"
        await leader.begin(replica.log.aroll(), "roll")
        shares.append(replica.log.list_share)  # before the leader's tasks, which may come within the second
        replica.opened.checkpointer.checkpoint(trim=False)
        await asyncio.sleep(1.0)
        said.update(await _problems(leader))
        shares.append(replica.log.list_share)
    assert leads(leader)
    assert any("its ledger list is" in one and "full" in one for one in said), said
    assert leader_tasks._LIST_CROWDED < max(shares) < 1.0
    assert shares[-1] < max(shares)
    paths = leader.coordination.layout.tablespace(NAME)
    gone = await leader.begin(trimmed_before(leader.znodes, paths), "trim")
    assert gone >= replica.log.state.base
    slow.resume()
    while slow.replica is None or "begins after" not in (slow.replica.problem or ""):
        await asyncio.sleep(0.5)  # it is notified that it has to be seeded


async def _problems(node: Node) -> list[str]:
    paths = node.coordination.layout.tablespace(NAME)
    found = await node.begin(read_needs(node.znodes, paths), "needs")
    return [one.problem for one in found.replicas.values() if one.problem]
