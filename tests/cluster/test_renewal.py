"""What renewing leases leaves in ZooKeeper: one znode of each session."""

from __future__ import annotations

import asyncio

from herdpy_server.cluster.layout import Layout
from herdpy_server.cluster.lease import Renewal
from herdpy_server.cluster.session import ZooKeeperSession
from tests.support.znode_worlds import World


def test_a_session_has_one_beat_however_many_ask_for_it_at_once(world: World) -> None:
    async def program() -> None:
        znodes = await world.client()
        session = ZooKeeperSession(znodes)
        layout = Layout(world.root)
        renewal = Renewal(znodes, session, layout, "a", 0.4)
        await asyncio.gather(*(renewal.catch_up() for _ in range(5)))
        assert len(await znodes.children(layout.beats)) == 1
        await renewal.catch_up()
        assert len(await znodes.children(layout.beats)) == 1
        await renewal.close()
        session.close()

    world.run(program)
