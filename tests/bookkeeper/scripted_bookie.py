"""A bookie played by the test: a server on a free loopback port that says exactly what its script has.

Its replies are made with protobuf, not with the encoders of the client, so that the two check each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
import uvloop

from herdpy.bookkeeper.bookie import AnsweringBookie, Bookie, BookiePool
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.bookkeeper.wire.proto import protocol_pb2 as pb
from herdpy.bookkeeper.wire.protocol import Operation

LEDGER = 7
KEY = bytes(range(20))

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
on_both_loops = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


def run(test: Callable[[], Coroutine[Any, Any, None]], loop: str = "asyncio") -> None:
    """Run a test on one of the loops; what reaches the loop's exception handler fails it."""
    unhandled: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        async with asyncio.timeout(90):
            await test()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())
    assert unhandled == []


def frame(message: Any) -> bytes:
    """A message as it goes over the wire."""
    body = message.SerializeToString()
    return struct.pack(">I", len(body)) + body


def add_frame(txn: int, entry_id: int = 0, data: bytes = b"data") -> bytes:
    """An add, as a writer would hand it over."""
    request = pb.Request()
    request.header.version, request.header.operation, request.header.txn = 3, Operation.ADD_ENTRY, txn
    request.add.ledger_id, request.add.entry_id = LEDGER, entry_id
    request.add.master_key, request.add.body = KEY, data
    return frame(request)


def response_to(request: pb.Request, status: int = 0) -> pb.Response:
    """A reply with the right header and, where an operation has one, the right kind of body."""
    response = pb.Response()
    response.header.CopyFrom(request.header)
    response.status = status
    for name in ("add", "read", "write_lac", "read_lac", "force", "list"):
        if request.HasField(name):
            part = getattr(response, name)
            part.status = status
            part.ledger_id = getattr(request, name).ledger_id
            if name in ("add", "read"):
                part.entry_id = getattr(request, name).entry_id
    if request.HasField("info"):
        response.info.status = status
    if request.HasField("start_tls"):
        response.start_tls.SetInParent()
    return response


class Peer:
    """One connection, seen from the bookie."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> pb.Request:
        """The next request."""
        (size,) = struct.unpack(">I", await self.reader.readexactly(4))
        return pb.Request.FromString(await self.reader.readexactly(size))

    async def requests(self, count: int) -> list[pb.Request]:
        """The next so many requests."""
        return [await self.request() for _ in range(count)]

    def send(self, data: bytes) -> None:
        """Any bytes."""
        self.writer.write(data)

    def reply(self, request: pb.Request, status: int = 0) -> None:
        """Answer a request in the plainest way."""
        self.send(frame(response_to(request, status)))

    def reply_auth(self, request: pb.Request, payload: bytes, plugin: str = "two-step") -> None:
        """Answer a token with a token."""
        response = response_to(request)
        response.auth.plugin, response.auth.payload = plugin, payload
        self.send(frame(response))

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Speak TLS from here on, as the server."""
        await self.writer.start_tls(context)

    async def ended(self) -> None:
        """Wait until the client is gone."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                pass

    def close(self) -> None:
        """End the connection in order."""
        self.writer.close()

    def abort(self) -> None:
        """End the connection at once."""
        self.writer.transport.abort()


class ScriptedBookie:
    """The server; `await accept()` gives each connection in turn."""

    def __init__(self) -> None:
        self._peers: asyncio.Queue[Peer] = asyncio.Queue()
        self._all: list[Peer] = []
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def id(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def accepted(self) -> int:
        """How many connections there were."""
        return len(self._all)

    async def start(self) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            peer = Peer(reader, writer)
            self._all.append(peer)
            self._peers.put_nowait(peer)

        self._server = await asyncio.start_server(connected, "127.0.0.1", self.port, limit=2**24)
        self.port = self._server.sockets[0].getsockname()[1]

    async def accept(self) -> Peer:
        return await self._peers.get()

    async def stop(self) -> None:
        """Refuse connections from now on, and end those there are."""
        assert self._server is not None
        self._server.close()
        for peer in self._all:
            peer.abort()
        await self._server.wait_closed()


class Op:
    """An add's receiver: keeps every reply, and lets a test await the first."""

    def __init__(self, timeout_s: float = 5.0, size_bytes: int = 100) -> None:
        self.deadline_s = asyncio.get_running_loop().time() + timeout_s
        self.size_bytes = size_bytes
        self.statuses: list[int] = []
        self._told = asyncio.Event()

    def on_add_reply(self, bookie: AnsweringBookie, status: int) -> None:
        self.statuses.append(status)
        self._told.set()

    async def status(self) -> int:
        """The status reported; that it was reported once only is checked, too."""
        await self._told.wait()
        assert len(self.statuses) == 1
        return self.statuses[0]


@contextlib.asynccontextmanager
async def scripted(
    settings: ClientSettings | None = None,
) -> AsyncIterator[tuple[ScriptedBookie, Bookie, BookiePool]]:
    """A scripted bookie, the client's handle of it, and the pool the handle is of."""
    server = ScriptedBookie()
    await server.start()
    pool = BookiePool(settings or ClientSettings())
    try:
        yield server, pool.get(server.id), pool
    finally:
        pool.close()
        await pool.wait_closed()
        await server.stop()


def send_add(pool: BookiePool, bookie: Bookie, op: Op, data: bytes = b"data") -> int:
    """Send one add; gives its transaction id."""
    txn = pool.next_txn()
    bookie.send_add(txn, add_frame(txn, data=data), op)
    return txn
