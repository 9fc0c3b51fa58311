"""One TCP connection to a bookie, as asyncio sees it: bytes in, whole frames out, and the reverse.

Between asyncio's transport and whoever owns the connection: first the handshake (`connector.establish`),
then the handle (`handle.Bookie`), which lives longer than any connection. It knows frames, not what is in
them. Works on asyncio's and uvloop's loops alike.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Protocol, cast

from herdpy.bookkeeper.bookie.metrics import BookieMetrics
from herdpy.bookkeeper.errors import BookieUnavailableError, ProtocolError
from herdpy.bookkeeper.wire.frames import FrameSplitter

Frame = bytes

WRITE_BYTES = 256 * 1024
"""Frames are joined into writes of about this size (a larger frame goes alone)."""

BUFFER_HIGH_BYTES = 1024 * 1024
"""When the transport holds so much unsent, no more is handed to it until it is down to a quarter."""


class ConnectionOwner(Protocol):
    """Who is told what happens on a connection. Called from the event loop only."""

    def frames_received(self, frames: list[Frame]) -> None:
        """Whole frames arrived, without their length prefix."""

    def adds_acknowledged(self, txns: list[int]) -> None:
        """Frames arrived that say that these adds succeeded."""

    def frame_malformed(self, error: ProtocolError) -> None:
        """What arrived is no frame; nothing after it can be understood."""

    def connection_ended(self, error: Exception | None) -> None:
        """The connection is gone; None when it was closed in order."""

    def writing_paused(self, paused: bool) -> None:
        """The transport's buffer is full, or has room again."""


class BookieConnection(asyncio.Protocol):
    """The protocol object of one connection.

    `writable` is False while the transport's buffer is full; `is_open` turns False for good at the end.
    """

    def __init__(self, max_frame_bytes: int, metrics: BookieMetrics, owner: ConnectionOwner) -> None:
        self.owner = owner
        self.writable = False
        self.is_open = False
        self._max_frame_bytes = max_frame_bytes
        self._metrics = metrics
        self._splitter = FrameSplitter(max_frame_bytes)
        self._transport: asyncio.Transport | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._use(cast("asyncio.Transport", transport))  # uvloop's are not of asyncio's classes
        self.is_open = True
        self.writable = True

    def data_received(self, data: bytes) -> None:
        """Cut into frames and hand them on."""
        if not self.is_open:
            return
        self._metrics.bytes_received += len(data)
        try:
            txns, frames = self._splitter.feed_answers(data)
        except ProtocolError as error:
            self.owner.frame_malformed(error)
            return
        if txns:
            self.owner.adds_acknowledged(txns)
        if frames and self.is_open:
            self.owner.frames_received(frames)

    def pause_writing(self) -> None:
        """Called by the transport when its buffer is full."""
        self.writable = False
        self.owner.writing_paused(True)

    def resume_writing(self) -> None:
        """Called by the transport when its buffer has room again."""
        self.writable = self.is_open
        if self.is_open:
            self.owner.writing_paused(False)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the transport at the end, once."""
        if self.is_open:
            self.is_open = False
            self.writable = False
            self.owner.connection_ended(exc)

    # What the owner calls.

    def write(self, frames: list[bytes]) -> list[bytes]:
        """Hand whole frames to the transport, joined; gives back those that it has no room for.

        The transport may call `pause_writing` before this returns.
        """
        transport = self._transport
        assert transport is not None
        metrics = self._metrics
        size_bytes = sum(map(len, frames))
        if size_bytes <= WRITE_BYTES:
            transport.write(frames[0] if len(frames) == 1 else b"".join(frames))
            metrics.writes += 1
            metrics.frames_sent += len(frames)
            metrics.bytes_sent += size_bytes
            return []
        start = 0
        while start < len(frames) and self.writable:
            end = start + 1
            size_bytes = len(frames[start])
            while end < len(frames) and size_bytes + len(frames[end]) <= WRITE_BYTES:
                size_bytes += len(frames[end])
                end += 1
            transport.write(frames[start] if end == start + 1 else b"".join(frames[start:end]))
            metrics.writes += 1
            metrics.bytes_sent += size_bytes
            start = end
        metrics.frames_sent += start
        return frames[start:]

    async def start_tls(self, context: ssl.SSLContext, server_hostname: str) -> None:
        """Speak TLS from here on.

        What came in the clear and was not yet a whole frame is dropped: it must not be taken for something
        that was said under TLS. Raises ssl.SSLError and ConnectionError.
        """
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self._splitter = FrameSplitter(self._max_frame_bytes)
        upgraded = await loop.start_tls(self._transport, self, context, server_hostname=server_hostname)
        if upgraded is None or not self.is_open:
            raise BookieUnavailableError("the connection was lost during the TLS handshake")
        self._use(upgraded)

    def abort(self) -> None:
        """End the connection now, dropping what is unsent. The owner is not told."""
        self.is_open = False
        self.writable = False
        if self._transport is not None:
            self._transport.abort()

    def _use(self, transport: asyncio.Transport) -> None:
        transport.set_write_buffer_limits(high=BUFFER_HIGH_BYTES, low=BUFFER_HIGH_BYTES // 4)
        self._transport = transport
