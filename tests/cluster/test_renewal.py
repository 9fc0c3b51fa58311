"""What renewing leases leaves in ZooKeeper, one znode of each session, and when it rests."""

from __future__ import annotations

import asyncio

import pytest

from herdpy_server.cluster import lease as leases
from herdpy_server.cluster.layout import Layout
from herdpy_server.cluster.lease import Lease, Renewal
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


def test_a_lease_that_nobody_asks_for_lapses_and_is_renewed_at_the_next_question(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "REST_S", 0.5)

    async def program() -> None:
        loop, znodes = asyncio.get_running_loop(), await world.client()
        session = ZooKeeperSession(znodes)
        renewal = Renewal(znodes, session, Layout(world.root), "a", 0.3, loop.time)
        written: list[str] = []
        write = znodes.set

        async def count(path: str, data: bytes, version: int) -> int:
            written.append(path)
            return await write(path, data, version)

        monkeypatch.setattr(znodes, "set", count)
        lease = Lease(0.3, session.number, loop.time)
        lease.open()
        renewal.add(lease)
        for _ in range(2):
            while not renewal.rests or lease.is_held:
                await asyncio.sleep(0.01)
            assert loop.time() - lease.asked_s >= 0.5
            assert len(written) >= 2
            written.clear()
            await asyncio.sleep(1.0)
            assert written == []
            proved = asyncio.Event()
            lease.when_proved(proved.set)
            assert not lease.valid()
            await proved.wait()
            assert lease.valid()
            for _ in range(20):
                await asyncio.sleep(0.05)
                lease.valid()
                assert not renewal.rests
        renewal.discard(lease)
        lease.drop()
        assert not lease.valid()  # and nothing is asked for
        await renewal.close()
        session.close()

    world.run(program)
