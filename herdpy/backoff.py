"""Backoff: how long to wait before something that failed is tried again.

At the bottom: it imports nothing of ours, has no clock and does not wait. Whoever tries again asks it after
each failure. The randomness keeps many clients that lost the same server from coming back at the same moment.
"""

from __future__ import annotations

import random


class Backoff:
    """Pauses that double from ``first_s`` up to ``max_s``, each shortened at random by up to a share of it.

    Args:
        rng: its randomness; None for one that nobody can foretell.
        spread: the share.

    Attributes:
        next_s: what the next pause is at most.
    """

    __slots__ = ("_first_s", "_max_s", "_random", "_spread", "next_s")

    def __init__(
        self, first_s: float, max_s: float, rng: random.Random | None = None, *, spread: float = 0.25
    ) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._random = random.random if rng is None else rng.random
        self._spread = spread
        self.next_s = first_s

    def pause_s(self) -> float:
        """The pause, in seconds, after one more failure."""
        pause_s = self.next_s
        self.next_s = min(self._max_s, pause_s * 2)
        return pause_s * (1.0 - self._spread * self._random())

    def reset(self) -> None:
        """Forget the failures: something worked."""
        self.next_s = self._first_s
