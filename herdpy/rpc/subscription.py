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
from collections.abc import AsyncGenerator

SUBSCRIBE_CODE = 0x4844_0001
"""In the place of the protocol's version, of which no major one is that high."""
TICKET_BYTES = 16
_PACKET = struct.Struct(">II")
_SSL_REQUEST = _PACKET.pack(8, 80877103)
_HEAD = struct.Struct(">cI")
_MAX_BYTES = 16 << 20
_CONNECT_S = 1.0
"""Less than a follower waits for a message: the call has them meanwhile."""


async def subscribed(
    host: str, port: int, ticket: bytes, tls: ssl.SSLContext | None
) -> AsyncGenerator[bytes, None]:
    """The messages of a stream, until the connection ends; none when it cannot be taken there.

    Args:
        tls: what the connection is encrypted with; None: it is not.
    """
    try:
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port)
    except OSError:  # TimeoutError among them
        return
    try:
        with contextlib.suppress(OSError, EOFError):
            async with asyncio.timeout(_CONNECT_S):
                if tls is not None:
                    await _encrypt(reader, writer, tls, host)
                writer.write(_PACKET.pack(8 + len(ticket), SUBSCRIBE_CODE) + ticket)
                await _message(reader)
            while True:
                yield await _message(reader)
    finally:
        writer.transport.abort()


async def _encrypt(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tls: ssl.SSLContext, host: str
) -> None:
    """OSError when the other side has no TLS, or is not who it should be."""
    writer.write(_SSL_REQUEST)
    if await reader.readexactly(1) != b"S":
        raise OSError("TLS is not offered")
    await writer.start_tls(tls, server_hostname=host)


async def _message(reader: asyncio.StreamReader) -> bytes:
    """The body of the next CopyData; OSError when something else comes, EOFError at the end."""
    kind, length = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    if kind != b"d" or not 4 <= length <= _MAX_BYTES:
        raise OSError("the stream was refused, or is none")
    return await reader.readexactly(length - 4)
