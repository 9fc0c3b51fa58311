"""Whether a replica's disk takes what has to be written: room on it, and checkpoints that succeed.

Below ``fitness``. A leader's commits are durable on the bookies, whatever becomes of its own disk: it can go
on until its memory is full. That is time enough to have another one lead, and none to be wasted.
"""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from herdpy_server.tablespace import store_error

if TYPE_CHECKING:
    from herdpy_server.replica.replica import Replica

_ENOUGH_AGAIN = 1.5
"""Room is back when there is so many times as much as there has to be: not to and fro at the edge."""
_CADENCE_S = 0.5
_TOO_MANY_READERS = "53400"


class DiskHealth:
    """Of one replica.

    Args:
        least_free_bytes: how much room there has to be; 0: any.
    """

    def __init__(self, least_free_bytes: int) -> None:
        self._least = least_free_bytes
        self._problem: str | None = None
        self._next_s = 0.0
        self._since = ""

    def problem(self, replica: Replica) -> str | None:
        """Why the disk is not well; None: it is. Asked anew now and then."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._next_s:
            self._next_s = now_s + _CADENCE_S
            found = self._find(replica)
            if found is not None and self._problem is None:
                self._since = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            self._problem = None if found is None else f"{found} since {self._since}"
        return self._problem

    def _find(self, replica: Replica) -> str | None:
        body = replica.body
        if body is None:
            return None  # it does not lead anyway
        failure = body.checkpointer.failure
        if failure is not None:
            told = store_error(failure)
            if told.sqlstate != _TOO_MANY_READERS:  # they end, and would be no fewer elsewhere
                return f"its store cannot be written ({told.detail or told})"
        if self._least:
            least = self._least if self._problem is None else int(self._least * _ENOUGH_AGAIN)
            try:
                if free_bytes(body.path) < least:
                    return f"its disk has less than {self._least >> 20} MiB free"
            except OSError as error:
                return f"its disk does not answer ({error.strerror})"
        return None


def free_bytes(path: Path) -> int:
    """How much room there is where ``path`` lies; of a mounted file system that is known without a wait."""
    about = os.statvfs(path)
    return about.f_bavail * about.f_frsize
