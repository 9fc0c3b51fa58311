"""The registry of bookies: who is there, where, and what is made of what strangers publish."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdpy.bookkeeper.errors import BookieUnavailableError, ZooKeeperUnavailableError
from herdpy.bookkeeper.metadata.registry import BookieAddress, Registry, address_in_id, parse_service_info
from herdpy.bookkeeper.metadata.znodes import Znodes
from herdpy.bookkeeper.wire.proto.data_formats_pb2 import BookieServiceInfoFormat
from herdpy.testing import BookieServer, BookKeeperCluster, ZooKeeperServer
from tests.support.znode_worlds import ModelWorld, RealWorld, Seen, World

# What a bookie of BookKeeper 4.17.3 registered.
LIVE_INFO = b'2#\n\x06bookie\x10\xd9\x9b\x02\x1a\t127.0.0.1"\nbookie-rpc'


def info(*endpoints: tuple[str, str, str, int]) -> bytes:
    message = BookieServiceInfoFormat()
    for name, protocol, host, port in endpoints:
        message.endpoints.add(id=name, protocol=protocol, host=host, port=port)
    return message.SerializeToString()


async def register(znodes: Znodes, world: World, name: str, data: bytes = b"") -> str:
    return await znodes.create(f"{world.root}/available/{name}", data, ephemeral=True, make_parents=True)


def test_what_a_bookie_published_is_its_address() -> None:
    assert parse_service_info("127.0.0.1:36313", LIVE_INFO) == BookieAddress("127.0.0.1", 36313)
    published = info(("httpserver", "http", "a", 80), ("bookie", "bookie-rpc", "host.example", 3181))
    assert parse_service_info("some-id", published) == BookieAddress("host.example", 3181)
    assert str(BookieAddress("h", 1)) == "h:1"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"garbage",
        LIVE_INFO[:-3],
        LIVE_INFO.replace(b"127.0.0.1", b"127.0.0.\xff"),
        info(),
        info(("httpserver", "http", "a", 80)),
        info(("bookie", "bookie-rpc", "", 80)),
        info(("bookie", "bookie-rpc", "a", 0)),
        info(("bookie", "bookie-rpc", "a", 65536)),
        bytes(100_000),
    ],
)
def test_without_a_usable_endpoint_the_id_is_the_address(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert parse_service_info("10.0.0.1:3181", data) == BookieAddress("10.0.0.1", 3181)
    assert ("bookie registered no usable endpoint" in caplog.messages) == (data != b"")
    assert parse_service_info("just-a-name", data) is None
    assert "bookie has no address" in caplog.messages


@given(st.text(max_size=30), st.binary(max_size=80))
def test_garbage_never_raises(bookie_id: str, data: bytes) -> None:
    address = parse_service_info(bookie_id, data)
    assert address is None or 0 < address.port < 65536


@pytest.mark.parametrize(
    ("bookie_id", "address"),
    [
        ("h:1", BookieAddress("h", 1)),
        ("[::1]:3181", BookieAddress("::1", 3181)),
        ("h:0", None),
        ("h:65536", None),
        ("h", None),
        (":1", None),
        ("h:\u0661", None),
    ],
)
def test_an_id_may_be_an_address(bookie_id: str, address: BookieAddress | None) -> None:
    assert address_in_id(bookie_id) == address


def test_bookies_come_move_and_go(world: World) -> None:
    async def program() -> None:
        bookie, znodes = await world.client(), await world.client()
        registry = Registry(znodes, world.root)
        await registry.start()  # with nothing there at all
        assert (dict(registry.available), dict(registry.readonly)) == ({}, {})
        seen = Seen()

        def look() -> None:
            seen((dict(registry.available), dict(registry.readonly)))

        listener = registry.on_change(look)
        first = await register(bookie, world, "b-1", info(("bookie", "bookie-rpc", "10.0.0.1", 1)))
        await seen.until(lambda now: now[0] == {"b-1": BookieAddress("10.0.0.1", 1)})
        await register(bookie, world, "h:2")
        await seen.until(lambda now: now[0].keys() == {"b-1", "h:2"})
        assert registry.address("h:2") == ("h", 2)
        await bookie.set(first, info(("bookie", "bookie-rpc", "10.0.0.9", 9)), 0)
        await seen.until(lambda now: now[0]["b-1"] == BookieAddress("10.0.0.9", 9))
        await bookie.delete(first)
        await register(bookie, world, "readonly/b-1", info(("bookie", "bookie-rpc", "10.0.0.9", 9)))
        await seen.until(lambda now: now[1].keys() == {"b-1"})
        assert list(registry.available) == ["h:2"]  # and "readonly" is not a bookie
        await bookie.close()  # its session ends, the ephemeral znodes with it
        await seen.until(lambda now: now == ({}, {}))
        assert registry.address("b-1") == ("10.0.0.9", 9)  # last known
        with pytest.raises(BookieUnavailableError) as nobody:
            registry.address("b-2")
        assert nobody.value.bookie == "b-2"
        listener.cancel()
        registry.close()

    world.run(program)


def test_bookies_are_followed_through_an_expired_session(world: World) -> None:
    async def program() -> None:
        bookie, znodes = await world.client(), await world.client()
        await register(bookie, world, "a:1")
        await register(bookie, world, "readonly/b:2")
        registry = Registry(znodes, world.root)
        await registry.start()
        assert (list(registry.available), list(registry.readonly)) == (["a:1"], ["b:2"])
        seen = Seen()
        registry.on_change(lambda: seen(sorted(registry.available)))
        await world.expire(znodes)
        await register(bookie, world, "c:3")
        await seen.until(lambda ids: ids == ["a:1", "c:3"])
        await bookie.delete(f"{world.root}/available/a:1")
        await seen.until(lambda ids: ids == ["c:3"])
        registry.close()
        await register(bookie, world, "d:4")
        assert await znodes.exists(f"{world.root}/available/d:4") is not None
        assert list(registry.available) == ["c:3"]

    world.run(program)


def test_a_listener_that_raises_stops_nobody_else(server: ZooKeeperServer) -> None:
    world = RealWorld(server)  # the model's loop ends a run at any exception in a callback

    async def program() -> None:
        reported = Seen()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported(context["exception"]))
        znodes = await world.client()
        registry = Registry(znodes, world.root)
        await registry.start()

        def fail() -> None:
            raise LookupError("mine")

        registry.on_change(fail)
        seen = Seen()
        registry.on_change(lambda: seen(sorted(registry.available)))
        await register(znodes, world, "a:1")
        await seen.until(lambda ids: ids == ["a:1"])
        assert isinstance(await reported.until(lambda _: True), LookupError)
        registry.close()

    world.run(program)


def test_a_registry_that_cannot_be_read_in_time_says_so() -> None:
    world = ModelWorld()

    async def program() -> None:
        znodes = await world.client()
        znodes.disconnect()  # type: ignore[attr-defined]
        with pytest.raises(ZooKeeperUnavailableError):
            await Registry(znodes, world.root).start(timeout_s=1e-6)

    world.run(program)
    world.close()


@pytest.mark.soak
def test_real_bookies_are_found_lost_and_found_again() -> None:
    with BookKeeperCluster(bookies=2) as cluster:
        world = RealWorld(cluster.zookeeper)
        world.root = "/ledgers"

        async def program() -> None:
            registry = Registry(await world.client(), world.root)
            await registry.start()
            ids = set(cluster.bookie_ids)
            assert set(registry.available) == ids
            for bookie in cluster.bookies:
                assert registry.address(bookie.id) == address(bookie)
            seen = Seen()
            registry.on_change(lambda: seen(set(registry.available)))
            lost = cluster.bookies[0]
            lost.kill()
            await seen.until(lambda now: now == ids - {lost.id})
            lost.start()
            await seen.until(lambda now: now == ids)
            registry.close()

        world.run(program)


def address(bookie: BookieServer) -> tuple[str, int]:
    return bookie.address, bookie.port
