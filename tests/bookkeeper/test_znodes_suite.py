"""What every Znodes must do: the model and a real ZooKeeper answer alike."""

from __future__ import annotations

import asyncio

import pytest

from herdpy.bookkeeper.errors import BookKeeperError, ClosedClientError
from herdpy.bookkeeper.metadata.znodes import (
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    ZnodeVersionError,
    ZooKeeperState,
)
from tests.support.znode_worlds import Seen, World


def test_a_znode_is_made_read_changed_and_deleted(world: World) -> None:
    async def program() -> None:
        znodes = await world.client()
        path = f"{world.root}/a"
        assert await znodes.create(path, b"one", make_parents=True) == path
        made = await znodes.get(path)
        assert (made.data, made.version) == (b"one", 0)
        assert made.ctime_ms > 1_600_000_000_000
        assert await znodes.set(path, b"two", 0) == 1
        assert await znodes.exists(path) == (await znodes.get(path))
        assert (await znodes.get(path)).data == b"two"
        assert (await znodes.get(path)).ctime_ms == made.ctime_ms
        await znodes.delete(path, 1)
        assert await znodes.exists(path) is None

    world.run(program)


def test_a_change_with_another_version_is_refused(world: World) -> None:
    async def program() -> None:
        znodes = await world.client()
        path = await znodes.create(f"{world.root}/a", b"one", make_parents=True)
        await znodes.set(path, b"two", 0)
        with pytest.raises(ZnodeVersionError) as refused:
            await znodes.set(path, b"three", 0)
        assert refused.value.path == path
        with pytest.raises(ZnodeVersionError):
            await znodes.delete(path, 0)
        assert (await znodes.get(path)).data == b"two"
        assert await znodes.set(path, b"three", -1) == 2

    world.run(program)


def test_what_is_missing_taken_or_full_is_told(world: World) -> None:
    async def program() -> None:
        znodes = await world.client()
        path = f"{world.root}/a"
        for operation in (
            znodes.get(path),
            znodes.set(path, b"", 0),
            znodes.delete(path),
            znodes.children(path),
            znodes.create(f"{path}/b"),
        ):
            with pytest.raises(NoNodeError):
                await operation
        await znodes.create(f"{path}/b", make_parents=True)
        with pytest.raises(NodeExistsError):
            await znodes.create(path, make_parents=True)
        with pytest.raises(NotEmptyError):
            await znodes.delete(path)
        assert await znodes.children(path) == ["b"]

    world.run(program)


def test_parents_made_by_several_at_once_are_shared(world: World) -> None:
    async def program() -> None:
        znodes = [await world.client() for _ in range(3)]
        paths = [f"{world.root}/x/y/z/{number}" for number in range(9)]
        await asyncio.gather(
            *(znodes[index % 3].create(path, make_parents=True) for index, path in enumerate(paths))
        )
        assert sorted(await znodes[0].children(f"{world.root}/x/y/z")) == list("012345678")

    world.run(program)


def test_sequences_count_and_are_never_given_twice(world: World) -> None:
    async def program() -> None:
        znodes = [await world.client() for _ in range(2)]
        prefix = f"{world.root}/idgen/ID-"
        first = await znodes[0].create(prefix, ephemeral=True, sequence=True, make_parents=True)
        assert first == f"{prefix}0000000000"
        await znodes[0].delete(first)
        made = await asyncio.gather(
            *(znodes[n % 2].create(prefix, ephemeral=True, sequence=True) for n in range(10))
        )
        assert sorted(made) == [f"{prefix}{number:010d}" for number in range(1, 11)]

    world.run(program)


def test_ephemeral_znodes_go_with_their_session(world: World) -> None:
    async def program() -> None:
        one, other = await world.client(), await world.client()
        path = await one.create(f"{world.root}/a", b"mine", ephemeral=True, make_parents=True)
        seen = Seen()
        other.watch_data(path, seen)
        assert (await seen.until(lambda znode: znode is not None)).data == b"mine"
        await one.close()
        await seen.until(lambda znode: znode is None)

    world.run(program)


def test_a_data_watch_tells_the_state_and_every_last_change(world: World) -> None:
    async def program() -> None:
        znodes, other = await world.client(), await world.client()
        path = f"{world.root}/a/b"
        seen = Seen()
        watch = znodes.watch_data(path, seen)
        assert seen.all == []  # not within the call
        assert await seen.until(lambda _: True) is None
        await other.create(path, b"0", make_parents=True)
        await seen.until(lambda znode: znode is not None and znode.data == b"0")
        for number in range(1, 6):  # each change fires a watch that must have been set again
            await other.set(path, b"%d" % number, -1)
            await seen.until(lambda znode, number=number: znode.data == b"%d" % number)
        await other.delete(path)
        await seen.until(lambda znode: znode is None)
        await other.create(path, b"again")
        await seen.until(lambda znode: znode is not None and znode.data == b"again")
        versions = [znode.version if znode else None for znode in seen.all]
        assert versions == [None, 0, 1, 2, 3, 4, 5, None, 0]
        watch.cancel()
        watch.cancel()
        told = len(seen.all)
        last = Seen()
        znodes.watch_data(path, last)
        await other.set(path, b"unseen", -1)
        await last.until(lambda znode: znode.data == b"unseen")
        assert len(seen.all) == told

    world.run(program)


def test_a_znode_that_came_and_went_is_told(world: World) -> None:
    async def program() -> None:
        znodes, other = await world.client(), await world.client()
        path = await other.create(f"{world.root}/a", make_parents=True)
        data, names = Seen(), Seen()
        znodes.watch_data(f"{path}/b", data)
        znodes.watch_children(path, names)
        await data.until(lambda _: True)
        await names.until(lambda _: True)
        for _ in range(20):  # both changes between two reads of the watch, often
            known = len(data.all), len(names.all)
            await asyncio.gather(other.create(f"{path}/b"), other.delete(f"{path}/b"))
            await data.until(lambda znode, known=known: znode is None and len(data.all) > known[0])
            await names.until(lambda found, known=known: found == [] and len(names.all) > known[1])

    world.run(program)


def test_a_children_watch_tells_names_sorted_and_outlives_the_znode(world: World) -> None:
    async def program() -> None:
        znodes, other = await world.client(), await world.client()
        path = f"{world.root}/available"
        seen = Seen()
        znodes.watch_children(path, seen)
        assert await seen.until(lambda _: True) is None
        await other.create(path, make_parents=True)
        await seen.until(lambda names: names == [])
        await other.create(f"{path}/b")
        await seen.until(lambda names: names == ["b"])
        await other.create(f"{path}/a")
        await seen.until(lambda names: names == ["a", "b"])
        await other.set(f"{path}/a", b"data", 0)  # not a change of children
        for name in ("a", "b"):
            await other.delete(f"{path}/{name}")
        await seen.until(lambda names: names == [])
        await other.delete(path)
        await seen.until(lambda names: names is None)
        await other.create(f"{path}/c", make_parents=True)
        await seen.until(lambda names: names == ["c"])

    world.run(program)


def test_watches_live_through_an_expired_session(world: World) -> None:
    async def program() -> None:
        znodes, other = await world.client(), await world.client()
        path = f"{world.root}/a"
        mine = await znodes.create(path, b"0", ephemeral=True, make_parents=True)
        states, data, names = Seen(), Seen(), Seen()
        znodes.on_session(states)
        znodes.watch_data(mine, data)
        znodes.watch_children(world.root, names)
        await data.until(lambda znode: znode.data == b"0")
        await names.until(lambda names: names == ["a"])
        await world.expire(znodes)
        await data.until(lambda znode: znode is None)  # the state was read again
        await names.until(lambda names: names == [])
        await states.until(lambda state: state is ZooKeeperState.CONNECTED)
        assert ZooKeeperState.LOST in states.all
        await other.create(path, b"1")  # and the watches were set again
        await data.until(lambda znode: znode is not None and znode.data == b"1")
        await names.until(lambda names: names == ["a"])
        await other.set(path, b"2", 0)
        await data.until(lambda znode: znode.data == b"2")
        assert (await znodes.get(path)).data == b"2"

    world.run(program)


def test_a_session_listener_can_be_cancelled(world: World) -> None:
    async def program() -> None:
        znodes = await world.client()
        heard, unheard = Seen(), Seen()
        znodes.on_session(heard)
        listener = znodes.on_session(unheard)
        listener.cancel()
        await world.expire(znodes)
        await heard.until(lambda state: state is ZooKeeperState.CONNECTED)
        assert unheard.all == []

    world.run(program)


def test_after_close_everything_is_refused(world: World) -> None:
    async def program() -> None:
        znodes = await world.client()
        seen = Seen()
        znodes.watch_children("/", seen)
        await seen.until(lambda _: True)
        told = len(seen.all)
        await znodes.close()
        await znodes.close()
        for operation in (znodes.get("/"), znodes.create(world.root), znodes.children("/")):
            with pytest.raises(ClosedClientError) as refused:
                await operation
            assert isinstance(refused.value, BookKeeperError)
        other = await world.client()
        await other.create(f"{world.root}/after", make_parents=True)
        assert len(seen.all) == told

    world.run(program)
