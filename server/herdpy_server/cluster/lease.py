"""The leader's lease: until when nobody else can lead, by a clock that never stops.

Pure: no ZooKeeper here. ``renewal`` tells a lease of each proof that the leader's session lived, ``term``
opens it once the predecessor's is over, and whoever answers a read asks ``valid()`` *after* the read and
before the answer. Why that suffices is in DESIGN.md.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds from some fixed moment, running also while the process is stopped or the machine sleeps."""

boottime: Clock = functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)

DRIFT = 0.02
"""How much two machines' clocks may differ in speed (NTP bends one by 0.0005 at most)."""


def _nothing() -> None:
    """Nobody waits."""


class Lease:
    """One term's lease, of ``lease_s`` seconds from the sending of each proof.

    The holder counts a little less than ``lease_s`` (DRIFT), the successor waits all of it.
    """

    __slots__ = (
        "_clock",
        "_held_s",
        "_is_open",
        "_proved_until_s",
        "_until_s",
        "proved",
        "session",
        "since_s",
    )

    def __init__(self, lease_s: float, session: int, clock: Clock = boottime) -> None:
        """Args:
        session: the number of the ZooKeeper session that the term lives in.
        """
        self.session = session
        self.since_s = clock()
        self.proved: Callable[[], object] = _nothing  # called after each proof
        self._clock = clock
        self._held_s = lease_s * (1 - DRIFT)
        self._is_open: bool | None = False
        self._until_s = -math.inf
        self._proved_until_s = -math.inf

    def valid(self) -> bool:
        """Whether nobody else can have led up to this moment."""
        return self._clock() < self._until_s

    @property
    def until_s(self) -> float:
        """When it ends unless it is renewed, by the lease's clock; in the past when there is none."""
        return self._until_s

    def prove(self, sent_s: float, session: int) -> None:
        """The session lived when it was asked, at ``sent_s`` or later, and answered."""
        if session != self.session or sent_s < self.since_s:
            return
        self._proved_until_s = max(self._proved_until_s, sent_s + self._held_s)
        if self._is_open:
            self._until_s = self._proved_until_s
        self.proved()

    def open(self) -> None:
        """The predecessor's lease is over: from now on each proof counts, and so does the last one."""
        if self._is_open is False:
            self._is_open = True
            self._until_s = self._proved_until_s

    def drop(self) -> None:
        """It is over, for good."""
        self._is_open = None
        self._until_s = -math.inf
