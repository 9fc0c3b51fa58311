"""A network in one process: hosts by name, listeners by (host, port), connections with faults.

A program says on which host it runs (`on_host`, inherited by the tasks it starts); its connections are
then subject to the link between that host and the server's: delays, cuts in one or both directions,
slowness, resets, crashes of a host.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar

from herdpy.testing.model.links import Links
from herdpy.testing.model.loop import VirtualLoop
from herdpy.testing.model.transport import SimulatedTransport

_host: ContextVar[str] = ContextVar("herdpy_simulated_host", default="client")


def current_host() -> str:
    """The host that the running code is on."""
    return _host.get()


def host_in(context: Context) -> str:
    """The host of what runs in a context, which may be the one that is running."""
    return context.get(_host, "client")


ProtocolFactory = Callable[[], asyncio.Protocol]


@contextmanager
def on_host(name: str) -> Iterator[None]:
    """What is started inside runs on the host `name`."""
    token = _host.set(name)
    try:
        yield
    finally:
        _host.reset(token)


class SimulatedNetwork:
    """Serves `create_connection` of a VirtualLoop."""

    def __init__(self, loop: VirtualLoop, rng: random.Random, links: Links | None = None) -> None:
        self.loop = loop
        self.rng = rng
        self.links = links or Links()
        self._listeners: dict[tuple[str, int], ProtocolFactory] = {}
        self._transports: dict[SimulatedTransport, None] = {}  # in order, so that runs repeat
        self._stuck: dict[SimulatedTransport, None] = {}
        self._repaired = asyncio.Event()
        loop.network = self

    # -- hosts and connections

    def listen(self, host: str, port: int, factory: ProtocolFactory) -> None:
        """Accept connections to (host, port), each with a protocol of its own."""
        self._listeners[host, port] = factory

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        """Connect from the host of the calling task. Raises ConnectionRefusedError; hangs over a cut link."""
        source = _host.get()
        for one, other in ((source, host), (host, source)):
            await asyncio.sleep(self.links.between(one, other).delay.draw(self.rng))
            while self.links.between(one, other).is_cut:
                await self._repaired.wait()
        accept = self._listeners.get((host, port))
        if accept is None:
            raise ConnectionRefusedError(f"nothing listens on {host}:{port}")
        here = SimulatedTransport(self, source, (host, port))
        there = SimulatedTransport(self, host, (source, 0))
        here.peer, there.peer = there, here
        self._transports[here] = self._transports[there] = None
        there.begin(accept())
        protocol = factory()
        assert isinstance(protocol, asyncio.Protocol)
        here.begin(protocol)
        return here, protocol

    def connections(self) -> list[tuple[str, str]]:
        """(host, peer) of every living end, oldest first."""
        return [(transport.host, transport.peer.host) for transport in self._transports]

    # -- faults

    def cut(self, source: str, target: str) -> None:
        """Nothing from `source` reaches `target` until `heal`."""
        self.links.cut(source, target)

    def partition(self, one: str, other: str) -> None:
        """Cut both directions."""
        self.cut(one, other)
        self.cut(other, one)

    def heal(self, one: str | None = None, other: str | None = None) -> None:
        """Repair both directions between two hosts, or every link; what was held back arrives."""
        if one is None or other is None:
            for pair in self.links.cut_links():
                self.links.repair(*pair)
        else:
            self.links.repair(one, other)
            self.links.repair(other, one)
        stuck, self._stuck = self._stuck, {}
        for transport in stuck:
            if transport.was_reset:
                self.send_reset(transport)
            else:
                transport.resume_delivery()
        self._repaired.set()
        self._repaired = asyncio.Event()

    def reset_connections(self, one: str, other: str | None = None) -> int:
        """Reset the connections of `one` (with `other`); what is under way is lost. Returns their number."""
        ends = [
            transport
            for transport in self._transports
            if transport.host == one and other in (None, transport.peer.host)
        ]
        for transport in ends:
            transport.reset(ConnectionResetError("reset by the simulation"))
        return len(ends)

    def kill_host(self, host: str) -> None:
        """The host dies: nothing listens there, its connections are reset."""
        self._listeners = {where: factory for where, factory in self._listeners.items() if where[0] != host}
        for transport in [transport for transport in self._transports if transport.host == host]:
            transport.reset(ConnectionResetError("the host died"))

    # -- called by transports

    def wait_for_repair(self, transport: SimulatedTransport) -> None:
        """The transport's link is cut: it goes on after the next `heal`."""
        self._stuck[transport] = None

    def send_reset(self, transport: SimulatedTransport) -> None:
        """Tell the peer of a reset end, after a delay, over a link that is whole."""
        delay_s = self.links.between(transport.host, transport.peer.host).delay.draw(self.rng)
        self.loop.call_later(delay_s, self._deliver_reset, transport)

    def _deliver_reset(self, transport: SimulatedTransport) -> None:
        peer = transport.peer
        if peer.is_lost:
            return
        if self.links.between(transport.host, peer.host).is_cut:
            self._stuck[transport] = None
            return
        peer.reset(ConnectionResetError("reset by the peer"), reach_peer=False)

    def forget(self, transport: SimulatedTransport) -> None:
        """The end is gone."""
        self._transports.pop(transport, None)
