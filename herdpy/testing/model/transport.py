"""One end of a simulated TCP connection: an asyncio transport over a pair of directed pipes.

A pipe keeps the order of its bytes whatever the delays are, may deliver one write in two halves, holds
everything back while its link is cut, and loses what is under way when the connection is reset.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from herdpy.testing.model.network import SimulatedNetwork

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
