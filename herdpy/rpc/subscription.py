"""Taking a stream that a node has offered over gRPC, at its port of PostgreSQL's protocol: the client's half.

Beside ``address``. A message of gRPC costs its receiver and its sender 200 us of CPU each and more, because
threads of its own pass it on; over a plain connection it costs a third. So a call that sends many small
messages offers a ticket: who sends it in a start-up packet, after TLS where the call had it, gets the
messages as CopyData, an empty one first. docs/protocol.md has the bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import NamedTuple, cast

SUBSCRIBE_CODE = 0x4844_0001
"""In the place of the protocol's version, of which no major one is that high."""
TICKET_BYTES = 16
_PACKET = struct.Struct(">II")
_SSL_REQUEST = _PACKET.pack(8, 80877103)
_HEAD = struct.Struct(">cI")
_MAX_BYTES = 16 << 20
_ROOM_BYTES = 64 << 10
"""What has arrived and nobody takes: with more the other side has to wait."""
_CONNECT_S = 1.0
"""Less than a follower waits for a message: the call has them meanwhile."""


class AtOnce(NamedTuple):
    """Messages that are taken when they arrive.

    Attributes:
        first_byte: of their bodies.
        take: takes one; False: it is left to the stream. It raises nothing.
    """

    first_byte: int
    take: Callable[[bytes], bool]


async def subscribed(
    host: str,
    port: int,
    ticket: bytes,
    tls: ssl.SSLContext | None,
    opened: Callable[[Callable[[bytes], object]], object] = lambda _send: None,
    at_once: AtOnce | None = None,
) -> AsyncGenerator[bytes, None]:
    """The messages of a stream, until the connection ends; none when it cannot be taken there.

    Args:
        tls: what the connection is encrypted with; None: it is not.
        opened: called when the stream is taken there, with what sends a message to the other side.
        at_once: which messages are taken when they arrive, where none before them is left: the stream does
            not have them then.
    """
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, received = await loop.create_connection(partial(_Received, at_once), host, port)
    except OSError:  # TimeoutError among them
        return
    try:
        with contextlib.suppress(OSError, EOFError):
            async with asyncio.timeout(_CONNECT_S):
                if tls is not None:
                    await received.encrypt(tls, host)
                received.send(_PACKET.pack(8 + len(ticket), SUBSCRIBE_CODE) + ticket)
                await received.message()
            opened(received.send_message)
            while True:
                yield await received.message()
    finally:
        received.abort()


class _Received(asyncio.Protocol):
    """The client's end of a connection: what has arrived, taken message by message.

    A stream's reader would do, for twice the work a message.
    """

    def __init__(self, at_once: AtOnce | None) -> None:
        self._at_once = at_once
        self._transport: asyncio.Transport | None = None
        self._data = bytearray()
        self._has_ended = self._is_paused = False
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        if self._at_once is not None and not self._take_at_once(self._at_once):
            return
        if len(self._data) > _ROOM_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    def _take_at_once(self, at_once: AtOnce) -> bool:
        """Take what may be at the head of the buffer; whether anything is left."""
        data, body = self._data, _HEAD.size
        while len(data) > body:
            kind, length = _HEAD.unpack_from(data)
            if kind != b"d" or data[body] != at_once.first_byte or not 4 < length < len(data):
                return True
            if not at_once.take(bytes(data[body : length + 1])):
                return True
            del data[: length + 1]
        return bool(data)

    def eof_received(self) -> None:
        self._has_ended = True
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._has_ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _more(self) -> None:
        """Wait for more bytes; EOFError at the end."""
        if self._has_ended:
            raise EOFError
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def encrypt(self, tls: ssl.SSLContext, host: str) -> None:
        """OSError when the other side has no TLS, or is not who it should be."""
        assert self._transport is not None
        self.send(_SSL_REQUEST)
        while not self._data:
            await self._more()
        if self._data != b"S":
            raise OSError("TLS is not offered")
        self._data.clear()
        loop = asyncio.get_running_loop()
        self._transport = await loop.start_tls(self._transport, self, tls, server_hostname=host)

    def send(self, data: bytes) -> None:
        """Send that."""
        assert self._transport is not None
        self._transport.write(data)

    def send_message(self, body: bytes) -> None:
        """Send that as CopyData, unless the connection has ended."""
        if not self._has_ended:
            self.send(_HEAD.pack(b"d", 4 + len(body)) + body)

    async def message(self) -> bytes:
        """The body of the next CopyData; OSError when something else comes, EOFError at the end."""
        data = self._data
        while len(data) < _HEAD.size:
            await self._more()
        kind, length = _HEAD.unpack_from(data)
        if kind != b"d" or not 4 <= length <= _MAX_BYTES:
            raise OSError("the stream was refused, or is none")
        while len(data) <= length:
            await self._more()
        body = bytes(data[_HEAD.size : length + 1])
        del data[: length + 1]
        return body

    def abort(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()
