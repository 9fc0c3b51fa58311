"""The simulated network: order within a connection, delays, cuts, resets, halves, slow links."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from herdpy.testing.model.loop import VirtualLoop
from herdpy.testing.model.network import Delay, SimulatedLinks, SimulatedNetwork, on_host

SERVER = ("server", 1)


class Echo(asyncio.Protocol):
    """Sends back what it gets."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Collector(asyncio.Protocol):
    """Notes what happens to a connection."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.pieces = 0
        self.lost: list[Exception | None] = []
        self.paused: list[bool] = []

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.pieces += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    def pause_writing(self) -> None:
        self.paused.append(True)

    def resume_writing(self) -> None:
        self.paused.append(False)


def run(
    program: Callable[[SimulatedNetwork], Awaitable[None]], seed: int = 1, links: SimulatedLinks | None = None
) -> None:
    loop = VirtualLoop(seed, limit_s=1000)
    network = SimulatedNetwork(loop, random.Random(seed), links)
    network.listen(*SERVER, Echo)

    async def main() -> None:
        with on_host("client"):
            await program(network)

    loop.run(main())


async def connect() -> tuple[asyncio.Transport, Collector]:
    transport, protocol = await asyncio.get_running_loop().create_connection(Collector, *SERVER)
    assert isinstance(protocol, Collector)
    return transport, protocol


@pytest.mark.parametrize("seed", range(5))
def test_bytes_keep_their_order_whatever_the_delays(seed: int) -> None:
    async def program(network: SimulatedNetwork) -> None:
        transport, collector = await connect()
        sent = b""
        for number in range(200):
            piece = str(number).encode() + b","
            transport.writelines([piece[:1], piece[1:]])
            sent += piece
        await asyncio.sleep(10)
        assert bytes(collector.received) == sent
        transport.close()

    run(program, seed, SimulatedLinks(Delay(0, 1.0), split_share=0.5))


def test_a_write_can_arrive_in_halves() -> None:
    async def program(network: SimulatedNetwork) -> None:
        transport, collector = await connect()
        transport.write(bytes(1000))
        await asyncio.sleep(10)
        assert len(collector.received) == 1000
        assert collector.pieces >= 2
        transport.close()

    run(program, 1, SimulatedLinks(split_share=1.0))


def test_a_one_way_cut_holds_one_direction_until_it_heals() -> None:
    async def program(network: SimulatedNetwork) -> None:
        transport, collector = await connect()
        network.cut("server", "client")
        transport.write(b"hello")
        await asyncio.sleep(5)
        assert not collector.received
        network.heal()
        await asyncio.sleep(1)
        assert bytes(collector.received) == b"hello"
        transport.close()

    run(program)


def test_nobody_connects_over_a_cut_and_all_do_after_it() -> None:
    async def program(network: SimulatedNetwork) -> None:
        network.partition("client", "server")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connect(), 3)
        waiting = asyncio.create_task(connect())
        await asyncio.sleep(3)
        assert not waiting.done()
        network.heal("client", "server")
        transport, _ = await waiting
        transport.close()

    run(program)


def test_other_hosts_do_not_feel_the_cut() -> None:
    async def program(network: SimulatedNetwork) -> None:
        network.partition("client", "server")
        with on_host("other"):
            transport, collector = await asyncio.create_task(connect())
        transport.write(b"x")
        await asyncio.sleep(1)
        assert bytes(collector.received) == b"x"
        transport.close()

    run(program)


def test_a_reset_loses_what_is_under_way_and_both_ends_hear_of_it() -> None:
    async def program(network: SimulatedNetwork) -> None:
        transport, collector = await connect()
        transport.write(b"lost")
        assert network.reset_connections("server") == 1
        await asyncio.sleep(1)
        assert not collector.received
        assert [type(error) for error in collector.lost] == [ConnectionResetError]
        assert network.connections() == []

    run(program)


def test_a_dead_host_refuses() -> None:
    async def program(network: SimulatedNetwork) -> None:
        _, collector = await connect()
        network.kill_host("server")
        await asyncio.sleep(1)
        assert len(collector.lost) == 1
        with pytest.raises(ConnectionRefusedError):
            await connect()

    run(program)


def test_the_reset_of_a_cut_connection_is_heard_after_the_repair() -> None:
    async def program(network: SimulatedNetwork) -> None:
        _, collector = await connect()
        network.partition("client", "server")
        network.kill_host("server")
        await asyncio.sleep(5)
        assert collector.lost == []
        network.heal()
        await asyncio.sleep(1)
        assert len(collector.lost) == 1

    run(program)


def test_close_delivers_what_was_written_first() -> None:
    async def program(network: SimulatedNetwork) -> None:
        got: list[Collector] = []

        def accept() -> Collector:
            got.append(Collector())
            return got[-1]

        network.listen("sink", 2, accept)
        transport, _ = await asyncio.get_running_loop().create_connection(Collector, "sink", 2)
        transport.write(b"last words")
        transport.close()
        await asyncio.sleep(1)
        assert bytes(got[0].received) == b"last words"
        assert got[0].lost == [None]
        assert network.connections() == []

    run(program)


def test_a_slow_link_takes_its_time_and_pushes_back() -> None:
    async def program(network: SimulatedNetwork) -> None:
        loop = asyncio.get_running_loop()
        network.links.between("client", "server").bytes_per_s = 100_000
        transport, collector = await connect()
        began = loop.time()
        for _ in range(100):
            transport.write(bytes(10_000))
        assert collector.paused == [True]
        while len(collector.received) < 1_000_000:
            await asyncio.sleep(0.1)
        assert loop.time() - began == pytest.approx(10, rel=0.1)
        assert collector.paused == [True, False]
        transport.close()

    run(program)


def test_the_same_seed_is_the_same_run() -> None:
    def trace(seed: int) -> list[tuple[float, int]]:
        events: list[tuple[float, int]] = []

        async def program(network: SimulatedNetwork) -> None:
            transport, collector = await connect()
            for _ in range(50):
                transport.write(bytes(network.rng.randrange(1, 100)))
                await asyncio.sleep(network.rng.random())
                events.append((asyncio.get_running_loop().time(), len(collector.received)))
            transport.close()

        run(program, seed)
        return events

    assert trace(7) == trace(7)
    assert trace(7) != trace(8)
