"""A bookie's raw conversation: frames sent as they are, replies with both statuses and every field."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from herdpy.bookkeeper.digest import Digest, DigestType, master_key
from herdpy.bookkeeper.wire import messages
from herdpy.bookkeeper.wire.entries import AddEncoder, encode_read
from herdpy.bookkeeper.wire.frames import FrameSplitter
from herdpy.bookkeeper.wire.messages import Reply, parse_reply
from tests.bookkeeper.suite.targets import Target

PASSWORD = b"secret"
KEY = master_key(PASSWORD)
DIGEST = Digest.of(DigestType.CRC32C, PASSWORD)


class RawBookie:
    """A connection to one bookie; each method sends one request and returns its reply."""

    def __init__(self, ledger_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.ledger_id = ledger_id
        self._reader = reader
        self._writer = writer
        self._txns = itertools.count(1)
        self._splitter = FrameSplitter()
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._task = asyncio.create_task(self._receive())

    async def _receive(self) -> None:
        while data := await self._reader.read(65536):
            for frame in self._splitter.feed(data):
                reply = parse_reply(frame)
                self._waiting.pop(reply.txn).set_result(reply)
        for future in self._waiting.values():
            future.set_exception(ConnectionError("the bookie closed the connection"))

    async def ask(self, encode: Callable[[int], bytes]) -> Reply:
        """Send what `encode` makes of a transaction id, and await the reply."""
        txn = next(self._txns)
        future = self._waiting[txn] = asyncio.get_running_loop().create_future()
        self._writer.write(encode(txn))
        return await future

    async def add(
        self,
        entry_id: int,
        lac: int,
        data: bytes = b"data",
        *,
        key: bytes = KEY,
        recovery: bool = False,
        deferred: bool = False,
    ) -> Reply:
        encoder = AddEncoder(self.ledger_id, key, DIGEST, recovery=recovery, deferred_sync=deferred)
        return await self.ask(lambda txn: encoder.encode(txn, entry_id, lac, len(data), data))

    async def read(self, entry_id: int, ledger_id: int | None = None) -> Reply:
        wanted = self.ledger_id if ledger_id is None else ledger_id
        return await self.ask(lambda txn: encode_read(txn, wanted, entry_id))

    async def fence(self, entry_id: int = -1, key: bytes = KEY) -> Reply:
        return await self.ask(lambda txn: messages.fence_read(txn, self.ledger_id, key, entry_id))

    async def long_poll(self, previous_lac: int, timeout_ms: int, ledger_id: int | None = None) -> Reply:
        wanted = self.ledger_id if ledger_id is None else ledger_id
        return await self.ask(lambda txn: messages.long_poll(txn, wanted, previous_lac, timeout_ms))

    async def write_lac(self, lac: int, key: bytes = KEY) -> Reply:
        body = DIGEST.seal_lac(self.ledger_id, lac)
        return await self.ask(lambda txn: messages.write_lac(txn, self.ledger_id, key, body))

    async def read_lac(self, ledger_id: int | None = None) -> Reply:
        wanted = self.ledger_id if ledger_id is None else ledger_id
        return await self.ask(lambda txn: messages.read_lac(txn, wanted))

    async def force(self) -> Reply:
        return await self.ask(lambda txn: messages.force(txn, self.ledger_id))

    async def list_entries(self, ledger_id: int | None = None) -> Reply:
        wanted = self.ledger_id if ledger_id is None else ledger_id
        return await self.ask(lambda txn: messages.list_entries(txn, wanted))

    async def close(self) -> None:
        self._writer.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@dataclass(frozen=True)
class Conversation:
    """A new ledger of one bookie, unknown to it until now, and a connection to that bookie."""

    bookie: RawBookie
    ledger_id: int


@asynccontextmanager
async def conversation(target: Target) -> AsyncIterator[RawBookie]:
    """A connection to a bookie about a ledger that is in the metadata, and that the bookie never heard of.

    (Bookies drop ledgers that are not in the metadata.)
    """
    client = target.client()
    async with client:
        writer = await client.create_ledger(1, 1, 1, DigestType.CRC32C, PASSWORD)
        ledger_id = writer.ledger_id
        (bookie_id,) = writer.metadata.last_segment.members
    bookie = RawBookie(ledger_id, *await asyncio.open_connection(*target.address(bookie_id)))
    try:
        yield bookie
    finally:
        await bookie.close()
