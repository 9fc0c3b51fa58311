"""A log's nodes on a model cluster, in virtual time: short ways to lead, follow and compare."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.log import LSN, START, Insert, LoggedTransaction, TransactionAssembler
from herdpy.log.bookkeeper import (
    FollowedLog,
    LeaderLog,
    LedgerLogSettings,
    Takeover,
    ZnodeLedgerList,
    take_over,
)
from herdpy.log.bookkeeper.pacing import nothing_open
from herdpy.testing.model import ModelCluster, on_host

T = TypeVar("T")
PATH = "/herdpy/tablespaces/t/ledgers"


def transaction(number: int, size: int = 8) -> LoggedTransaction:
    """A transaction that is known by its number."""
    return LoggedTransaction(number, [Insert(1, b"key", b"x" * size)])


async def numbers(entries: Any, after: LSN = START) -> list[int]:
    """The numbers of the transactions that take effect in the entries."""
    assembler = TransactionAssembler(after)
    return [one.timestamp_us async for _, entry in entries for _, one in assembler.feed(entry)]


class Node:
    """A client of the cluster, with what it thinks of the log."""

    def __init__(self, name: str, bk: BookKeeper, settings: LedgerLogSettings, path: str = PATH) -> None:
        self.name = name
        self.bk = bk
        self.settings = settings
        self.list = ZnodeLedgerList(bk.znodes, path)
        self.logs: list[Any] = []

    def follow(self) -> FollowedLog:
        log = FollowedLog(self.bk, self.list, self.settings)
        self.logs.append(log)
        return log

    async def take_over(self, epoch: int) -> Takeover:
        takeover = await take_over(self.bk, self.list, self.settings, self.name, epoch)
        self.logs.append(takeover.log)
        return takeover

    async def lead(
        self,
        epoch: int,
        acknowledge: Any = None,
        on_lost: Any = None,
        open_transactions: Callable[[], int] = nothing_open,
    ) -> LeaderLog:
        takeover = await self.take_over(epoch)
        clock = asyncio.get_running_loop().time
        log = await takeover.lead(
            acknowledge, on_lost=on_lost, clock=clock, open_transactions=open_transactions
        )
        self.logs.append(log)
        return log

    async def contents(self) -> list[int]:
        """All that is in the log, read as a follower reads it once its writer reported it as confirmed."""
        await asyncio.sleep(1)
        return await numbers(self.follow().read(START))

    async def close(self) -> None:
        for log in self.logs:
            if isinstance(log, LeaderLog):
                log.abandon()
            else:
                await log.close()
        await self.bk.close()


class Place:
    """A model cluster with nodes on hosts of their own."""

    def __init__(self, seed: int = 1, bookies: int = 4, **settings: Any) -> None:
        self.cluster = ModelCluster(seed, bookies)
        self.settings = LedgerLogSettings(**settings)
        self._stack = AsyncExitStack()

    async def node(self, name: str, **settings: Any) -> Node:
        with on_host(name):
            bk = BookKeeper(
                znodes=self.cluster.znodes(name),
                rng=random.Random(f"{self.cluster.seed} {name}"),
                settings=ClientSettings(request_timeout_s=1.0, connect_timeout_s=1.0, **settings),
            )
            await bk.open()
        node = Node(name, bk, self.settings)
        self._stack.push_async_callback(node.close)
        return node

    def run(self, program: Callable[[], Awaitable[T]]) -> T:
        async def main() -> T:
            async with self._stack:
                return await program()

        return self.cluster.run(main)
