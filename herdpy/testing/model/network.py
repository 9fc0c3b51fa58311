"""A network in one process: links between hosts, connections over them, hosts by name, listeners by (host,
port).

Layer: above `loop`, below every model. A link is directed, from one host's name to another's; it delays, is
slow, or is cut. A connection is two ends, each a pipe that keeps the order of its bytes whatever the delays
are, may deliver one write in two halves, holds everything back while its link is cut, and loses what is
under way when the connection is reset. A program says on which host it runs (`on_host`, inherited by the
tasks it starts); its connections are then subject to the links between that host and the server's. Times
are virtual seconds.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from typing import Any

from herdpy.testing.model.loop import VirtualLoop


@dataclass(frozen=True, slots=True)
class Delay:
    """A distribution of one-way delays: mostly between `low_s` and `high_s`, now and then up to `late_s`."""

    low_s: float = 0.0001
    high_s: float = 0.001
    late_s: float = 0.05
    late_share: float = 0.01

    def draw(self, rng: random.Random) -> float:
        """One delay in seconds."""
        if self.late_share and rng.random() < self.late_share:
            return rng.uniform(self.high_s, self.late_s)
        return rng.uniform(self.low_s, self.high_s)


@dataclass(slots=True)
class SimulatedLink:
    """The state of one direction between two hosts.

    `bytes_per_s` None is unlimited. `split_share` is the share of writes that arrive in two halves.
    While `is_cut`, nothing arrives; what was sent meanwhile arrives after the repair, as TCP has it.
    """

    delay: Delay = field(default_factory=Delay)
    bytes_per_s: float | None = None
    split_share: float = 0.02
    is_cut: bool = False


class SimulatedLinks:
    """All directed links, made as they are used, from one default."""

    def __init__(self, delay: Delay | None = None, split_share: float = 0.02) -> None:
        self.delay = delay or Delay()
        self.split_share = split_share
        self._links: dict[tuple[str, str], SimulatedLink] = {}

    def between(self, source: str, target: str) -> SimulatedLink:
        """The link from `source` to `target`."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = SimulatedLink(self.delay, split_share=self.split_share)
        return link

    def cut(self, source: str, target: str) -> None:
        """Silence one direction."""
        self.between(source, target).is_cut = True

    def repair(self, source: str, target: str) -> None:
        """Let one direction speak again."""
        self.between(source, target).is_cut = False

    def cut_links(self) -> list[tuple[str, str]]:
        """The directions that are silent now, in the order in which they were first used."""
        return [pair for pair, link in self._links.items() if link.is_cut]

    def calm(self) -> None:
        """Every link is whole and quick from now on, whatever it was made to be."""
        self.delay = Delay(late_share=0.0)
        self._links.clear()


_HIGH_WATER_BYTES = 64 * 1024
_END = b""  # in a pipe: the sender has closed


class SimulatedTransport(asyncio.Transport):
    """One end. `host` is the name of the machine it stands on, `peer` the other end."""

    peer: SimulatedTransport

    def __init__(self, network: SimulatedNetwork, host: str, address: tuple[str, int]) -> None:
        super().__init__({"peername": address, "sockname": (host, 0)})
        self.host = host
        self._network = network
        self._loop = network.loop
        self._protocol: asyncio.Protocol | None = None
        self._pipe: deque[tuple[float, bytes]] = deque()  # what is under way to the peer
        self._pipe_bytes = 0
        self._last_arrival_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._lost = False
        self.was_reset = False
        self._reading = True
        self._held: list[bytes] = []  # arrived while the protocol was not reading
        self._writing_paused = False
        self._high = _HIGH_WATER_BYTES
        self._low = _HIGH_WATER_BYTES // 4

    def begin(self, protocol: asyncio.Protocol) -> None:
        """Join this end with its protocol."""
        self._protocol = protocol
        protocol.connection_made(self)

    # -- sending

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._lost or not data:
            return
        content = bytes(data)
        rng, link = self._network.rng, self._network.links.between(self.host, self.peer.host)
        if len(content) > 1 and rng.random() < link.split_share:
            middle = rng.randrange(1, len(content))
            self._send(content[:middle])
            self._send(content[middle:])
        else:
            self._send(content)
        if not self._writing_paused and self._pipe_bytes > self._high:
            self._writing_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def _send(self, content: bytes) -> None:
        link = self._network.links.between(self.host, self.peer.host)
        start = max(self._loop.time(), self._last_arrival_s if link.bytes_per_s else 0.0)
        arrival = start + link.delay.draw(self._network.rng)
        if link.bytes_per_s:
            arrival += len(content) / link.bytes_per_s
        self._last_arrival_s = max(self._last_arrival_s, arrival)
        self._pipe.append((self._last_arrival_s, content))
        self._pipe_bytes += len(content)
        if self._timer is None:
            self._timer = self._loop.call_at(self._pipe[0][0], self._deliver)

    def _deliver(self) -> None:
        self._timer = None
        if self._network.links.between(self.host, self.peer.host).is_cut:
            self._network.wait_for_repair(self)
            return
        now = self._loop.time()
        arrived: list[bytes] = []
        ended = False
        while self._pipe and self._pipe[0][0] <= now and not ended:
            content = self._pipe.popleft()[1]
            self._pipe_bytes -= len(content)
            ended = content is _END
            if not ended:
                arrived.append(content)
        for content in arrived:
            self.peer._receive(content)
        if ended:
            self.peer._receive_end()
        self.resume_delivery()
        if self._writing_paused and self._pipe_bytes <= self._low and not self._lost:
            self._writing_paused = False
            assert self._protocol is not None
            self._protocol.resume_writing()

    def resume_delivery(self) -> None:
        """Go on with what is under way, at its time or at once when that has passed."""
        if self._pipe and self._timer is None:
            self._timer = self._loop.call_at(max(self._pipe[0][0], self._loop.time()), self._deliver)

    # -- receiving

    def _receive(self, content: bytes) -> None:
        if self._lost:
            return
        if not self._reading:
            self._held.append(content)
            return
        assert self._protocol is not None
        self._protocol.data_received(content)

    def _receive_end(self) -> None:
        if self._lost:
            return
        assert self._protocol is not None
        if not self._protocol.eof_received():
            self._pipe.clear()
            self._lose(None)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        held, self._held = self._held, []
        for content in held:
            self._loop.call_soon(self._receive, content)

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    # -- ending

    def close(self) -> None:
        """Send what was written, then the end; this side hears of the loss at once."""
        if self._closing:
            return
        self._closing = True
        self._send(_END)
        self._lose(None)

    def abort(self) -> None:
        """Reset the connection: what is under way is lost."""
        self.reset(None)

    def reset(self, error: Exception | None, *, reach_peer: bool = True) -> None:
        """End this side now with `error`; the peer hears of a reset when the network lets it."""
        self._closing = True
        self._pipe.clear()
        self._pipe_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._lose(error)
        if reach_peer and not self.was_reset:
            self._network.send_reset(self)
        self.was_reset = True

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._closing = True
        self._network.forget(self)
        if self._protocol is not None:
            self._loop.call_soon(self._protocol.connection_lost, error)

    def is_closing(self) -> bool:
        return self._closing

    @property
    def is_lost(self) -> bool:
        """Whether this end is gone."""
        return self._lost

    # -- the rest of a transport

    def get_protocol(self) -> asyncio.Protocol:
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_WATER_BYTES if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return (self._low, self._high)

    def get_write_buffer_size(self) -> int:
        """Bytes that have not reached the peer."""
        return self._pipe_bytes

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return super().get_extra_info(name, default)


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

    def __init__(self, loop: VirtualLoop, rng: random.Random, links: SimulatedLinks | None = None) -> None:
        self.loop = loop
        self.rng = rng
        self.links = links or SimulatedLinks()
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
