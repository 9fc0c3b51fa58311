"""Who follows a ledger in tests of tails, and keeps what it is given."""

from __future__ import annotations

import asyncio

from herdpy.bookkeeper.digest import Entry
from herdpy.bookkeeper.read import LedgerReader


class Follower:
    """Collects what a tail gives, with the time of each."""

    def __init__(self, reader: LedgerReader, from_entry: int = 0) -> None:
        self.entries: list[Entry] = []
        self.at: list[float] = []
        self._reader = reader
        self._from = from_entry
        self._came = asyncio.Event()
        self.task = asyncio.ensure_future(self._follow())

    @property
    def ids(self) -> list[int]:
        return [entry.entry_id for entry in self.entries]

    async def _follow(self) -> None:
        async for entry in self._reader.tail(self._from):
            self.entries.append(entry)
            self.at.append(asyncio.get_running_loop().time())
            self._came.set()

    async def until(self, count: int) -> None:
        while len(self.entries) < count:
            self._came.clear()
            async with asyncio.timeout(60):
                await self._came.wait()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def now() -> float:
    return asyncio.get_running_loop().time()
