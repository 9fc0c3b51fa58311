"""What the suite runs on: the model in virtual time, or real servers in real time; the tests can not tell."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from herdpy.bookkeeper.bookie.pool import address_of
from herdpy.bookkeeper.client import BookKeeper
from herdpy.bookkeeper.settings import ClientSettings
from herdpy.testing.model import ModelCluster

T = TypeVar("T")


class Target(Protocol):
    """A cluster of at least three bookies."""

    def run(self, program: Callable[[], Awaitable[T]]) -> T:
        """Run a program that may use the methods below."""

    def client(self, settings: ClientSettings | None = None) -> BookKeeper:
        """A client, not yet open."""

    def address(self, bookie_id: str) -> tuple[str, int]:
        """Where a bookie listens."""


class ModelTarget:
    """Model bookies."""

    def __init__(self, seed: int) -> None:
        self.cluster = ModelCluster(seed, bookies=3)
        self._clients = 0

    def run(self, program: Callable[[], Awaitable[T]]) -> T:
        return self.cluster.run(program)

    def client(self, settings: ClientSettings | None = None) -> BookKeeper:
        self._clients += 1
        return BookKeeper(
            znodes=self.cluster.znodes("client"), settings=settings, rng=random.Random(self._clients)
        )

    def address(self, bookie_id: str) -> tuple[str, int]:
        return address_of(bookie_id)


class RealTarget:
    """Bookies of Java."""

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def run(self, program: Callable[[], Awaitable[T]]) -> T:
        async def main() -> T:
            return await program()

        return asyncio.run(main())

    def client(self, settings: ClientSettings | None = None) -> BookKeeper:
        return BookKeeper(self._uri, settings=settings)

    def address(self, bookie_id: str) -> tuple[str, int]:
        return address_of(bookie_id)
