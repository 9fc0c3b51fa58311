"""The model ZooKeeper: versions, sequences, sessions, lost replies, watches that live on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from herdpy.bookkeeper.errors import Outcome, SessionExpiredError, ZooKeeperUnavailableError
from herdpy.bookkeeper.metadata.znodes import (
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    Znode,
    Znodes,
    ZnodeVersionError,
    ZooKeeperState,
)
from herdpy.testing.model.loop import VirtualLoop
from herdpy.testing.model.network import SimulatedNetwork
from herdpy.testing.model.zookeeper import ZOOKEEPER, ModelZnodes, ModelZooKeeper


class World:
    def __init__(self, seed: int) -> None:
        self.loop = VirtualLoop(seed, limit_s=1000)
        self.network = SimulatedNetwork(self.loop, random.Random(seed))
        self.zookeeper = ModelZooKeeper(self.loop, random.Random(seed), self.network.links)

    async def client(self, host: str = "client") -> ModelZnodes:
        znodes = ModelZnodes(self.zookeeper, host)
        await znodes.start()
        return znodes


def run(program: Callable[[World], Awaitable[None]], seed: int = 1) -> None:
    world = World(seed)

    async def main() -> None:
        await program(world)
        for client in list(world.zookeeper.clients):
            await client.close()

    world.loop.run(main())
    assert world.loop.leaked == []


def test_it_is_what_the_client_expects_of_zookeeper() -> None:
    def takes(znodes: Znodes) -> Znodes:
        return znodes

    world = World(1)
    assert takes(ModelZnodes(world.zookeeper, "client")).watch_data is not None
    world.loop.close()


def test_changes_are_compared_and_set() -> None:
    async def program(world: World) -> None:
        one, other = await world.client(), await world.client("other")
        assert await one.create("/a/b", b"1", make_parents=True) == "/a/b"
        with pytest.raises(NodeExistsError):
            await other.create("/a/b")
        with pytest.raises(NoNodeError):
            await other.create("/x/y")
        assert (await other.get("/a/b")).data == b"1"
        assert await other.set("/a/b", b"2", 0) == 1
        with pytest.raises(ZnodeVersionError):
            await one.set("/a/b", b"3", 0)
        with pytest.raises(NotEmptyError):
            await one.delete("/a")
        with pytest.raises(ZnodeVersionError):
            await one.delete("/a/b", 0)
        await one.delete("/a/b", 1)
        assert await other.exists("/a/b") is None
        assert await other.children("/a") == []

    run(program)


def test_sequence_numbers_rise_also_over_deletions() -> None:
    async def program(world: World) -> None:
        znodes = await world.client()
        await znodes.create("/ids")
        paths = []
        for _ in range(3):
            paths.append(await znodes.create("/ids/ID-", sequence=True, ephemeral=True))
            await znodes.delete(paths[-1])
        assert paths == [f"/ids/ID-{number:010d}" for number in range(3)]

    run(program)


def test_ephemeral_znodes_end_with_the_session() -> None:
    async def program(world: World) -> None:
        one, other = await world.client(), await world.client("other")
        seen: list[list[str] | None] = []
        await one.create("/here")
        other.watch_children("/here", seen.append)
        await one.create("/here/me", ephemeral=True)
        await asyncio.sleep(1)
        one.abandon()
        await asyncio.sleep(8)
        assert seen[-1] == ["me"]
        await asyncio.sleep(5)
        assert seen[-1] == []

    run(program)


def test_a_lost_reply_is_unknown_and_done_a_lost_request_is_not() -> None:
    async def program(world: World) -> None:
        znodes = await world.client()
        world.zookeeper.lost_reply_share = 1.0
        with pytest.raises(ZooKeeperUnavailableError) as raised:
            await znodes.create("/a")
        assert raised.value.outcome is Outcome.UNKNOWN
        world.zookeeper.lost_reply_share, world.zookeeper.lost_request_share = 0.0, 1.0
        with pytest.raises(ZooKeeperUnavailableError):
            await znodes.create("/b")
        world.zookeeper.lost_request_share = 0.0
        assert await znodes.exists("/a") is not None
        assert await znodes.exists("/b") is None

    run(program)


def test_reads_are_made_again() -> None:
    async def program(world: World) -> None:
        znodes = await world.client()
        await znodes.create("/a", b"x")
        world.zookeeper.lost_reply_share = 0.5
        for _ in range(20):
            assert (await znodes.get("/a")).data == b"x"

    run(program)


def test_expiry_is_told_and_watches_live_on() -> None:
    async def program(world: World) -> None:
        one, other = await world.client(), await world.client("other")
        states: list[ZooKeeperState] = []
        seen: list[Znode | None] = []
        one.on_session(states.append)
        await one.create("/mine", ephemeral=True)
        watch = one.watch_data("/data", seen.append)
        await asyncio.sleep(1)
        assert seen == [None]
        world.network.partition("client", ZOOKEEPER)
        await asyncio.sleep(30)
        assert states == [ZooKeeperState.SUSPENDED]
        assert await other.exists("/mine") is None
        await other.create("/data", b"news")
        with pytest.raises(ZooKeeperUnavailableError):
            await one.get("/data")
        world.network.heal()
        await asyncio.sleep(1)
        assert states[1:] == [ZooKeeperState.LOST, ZooKeeperState.CONNECTED]
        assert [znode.data for znode in seen[1:] if znode] == [b"news"]
        watch.cancel()
        await other.set("/data", b"unseen", 0)
        await asyncio.sleep(1)
        assert len(seen) == 2

    run(program)


def test_a_change_in_an_expired_session_says_so() -> None:
    async def program(world: World) -> None:
        znodes = await world.client()
        znodes.expire()
        with pytest.raises(SessionExpiredError):
            await znodes.create("/a", ephemeral=True)
        assert await znodes.exists("/a") is None
        await znodes.create("/a", ephemeral=True)

    run(program)


@pytest.mark.parametrize("seed", range(5))
def test_a_watch_ends_up_at_the_present_state(seed: int) -> None:
    async def program(world: World) -> None:
        one, other = await world.client(), await world.client("other")
        seen: list[Znode | None] = []
        one.watch_data("/a", seen.append)
        await other.create("/a", b"0")
        for number in range(1, 30):
            if world.loop.rng.random() < 0.2:
                one.disconnect()
            await other.set("/a", str(number).encode(), number - 1)
        await asyncio.sleep(2)
        last = seen[-1]
        assert last is not None
        assert last.data == b"29"
        versions = [znode.version for znode in seen if znode]
        assert versions == sorted(set(versions))

    run(program, seed)
