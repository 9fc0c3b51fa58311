"""Ranges of keys that hold about the same number of rows each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

#: Encoded keys: from the first one on, up to and without the second; None is no bound.
KeyRange = tuple[bytes | None, bytes | None]


class Sample:
    """Keys that stand for many: each with the number of rows that it stands for."""

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self.points: list[tuple[bytes, float]] = []

    def add(self, keys: Iterable[bytes], rows: float) -> None:
        """Keys that each stand for so many rows."""
        self.points += [(key, rows) for key in keys]
        while len(self.points) > self._most:
            points = sorted(self.points)
            odd = points[len(points) // 2 * 2 :]
            pairs = zip(points[::2], points[1::2], strict=False)
            self.points = [(key, one + other) for (_, one), (key, other) in pairs] + odd


def cut(
    points: Sequence[tuple[bytes, float]], ranges: int, low: bytes | None = None, high: bytes | None = None
) -> tuple[KeyRange, ...]:
    """At most so many ranges that cover [low, high) without a gap; fewer where the points are few.

    Args:
        points: keys in any order, each with the number of rows that it stands for (those from it on).
    """
    if low is not None and high is not None and low >= high:
        return ()
    inside = sorted(
        (key, rows) for key, rows in points if (low is None or key >= low) and (high is None or key < high)
    )
    total = sum(rows for _, rows in inside)
    bounds: list[bytes] = []
    passed = 0.0
    for key, rows in inside:
        if passed and passed >= total * (len(bounds) + 1) / ranges and (not bounds or key > bounds[-1]):
            bounds.append(key)
        passed += rows
    bounds = bounds[: ranges - 1]
    return tuple(pairwise([low, *bounds, high]))
