"""What ``BookKeeper.list_ledgers`` gives: the ids of all ledgers, one at a time or all at once.

Beside ``client``, above ``metadata.listing``, which finds them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator
from typing import Any


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
