"""What scenarios are made of: a write, a read, a question, and waiting for somebody to lead."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import msgspec

from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica import fitness
from herdpy_server.replica.guard import ReplicaState
from herdpy_sql.errors import SqlError
from tests.replica.simulation.history import Read, Told, Write
from tests.replica.simulation.programs import Client, GoneError
from tests.replica.simulation.world import NAME, Node, World


def leader_of(world: World) -> Node:
    """The only node that leads."""
    (leader,) = [one for one in world.nodes.values() if leads(one)]
    return leader


def leads(node: Node) -> bool:
    return not node.is_paused and node.replica is not None and node.replica.state is ReplicaState.LEADING


async def another(world: World, than: Node) -> Node:
    while True:
        for node in world.nodes.values():
            if node is not than and leads(node):
                return node
        await asyncio.sleep(0.005)


async def deposed(world: World, old: Node) -> Node:
    """Its session ends, and it does not come back before another leads."""
    cut_from_zookeeper(world, old)
    new = await another(world, old)
    world.cluster.network.heal(old.host, "zookeeper")
    return new


async def write(world: World, node: Node, *, loads: bool = False) -> Write:
    """One write on the node, its row loaded or inserted, and what became of it."""
    client = Client(world, 0)
    chances = iter([0.9, 0.1 if loads else 0.9])
    client.rng.random = lambda: next(chances, 0.9)  # type: ignore[method-assign]  # neither slow nor resolved
    number = len(world.history.writes) + 1
    await client._write(node)
    return world.history.writes[number]


async def read(world: World, node: Node, level: str = "linearizable", stale_s: float = 0.0) -> Read | None:
    """One read of the register, noted for the judgement; None when the node refused."""
    client = Client(world, 0)
    try:
        await client._ask(
            node,
            f"SET herdpy.read_level = '{level}'",
            f"SET herdpy.max_staleness_ms = {int(stale_s * 1000)}",
        )
        client.rng.random = lambda: 0.9  # type: ignore[method-assign]  # the same session
        asked_s = world.now()
        rows = await client._ask(node, "SELECT v FROM r WHERE k = 1")
    except (GoneError, SqlError) as error:
        world.tell(f"{node.host}: {error}")
        return None
    found = Read(node.host, level, asked_s, world.now(), rows[0][0], stale_s)
    world.history.reads.append(found)
    return found


async def outcome(world: World, node: Node, written: Write) -> None:
    """What the node says became of a write, noted for the judgement unless it knows nothing."""
    try:
        rows = await Client(world, 0)._ask(node, f"SELECT herdpy.commit_outcome('w{written.number}')")
    except (GoneError, SqlError) as error:
        world.tell(f"{node.host}: {error}")
        return
    told = str(rows[0][0])
    if told != "unknown":
        world.history.told.append(Told(written.number, told.split(maxsplit=1)[0], node.host))


async def followers_have(world: World, node: Node) -> None:
    """All others have applied what the node has."""
    assert node.replica is not None
    while any(one.replica and one.replica.applied < node.replica.applied for one in world.nodes.values()):
        await asyncio.sleep(0.01)


def cut_from_zookeeper(world: World, node: Node) -> None:
    """It does not hear that ZooKeeper has ended its session."""
    world.cluster.network.partition(node.host, "zookeeper")
    node.model.expire()


async def prefers(world: World, node: Node) -> None:
    """The tablespace prefers this node as its leader from now on."""

    def changed(info: TablespaceInfo) -> TablespaceInfo:
        return msgspec.structs.replace(info, leader=node.name)

    assert node.replica is not None
    altered = await node.coordination.tablespaces.alter(NAME, changed, uuid=node.replica.info.uuid)
    for one in world.nodes.values():
        assert one.replica is not None
        one.replica.altered(altered)


@contextmanager
def disks(world: World, *, full: list[Node]) -> Iterator[None]:
    """The disks of these nodes have no room, those of others have."""
    names = {node.name for node in full}

    def free_bytes(path: Path) -> int:
        return 0 if path.relative_to(world.directory).parts[0] in names else 1 << 40

    with patch.object(fitness, "free_bytes", free_bytes):
        yield
