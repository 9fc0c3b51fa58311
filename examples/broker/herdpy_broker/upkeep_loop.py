"""The upkeep loop: what must be done now and then for all tasks, by any worker. Layer 3.

Every worker does it, at random times; the more workers there are, the less often each does. The functions
take locked rows of another worker's round for done (SKIP LOCKED), and cost a look at an index when there is
nothing.
"""

from __future__ import annotations

import logging
import random
import threading
from typing import Any

import herdpy
from herdpy_broker import schedule, upkeep, workers
from herdpy_broker.errors import BrokerError

logger = logging.getLogger("herdpy_broker")

UPKEEP_S = 0.5
"""All workers together do a round so often, in seconds: delays and schedules are as exact as that."""
_LONGEST_PAUSE_S = 10.0

_ROUND = (workers.reap, upkeep.promote, upkeep.expire, schedule.fire)


class UpkeepLoop:
    """Gives dead workers' tasks back, and has delays, dead-lines and schedules take effect.

    Args:
        pool: lends connections in autocommit mode.
    """

    def __init__(self, pool: herdpy.Pool[Any], upkeep_s: float = UPKEEP_S) -> None:
        self._pool, self._upkeep_s = pool, upkeep_s

    def run(self, ended: threading.Event) -> None:
        """Do rounds until ``ended`` is set; the one that is under way is ended."""
        workers_there = 1
        while not ended.wait(self._pause_s(workers_there)):
            try:
                with self._pool.connection() as connection:
                    workers_there = _round(connection)
            except (herdpy.Error, BrokerError) as error:
                logger.warning("a round of upkeep failed: %s", error)

    def _pause_s(self, workers_there: int) -> float:
        pause_s = min(self._upkeep_s * workers_there, _LONGEST_PAUSE_S)
        return pause_s * random.uniform(0.5, 1.0)


def _round(connection: herdpy.Connection[Any]) -> int:
    """Do it all once; how many workers there are."""
    for step in _ROUND:
        step(connection)
    return len(workers.there(connection))
