"""Spare ledgers of the tablespaces that a node follows: should it lead one next, its first ledger is there.

Below ``host``, which has one of these for all replicas. A spare ledger costs three writes to ZooKeeper when
the leader has changed or its ledger was followed by another, and a znode; bookies have nothing of it. So
there are at most so many of a node, made one after the other, a while after the change.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import NamedTuple

from herdpy.bookkeeper import BookKeeper, BookKeeperError
from herdpy.log.bookkeeper import LedgerLogSettings, SpareLedger
from herdpy.log.ledger_list import LedgerListState

logger = logging.getLogger("herdpy.replica")

LOOK_S = 1.0
_DROP_PATIENCE_S = 1.0


class NextTerm(NamedTuple):
    """The term in which a replica may lead next.

    Attributes:
        state: the log's list, as it is known.
        epoch: the term's.
        settings: the log's.
    """

    state: LedgerListState
    epoch: int
    settings: LedgerLogSettings


class SpareLedgers:
    """Those of one node, on its loop.

    Args:
        most: how many; 0: none is made.
    """

    def __init__(self, bk: BookKeeper, node: str, most: int) -> None:
        self._bk = bk
        self._node = node
        self._most = most
        self._expected: dict[SpareLedger, Callable[[], NextTerm | None]] = {}
        self._running: asyncio.Task[None] | None = None

    def add(self, expected: Callable[[], NextTerm | None]) -> SpareLedger:
        """A replica's, to be made when there is room for one more.

        Args:
            expected: gives what it is made for; None: the replica has no use for one now.
        """
        spare = SpareLedger(self._bk, self._node)
        self._expected[spare] = expected
        if self._running is None and self._most:
            self._running = asyncio.get_running_loop().create_task(self._run(), name="spare ledgers")
        return spare

    async def remove(self, spare: SpareLedger) -> None:
        """The replica is closed: its ledger is deleted, if ZooKeeper answers."""
        self._expected.pop(spare, None)
        with contextlib.suppress(BookKeeperError, TimeoutError):
            async with asyncio.timeout(_DROP_PATIENCE_S):
                await spare.drop()

    async def close(self) -> None:
        """Make no more."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for spare, expected in tuple(self._expected.items()):
                try:
                    await self._look(spare, expected)
                except BookKeeperError as error:
                    logger.info("no spare ledger is made", extra={"error": str(error)})

    async def _look(self, spare: SpareLedger, expected: Callable[[], NextTerm | None]) -> None:
        if not spare.is_there and sum(one.is_there for one in self._expected) >= self._most:
            return
        term = expected()
        if term is None:
            await spare.drop()
        else:
            await spare.make(term.state, term.epoch, term.settings)
        if spare not in self._expected:  # the replica was closed meanwhile
            await spare.drop()
