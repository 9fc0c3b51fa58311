"""A cluster for people: its bookies (up, read-only, gone, how much room) and its ledgers' ids and labels.

Below ``client``. Bookies are known from the registry (who is up now), from the cookies in ZooKeeper (who ever
was), and from the bookies themselves (their disks); ledgers from ``metadata.ledger_store``.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from herdpy.bookkeeper.bookie.pool import BookiePool
from herdpy.bookkeeper.errors import BookKeeperError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from herdpy.bookkeeper.metadata.registry import Registry
from herdpy.bookkeeper.metadata.znodes import NoNodeError, Znodes


class BookieState(enum.Enum):
    """What ZooKeeper says of a bookie: WRITABLE, READ_ONLY (no new entries), or DOWN (not registered)."""

    WRITABLE = "writable"
    READ_ONLY = "read-only"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class BookieInfo:
    """A bookie.

    Attributes:
        id: its name in ensembles, often host:port.
        host, port: where it listens; None when it is down.
        total_bytes, free_bytes: of the disks that hold its ledgers; None when it did not say.
        problem: why it did not say.
    """

    id: str
    state: BookieState
    host: str | None = None
    port: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    problem: str | None = None


async def bookies_of(znodes: Znodes, root: str, registry: Registry, pool: BookiePool) -> list[BookieInfo]:
    """Every bookie with a cookie or a registration, by id; those that are up are asked at the same time."""
    up = dict.fromkeys(registry.readonly, BookieState.READ_ONLY)
    up |= dict.fromkeys(registry.available, BookieState.WRITABLE)
    try:
        known = await znodes.children(f"{root}/cookies")
    except NoNodeError:
        known = []
    asked = await asyncio.gather(*(_ask(one, up[one], registry, pool) for one in sorted(up)))
    gone = [BookieInfo(one, BookieState.DOWN) for one in known if one not in up]
    return sorted([*asked, *gone], key=lambda info: info.id)


async def _ask(bookie_id: str, state: BookieState, registry: Registry, pool: BookiePool) -> BookieInfo:
    host, port = registry.address(bookie_id)
    try:
        info = await pool.get(bookie_id).info()
    except BookKeeperError as error:
        return BookieInfo(bookie_id, state, host, port, problem=str(error))
    return BookieInfo(bookie_id, state, host, port, info.total_bytes, info.free_bytes)


# Ledgers.


class LedgerIds:
    """The ids of a cluster's ledgers: ``async for`` gives one at a time, ``await`` a sorted list."""

    def __init__(self, ids: Callable[[], AsyncIterator[int]]) -> None:
        self._ids = ids

    def __aiter__(self) -> AsyncIterator[int]:
        return self._ids()

    def __await__(self) -> Generator[Any, None, list[int]]:
        return self._all().__await__()

    async def _all(self) -> list[int]:
        return sorted([ledger_id async for ledger_id in self._ids()])


class LedgerLabels:
    """The custom metadata of all ledgers, which never change: read once for each ledger, whoever asks.

    Attributes:
        reads: how many ledgers' metadata were read so far.
    """

    def __init__(self) -> None:
        self.reads = 0
        self._known: dict[int, Mapping[str, bytes]] = {}
        self._shared: dict[tuple[tuple[str, bytes], ...], Mapping[str, bytes]] = {}
        self._lock = asyncio.Lock()

    async def of_all(
        self, ids: LedgerIds, metadata: Callable[[int], Awaitable[LedgerMetadata]]
    ) -> Mapping[int, Mapping[str, bytes]]:
        """Those of the ledgers that there are now; without those that cannot be read.

        Args:
            ids: of all ledgers.
            metadata: reads a ledger's.
        """
        async with self._lock:
            there = await ids
            found: dict[int, Mapping[str, bytes]] = {}
            for ledger_id in there:
                custom = self._known.get(ledger_id)
                if custom is None:
                    try:
                        self.reads += 1
                        custom = (await metadata(ledger_id)).custom_metadata
                    except BookKeeperError:
                        continue  # gone meanwhile, or not readable now: asked for again the next time
                found[ledger_id] = self._shared.setdefault(tuple(sorted(custom.items())), custom)
            self._known = found
            self._shared = {tuple(sorted(one.items())): one for one in found.values()}
            return dict(found)
