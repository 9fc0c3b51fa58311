"""Clients that reach this node and not the one that leads. Beside ``guard``, which sessions tell it to.

Servers reach the leader, so no election follows; only clients can tell. One that is looking for the leader,
and finds replicas that follow it alone, says so once a second (``herdpy.leader_unreached()``). One that has
said so for a while counts: before, a leader that has died is still known under its name.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from herdpy_server.cluster.layout import LeaderRecord
from herdpy_server.cluster.lease import Clock, boottime

SETTLED_S = 3.0
"""Who has said it for so long is counted."""
FORGOTTEN_S = 30.0
"""Who has not said it for so long is not."""
_MOST = 1000


class ClientsWithoutLeader:
    """Who cannot reach the leader, by the address that they come from.

    Args:
        changed: called on the loop when somebody is counted, or may not be counted any more.
    """

    def __init__(self, changed: Callable[[], object], clock: Clock = boottime) -> None:
        self._changed = changed
        self._clock = clock
        self._leader = ("", 0)
        self._said: dict[str, tuple[float, float]] = {}  # first and last time of each
        self._later: asyncio.TimerHandle | None = None

    def tell(self, client: str, leader: LeaderRecord) -> None:
        """A client says that it cannot reach this leader."""
        if self._leader != (leader.node, leader.epoch):
            self._leader = (leader.node, leader.epoch)
            self._said.clear()
        now = self._clock()
        if len(self._said) >= _MOST and client not in self._said:
            return  # those that are known say enough
        first, last = self._said.get(client, (now, -math.inf))
        self._said[client] = (first if now - last < FORGOTTEN_S else now, now)
        self._changed()
        if self._later is None:
            self._forget_later()

    def count(self, leader: LeaderRecord | None) -> int:
        """How many cannot reach it, as far as they said so."""
        if leader is None or self._leader != (leader.node, leader.epoch):
            return 0
        now = self._clock()
        return sum(
            last - first >= SETTLED_S and now - last < FORGOTTEN_S for first, last in self._said.values()
        )

    def close(self) -> None:
        """Nobody is asked any more."""
        if self._later is not None:
            self._later.cancel()

    def _forget_later(self) -> None:
        self._later = asyncio.get_running_loop().call_later(FORGOTTEN_S / 2, self._forget)

    def _forget(self) -> None:
        now = self._clock()
        self._said = {who: said for who, said in self._said.items() if now - said[1] < FORGOTTEN_S}
        self._later = None
        if self._said:
            self._forget_later()
        self._changed()
