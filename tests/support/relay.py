"""A way through for bytes between clients and a server, that tests cut, watch and lose replies on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager

_CHUNK_BYTES = 65_536

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def until_either_ends(*directions: Coroutine[None, None, None]) -> None:
    """Run them side by side; the first to end ends the others."""
    tasks = [asyncio.ensure_future(one) for one in directions]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Relay:
    """Hands bytes on between clients of a free loopback port and a server, until it is `cut`.

    A kind of its own says in `carry` what of a connection is handed on. Whatever ends a connection,
    and at whatever moment, both of its sockets are closed.
    """

    def __init__(self, connect: Callable[[], Awaitable[Streams]]) -> None:
        self.port = 0
        self._connect = connect
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Where clients connect: host:port."""
        return f"127.0.0.1:{self.port}"

    async def start(self) -> str:
        """Listen; return the address."""
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = int(self._listener.sockets[0].getsockname()[1])
        return self.address

    def cut(self) -> None:
        """Hand nothing on any more; connections stay open, as behind a pulled cable."""
        self._open.clear()

    def heal(self) -> None:
        """Hand on again, what came meanwhile first."""
        self._open.set()

    async def close(self) -> None:
        """Listen no more, and end all connections."""
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def carry(self, client: Streams, server: Streams) -> None:
        """Hand on in both directions until either side ends."""
        await until_either_ends(self.hand_on(client[0], server[1]), self.hand_on(server[0], client[1]))

    async def hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand on in one direction until it ends."""
        while data := await reader.read(_CHUNK_BYTES):
            await self._open.wait()
            writer.write(data)
            await writer.drain()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            up_reader, up_writer = await self._connect()
            try:
                await self.carry((reader, writer), (up_reader, up_writer))
            finally:
                up_writer.close()
        except OSError:
            pass  # the server is not there, or either side is gone: so is the other
        finally:
            writer.close()


@asynccontextmanager
async def relay_to(hostport: str) -> AsyncIterator[Relay]:
    """A relay to that server, for the length of the block."""
    host, _, port = hostport.rpartition(":")
    relay = Relay(lambda: asyncio.open_connection(host, int(port)))
    await relay.start()
    try:
        yield relay
    finally:
        await relay.close()
