"""Which nodes there are, on the model and on a real ZooKeeper."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.bookkeeper.metadata.znodes import Znodes
from herdpy_server.cluster.errors import NodeIdInUseError
from herdpy_server.cluster.layout import Address, Layout, NodeRecord, encode
from herdpy_server.cluster.membership import Membership
from herdpy_server.cluster.session import ZooKeeperSession
from tests.support.znode_worlds import Meddler, World


def record(node: str, instance: str = "1", session_timeout_s: float = 1.0) -> NodeRecord:
    return NodeRecord(
        node=node, instance=instance, sql=Address("10.0.0.1", 5432), session_timeout_s=session_timeout_s
    )


class Member:
    def __init__(self, world: World, znodes: Znodes, own: NodeRecord) -> None:
        self.refused: asyncio.Queue[NodeIdInUseError] = asyncio.Queue()
        self.session = ZooKeeperSession(znodes)
        self.membership = Membership(
            znodes, self.session, Layout(world.root), own, refused=self.refused.put_nowait
        )
        self.heard: asyncio.Queue[tuple[str, NodeRecord | None]] = asyncio.Queue()
        self.membership.on_change(lambda node, found: self.heard.put_nowait((node, found)))

    async def close(self) -> None:
        await self.membership.close()
        self.session.close()


def test_nodes_come_and_go(world: World) -> None:
    async def program() -> None:
        one = Member(world, await world.client(), record("a"))
        await one.membership.start()
        assert set(one.membership.nodes) == {"a"}
        assert one.heard.get_nowait() == ("a", record("a"))
        other = Member(world, await world.client(), record("b"))
        await other.membership.start()
        assert dict(other.membership.nodes) == {"a": record("a"), "b": record("b")}
        assert await one.heard.get() == ("b", record("b"))
        assert one.membership.away_s("b") == 0
        await other.close()
        assert await one.heard.get() == ("b", None)
        await asyncio.sleep(0.01)
        assert 0 < one.membership.away_s("b") < one.membership.away_s("c")
        await one.close()

    world.run(program)


def test_a_node_whose_session_was_lost_registers_again(world: World) -> None:
    async def program() -> None:
        znodes = await world.client()
        one = Member(world, await world.client(), record("a"))
        other = Member(world, znodes, record("b"))
        await one.membership.start()
        await other.membership.start()
        while (await one.heard.get())[0] != "b":
            pass
        await world.expire(znodes)
        assert await one.heard.get() == ("b", None)
        assert await one.heard.get() == ("b", record("b"))
        assert other.session.number == 2
        assert other.refused.empty()
        await other.close()
        await one.close()

    world.run(program)


@pytest.mark.parametrize("lost", ["lose_requests", "lose_replies"])
def test_a_registration_in_doubt(world: World, lost: str) -> None:
    async def program() -> None:
        meddler = Meddler(await world.client())
        setattr(meddler, lost, ["create"])
        one = Member(world, meddler, record("a"))  # type: ignore[arg-type]
        await one.membership.start()
        assert set(one.membership.nodes) == {"a"}
        await one.close()

    world.run(program)


def test_an_id_in_use_is_refused_and_one_left_by_a_dead_process_waited_for(world: World) -> None:
    async def program() -> None:
        znodes = await world.client()
        first = Member(world, znodes, record("a", "1", 0.2))
        await first.membership.start()
        second = Member(world, await world.client(), record("a", "2", 0.2))
        with pytest.raises(NodeIdInUseError, match=r"another process is node .a. .*10\.0\.0\.1:5432"):
            await second.membership.start()
        assert first.membership.nodes["a"].instance == "1"
        await second.close()
        assert (await znodes.get(Layout(world.root).node("a"))).data == encode(record("a", "1", 0.2))

        third = Member(world, await world.client(), record("a", "3", 4.0))
        starting = asyncio.create_task(third.membership.start())
        await asyncio.sleep(0.05)
        first.session.close()  # the first one's process dies
        await znodes.close()
        await starting
        assert third.membership.nodes["a"].instance == "3"
        await third.close()

    world.run(program)


def test_who_lost_its_id_to_another_is_told(world: World) -> None:
    async def program() -> None:
        znodes = await world.client()
        first = Member(world, znodes, record("a", "1", 0.2))
        await first.membership.start()
        path = Layout(world.root).node("a")
        usurper = await world.client()
        await znodes.delete(path)
        await usurper.create(path, encode(record("a", "2", 0.2)), ephemeral=True)
        await world.expire(znodes)
        assert (await first.refused.get()).node == "a"
        await first.close()
        assert await usurper.exists(path) is not None

    world.run(program)
