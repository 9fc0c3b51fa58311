"""A snapshot on its way from a donor: what becomes of it when the way, or the donor, breaks down."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from herdpy.bookkeeper import BookKeeper
from herdpy.dev import LocalCluster
from herdpy.log.bookkeeper.znode_list import ZnodeLedgerList
from herdpy.log.lsn import LSN
from herdpy.testing.process import await_until
from herdpy_server.cluster.coordination import Coordination
from herdpy_server.cluster.layout import Address, Layout, decode
from herdpy_server.cluster.secret import NodeSecret
from herdpy_server.cluster.tablespaces import TablespaceInfo
from herdpy_server.replica.seeding import Credentials, NoDonorError, Seeding, SeedingFailedError
from herdpy_server.serving.node import SeedingProgress
from herdpy_server.store import Store
from tests.replica.replicas import (
    PATIENCE_S,
    await_leader,
    await_status,
    followers,
    load,
    replica_status,
    server,
)
from tests.replica.replicas import run as statements
from tests.service.cutting_proxy import CuttingProxy


class World:
    """A node that is not there, and is seeded: what ``Seeding`` needs of one.

    Attributes:
        places: the ports of donors, by node; the test says who is there.
        told: the progress.
    """

    def __init__(self, cluster: LocalCluster, bk: BookKeeper, info: TablespaceInfo) -> None:
        self.info = info
        self.told: list[SeedingProgress] = []
        self.places: dict[str, int] = {}
        self.layout = Layout("/herdpy")
        coordination = SimpleNamespace(layout=self.layout, membership=self)
        self.znodes = bk.znodes
        self.seeding = Seeding(
            "new", bk.znodes, cast(Coordination, coordination), Credentials(), NodeSecret()
        )
        self.seeding.patience_s = 0.5

    @property
    def nodes(self) -> dict[str, Any]:
        """As of the membership."""
        return {node: SimpleNamespace(grpc=Address("127.0.0.1", port)) for node, port in self.places.items()}

    async def seed(self, directory: Path) -> Any:
        """Seed into a directory."""
        return await self.seeding.seed(self.info, directory, self.told.append)


@asynccontextmanager
async def world(cluster: LocalCluster) -> AsyncIterator[World]:
    async with BookKeeper(cluster.bookkeeper_uri) as bk:
        path = Layout("/herdpy").tablespace("herdpy").info
        yield World(cluster, bk, decode(TablespaceInfo, path, (await bk.znodes.get(path)).data))


@pytest.fixture
def proxies() -> Iterator[list[CuttingProxy]]:
    made: list[CuttingProxy] = []
    yield made
    for one in made:
        one.close()


def cutting(cluster: LocalCluster, node: str, proxies: list[CuttingProxy], *limits: int) -> CuttingProxy:
    """A way to a donor that breaks after so many bytes, and then again at once, for ever."""
    proxies.append(
        CuttingProxy(server(cluster, node).grpc_port, itertools.chain(limits, itertools.repeat(0)))
    )
    return proxies[-1]


def make_lead(cluster: LocalCluster, leader: str, successor: str) -> None:
    """Hand the leadership over, and prefer nobody afterwards."""
    statements(cluster, leader, f"ALTER TABLESPACE herdpy LEADER '{successor}'")
    assert await_leader(cluster, other_than=leader) == successor
    statements(cluster, successor, "ALTER TABLESPACE herdpy LEADER NONE")


def test_a_download_goes_on_where_it_broke_off(cluster: LocalCluster, tmp_path: Path, proxies):
    """Also when another node has come to lead meanwhile."""
    leader = await_leader(cluster)
    donor, successor = followers(cluster, leader)

    async def run() -> None:
        async with world(cluster) as new:
            new.places = {donor: cutting(cluster, donor, proxies, 5 << 20).port}
            with pytest.raises(SeedingFailedError) as caught:
                await new.seed(tmp_path / "seed")
            assert donor in str(caught.value.detail)
            arrived = max(one.received_bytes for one in new.told)
            assert 0 < arrived < new.told[-1].total_bytes
            new.told.clear()
            await asyncio.to_thread(make_lead, cluster, leader, successor)
            new.places = {donor: server(cluster, donor).grpc_port}
            seeded = await new.seed(tmp_path / "seed")
            assert min(one.received_bytes for one in new.told if one.total_bytes) >= arrived
            await seeded.release()
            (tmp_path / "store").mkdir()
            seeded.data.rename(tmp_path / "store" / "data.mdb")
            store = Store.open(tmp_path / "store")
            assert store.durable == seeded.lsn
            assert not list(store.check())
            store.close()

    asyncio.run(run())


def test_another_donor_takes_over_from_one_that_is_gone(cluster: LocalCluster, tmp_path: Path, proxies):
    first, second = followers(cluster, await_leader(cluster))

    async def run() -> None:
        async with world(cluster) as new:
            new.places = {first: cutting(cluster, first, proxies, 5 << 20).port}
            with pytest.raises(SeedingFailedError):
                await new.seed(tmp_path / "seed")
            new.places = {second: server(cluster, second).grpc_port}
            seeded = await new.seed(tmp_path / "seed")
            await seeded.release()
            assert {one.donor for one in new.told} == {first, second}
            assert seeded.data.stat().st_size == new.told[-1].total_bytes
            new.places = {}
            with pytest.raises(NoDonorError, match="no other replica"):
                await new.seed(tmp_path / "other")

    asyncio.run(run())


async def base(new: World) -> LSN:
    """The last position that the log does not have any more."""
    state = await ZnodeLedgerList(new.znodes, new.layout.tablespace("herdpy").ledgers).read()
    assert state is not None
    return state.base


def test_the_log_is_kept_until_the_lease_is_released(cluster: LocalCluster, tmp_path: Path):
    leader = await_leader(cluster)
    donor = followers(cluster, leader)[0]

    async def run() -> None:
        async with world(cluster) as new:
            new.places = {donor: server(cluster, donor).grpc_port}
            seeded = await new.seed(tmp_path / "seed")

            def both_have_it_durable() -> bool:
                ledger = int(replica_status(cluster, leader)["durable"].split(":")[0])
                return ledger > seeded.lsn.ledger_id + 1

            def fill() -> None:
                with load(cluster, "t"):
                    assert await_until(both_have_it_durable, PATIENCE_S)
                    await_status(
                        cluster,
                        donor,
                        lambda one: int(one["durable"].split(":")[0]) > seeded.lsn.ledger_id + 1,
                        "follows",
                    )

            try:
                await asyncio.to_thread(fill)
                await asyncio.sleep(5)  # rounds of the leader's duties, which find nothing that may go
                # All after it is there; its own ledger may go when it is that one's last entry.
                assert await base(new) <= seeded.lsn
            finally:
                await seeded.release()
            async with asyncio.timeout(PATIENCE_S):
                while await base(new) <= seeded.lsn:
                    await asyncio.sleep(0.05)

    asyncio.run(run())
