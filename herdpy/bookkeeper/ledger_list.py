"""The ledgers of a cluster: their ids, one at a time or all at once, and what their makers wrote about them.

Beside ``client``, above ``metadata.ledger_store``, which finds them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from typing import Any

from herdpy.bookkeeper.errors import BookKeeperError
from herdpy.bookkeeper.metadata.ledger_metadata import LedgerMetadata


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
