"""Which bookies answer this node: asked all the time, so that it is known before anybody waits for it.

Part of ``host``, below ``fitness``. A bookie that is registered in ZooKeeper may still be out of this node's
reach, in one direction or both, while others reach it. Nothing tells of that but silence.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from herdpy.bookkeeper import BookKeeper
from herdpy.bookkeeper.errors import ClosedClientError
from herdpy.bookkeeper.metadata.znodes import Listeners

LOOK_S = 0.1
"""How often it is looked at, and its listeners are called."""
ASK_S = 0.2
"""A bookie that has said nothing for so long is asked for a sign of life; so long after a refusal, too."""
FEW = 6
"""So many bookies are enough to be asked all the time; others are asked when those are silent, and rarely."""
RARELY_S = 5.0


class BookieReach:
    """Of one node, on its loop.

    Attributes:
        listeners: called after each look.
    """

    def __init__(self, bk: BookKeeper) -> None:
        self.listeners: Listeners[[]] = Listeners()
        self._bk = bk
        self._heard_s: dict[str, float] = {}  # when each bookie was heard last, or was first known
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._due_s: dict[str, float] = {}  # when each bookie may be asked again
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Ask from now on, until the client of BookKeeper is closed. May be repeated."""
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run(), name="reach")

    async def close(self) -> None:
        """Ask no more. May be repeated."""
        tasks = [task for task in (self._running, *self._asked.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def silent_s(self, needed: int) -> float:
        """For how long fewer than ``needed`` of the registered bookies have been heard. 0: there are not so
        many, so that nobody reaches them.
        """
        now_s = asyncio.get_running_loop().time()
        ages_s = sorted(now_s - heard_s for heard_s in self._heard().values())
        return ages_s[needed - 1] if len(ages_s) >= needed else 0.0

    def answering(self, within_s: float) -> frozenset[str]:
        """The bookies that have been heard so lately."""
        from_s = asyncio.get_running_loop().time() - within_s
        return frozenset(one for one, heard_s in self._heard().items() if heard_s >= from_s)

    def _heard(self) -> dict[str, float]:
        """When each registered bookie was heard last, or was first known. Whatever it says counts: an answer
        may have to wait behind many others.
        """
        now_s = asyncio.get_running_loop().time()
        try:
            return {
                one: max(self._bk.heard_s(one), self._heard_s.get(one, now_s))
                for one in self._bk.writable_bookies()
            }
        except ClosedClientError:
            return {}

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        with contextlib.suppress(ClosedClientError):
            while True:
                late_s = loop.time() - due_s
                if late_s > LOOK_S:  # this process stood still, and answers wait to be read
                    self._heard_s = {one: heard_s + late_s for one, heard_s in self._heard_s.items()}
                self._look()
                due_s = loop.time() + LOOK_S
                await asyncio.sleep(LOOK_S)

    def _look(self) -> None:
        self._bk.writable_bookies()  # or the client is closed
        self._heard_s = heard_s = self._heard()
        self._due_s = {one: due_s for one, due_s in self._due_s.items() if one in heard_s}
        loop = asyncio.get_running_loop()
        for one in to_be_asked(heard_s, loop.time()):
            if one not in self._asked and loop.time() >= self._due_s.get(one, 0.0):
                self._asked[one] = loop.create_task(self._ask(one), name="reach asks")
        self.listeners.tell()

    async def _ask(self, bookie_id: str) -> None:
        """Ask once, with all the patience of a request: an answer that comes late shows that it is heard."""
        try:
            await self._bk.answers(bookie_id)
            self._due_s[bookie_id] = asyncio.get_running_loop().time() + ASK_S
        except ClosedClientError:
            return
        finally:
            self._asked.pop(bookie_id, None)


def to_be_asked(heard_s: Mapping[str, float], now_s: float) -> list[str]:
    """The bookies that are to be asked now, of those that there are, by when they were heard last.

    A few that say something show that the network is well. Only when they fall silent all others count.
    """
    latest = sorted(heard_s, key=lambda one: (-heard_s[one], one))
    heard = sum(1 for one in latest if now_s - heard_s[one] <= 2 * ASK_S)
    all_the_time = latest if heard < FEW else latest[:FEW]
    often = {one for one in all_the_time if now_s - heard_s[one] >= ASK_S}
    return [one for one in latest if one in often or now_s - heard_s[one] >= RARELY_S]
