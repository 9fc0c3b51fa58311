"""One client's own way to ZooKeeper, which can be cut while everybody else's works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_CHUNK_BYTES = 65_536


class Relay:
    """Hands bytes on between clients of a free loopback port and a server, until it is `cut`."""

    def __init__(self, host: str, port: int) -> None:
        self.address = ""
        self._server = host, port
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """Hand nothing on any more; connections stay open, as behind a pulled cable."""
        self._open.clear()

    def heal(self) -> None:
        """Hand on again, what came meanwhile first."""
        self._open.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One client's connection."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._server)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._hand_on(reader, up_writer))
                both.create_task(self._hand_on(up_reader, writer))
        except* (OSError, asyncio.CancelledError):
            writer.close()
        finally:
            self._tasks.discard(task)

    async def close(self) -> None:
        """End all connections."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(_CHUNK_BYTES):
                await self._open.wait()
                writer.write(data)
        finally:
            writer.close()


@asynccontextmanager
async def relay_to(hostport: str) -> AsyncIterator[Relay]:
    """A relay to that server, for the length of the block; `address` is where clients connect."""
    host, _, port = hostport.rpartition(":")
    relay = Relay(host, int(port))
    listener = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.address = "{}:{}".format(*listener.sockets[0].getsockname())
    try:
        yield relay
    finally:
        listener.close()
        await relay.close()
