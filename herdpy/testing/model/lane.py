"""The way between a client of the model ZooKeeper and the server: late, and always in order.

Below ``znodes``, above the delays of the network's links.
"""

from __future__ import annotations

import asyncio

from herdpy.testing.model.zookeeper import ModelZooKeeper


class Lane:
    """One direction of a session: what is sent later arrives later."""

    def __init__(self, zookeeper: ModelZooKeeper, source: str, target: str) -> None:
        self._zookeeper = zookeeper
        self._ends = (source, target)
        self._last_s = 0.0

    def arrival_s(self) -> float:
        """When what is sent now arrives."""
        delay_s = self._zookeeper.links.between(*self._ends).delay.draw(self._zookeeper.rng)
        self._last_s = max(self._last_s + 1e-7, self._zookeeper.loop.time() + delay_s)
        return self._last_s

    async def cross(self) -> None:
        """Wait until what is sent now has arrived."""
        await asyncio.sleep(self.arrival_s() - self._zookeeper.loop.time())
