"""Shares: which group's tasks a worker claims next. The bottom of layer 3: no I/O, no clock.

Stride scheduling: a group has a *pass* that grows by 1 / weight with each of its tasks, and the smallest pass
is served next. So groups that have work get tasks in the ratio of their weights, and a place that one group
does not use goes to the next.

    wake(group) -> turn(free places) -> claim -> charge(group, tasks) -> sleep(group), when it had fewer
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping

_UNIT = 1 << 40
"""A pass of weight 1, as an integer, so that passes never lose precision."""


class Shares:
    """The turns of the groups that have work.

    Args:
        only: the groups that get turns; None for all.
    """

    def __init__(self, only: Collection[str] | None = None) -> None:
        self._only = None if only is None else frozenset(only)
        self._weights: Mapping[str, int] = {}
        self._paused: Collection[str] = frozenset()
        self._passes: dict[str, int] = {}
        self._awake: set[str] = set()
        self._now = 0

    def set_groups(self, weights: Mapping[str, int], paused: Collection[str] = ()) -> None:
        """Take the groups' weights (1 for groups not named), and the groups that get no turns."""
        self._weights = dict(weights)
        self._paused = frozenset(paused)
        self._awake -= self._paused
        self._passes = {
            group: at for group, at in self._passes.items() if at > self._now or group in self._awake
        }

    def wake(self, group: str) -> None:
        """A group has work. Nothing happens when it may get no turns, or is awake.

        It begins beside the others: turns that it did not use while it slept are not made up for.
        """
        if group in self._awake or group in self._paused:
            return
        if self._only is not None and group not in self._only:
            return
        others = min((self._passes[other] for other in self._awake), default=self._now)
        self._passes[group] = max(self._passes.get(group, 0), others)
        self._awake.add(group)

    def sleep(self, group: str) -> None:
        """A group has no more work."""
        self._awake.discard(group)

    def turn(self, places: int) -> tuple[str, int] | None:
        """The group whose turn it is, and how many of the free places are its own; None when all sleep."""
        if not self._awake or places < 1:
            return None
        if len(self._awake) == 1:
            (group,) = self._awake
            return group, places
        passes = [(self._passes[group], group) for group in self._awake]
        heapq.heapify(passes)
        first = passes[0][1]
        own = 0
        for _ in range(places):
            at, group = passes[0]
            heapq.heapreplace(passes, (at + self._stride(group), group))
            own += group == first
        return first, own

    def charge(self, group: str, tasks: int) -> None:
        """A group got so many tasks."""
        at = self._passes.get(group, self._now)
        self._now = max(self._now, at)
        self._passes[group] = at + tasks * self._stride(group)

    def _stride(self, group: str) -> int:
        return _UNIT // self._weights.get(group, 1)
