"""Backoff: how long to leave a bookie alone after a connection to it failed.

Pure: no clock of its own, its randomness is handed in. The handle asks it after each failure.
"""

from __future__ import annotations

import random


class Backoff:
    """Pauses that double from `first_s` up to `max_s`, each shortened at random by up to a quarter.

    The randomness keeps many clients that lost the same bookie from coming back at the same moment.
    """

    __slots__ = ("_first_s", "_max_s", "_next_s", "_rng")

    def __init__(self, first_s: float, max_s: float, rng: random.Random) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._rng = rng
        self._next_s = first_s

    def pause_s(self) -> float:
        """The pause, in seconds, after one more failure."""
        pause_s = self._next_s
        self._next_s = min(self._max_s, pause_s * 2)
        return pause_s * (1.0 - 0.25 * self._rng.random())

    def reset(self) -> None:
        """Forget the failures: the bookie answered."""
        self._next_s = self._first_s
