"""Znodes over kazoo: below a chroot, of one owner, and no larger than ZooKeeper takes."""

from __future__ import annotations

import pytest

from herdpy.bookkeeper.errors import (
    MetadataError,
    Outcome,
)
from herdpy.bookkeeper.metadata.zookeeper import MAX_DATA_BYTES, Acl, KazooZnodes
from herdpy.testing import ZooKeeperServer
from tests.support.znode_worlds import RealWorld, Seen


def test_a_chroot_is_put_before_every_path(server: ZooKeeperServer) -> None:
    world = RealWorld(server)

    async def program() -> None:
        outside = await world.client()
        await outside.create("/inner")
        znodes = KazooZnodes(f"{server.hostport}/inner", session_timeout_s=4.0)
        await znodes.start()
        seen = Seen()
        znodes.watch_children("/a", seen)
        assert await znodes.create("/a/b-", sequence=True, make_parents=True) == "/a/b-0000000000"
        await seen.until(lambda names: names == ["b-0000000000"])
        assert await outside.children("/inner/a") == ["b-0000000000"]
        await znodes.close()

    world.run(program)


def test_znodes_may_belong_to_their_creator(server: ZooKeeperServer) -> None:
    world = RealWorld(server)

    async def program() -> None:
        mine = await world.client(acl=Acl.CREATOR, digest_auth="me:secret")
        other = await world.client()
        await mine.create("/mine", b"x")
        assert (await mine.get("/mine")).data == b"x"
        for operation in (other.get("/mine"), other.set("/mine", b"y", 0)):
            with pytest.raises(MetadataError, match="NoAuth"):
                await operation
        assert "secret" not in repr(mine)
        await mine.delete("/mine")

    world.run(program)


def test_data_too_large_for_zookeeper_is_refused_before_it_is_sent(server: ZooKeeperServer) -> None:
    world = RealWorld(server)

    async def program() -> None:
        znodes = await world.client()
        await znodes.create("/large", bytes(MAX_DATA_BYTES))
        assert len((await znodes.get("/large")).data) == MAX_DATA_BYTES
        with pytest.raises(MetadataError, match="at most") as refused:
            await znodes.set("/large", bytes(MAX_DATA_BYTES + 1), 0)
        assert refused.value.outcome is Outcome.NOT_DONE

    world.run(program)
